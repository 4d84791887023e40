"""The call of the answer tool as the answer's text (mapping.md 9.3)."""

import pytest

from proxy.canonical.errors import Error, ErrorClass
from proxy.canonical.events import Close, Delta, End, Event, Fail, Finish, Open, Start
from proxy.canonical.loss import LossReport
from proxy.canonical.parts import Call, Reasoning, Text, Turn
from proxy.canonical.reply import Reply
from proxy.canonical.request import Request
from proxy.canonical.stop import Stop
from proxy.canonical.tools import CustomTool, FunctionTool, HostedTool
from proxy.translation.answer_tool import DESCRIPTION, Answering, answer_tool
from proxy.translation.emulation import Emulation, staged

START = Start("r", "m")


def passed(*events: Event) -> list[Event]:
    stage = Answering("respond")
    return [left for event in events for left in stage.pass_on([event])]


def text(k: int, *pieces: str) -> list[Event]:
    return [Open(k, Text("")), *(Delta(k, piece) for piece in pieces), Close(k)]


def call(k: int, name: str, *pieces: str) -> list[Event]:
    return [Open(k, Call(f"c{k}", name)), *(Delta(k, piece) for piece in pieces), Close(k)]


def test_the_call_becomes_text_while_it_grows() -> None:
    ends: list[Event] = [Finish(Stop("tool", native="tool_use"), "standard"), End()]
    assert passed(START, *call(0, "respond", '{"a"', ":1}"), *ends) == [
        START,
        *text(0, '{"a"', ":1}"),
        Finish(Stop("end", native="tool_use"), "standard"),
        End(),
    ]


def test_words_before_it_are_left_out_and_what_comes_behind_it_is_ignored() -> None:
    thought: list[Event] = [Open(1, Reasoning("")), Delta(1, "hm"), Close(1, {"type": "thinking"})]
    events = [*text(0, "Let me see."), *thought, *call(2, "respond", "{}"), *text(3, "Done."), *call(4, "f", "{}")]
    assert passed(*events, Finish(Stop("tool"))) == [
        Open(0, Reasoning("")),
        Delta(0, "hm"),
        Close(0, {"type": "thinking"}),
        *text(1, "{}"),
        Finish(Stop("end")),
    ]


def test_a_call_of_the_clients_own_tool_passes_with_the_words_before_it() -> None:
    events = [*text(0, "Let me see."), *call(1, "f", "{}"), Finish(Stop("tool")), End()]
    assert passed(*events) == events
    both = [*call(0, "f", "{}"), *call(1, "respond", "{}"), Finish(Stop("tool"))]
    assert passed(*both) == [*call(0, "f", "{}"), *text(1, "{}"), Finish(Stop("tool"))]


@pytest.mark.parametrize("kind", ["length", "refusal", "end"])
def test_an_answer_without_the_call_is_what_it_is(kind: str) -> None:
    events = [*text(0, "I can't."), Finish(Stop(kind)), End()]  # type: ignore[arg-type]
    assert passed(*events) == events


def test_an_answer_that_was_cut_stays_cut() -> None:
    assert passed(*call(0, "respond", '{"a'), Finish(Stop("length"))) == [*text(0, '{"a'), Finish(Stop("length"))]
    broken = Fail(Error(ErrorClass.BAD_GATEWAY, "gone"))
    assert passed(*text(0, "Well")[:2], broken, End()) == [*text(0, "Well")[:2], broken, End()]


def test_a_whole_reply_is_the_same() -> None:
    reply = Reply("r", "m", [Text("Here:"), Call("c", "respond", '{"a":1}')], Stop("tool"))
    assert staged(reply, Emulation(answer_tool="respond").stages(LossReport())) == Reply(
        "r", "m", [Text('{"a":1}')], Stop("end")
    )


def test_its_name_is_no_ones_else() -> None:
    request = Request(
        "chat",
        "m",
        turns=[Turn("assistant", [Call("c", "respond_3")])],
        tools=[FunctionTool("respond", None), CustomTool("respond_2"), HostedTool("web_search", {}, "respond_4")],
    )
    assert answer_tool(request, {}, "A city.") == FunctionTool("respond_4", {}, f"{DESCRIPTION} A city.")
    assert answer_tool(Request("chat", "m"), {}, None) == FunctionTool("respond", {}, DESCRIPTION)
