"""How a server's dialect is found, and what the settings may lay over it."""

import pytest

from proxy.canonical.target import Dialect
from proxy.upstream.dialects import PROFILES, Protocol, UnknownDialect, dialect_for, host_dialect


@pytest.mark.parametrize(
    ("base_url", "name"),
    [
        ("https://api.openai.com/v1", "openai"),
        ("https://my-resource.openai.azure.com/openai/v1", "azure"),
        ("https://api.anthropic.com/v1", "anthropic"),
        ("https://openrouter.ai/api/v1", "openrouter"),
        ("https://api.groq.com/openai/v1", "groq"),
        ("https://api.mistral.ai:443/v1", "mistral"),
        ("https://generativelanguage.googleapis.com/v1beta/openai", "gemini"),
        ("https://API.DeepSeek.com/v1", "deepseek"),
        ("https://api.openai.com.evil.example/v1", "generic"),
        ("https://notapi.openai.com.example/v1", "generic"),
        ("https://us-east5-aiplatform.googleapis.com/v1", "vertex"),
        ("https://aiplatform.eu.rep.googleapis.com/v1", "vertex"),
        ("https://bedrock-mantle.us-east-1.api.aws/anthropic/v1", "bedrock"),
        ("https://chatgpt.com/backend-api/codex", "codex"),
        ("http://127.0.0.1:8000/v1", "generic"),
        ("", "generic"),
    ],
)
def test_a_vendor_is_known_by_its_host(base_url: str, name: str) -> None:
    assert host_dialect(base_url) == name


def test_a_name_in_the_settings_goes_before_the_host() -> None:
    assert dialect_for("chat", "https://api.openai.com/v1", "vllm", {}) == PROFILES["chat"]["vllm"]


@pytest.mark.parametrize(
    ("protocol", "host", "name"),
    [
        ("chat", "aiplatform.googleapis.com", "vertex"),
        ("responses", "api.x.ai", "xai"),
        ("messages", "api.x.ai", "xai"),
    ],
)
def test_a_name_without_a_profile_in_this_protocol_is_still_that_vendor(
    protocol: Protocol, host: str, name: str
) -> None:
    assert dialect_for(protocol, f"https://{host}/v1", None, {}) == Dialect(name, name)


def test_openai_takes_short_call_ids_and_ollama_ignores_that_no_tool_may_be_called() -> None:
    chat = PROFILES["chat"]
    limits = {name: chat[name].call_id_limit for name in ("openai", "azure", "generic")}
    assert limits == {"openai": 40, "azure": 40, "generic": 64}
    assert [name for name, dialect in chat.items() if dialect.no_tool_choice_none] == ["ollama"]


def test_flags_are_laid_over_the_profile() -> None:
    flags = {"think_tags": True, "fields": ["top_k"], "stop_limit": 4, "any_is": "any"}
    assert dialect_for("chat", "", "generic", flags) == Dialect(
        maps_effort=True, think_tags=True, fields=frozenset({"top_k"}), stop_limit=4, any_is="any"
    )


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ({"thinks": True}, "no flag 'thinks'"),
        ({"name": "openai"}, "no flag 'name'"),
        ({"think_tags": "yes"}, "think_tags is true or false"),
        ({"call_id_limit": True}, "call_id_limit is a whole number"),
        ({"stop_limit": "4"}, "stop_limit is a whole number or null"),
        ({"any_is": "all"}, "any_is is one of required, any"),
        ({"fields": "top_k"}, "fields is a list of names"),
        ({"fields": [1]}, "fields is a list of names"),
    ],
)
def test_a_flag_that_is_none_is_refused(flags: dict[str, object], told: str) -> None:
    with pytest.raises(UnknownDialect, match=told):
        dialect_for("chat", "", None, flags)


def test_a_dialect_that_is_none_is_refused() -> None:
    with pytest.raises(UnknownDialect, match=r"no dialect is called 'opnai'; there are .*openai"):
        dialect_for("chat", "", "opnai", {})
