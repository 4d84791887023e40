"""Each call has exactly one result, right after the calls and in their order (mapping.md 2.6, I5)."""

from hypothesis import given
from hypothesis import strategies as st

from proxy.canonical.loss import LossReport
from proxy.canonical.parts import Call, Part, Result, Text, Turn
from proxy.canonical.request import Instruction, Request
from proxy.canonical.target import Target
from proxy.translation import ids
from proxy.translation.arrange import NO_RESULT, arrange, drop_billing_header


def call(call_id: str) -> Call:
    return Call(call_id, "tool", "{}")


def result(call_id: str | None, text: str = "done", **fields: object) -> Result:
    return Result(call_id, [Text(text)], **fields)  # type: ignore[arg-type]


def arranged(*turns: Turn) -> tuple[list[Turn], list[str]]:
    losses = LossReport()
    request = Request("chat", "m", turns=list(turns))
    arrange(request, ids.BackendIds(Target("messages", "m")), losses)
    return request.turns, [loss.rule for loss in losses.losses]


def assistant(*parts: Part) -> Turn:
    return Turn("assistant", list(parts))


def user(*parts: Part) -> Turn:
    return Turn("user", list(parts))


def test_results_take_the_order_of_the_calls() -> None:
    turns, losses = arranged(assistant(call("a"), call("b")), user(result("b")), user(result("a")))
    assert turns == [assistant(call("a"), call("b")), user(result("a"), result("b"))]
    assert losses == []


def test_text_between_results_goes_behind_them() -> None:
    turns, losses = arranged(assistant(call("a"), call("b")), user(result("a"), Text("and")), user(result("b")))
    assert turns == [
        assistant(call("a"), call("b")),
        user(result("a"), result("b")),
        user(Text("and")),
    ]
    assert losses == ["result-order"]


def test_a_missing_result_is_made_up_as_an_error() -> None:
    turns, losses = arranged(assistant(call("a")), user(Text("go on")))
    assert turns[1:] == [user(result("a", NO_RESULT, is_error=True)), user(Text("go on"))]
    assert losses == ["missing-result"]


def test_calls_at_the_very_end_wait_for_their_results() -> None:
    turns, losses = arranged(user(Text("hi")), assistant(call("a")))
    assert turns == [user(Text("hi")), assistant(call("a"))]
    assert losses == []


def test_an_orphan_becomes_words_and_no_call_is_made_up() -> None:
    turns, losses = arranged(user(result("x", "42")), assistant(Text("ok")), user(result(None, "7")))
    assert turns == [
        user(Text("Result of an earlier tool call x:\n42")),
        assistant(Text("ok")),
        user(Text("Result of an earlier tool call:\n7")),
    ]
    assert losses == ["orphan-result", "orphan-result"]


def test_two_results_for_one_call_are_joined() -> None:
    turns, losses = arranged(assistant(call("a")), user(result("a", "1"), result("a", "2", is_error=True)))
    assert turns[1] == user(Result("a", [Text("1"), Text("2")], is_error=True))
    assert losses == ["dup-result"]


def test_repeated_ids_pair_with_the_nearest_call() -> None:
    turns, _ = arranged(
        assistant(call("call_0")),
        user(result("call_0", "first")),
        assistant(call("call_0")),
        user(result("call_0", "second")),
    )
    assert turns == [
        assistant(call("call_0")),
        user(result("call_0", "first")),
        assistant(call("call_0-2")),
        user(result("call_0-2", "second")),
    ]


def test_ids_that_are_missing_come_from_the_place() -> None:
    turns, _ = arranged(assistant(call(""), call("")), user(result("", "1"), result("", "2")))
    assert turns == [
        assistant(call("drgp_0_0"), call("drgp_0_1")),
        user(result("drgp_0_0", "1"), result("drgp_0_1", "2")),
    ]


@st.composite
def histories(draw: st.DrawFn) -> list[Turn]:
    turns: list[Turn] = []
    names = st.sampled_from(["a", "b", "c", "", "x.y", "z" * 70])
    for _ in range(draw(st.integers(0, 6))):
        if draw(st.booleans()):
            turns.append(assistant(*(call(name) for name in draw(st.lists(names, max_size=3)))))
        else:
            parts: list[Part] = [
                result(name) if name is not None else Text("words")
                for name in draw(st.lists(st.one_of(st.none(), names), max_size=4))
            ]
            turns.append(user(*parts))
    return turns


@given(histories())
def test_every_call_has_one_result_right_behind_it(turns: list[Turn]) -> None:
    found, _ = arranged(*turns)
    position = 0
    while position < len(found):
        calls: list[str] = []
        while position < len(found) and found[position].role == "assistant":
            calls += [part.id for part in found[position].parts if isinstance(part, Call)]
            position += 1
        if position < len(found) and calls:
            first = found[position]
            assert [part.call_id for part in first.parts if isinstance(part, Result)] == calls
            assert all(isinstance(part, Result) for part in first.parts)
            position += 1
        while position < len(found) and found[position].role != "assistant":
            assert not any(isinstance(part, Result) for part in found[position].parts)
            position += 1
    ids_seen = [part.id for turn in found for part in turn.parts if isinstance(part, Call)]
    assert len(set(ids_seen)) == len(ids_seen)


def test_the_billing_header_goes_and_the_prompt_stays() -> None:
    header = "x-anthropic-billing-header: cc_version=2.1; cch=5d3"
    block = Request("messages", "m", instructions=[Instruction([Text(header), Text("Be brief.")])])
    alone = Request("messages", "m", instructions=[Instruction([Text(header)])])
    joined = Request("messages", "m", instructions=[Instruction([Text(f"{header}\nBe brief.")])])
    for request in (block, alone, joined):
        drop_billing_header(request)
    assert block.instructions == [Instruction([Text("Be brief.")])]
    assert alone.instructions == []
    assert joined.instructions == [Instruction([Text("Be brief.")])]
