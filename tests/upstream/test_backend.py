"""Where a backend is asked, by what it is."""

import pytest

from proxy.settings import ProtocolName, Upstream
from proxy.upstream.backend import Backend

AZURE = "https://r.openai.azure.com/openai/deployments/d?api-version=2024-10-21"
GOOGLE = "https://us-east5-aiplatform.googleapis.com/v1/projects/p/locations/us-east5/publishers/anthropic"


@pytest.mark.parametrize(
    ("protocol", "base_url", "whole", "streamed", "counting"),
    [
        (
            "chat",
            AZURE,
            "https://r.openai.azure.com/openai/deployments/d/chat/completions?api-version=2024-10-21",
            "https://r.openai.azure.com/openai/deployments/d/chat/completions?api-version=2024-10-21",
            "https://r.openai.azure.com/openai/deployments/d/count?api-version=2024-10-21",
        ),
        (
            "messages",
            GOOGLE,
            f"{GOOGLE}/models/claude-opus-4@20250514:rawPredict",
            f"{GOOGLE}/models/claude-opus-4@20250514:streamRawPredict",
            f"{GOOGLE}/models/count-tokens:rawPredict",
        ),
        (
            "messages",
            "https://api.anthropic.com/v1",
            "https://api.anthropic.com/v1/messages",
            "https://api.anthropic.com/v1/messages",
            "https://api.anthropic.com/v1/count",
        ),
    ],
)
def test_addresses(protocol: ProtocolName, base_url: str, whole: str, streamed: str, counting: str) -> None:
    backend = Backend(Upstream("b", protocol, base_url))
    model = "claude-opus-4@20250514"
    assert str(backend.url(model, stream=False)) == whole
    assert str(backend.url(model, stream=True)) == streamed
    assert str(backend.counting_url("/count")) == counting


def test_a_query_of_the_client_stays_before_the_version() -> None:
    backend = Backend(Upstream("b", "chat", AZURE))
    assert str(backend.address("/files?limit=2")) == (
        "https://r.openai.azure.com/openai/deployments/d/files?limit=2&api-version=2024-10-21"
    )


def test_a_models_name_can_not_leave_its_place_in_the_address() -> None:
    backend = Backend(Upstream("b", "messages", GOOGLE))
    assert backend.url("../x?y#z:rawPredict", stream=False).raw_path == (
        "/v1/projects/p/locations/us-east5/publishers/anthropic/models/..%2Fx%3Fy%23z%3ArawPredict:rawPredict"
    )


@pytest.mark.parametrize(
    ("protocol", "dialect", "header"),
    [
        ("chat", "generic", "Authorization"),
        ("messages", "generic", "X-Api-Key"),
        ("chat", "azure", "Api-Key"),
        ("responses", "azure", "Api-Key"),
        ("messages", "bedrock", "Authorization"),
        ("messages", "vertex", "Authorization"),
    ],
)
def test_the_header_of_its_key(protocol: ProtocolName, dialect: str, header: str) -> None:
    assert Backend(Upstream("b", protocol, "https://b.example/v1", dialect=dialect)).key_header == header
