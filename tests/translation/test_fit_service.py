"""What a client asks of the service, as another vendor has it (mapping.md 11)."""

import json

import pytest

from proxy.canonical.errors import Rejected
from proxy.canonical.target import Target
from proxy.translation import pair
from proxy.translation.profiles import profile_of
from proxy.upstream.dialects import PROFILES
from tests.harness.wire import Json, Protocol

REQUESTS: dict[Protocol, Json] = {
    "chat": {"model": "m", "messages": [{"role": "user", "content": "hi"}]},
    "responses": {"model": "m", "input": "hi"},
    "messages": {"model": "m", "max_tokens": 50, "messages": [{"role": "user", "content": "hi"}]},
}
DIALECTS = {"chat": "openai", "responses": "openai", "messages": "anthropic"}


def sent(
    client: Protocol, backend: Protocol, asked: Json, dialect: str | None = None, **options: object
) -> tuple[Json, list[str], tuple[str, ...]]:
    model = "claude-opus-4-8" if backend == "messages" else "gpt-5.6"
    known = PROFILES[backend][dialect or DIALECTS[backend]]
    target = Target(backend, model, known, profile_of(model), **options)  # type: ignore[arg-type]
    raw = json.dumps({**REQUESTS[client], **asked}).encode()
    ready = pair.prepare(pair.peek(client, raw), target, pair.Options())
    losses = [f"{loss.rule};{loss.level} {loss.path}" for loss in ready.losses if loss.rule != "store"]
    return json.loads(ready.body), losses, ready.betas


# --- compaction (11.1) ---

MANAGED: dict[Protocol, Json] = {
    "responses": {"context_management": [{"type": "compaction", "compact_threshold": 100_000}]},
    "messages": {
        "context_management": {
            "edits": [{"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 100_000}}]
        }
    },
}
PLACES: dict[Protocol, str] = {"responses": "context_management[0]", "messages": "context_management.edits[0]"}


@pytest.mark.parametrize(("client", "backend"), [("responses", "messages"), ("messages", "responses")])
def test_a_long_conversation_is_summed_up_by_either_vendor(client: Protocol, backend: Protocol) -> None:
    body, losses, betas = sent(client, backend, MANAGED[client])
    assert body["context_management"] == MANAGED[backend]["context_management"]
    assert losses == [f"compaction;approx {PLACES[client]}"]
    assert betas == (("compact-2026-01-12",) if backend == "messages" else ())


@pytest.mark.parametrize("client", ["responses", "messages"])
@pytest.mark.parametrize(("backend", "dialect"), [("chat", "openai"), ("responses", "vllm"), ("messages", "bedrock")])
def test_other_servers_do_not_sum_up(client: Protocol, backend: Protocol, dialect: str) -> None:
    if client == backend:
        return
    body, losses, _ = sent(client, backend, MANAGED[client], dialect)
    assert "context_management" not in body
    assert f"compaction;drop {PLACES[client]}" in losses


def test_claude_sums_up_no_earlier_than_it_can() -> None:
    body, _, _ = sent(
        "responses", "messages", {"context_management": [{"type": "compaction", "compact_threshold": 2000}]}
    )
    assert body["context_management"]["edits"][0]["trigger"]["value"] == 50_000
    body, _, _ = sent("responses", "messages", {"context_management": [{"type": "compaction"}]})
    assert body["context_management"] == {"edits": [{"type": "compact_20260112"}]}


def test_an_answer_that_pauses_behind_its_summary_is_claudes_own() -> None:
    edits = [{"type": "compact_20260112", "pause_after_compaction": True}, {"type": "clear_tool_uses_20250919"}]
    body, losses, _ = sent("messages", "responses", {"context_management": {"edits": edits}})
    assert "context_management" not in body
    assert sorted(losses) == [
        "compaction;drop context_management.edits[0]",
        "context-management;drop context_management.edits[1]",
    ]


# --- speed (11.3) ---


@pytest.mark.parametrize("fast_mode", [True, False])
@pytest.mark.parametrize("client", ["chat", "responses"])
def test_claude_is_fast_where_that_is_allowed(client: Protocol, fast_mode: bool) -> None:
    body, losses, betas = sent(client, "messages", {"service_tier": "fast"}, fast_mode=fast_mode)
    assert ("service_tier" in body, body.get("speed")) == (False, "fast" if fast_mode else None)
    assert losses == ([] if fast_mode else ["service-tier;drop service_tier"])
    assert betas == (("fast-mode-2026-02-01",) if fast_mode else ())


def test_claude_has_one_kind_of_fast() -> None:
    body, losses, _ = sent("responses", "messages", {"service_tier": "ultrafast"}, fast_mode=True)
    assert (body["speed"], losses) == ("fast", ["service-tier;approx service_tier"])


@pytest.mark.parametrize("fast_mode", [True, False])
@pytest.mark.parametrize(
    ("backend", "dialect", "takes"),
    [("chat", "openai", True), ("responses", "openai", True), ("chat", "vllm", False), ("responses", "vllm", False)],
)
def test_another_vendor_is_fast_where_it_can_be_and_may(
    backend: Protocol, dialect: str, takes: bool, fast_mode: bool
) -> None:
    body, losses, _ = sent("messages", backend, {"speed": "fast"}, dialect, fast_mode=fast_mode)
    asked = takes and fast_mode
    assert body.get("service_tier") == ("fast" if asked else None)
    assert losses == ([] if asked else ["speed;drop speed"])


# --- place (11.1) ---


@pytest.mark.parametrize("backend", ["chat", "responses"])
def test_a_place_is_refused_or_left_out_as_the_operator_wants(backend: Protocol) -> None:
    with pytest.raises(Rejected, match="no such promise") as refused:
        sent("messages", backend, {"inference_geo": "eu"})
    assert refused.value.error.param == "inference_geo"
    body, losses, _ = sent("messages", backend, {"inference_geo": "eu"}, inference_geo="drop")
    assert ("inference_geo" in body, losses) == (False, ["inference-geo;drop inference_geo"])
