"""What of a Messages request that goes to a Messages backend must not get there (mapping.md 2.1, 4.7)."""

import json
from typing import Any

import pytest

from proxy.canonical.errors import Rejected
from proxy.canonical.loss import Rule
from proxy.canonical.target import Target
from proxy.translation import pair
from proxy.upstream.dialects import PROFILES

HEADER = "x-anthropic-billing-header: cc_version=2.1; cch=5d3"
OURS = {
    "type": "web_search_result_location",
    "url": "https://a",
    "title": "A",
    "cited_text": "a",
    "encrypted_index": "",
}
THEIRS = {**OURS, "encrypted_index": "Eo8"}


def sent(body: dict[str, object], dialect: str) -> tuple[bytes, bytes, list[str]]:
    """The client's bytes, the backend's, and what was told to be lost."""
    raw = json.dumps({"model": "m", "max_tokens": 9, "temperature": 1.10, **body}, indent=1).encode()
    prepared = pair.prepare(
        pair.peek("messages", raw), Target("messages", "m", PROFILES["messages"][dialect]), pair.Options()
    )
    return raw, prepared.body, [f"{loss.rule};{loss.level} {loss.path}" for loss in prepared.losses]


def conversation(*citations: dict[str, str]) -> dict[str, object]:
    answer = {"role": "assistant", "content": [{"type": "text", "text": "a", "citations": list(citations)}]}
    return {"messages": [{"role": "user", "content": "q"}, answer, {"role": "user", "content": "more"}]}


@pytest.mark.parametrize("dialect", ["anthropic", "bedrock", "vllm", "generic"])
def test_citations_of_the_proxys_own_making_go(dialect: str) -> None:
    _, body, losses = sent(conversation(OURS, THEIRS), dialect)
    assert json.loads(body)["messages"][1]["content"][0]["citations"] == [THEIRS]
    assert losses == ["citations;drop messages[1].content[0]"]
    _, body, _ = sent(conversation(OURS), dialect)
    assert json.loads(body)["messages"][1]["content"] == [{"type": "text", "text": "a"}]


def test_all_else_stays_byte_for_byte() -> None:
    quoted = {"type": "text", "text": json.dumps(OURS)}
    bodies: list[dict[str, object]] = [conversation(THEIRS), {"messages": [{"role": "user", "content": [quoted]}]}]
    for body in bodies:
        raw, passed, losses = sent(body, "anthropic")
        assert (passed, losses) == (raw, [])


SYSTEMS: list[tuple[Any, Any]] = [
    ([{"type": "text", "text": HEADER}, {"type": "text", "text": "S"}], [{"type": "text", "text": "S"}]),
    ([{"type": "text", "text": f"{HEADER}\nS"}], [{"type": "text", "text": "S"}]),
    (f"{HEADER}\nS", "S"),
    (HEADER, None),
    ([{"type": "text", "text": HEADER}], None),
]


@pytest.mark.parametrize(("system", "left"), SYSTEMS)
def test_the_billing_header_reaches_anthropic_alone(system: object, left: object) -> None:
    body = {"system": system, **conversation(THEIRS)}
    for dialect in ("generic", "vllm", "bedrock"):
        _, passed, losses = sent(body, dialect)
        assert json.loads(passed).get("system") == left
        assert losses == []
    raw, passed, _ = sent(body, "anthropic")
    assert passed == raw


def test_other_system_text_stays_byte_for_byte() -> None:
    for system in (
        "S",
        [{"type": "text", "text": "S"}],
        [],
        [{"type": "text", "text": "S"}, {"type": "text", "text": HEADER}],
    ):
        raw, passed, _ = sent({"system": system, **conversation(THEIRS)}, "generic")
        assert passed == raw


def test_a_strict_client_is_told_what_would_be_lost() -> None:
    raw = json.dumps({"model": "m", "max_tokens": 9, **conversation(OURS)}).encode()
    with pytest.raises(Rejected) as refused:
        pair.prepare(pair.peek("messages", raw), Target("messages", "m"), pair.Options(strict=True))
    assert [(loss.rule, loss.level) for loss in refused.value.losses] == [(Rule.CITATIONS, "refuse")]
