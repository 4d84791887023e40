"""Stop strings that the backend does not take: found at any cut of the text, and nothing behind them is told."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy.canonical.errors import Error, ErrorClass
from proxy.canonical.events import Cite, Close, Delta, End, Event, Fail, Finish, Open, Start, UsageUpdate
from proxy.canonical.fold import Fold, unfold
from proxy.canonical.loss import LossReport
from proxy.canonical.parts import Call, Citation, Reasoning, Text
from proxy.canonical.reply import Reply
from proxy.canonical.request import Limits, Request
from proxy.canonical.stop import Stop
from proxy.canonical.target import Dialect, Target
from proxy.canonical.usage import Usage
from proxy.translation.emulation import Emulation, staged
from proxy.translation.profiles import profile_of
from proxy.translation.stop_strings import Cut, StopStrings, take_over

OPENAI = Dialect("openai", "openai", stop_limit=4)


@pytest.mark.parametrize(
    ("protocol", "model", "dialect", "given", "native", "emulated", "losses"),
    [
        ("messages", "claude-opus-5", Dialect(), ["\n\n", "END", " "], ["END"], ("\n\n", " "), []),
        ("messages", "claude-opus-5", Dialect(), ["", "END"], ["END"], (), []),
        ("responses", "gpt-4.1", Dialect(), ["a", "b"], [], ("a", "b"), ["stop-emulated"]),
        ("chat", "gpt-5.5", OPENAI, ["a"], [], ("a",), ["stop-emulated"]),
        ("chat", "gpt-4.1", OPENAI, list("abcdef"), list("abcd"), ("e", "f"), []),
        ("chat", "gpt-4.1", OPENAI, list("ababa"), list("ab"), (), []),
        ("chat", "some-model", Dialect(), list("abcdef"), list("abcdef"), (), []),
        ("chat", "some-model", Dialect(no_fields=frozenset({"stop"})), ["a"], [], ("a",), ["stop-emulated"]),
        ("responses", "gpt-4.1", Dialect(), [], [], (), []),
    ],
)
def test_what_the_backend_takes_and_what_is_watched_for(
    protocol: str,
    model: str,
    dialect: Dialect,
    given: list[str],
    native: list[str],
    emulated: tuple[str, ...],
    losses: list[str],
) -> None:
    request = Request("chat", "m", limits=Limits(stop=given, stop_at=("stop",)))
    report = LossReport()
    target = Target(protocol, model, dialect, profile_of(model))  # type: ignore[arg-type]
    assert take_over(request, target, report) == emulated
    assert request.limits.stop == native
    assert [loss.rule for loss in report.losses] == losses


@pytest.mark.parametrize(
    ("before", "usage"),
    [
        (None, Usage(input_fresh=77, output=3, estimated=True)),
        (Usage(input_fresh=9, cache_read=2), Usage(input_fresh=9, cache_read=2, output=3, estimated=True)),
    ],
)
def test_an_answer_that_is_cut_ends_at_the_match(before: Usage | None, usage: Usage) -> None:
    cut = Cut(lambda: 77)
    events: list[Event] = [Start("r", "m", usage=before), Open(0, Text("")), Delta(0, "Well, EN")]
    events += [Delta(0, "D so"), Close(0), UsageUpdate(Usage(9, output=99)), Finish(Stop("end")), End()]
    out = StopStrings(("END",), cut).pass_on(events)
    assert out[2:] == [
        Delta(0, "Well, "),
        Close(0),
        UsageUpdate(usage),
        Finish(Stop("stop_sequence", "END")),
        End(),
    ]
    assert cut.made


def test_an_answer_with_a_call_still_open_is_not_cut() -> None:
    cut = Cut(lambda: 77)
    events: list[Event] = [Open(0, Call("c", "f")), Open(1, Text("")), Delta(1, "END"), Delta(0, "{}"), Close(0)]
    ends: list[Event] = [Close(1), Finish(Stop("tool")), End()]
    out = StopStrings(("END",), cut).pass_on([*events, *ends])
    assert not cut.made
    assert out[-2:] == [Finish(Stop("stop_sequence", "END")), End()]


def passed(stops: tuple[str, ...], events: list[Event]) -> list[Event]:
    return StopStrings(stops).pass_on(events)


def said(stops: tuple[str, ...], pieces: list[str]) -> tuple[str, Stop]:
    """The text that leaves, and why it ended."""
    stage = StopStrings(stops)
    fold = Fold()
    events: list[Event] = [Start("r", "m"), Open(0, Text("")), *(Delta(0, piece) for piece in pieces)]
    for event in [*events, Close(0), Finish(Stop("end")), End()]:
        for left in stage.pass_on([event]):
            fold.emit(left)
    reply = fold.reply()
    (part,) = reply.parts
    assert isinstance(part, Text)
    return part.text, reply.stop


def first_match(stops: tuple[str, ...], text: str) -> tuple[str, str | None]:
    """What a model that is stopped at each character would have said."""
    for end in range(1, len(text) + 1):
        found = [stop for stop in stops if text[:end].endswith(stop)]
        if found:
            longest = max(found, key=len)
            return text[: end - len(longest)], longest
    return text, None


@given(
    stops=st.lists(st.text(alphabet="ab\n😀", min_size=1, max_size=4), min_size=1, max_size=4),
    text=st.text(alphabet="ab\n😀", max_size=30),
    data=st.data(),
)
@example(stops=["abc", "b"], text="abc", data=None)
def test_any_cut_of_the_text_gives_the_same(stops: list[str], text: str, data: st.DataObject | None) -> None:
    cuts = data.draw(st.sets(st.integers(0, len(text)))) if data is not None else set(range(len(text)))
    places = [0, *sorted(cuts), len(text)]
    pieces = [text[start:stop] for start, stop in pairwise(places) if start < stop]
    words, matched = first_match(tuple(stops), text)
    assert said(tuple(stops), pieces) == (words, Stop("stop_sequence", matched) if matched else Stop("end"))


def test_text_leaves_as_soon_as_it_can_be_no_stop_string() -> None:
    stage = StopStrings(("STOP",))
    stage.pass_on([Open(0, Text(""))])
    left = [stage.pass_on([Delta(0, piece)]) for piece in ("Hello S", "T", "A", "ST", "O")]
    assert left == [[Delta(0, "Hello ")], [], [Delta(0, "STA")], [], []]
    assert stage.pass_on([Close(0)]) == [Delta(0, "STO"), Close(0)]


def test_only_visible_text_is_watched() -> None:
    events: list[Event] = [
        Open(0, Reasoning("")),
        Delta(0, "END"),
        Close(0),
        Open(1, Call("c", "f")),
        Delta(1, '{"a":"END"}'),
        Close(1),
        Finish(Stop("tool")),
        End(),
    ]
    assert passed(("END",), events) == events


def test_after_a_match_only_usage_and_the_end_are_told() -> None:
    usage = UsageUpdate(Usage(output=9))
    events: list[Event] = [
        Open(0, Text("")),
        Delta(0, "one END two"),
        Close(0),
        Open(1, Call("c", "f")),
        Delta(1, "{}"),
        Close(1),
        usage,
        Finish(Stop("length", native="max_output_tokens"), "priority"),
        End(),
    ]
    assert passed(("END",), events) == [
        Open(0, Text("")),
        Delta(0, "one "),
        Close(0),
        usage,
        Finish(Stop("stop_sequence", "END", native="max_output_tokens"), "priority"),
        End(),
    ]


def test_a_part_that_was_open_before_the_match_ends_as_it_does() -> None:
    events: list[Event] = [
        Open(0, Call("c", "f")),
        Open(1, Text("")),
        Delta(0, '{"a"'),
        Delta(1, "xEND"),
        Delta(0, ":1}"),
        Close(0),
        Finish(Stop("tool")),
    ]
    assert passed(("END",), events) == [
        *events[:3],
        Delta(1, "x"),
        Close(1),
        *events[4:6],
        Finish(Stop("stop_sequence", "END")),
    ]


def test_a_backend_that_breaks_off_after_the_match_has_said_enough() -> None:
    broken = Fail(Error(ErrorClass.BAD_GATEWAY, "gone"))
    events: list[Event] = [Open(0, Text("")), Delta(0, "aEND"), broken, End()]
    assert passed(("END",), events) == [
        Open(0, Text("")),
        Delta(0, "a"),
        Close(0),
        Finish(Stop("stop_sequence", "END")),
        End(),
    ]
    assert passed(("END",), [Open(0, Text("")), broken, End()]) == [Open(0, Text("")), broken, End()]


def test_citations_end_where_the_text_does() -> None:
    whole, within, behind = Citation("url", "u"), Citation("url", "v", start=0, end=9), Citation("url", "w", start=3)
    events: list[Event] = [
        Open(0, Text("")),
        Delta(0, "abcEND and more"),
        *(Cite(0, citation) for citation in (whole, within, behind)),
    ]
    assert passed(("END",), events)[3:] == [Cite(0, whole), Cite(0, Citation("url", "v", start=0, end=3))]


def test_log_probabilities_leave_with_their_tokens() -> None:
    entries: list[object] = [{"token": token, "logprob": -1} for token in ("ab", "cE", "xy")]
    events: list[Event] = [
        Open(0, Text("")),
        Delta(0, "abcE", entries[:2]),
        Delta(0, "xy", entries[2:]),
        Close(0),
    ]
    assert passed(("END",), events) == [
        Open(0, Text("")),
        Delta(0, "abc", entries[:1]),
        Delta(0, "Exy", entries[1:]),
        Close(0),
    ]
    assert passed(("cEx",), events)[:3] == [Open(0, Text("")), Delta(0, "ab", entries[:1]), Close(0)]


def test_a_whole_reply_ends_the_same() -> None:
    reply = Reply(
        "r", "m", [Reasoning("END"), Text("one END two"), Call("c", "f", "{}")], Stop("tool"), Usage(output=9), 5
    )
    assert staged(reply, Emulation(("END",)).stages(LossReport())) == Reply(
        "r", "m", [Reasoning("END"), Text("one ")], Stop("stop_sequence", "END"), Usage(output=9), 5
    )
    whole = Reply("r", "m", [Text("one two")], Stop("end"))
    assert list(unfold(staged(whole, Emulation(("END",)).stages(LossReport())))) == list(unfold(whole))
