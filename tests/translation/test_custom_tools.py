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
from proxy.canonical.target import Dialect, Target
from proxy.canonical.tools import CustomTool, FunctionTool, Grammar, ToolPolicy, ToolRef
from proxy.translation import custom_tools, pair
from proxy.translation.codecs import BackendProtocol
from proxy.translation.custom_tools import CustomCalls, StringDecoder
from tests.harness.assemble import assemble
from tests.harness.wire import Protocol, read_events

TEXT = 'line "one"\n\tüñí 😀 \\ end'


def read(pieces: list[str]) -> tuple[str, bool]:
    """The text, and whether it was anything else than one string."""
    decoder = StringDecoder()
    return "".join([*map(decoder.feed, pieces), decoder.end()]), decoder.odd


def decoded(pieces: list[str]) -> str:
    text, odd = read(pieces)
    assert not odd
    return text


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
    assert decoded(pieces) == text == decoded([arguments])


BROKEN = st.lists(
    st.sampled_from(['{"input":"', '"', "}", "\\", "u", "d83d", "\\ude00", "\\ud83d", "0041", "n", "x", " ", ",", "é"])
)


@given(BROKEN, st.booleans())
def test_whatever_comes_the_cuts_change_nothing(pieces: list[str], well_begun: bool) -> None:
    arguments = '{"input":"' * well_begun + "".join(pieces)
    whole = read([arguments])
    assert read(list(arguments)) == whole
    for cut in range(len(arguments)):
        assert read([arguments[:cut], arguments[cut:]]) == whole


def test_text_grows_while_it_comes() -> None:
    decoder = StringDecoder()
    assert [decoder.feed(piece) for piece in ('{"inp', 'ut": "ab', "c\\", 'nd"', "}")] == ["", "ab", "c", "\nd", ""]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("", ""),
        ("{}", "{}"),
        ('{"input": 3}', '{"input": 3}'),
        ('{"other": "x"}', '{"other": "x"}'),
        ('{"note": "n", "input": "a"}', '{"note": "n", "input": "a"}'),
        ("not JSON at all, and so long that no prefix is waited for any more", None),
        ('{"input": "cut off', "cut off"),
        ('{"input": "cut off"', "cut off"),
        ('{"input": "a", "note": "n"}', "a"),
        ('{"input": "a", "input": "b"}', "a"),
        ('{"input": "a"}}', "a"),
        ('{"input": "half an escape \\u00', "half an escape \\u00"),
        ('{"input": "half a pair \\ud83d', "half a pair \ufffd"),
    ],
)
def test_odd_arguments_are_never_an_error(arguments: str, text: str | None) -> None:
    assert read(list(arguments)) == (arguments if text is None else text, True)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ('{"input": "lone \\ud83d half"}', "lone \ufffd half"),
        ('{"input": "no escape: \\q\\uzz, one: \\n"}', "no escape: \\q\\uzz, one: \n"),
        ('{"input": "a path: c:\\\\ud83d"}', "a path: c:\\ud83d"),
        (' {\n "input" : "a"\n} ', "a"),
        (" " * 80 + '{"input": "a"}', "a"),
    ],
)
def test_one_string_however_it_is_written(arguments: str, text: str) -> None:
    assert decoded(list(arguments)) == text


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
    assert CustomCalls({}, LossReport()).pass_on(events) == [
        opened,
        plain,
        Delta(0, "a"),
        Delta(1, '{"input":"a"}'),
        Delta(0, "\nb"),
        Close(0),
        Close(1),
    ]


A_TOOL = {"responses": {"type": "custom", "name": "patch"}, "chat": {"type": "custom", "custom": {"name": "patch"}}}
A_QUESTION: dict[str, dict[str, object]] = {
    "responses": {"model": "m", "input": "hi"},
    "chat": {"model": "m", "messages": [{"role": "user", "content": "hi"}]},
}


