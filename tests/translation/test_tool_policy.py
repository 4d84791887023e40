"""Subsets of the tools, toward backends with and without a field for them (mapping.md 6.1)."""

import json

import pytest

from proxy.canonical.errors import Rejected
from proxy.canonical.target import Dialect, Target
from proxy.translation import pair
from proxy.translation.codecs import BackendProtocol
from tests.harness.model_rules import check_request
from tests.harness.wire import Json

OPENAI = Dialect("openai", "openai", custom_tools=True, fields=frozenset({"allowed_tools"}))
SCHEMA: Json = {"type": "object", "properties": {}}
TOOLS: list[Json] = [
    {"type": "function", "name": "f", "parameters": SCHEMA},
    {"type": "function", "name": "g", "parameters": SCHEMA},
    {"type": "namespace", "name": "ns", "description": "", "tools": [{"type": "function", "name": "f"}]},
    {"type": "shell"},
    {"type": "web_search"},
]


def asked(backend: BackendProtocol, dialect: Dialect, mode: str, *allowed: Json) -> tuple[Json, set[tuple[str, str]]]:
    choice = {"type": "allowed_tools", "mode": mode, "tools": list(allowed)}
    body = {"model": "m", "input": "hi", "tools": TOOLS, "tool_choice": choice}
    prepared = pair.prepare(
        pair.peek("responses", json.dumps(body).encode()), Target(backend, "there", dialect), pair.Options()
    )
    sent = json.loads(prepared.body)
    check_request(backend, sent)
    return sent, {(loss.rule, loss.level) for loss in prepared.losses}


ALLOWED: list[Json] = [
    {"type": "function", "name": "g"},
    {"type": "function", "name": "f", "namespace": "ns"},
    {"type": "shell"},
]


def test_the_subset_is_nested_for_chat() -> None:
    sent, losses = asked("chat", OPENAI, "required", *ALLOWED)
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["f", "g", "ns__f", "shell"]
    names = [{"type": "function", "function": {"name": name}} for name in ("g", "ns__f", "shell")]
    assert sent["tool_choice"] == {
        "type": "allowed_tools",
        "allowed_tools": {"mode": "required", "tools": names},
    }
    assert ("allowed-tools", "approx") not in losses


@pytest.mark.parametrize(("backend", "choice"), [("chat", "required"), ("messages", {"type": "any"})])
def test_elsewhere_only_the_subset_is_declared(backend: BackendProtocol, choice: Json) -> None:
    sent, losses = asked(backend, Dialect(), "required", *ALLOWED)
    assert [tool.get("function", tool)["name"] for tool in sent["tools"]] == ["g", "ns__f", "shell"]
    assert sent["tool_choice"] == choice
    assert ("allowed-tools", "approx") in losses


def test_what_the_backend_lacks_can_not_be_allowed() -> None:
    sent, losses = asked("chat", OPENAI, "auto", {"type": "web_search"}, ALLOWED[0])
    assert sent["tool_choice"]["allowed_tools"]["tools"] == [{"type": "function", "function": {"name": "g"}}]
    assert ("allowed-tools", "approx") in losses
    sent, _ = asked("messages", Dialect(), "auto", {"type": "web_search"})
    assert "tools" not in sent
    with pytest.raises(Rejected, match="none of the tools that are allowed"):
        asked("messages", Dialect(), "required", {"type": "web_search"})
