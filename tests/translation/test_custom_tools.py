"""Free-text tools on backends that only know JSON tools, whole and at every cut of a stream (mapping.md 5.2, I14)."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.canonical.events import Close, Delta, Event, Open
from proxy.canonical.loss import LossReport
from proxy.canonical.parts import Call, Result, Text, Turn
from proxy.canonical.request import Request
from proxy.canonical.tools import CustomTool, FunctionTool, Grammar, ToolPolicy, ToolRef
from proxy.translation import custom_tools
from proxy.translation.custom_tools import CustomCalls, StringDecoder, unwrap

TEXT = 'line "one"\n\tüñí 😀 \\ end'


def decoded(pieces: list[str]) -> str:
    decoder = StringDecoder()
    return "".join([*map(decoder.feed, pieces), decoder.end()])


@pytest.mark.parametrize("ascii_only", [True, False])
def test_every_single_cut_gives_the_same_text(ascii_only: bool) -> None:
    arguments = json.dumps({"input": TEXT}, ensure_ascii=ascii_only)
    for cut in range(len(arguments) + 1):
        assert decoded([arguments[:cut], arguments[cut:]]) == TEXT


def test_character_by_character_with_escaped_surrogate_pairs() -> None:
    assert decoded(list(json.dumps({"input": TEXT}))) == TEXT


@given(st.text(alphabet=st.characters(codec="utf-8")), st.booleans(), st.data())
def test_any_text_at_any_cuts(text: str, ascii_only: bool, data: st.DataObject) -> None:
    arguments = json.dumps({"input": text}, ensure_ascii=ascii_only)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(arguments)), max_size=6)))
    places = [0, *cuts, len(arguments)]
    pieces = [arguments[start:stop] for start, stop in pairwise(places)]
    assert decoded(pieces) == text == unwrap(arguments)


def test_text_grows_while_it_comes() -> None:
    decoder = StringDecoder()
    assert [decoder.feed(piece) for piece in ('{"inp', 'ut": "ab', "c\\", 'nd"', "}")] == ["", "ab", "c", "\nd", ""]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("", ""),
        ('{"input": 3}', '{"input": 3}'),
        ('{"other": "x"}', '{"other": "x"}'),
        ("not JSON at all, and so long that no prefix is waited for any more", None),
        ('{"input": "cut off', "cut off"),
        ('{"input": "half an escape \\u00', "half an escape \\u00"),
        ('{"input": "half a pair \\ud83d', "half a pair \ufffd"),
        ('{"input": "lone \\ud83d half"}', "lone \ufffd half"),
    ],
)
def test_odd_arguments_are_never_an_error(arguments: str, text: str | None) -> None:
    assert decoded(list(arguments)) == (arguments if text is None else text)


def test_a_stream_of_a_custom_call() -> None:
    opened = Open(0, Call("c", "patch", kind="custom"))
    plain = Open(1, Call("d", "f"))
    events: list[Event] = [
        opened,
        plain,
        Delta(0, '{"input":"a'),
        Delta(1, '{"input":"a"}'),
        Delta(0, '\\nb"}'),
        Close(0),
        Close(1),
    ]
    assert CustomCalls().pass_on(events) == [
        opened,
        plain,
        Delta(0, "a"),
        Delta(1, '{"input":"a"}'),
        Delta(0, "\nb"),
        Close(0),
        Close(1),
    ]


def test_the_function_that_stands_for_a_tool_tells_its_grammar() -> None:
    losses = LossReport()
    tool = CustomTool("patch", "Edit files.", Grammar("lark", "start: A"), at=("tools", 0))
    assert custom_tools.as_function(tool, losses) == FunctionTool(
        "patch",
        custom_tools.SCHEMA,
        "Edit files.\n```lark\nstart: A\n```\nThe value of `input` must match this grammar.",
        stands_for_custom=True,
        at=("tools", 0),
    )
    assert [(loss.rule, loss.level, loss.path) for loss in losses.losses] == [("custom-tool", "approx", "tools[0]")]


def test_history_and_choice_follow_the_tool() -> None:
    request = Request(
        "responses",
        "m",
        turns=[
            Turn("assistant", [Call("c", "patch", "*** Begin", kind="custom")]),
            Turn("user", [Result("c", [Text("ok")], kind="custom")]),
        ],
        tool_policy=ToolPolicy("named", ToolRef("custom", "patch"), [ToolRef("custom", "patch")]),
    )
    custom_tools.wrap_history(request)
    custom_tools.wrap_choices(request)
    assert request.turns == [
        Turn("assistant", [Call("c", "patch", input={"input": "*** Begin"})]),
        Turn("user", [Result("c", [Text("ok")])]),
    ]
    assert request.tool_policy == ToolPolicy("named", ToolRef("function", "patch"), [ToolRef("function", "patch")])