@pytest.mark.parametrize("client", ["chat", "responses"])
@pytest.mark.parametrize(
    ("arguments", "text"),
    [('{"input":"a"}', "a"), ('{"input":"a","note":"n"}', "a"), ('{"input":"a"', "a"), ('{"a":1}', '{"a":1}')],
)
def test_a_stream_is_the_reply_however_the_arguments_are(client: Protocol, arguments: str, text: str) -> None:
    body = json.dumps({**A_QUESTION[client], "tools": [A_TOOL[client]]}).encode()
    backend: BackendProtocol = "chat" if client == "responses" else "responses"
    call = {"id": "call_1", "type": "function", "function": {"name": "patch", "arguments": arguments}}
    item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "patch", "arguments": arguments}
    if backend == "chat":
        choice: dict[str, object] = {"index": 0, "message": {"tool_calls": [call]}, "finish_reason": "tool_calls"}
        whole: dict[str, object] = {"id": "c", "model": "m", "choices": [choice]}
        events: list[object] = [
            {"choices": [{"index": 0, "delta": {"tool_calls": [{**call, "index": 0}]}}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
        ]
    else:
        whole = {"id": "r", "model": "m", "status": "completed", "output": [item]}
        events = [
            {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}},
            {"type": "response.output_item.added", "output_index": 0, "item": {**item, "arguments": ""}},
            {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": arguments},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": whole},
        ]
    target = Target(backend, "m", Dialect())
    prepared = pair.prepare(pair.peek(client, body), target, pair.Options())
    reply = json.loads(prepared.reply(json.dumps(whole).encode()))
    streaming = pair.prepare(pair.peek(client, body), target, pair.Options())
    translation = streaming.translation()
    stream = b"".join(translation.feed(b"data: " + json.dumps(event).encode() + b"\n\n") for event in events)
    streamed = assemble(client, read_events((stream + translation.end()).decode()).events)
    for got in (reply, streamed):
        got_call = (
            got["output"][0] if client == "responses" else got["choices"][0]["message"]["tool_calls"][0]["custom"]
        )
        assert got_call["input"] == text
    odd = arguments != '{"input":"a"}'
    for exchange in (prepared, streaming):
        assert [loss.rule for loss in exchange.losses if loss.path == "reply"] == ["bad-args"] * odd


@pytest.mark.parametrize("cut", range(0, 16, 3))
@pytest.mark.parametrize(
    ("syntax", "pattern", "text", "misses"),
    [
        ("regex", "a+|b", "aaa", False),
        ("regex", "a+|b", "aab", True),
        ("regex", "(", "aab", False),
        ("regex", "(a{1000}){1000}", "aab", False),
        ("lark", "a+", "b", False),
    ],
)
def test_a_text_that_does_not_match_is_told(syntax: str, pattern: str, text: str, misses: bool, cut: int) -> None:
    tool = CustomTool("patch", None, Grammar(syntax, pattern), namespace="files")
    request = Request("responses", "m", tools=[custom_tools.as_function(tool, LossReport())])
    patterns, losses = custom_tools.patterns_of(request), LossReport()
    arguments = json.dumps({"input": text})
    call = Call("c", "patch", arguments[:cut], kind="custom", namespace="files")
    CustomCalls(patterns, losses).pass_on([Open(0, call), Delta(0, arguments[cut:]), Close(0)])
    assert [(loss.rule, loss.level) for loss in losses.losses] == [("custom-tool", "drop")] * misses


@pytest.mark.parametrize(("validate", "told"), [("record", True), ("error", True), ("off", False)])
def test_what_a_tool_gets_is_checked_where_answers_are(validate: str, told: bool) -> None:
    grammar = {"type": "grammar", "syntax": "regex", "definition": "[0-9]+"}
    tool = {"type": "custom", "name": "patch", "format": grammar}
    body = json.dumps({**A_QUESTION["responses"], "tools": [tool]}).encode()
    target = Target("messages", "m", validate_output=validate)  # type: ignore[arg-type]
    prepared = pair.prepare(pair.peek("responses", body), target, pair.Options())
    block = {"type": "tool_use", "id": "t", "name": "patch", "input": {"input": "x"}}
    reply = {"id": "r", "type": "message", "role": "assistant", "model": "m", "content": [block]}
    out = json.loads(prepared.reply(json.dumps({**reply, "stop_reason": "tool_use", "usage": {}}).encode()))
    assert out["output"][0]["input"] == "x"
    assert [loss.level for loss in prepared.losses if loss.path == "reply"] == ["drop"] * told


def test_the_function_that_stands_for_a_tool_tells_its_grammar() -> None:
    losses = LossReport()
    tool = CustomTool("patch", "Edit files.", Grammar("lark", "start: A"), at=("tools", 0))
    assert custom_tools.as_function(tool, losses) == FunctionTool(
        "patch",
        custom_tools.SCHEMA,
        "Edit files.\n```lark\nstart: A\n```\nThe value of `input` must match this grammar.",
        stands_for_custom=True,
        grammar=Grammar("lark", "start: A"),
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


@pytest.mark.parametrize("tool", [{"type": "custom", "custom": {"name": "f", "description": ""}}, {"name": "f"}])
def test_an_empty_description_is_none(tool: dict[str, object]) -> None:
    client: Protocol = "chat" if "type" in tool else "messages"
    more = {"max_tokens": 9} if client == "messages" else {}
    given = {**tool, "description": "", "input_schema": {"type": "object"}} if client == "messages" else tool
    body = json.dumps({**A_QUESTION["chat"], **more, "tools": [given]}).encode()
    target = Target("responses", "m", Dialect(custom_tools=True))
    prepared = pair.prepare(pair.peek(client, body), target, pair.Options())
    assert "description" not in json.loads(prepared.body)["tools"][0]
