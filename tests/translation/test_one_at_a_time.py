"""Whatever interleaves, a Messages client gets one block at a time and no byte is lost (mapping.md 13.5, I16)."""

from hypothesis import given
from hypothesis import strategies as st

from proxy.canonical.events import Cite, Close, Delta, End, Event, Finish, Open, Start
from proxy.canonical.loss import Loss, LossReport, Rule
from proxy.canonical.parts import Call, Citation, ReplyPart, Text
from proxy.canonical.stop import Stop
from proxy.translation.one_at_a_time import JsonDepth, OneAtATime


def call(name: str) -> Call:
    return Call(f"call_{name}", name)


def serial(events: list[Event]) -> list[Event]:
    return OneAtATime(LossReport()).pass_on(events)


def contents(events: list[Event]) -> list[tuple[str, str]]:
    """(name of the part, its whole text) in order; fails when two parts are open at once."""
    found: list[tuple[str, str]] = []
    current: int | None = None
    for event in events:
        match event:
            case Open():
                assert current is None
                assert event.k == len(found)
                current = event.k
                found.append((event.part.name if isinstance(event.part, Call) else "text", ""))
            case Delta():
                assert event.k == current
                found[-1] = (found[-1][0], found[-1][1] + event.text)
            case Close():
                assert event.k == current
                current = None
            case _:
                pass
    assert current is None
    return found


def test_interleaved_arguments_reach_their_own_call() -> None:
    events: list[Event] = [
        Open(0, call("a")),
        Open(1, call("b")),
        Delta(0, '{"ci'),
        Delta(1, '{"city":'),
        Delta(0, 'ty":"Lima"}'),
        Delta(1, '"Oslo"}'),
        Close(0),
        Close(1),
    ]
    assert contents(serial(events)) == [("a", '{"city":"Lima"}'), ("b", '{"city":"Oslo"}')]


def test_the_current_part_streams_at_once() -> None:
    stage = OneAtATime(LossReport())
    assert stage.pass_on([Open(0, call("a")), Open(1, call("b"))]) == [Open(0, call("a"))]
    assert stage.pass_on([Delta(0, "{")]) == [Delta(0, "{")]
    assert stage.pass_on([Delta(1, "{}")]) == []
    assert stage.pass_on([Delta(0, "}")]) == [
        Delta(0, "}"),
        Close(0),
        Open(1, call("b")),
        Delta(1, "{}"),
    ]


def test_text_makes_room_for_a_call_at_once() -> None:
    stage = OneAtATime(LossReport())
    events: list[Event] = [Open(0, Text("")), Delta(0, "Hi"), Open(1, call("a")), Delta(1, "{}")]
    assert stage.pass_on(events) == [
        Open(0, Text("")),
        Delta(0, "Hi"),
        Close(0),
        Open(1, call("a")),
        Delta(1, "{}"),
    ]


def test_text_that_comes_after_it_has_made_room_is_a_text_of_its_own() -> None:
    events: list[Event] = [
        Open(0, Text("", phase="commentary")),
        Delta(0, "Hel"),
        Open(1, call("a")),
        Delta(1, "{"),
        Delta(0, "lo"),
        Delta(1, "}"),
        Close(0),
        Close(1),
    ]
    losses = LossReport()
    assert contents(OneAtATime(losses).pass_on(events)) == [("text", "Hel"), ("a", "{}"), ("text", "lo")]
    assert losses.losses == []


def test_free_text_is_not_over_where_it_looks_like_whole_json() -> None:
    free = Call("call_a", "a", kind="custom")
    events: list[Event] = [Open(0, free), Open(1, call("b")), Delta(0, "{}"), Delta(1, "{}"), Delta(0, "\n1"), Close(0)]
    assert contents(serial([*events, Close(1)])) == [("a", "{}\n1"), ("b", "{}")]


def test_a_citation_of_a_text_that_has_ended_is_lost() -> None:
    losses = LossReport()
    stage = OneAtATime(losses)
    stage.pass_on([Open(0, Text("")), Delta(0, "a"), Close(0)])
    assert stage.pass_on([Cite(0, Citation("url", "https://a"))]) == []
    assert losses.losses == [Loss(Rule.CITATIONS, "drop", "stream")]


def test_late_arguments_of_a_call_that_made_room_are_a_recorded_loss() -> None:
    losses = LossReport()
    stage = OneAtATime(losses)
    stage.pass_on([Open(0, call("a")), Delta(0, "{}"), Open(1, call("b"))])
    assert stage.pass_on([Delta(0, "  \n")]) == []
    assert losses.losses == []
    assert stage.pass_on([Delta(0, "{}")]) == []
    assert [loss.rule for loss in losses.losses] == ["late-args"]


@st.composite
def interleaved(draw: st.DrawFn) -> tuple[list[Event], list[tuple[str, str]]]:
    """Calls and texts whose pieces are shuffled into each other, and what must arrive."""
    wanted: list[tuple[str, str]] = []
    queues: list[list[Event]] = []
    for k in range(draw(st.integers(1, 5))):
        part: ReplyPart
        if draw(st.booleans()):
            part = call(f"tool{k}")
            text = draw(st.sampled_from(["{}", '{"a":"}{\\"]"}', '{"a":[1,{"b":"x\\\\"}]}', ""]))
            wanted.append((f"tool{k}", text))
        else:
            part = call(f"cut{k}")
            text = draw(st.sampled_from(['{"a":', '{"b":"']))
            wanted.append((f"cut{k}", text))
        size = draw(st.integers(1, 4))
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        queues.append([Open(k, part), *(Delta(k, piece) for piece in pieces), Close(k)])
    events: list[Event] = []
    opened = 0
    while any(queues):
        ready = [index for index, queue in enumerate(queues) if queue and index <= opened]
        index = draw(st.sampled_from(ready))
        if index == opened and isinstance(queues[index][0], Open):
            opened += 1
        events.append(queues[index].pop(0))
    return events, wanted


def test_arguments_that_are_no_object_are_told_when_their_call_closes() -> None:
    losses = LossReport()
    stage = OneAtATime(losses)
    stage.pass_on([Open(0, call("a")), Open(1, call("b")), Delta(0, '{"n":1}'), Delta(1, '{"n":'), Close(0)])
    stage.pass_on([Open(2, Call("c", "c", kind="custom")), Delta(2, "any"), Close(2)])
    assert losses.losses == []
    stage.pass_on([Delta(1, "NaN}"), Close(1)])
    assert [loss.rule for loss in losses.losses] == ["bad-args"]


@given(interleaved())
def test_no_byte_of_arguments_is_lost(case: tuple[list[Event], list[tuple[str, str]]]) -> None:
    events, wanted = case
    stream: list[Event] = [Start("r", "m"), *events, Finish(Stop("tool")), End()]
    assert contents(serial(stream)) == wanted


@given(st.lists(st.text(alphabet='{}[]"\\a1, ', max_size=6), max_size=8))
def test_depth_does_not_depend_on_the_cuts(pieces: list[str]) -> None:
    whole, cut = JsonDepth(), JsonDepth()
    whole.feed("".join(pieces))
    for piece in pieces:
        cut.feed(piece)
        cut.complete()
    assert cut.complete() == whole.complete()
