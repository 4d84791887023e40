"""Models that mark commentary and final answers get their marks back from any client (mapping.md 4.1)."""

import json

import pytest

from proxy.canonical.parts import Call, Part, Reasoning, Result, Text, Turn
from proxy.canonical.target import Dialect, Target
from proxy.translation import pair
from proxy.translation.phases import restore_phases
from proxy.translation.profiles import profile_of


def phases(*turns: Turn) -> list[str | None]:
    restore_phases(list(turns))
    return [part.phase for turn in turns for part in turn.parts if isinstance(part, Text)]


def assistant(*parts: Part) -> Turn:
    return Turn("assistant", list(parts))


RESULT = Turn("user", [Result("c", [])])


def test_words_before_a_call_are_commentary_and_the_last_ones_the_answer() -> None:
    loop = [
        assistant(Text("Let me look.")),
        assistant(Reasoning("hm"), Text("Now."), Call("c", "f")),
        RESULT,
        assistant(Text("It is 4.")),
    ]
    assert phases(*loop) == ["commentary", "commentary", "final_answer"]


def test_a_phase_that_is_known_stays() -> None:
    assert phases(assistant(Text("Thinking aloud.", phase="commentary"))) == ["commentary"]


@pytest.mark.parametrize(("model", "given"), [("gpt-5.5", True), ("gpt-5.3-codex", True), ("gpt-5", False)])
def test_only_models_that_have_phases_are_given_them(model: str, given: bool) -> None:
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "and?"},
    ]
    raw = json.dumps({"model": "m", "max_tokens": 9, "messages": messages}).encode()
    target = Target("responses", model, Dialect(), profile_of(model))
    body = json.loads(pair.prepare(pair.peek("messages", raw), target, pair.Options()).body)
    assert (body["input"][1].get("phase") == "final_answer") is given
