"""What the chunks of a Chat backend mean, as events."""

from typing import Any

import pytest

from proxy.canonical.errors import Error, ErrorClass, Reason
from proxy.canonical.events import Cite, Close, Delta, End, Event, Fail, Finish, Open, Start, UsageUpdate
from proxy.canonical.fold import Fold
from proxy.canonical.loss import Loss, LossReport, Rule
from proxy.canonical.parts import Call, Citation, Reasoning, Refusal, ReplyPart, Text
from proxy.canonical.spelling import Spelling, ToolName
from proxy.canonical.stop import Stop
from proxy.canonical.target import Dialect
from proxy.canonical.usage import Usage
from proxy.protocols.chat import StreamReader

Wire = dict[str, Any]
GENERIC = Dialect()
BROKEN = Error(
    ErrorClass.BAD_GATEWAY,
    "The backend closed the stream before the answer was complete.",
    reason=Reason.UPSTREAM_ERROR,
)


def chunk(delta: Wire | None = None, finish: str | None = None, **choice: Any) -> Wire:
    """A chunk with one choice."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 5,
        "model": "m",
        "choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish, **choice}],
    }


def say(text: str) -> Wire:
    return chunk({"content": text})


def call(index: int | None = None, call_id: str | None = None, name: str | None = None, arguments: Any = None) -> Wire:
    """A chunk with one fragment of a tool call, of the fields that are given."""
    function = {"name": name, "arguments": arguments}
    entry = {"index": index, "id": call_id, "type": "function", "function": function}
    entry["function"] = {key: value for key, value in function.items() if value is not None}
    return chunk({"tool_calls": [{key: value for key, value in entry.items() if value is not None}]})


def events(
    *chunks: Wire,
    dialect: Dialect = GENERIC,
    spelling: Spelling | None = None,
    done: bool = True,
    losses: LossReport | None = None,
) -> list[Event]:
    emitted: list[Event] = []
    reader = StreamReader(emitted.append, spelling or Spelling(), dialect, losses or LossReport())
    for wire in chunks:
        reader.feed(wire, "")
    if done:
        reader.done()
    reader.end()
    return emitted


def parts(*chunks: Wire, dialect: Dialect = GENERIC, finish: str = "stop") -> list[ReplyPart]:
    fold = Fold()
    for event in events(*chunks, chunk(finish=finish), dialect=dialect):
        fold.emit(event)
    assert fold.error is None
    return fold.reply().parts


def error_of(emitted: list[Event]) -> Error:
    """The error of a stream that failed."""
    assert isinstance(emitted[-1], End)
    assert isinstance(emitted[-2], Fail)
    return emitted[-2].error


START = Start("chatcmpl-1", "m", 5)


def test_text_with_usage_behind_the_finish_reason() -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
    assert events(
        chunk({"role": "assistant", "content": "", "refusal": None}),
        say("Hel"),
        say("lo"),
        chunk(finish="stop"),
        {"id": "chatcmpl-1", "choices": [], "usage": usage},
    ) == [
        START,
        Open(0, Text("")),
        Delta(0, "Hel"),
        Delta(0, "lo"),
        Close(0),
        UsageUpdate(Usage(input_fresh=9, output=2)),
        Finish(Stop("end", native="stop")),
        End(),
    ]


def test_parallel_calls_stay_open_until_the_end() -> None:
    assert events(
        call(0, "a", "f", ""),
        call(0, arguments='{"x"'),
        call(1, "b", "g", "{}"),
        call(0, arguments=":1}"),
        chunk(finish="tool_calls"),
    ) == [
        START,
        Open(0, Call("a", "f")),
        Delta(0, '{"x"'),
        Open(1, Call("b", "g")),
        Delta(1, "{}"),
        Delta(0, ":1}"),
        Close(0),
        Close(1),
        Finish(Stop("tool", native="tool_calls")),
        End(),
    ]


def test_content_of_another_kind_closes_the_open_part() -> None:
    assert events(
        chunk({"reasoning_content": "Hm"}),
        say("A"),
        call(0, "a", "f", "{}"),
        say("B"),
        chunk({"reasoning_content": "Ah"}),
        chunk({"refusal": "No"}),
        chunk(finish="stop"),
    ) == [
        START,
        Open(0, Reasoning("", full=True, field="reasoning_content")),
        Delta(0, "Hm"),
        Close(0),
        Open(1, Text("")),
        Delta(1, "A"),
        Close(1),
        Open(2, Call("a", "f")),
        Delta(2, "{}"),
        Open(3, Text("")),
        Delta(3, "B"),
        Close(3),
        Open(4, Reasoning("", full=True, field="reasoning_content")),
        Delta(4, "Ah"),
        Close(4),
        Open(5, Refusal("")),
        Delta(5, "No"),
        Close(2),
        Close(5),
        Finish(Stop("tool", native="stop")),
        End(),
    ]


# --- the start ---


def test_azures_first_chunk_is_not_the_start() -> None:
    first = {"id": "", "object": "", "model": "", "created": 0, "choices": [], "prompt_filter_results": []}
    assert events(first, say("Hi"), chunk(finish="stop"))[:2] == [START, Open(0, Text(""))]


@pytest.mark.parametrize(
    ("created", "seconds"),
    [(5, 5), (5.9, 5), (1_790_000_000_123, 1_790_000_000), ("5", None), (None, None), (-1, None)],
)
def test_the_time_is_told_in_whole_seconds(created: object, seconds: int | None) -> None:
    assert events({**say("Hi"), "created": created}, chunk(finish="stop"))[0] == Start("chatcmpl-1", "m", seconds)


def test_what_the_start_knows_of_usage_tier_and_fingerprint() -> None:
    first = {**say("Hi"), "usage": {"prompt_tokens": 4}, "service_tier": "default", "system_fingerprint": "fp"}
    emitted = events(first, {**chunk(finish="stop"), "service_tier": "flex"})
    assert emitted[0] == Start("chatcmpl-1", "m", 5, Usage(input_fresh=4), "default", "fp")
    assert emitted[-2] == Finish(Stop("end", native="stop"), "flex")


# --- text ---


def test_white_space_before_a_call_is_nothing() -> None:
    assert parts(say("\n"), say("\n"), call(0, "a", "f", "{}")) == [Call("a", "f", "{}")]


def test_white_space_before_text_is_text() -> None:
    assert parts(say("\n"), say(" a"), say(" "), say("b")) == [Text("\n a b")]


def test_an_answer_of_white_space_alone_is_kept() -> None:
    assert parts(say("\n")) == [Text("\n")]


def test_white_space_behind_thinking_is_stripped_where_the_server_adds_it() -> None:
    chunks = (chunk({"reasoning_content": "Hm"}), say("\n"), say("\n Hi"))
    thought = Reasoning("Hm", full=True, field="reasoning_content")
    assert parts(*chunks) == [thought, Text("\n\n Hi")]
    assert parts(*chunks, dialect=Dialect(strip_leading_ws=True)) == [thought, Text("Hi")]


def test_content_as_a_list() -> None:
    losses = LossReport()
    content = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "H"}, {"type": "text", "text": "m"}]},
        {"type": "text", "text": "See"},
        {"type": "reference", "reference_ids": [1]},
        {"type": "smell"},
        " there",
    ]
    emitted = events(chunk({"content": content}), chunk(finish="stop"), losses=losses)
    assert emitted[1:-3] == [
        Open(0, Reasoning("", full=True, field="content")),
        Delta(0, "Hm"),
        Close(0),
        Open(1, Text("")),
        Delta(1, "See"),
        Delta(1, " there"),
    ]
    assert losses.losses == [
        Loss(Rule.CITATIONS, "drop", "choices[0].message.content"),
        Loss(Rule.UNKNOWN_FIELD, "drop", "choices[0].message.content"),
    ]


def test_thinking_between_tags_is_told_apart_where_the_server_leaves_them() -> None:
    chunks = (say("<thi"), say("nk>Hm</"), say("think>\n\nHi <think>"))
    assert parts(*chunks) == [Text("<think>Hm</think>\n\nHi <think>")]
    assert parts(*chunks, dialect=Dialect(think_tags=True)) == [
        Reasoning("Hm", full=True, field="<think>"),
        Text("Hi <think>"),
    ]


def test_a_tag_that_is_never_closed_is_thinking_to_the_end() -> None:
    assert parts(say("<think>Hm</th"), dialect=Dialect(think_tags=True)) == [
        Reasoning("Hm</th", full=True, field="<think>")
    ]


def test_log_probabilities_stay_with_their_text() -> None:
    entry = {"token": "Hi", "logprob": 0.0, "bytes": None, "top_logprobs": []}
    second = {**entry, "token": "!"}
    assert parts(
        chunk({"content": "Hi"}, logprobs={"content": [entry], "refusal": None}),
        chunk({"content": "!"}, logprobs={"content": [second], "refusal": None}),
    ) == [Text("Hi!", logprobs=[entry, second])]


# --- reasoning ---


@pytest.mark.parametrize(
    ("delta", "text", "field"),
    [
        ({"reasoning_content": "Hm"}, "Hm", "reasoning_content"),
        ({"reasoning": "Hm"}, "Hm", "reasoning"),
        ({"reasoning": "Hm", "reasoning_content": "Hm"}, "Hm", "reasoning_content"),
        ({"reasoning": "b", "reasoning_content": "a"}, "ab", "reasoning_content"),
        ({"content": "", "reasoning_content": "Hm", "tool_calls": None}, "Hm", "reasoning_content"),
    ],
)
def test_reasoning_by_any_name(delta: Wire, text: str, field: str) -> None:
    assert parts(chunk(delta)) == [Reasoning(text, full=True, field=field)]


def test_reasoning_details_are_kept_whole() -> None:
    def detail(**fields: Any) -> Wire:
        return chunk({"reasoning": fields.get("text"), "reasoning_details": [fields]})

    assert parts(
        detail(type="reasoning.text", text="H", index=0, signature=None),
        detail(type="reasoning.text", text="m", index=0, format="anthropic-claude-v1"),
        detail(type="reasoning.text", index=0, signature="sig"),
        detail(type="reasoning.summary", summary="So", index=1),
        say("Hi"),
        detail(type="reasoning.encrypted", data="xy", index=2),
        detail(type="reasoning.encrypted", data="z", index=2),
    ) == [
        Reasoning(
            "Hm",
            full=True,
            native={
                "type": "reasoning.text",
                "text": "Hm",
                "index": 0,
                "signature": "sig",
                "format": "anthropic-claude-v1",
            },
            field="reasoning_details",
        ),
        Reasoning("So", native={"type": "reasoning.summary", "summary": "So", "index": 1}, field="reasoning_details"),
        Text("Hi"),
        Reasoning(
            "",
            native={"type": "reasoning.encrypted", "data": "xyz", "index": 2},
            redacted=True,
            field="reasoning_details",
        ),
    ]


# --- citations ---


def annotation(start: int, end: int, url: str = "https://a") -> Wire:
    return {
        "type": "url_citation",
        "url_citation": {"url": url, "title": "A", "start_index": start, "end_index": end},
    }


def test_annotations_count_from_the_start_of_the_text_that_they_are_in() -> None:
    early, late = annotation(1, 2), annotation(4, 6)
    emitted = events(
        chunk({"content": "abc", "annotations": [early]}),
        call(0, "a", "f", "{}"),
        say("defg"),
        chunk({"annotations": [late, "x", {"type": "file_citation"}]}),
        chunk(finish="stop"),
    )
    assert [event for event in emitted if isinstance(event, Cite)] == [
        Cite(0, Citation("url", "https://a", "A", start=1, end=2, native=early)),
        Cite(2, Citation("url", "https://a", "A", start=1, end=3, native=late)),
    ]


def test_sources_of_a_search_server_belong_to_the_whole_text() -> None:
    last = {
        **chunk(finish="stop"),
        "citations": ["https://a", "https://b"],
        "search_results": [{"title": "B", "url": "https://b"}],
    }
    assert parts(say("Hi"), last) == [Text("Hi", citations=[Citation("url", "https://b", "B")])]


# --- calls ---


@pytest.mark.parametrize(
    ("chunks", "calls"),
    [
        pytest.param(
            [call(0, "a", "f"), call(0, "a", "f", '{"x":'), call(0, "", "", "1}")], [("a", '{"x":1}')], id="repeated"
        ),
        pytest.param(
            [call(None, "a", "f", "{}"), call(None, "b", "g", "{}")], [("a", "{}"), ("b", "{}")], id="no index"
        ),
        pytest.param([call(None, "a", "f"), call(None, None, None, "{}")], [("a", "{}")], id="no index, no id"),
        pytest.param(
            [call(0, "a", "f", "{}"), call(0, "b", "g", "{}")], [("a", "{}"), ("b", "{}")], id="index always 0"
        ),
        pytest.param(
            [call(0, "a", "f", "{}"), call(0, "b", "g", "{"), call(0, None, None, "}")],
            [("a", "{}"), ("b", "{}")],
            id="index always 0, in pieces",
        ),
        pytest.param(
            [call(0, "", "f", '{"x":1}'), call(0, "null", "f", '{"x":2}')],
            [("call_chatcmpl-1_0", '{"x":1}'), ("call_chatcmpl-1_1", '{"x":2}')],
            id="no ids at all",
        ),
        pytest.param([call(0, "a", "f", "{}"), call(0, None, "f", "")], [("a", "{}")], id="name said again"),
        pytest.param([call(2, "a", "f", "{}"), call(5, "b", "f", "{}")], [("a", "{}"), ("b", "{}")], id="gaps"),
        pytest.param([call(0, "a", "f", "{}"), call(1, "a", "f", "{}")], [("a", "{}"), ("a-2", "{}")], id="same id"),
        pytest.param([call(0, "a", "f", {"x": 1}), call(0, None, None, {"x": 1})], [("a", '{"x":1}')], id="object"),
        pytest.param([call(0, "a"), call(0, None, None, "{}"), call(0, None, "f")], [("a", "{}")], id="name last"),
        pytest.param(
            [chunk({"function_call": {"name": "f", "arguments": "{}"}})], [("call_chatcmpl-1_0", "{}")], id="legacy"
        ),
        pytest.param([chunk({"tool_calls": {"id": "a", "function": {"name": "f"}}})], [("a", "")], id="no list"),
        pytest.param(
            [call(0, "a", "f", "{}"), chunk({"tool_calls": [{"index": 1}]})], [("a", "{}")], id="an empty one"
        ),
    ],
)
def test_calls_are_told_apart(chunks: list[Wire], calls: list[tuple[str, str]]) -> None:
    found = parts(*chunks)
    assert [(part.id, part.arguments) for part in found if isinstance(part, Call)] == calls


def test_a_name_in_pieces_is_put_together_where_the_server_splits_names() -> None:
    split = Dialect(split_names=True)
    chunks = (call(0, "a", "get_"), call(0, "a", "weather"), call(0, None, None, "{}"), call(1, "b", "now"))
    assert parts(*chunks, dialect=split) == [Call("a", "get_weather", "{}"), Call("b", "now")]


def test_free_form_calls() -> None:
    opening = {"index": 0, "id": "a", "type": "custom", "custom": {"name": "sql", "input": ""}}
    rest = {"index": 0, "custom": {"input": "SELECT"}}
    assert parts(chunk({"tool_calls": [opening]}), chunk({"tool_calls": [rest]})) == [
        Call("a", "sql", "SELECT", kind="custom")
    ]


def test_names_and_ids_are_those_that_the_client_knows() -> None:
    spelling = Spelling(
        names={"ns__f": ToolName("f", "ns"), "bash": ToolName("bash", None, "typed", "bash_20250124")},
        encode={"short": "as-the-client-wants-it", "x": "x"}.__getitem__,
    )
    emitted = events(call(0, "short", "ns__f"), call(1, "x", "bash"), chunk(finish="tool_calls"), spelling=spelling)
    assert [event.part for event in emitted if isinstance(event, Open)] == [
        Call("as-the-client-wants-it", "f", namespace="ns"),
        Call("x", "bash", kind="typed", tool="bash_20250124"),
    ]


def test_a_call_without_a_name_is_a_broken_answer() -> None:
    assert error_of(events(call(0, "a", None, "{}"), chunk(finish="tool_calls"))).kind is ErrorClass.BAD_GATEWAY


# --- shapes of chunks ---


def test_a_chunk_shaped_like_a_whole_answer() -> None:
    message = {
        "role": "assistant",
        "content": "Hi",
        "reasoning_content": "Hm",
        "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    }
    whole = {"id": "1", "choices": [{"message": message, "finish_reason": "stop"}]}
    assert parts(whole) == [
        Reasoning("Hm", full=True, field="reasoning_content"),
        Text("Hi"),
        Call("a", "f", "{}"),
    ]


def test_only_the_first_choice_counts() -> None:
    other = chunk({"content": "no"})
    other["choices"][0]["index"] = 1
    assert parts(say("yes"), other) == [Text("yes")]


@pytest.mark.parametrize(
    "told",
    [
        {**chunk(finish="stop"), "usage": {"prompt_tokens": 5, "completion_tokens": 1}},
        {**chunk(finish="stop"), "x_groq": {"usage": {"prompt_tokens": 5, "completion_tokens": 1}}},
        chunk(finish="stop", usage={"prompt_tokens": 5, "completion_tokens": 1}),
    ],
    ids=["chunk", "groq", "choice"],
)
def test_usage_anywhere(told: Wire) -> None:
    early = {**say("Hi"), "usage": {"prompt_tokens": 5, "completion_tokens": 0}}
    found = [event for event in events(early, told, {**say(""), "usage": None}) if isinstance(event, UsageUpdate)]
    assert found == [UsageUpdate(Usage(input_fresh=5, output=1))]


# --- stops ---


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("stop", "end"),
        ("eos", "end"),
        ("STOP", "end"),
        ("end_turn", "end"),
        ("tool_calls", "end"),
        ("length", "length"),
        ("MAX_TOKENS", "length"),
        ("model_length", "length"),
        ("content_filter", "filter"),
        ("SAFETY", "filter"),
        ("sensitive", "filter"),
    ],
)
def test_finish_reasons_of_an_answer_without_calls(reason: str, kind: Any) -> None:
    assert events(say("Hi"), chunk(finish=reason))[-2] == Finish(Stop(kind, native=reason))


@pytest.mark.parametrize(
    ("reason", "kind"),
    [("stop", "tool"), ("function_call", "tool"), (None, "tool"), ("", "tool"), ("length", "length")],
)
def test_finish_reasons_of_an_answer_with_calls(reason: str | None, kind: Any) -> None:
    assert events(call(0, "a", "f", "{}"), chunk(finish=reason))[-2] == Finish(Stop(kind, native=reason or None))


@pytest.mark.parametrize(("chunks", "kind"), [([say("Hi")], "end"), ([call(0, "a", "f", "{}")], "tool")])
def test_a_finish_reason_that_nobody_knows(chunks: list[Wire], kind: Any) -> None:
    assert events(*chunks, chunk(finish="tired"))[-2] == Finish(Stop(kind, native="tired", unknown=True))


def test_a_call_that_was_cut_by_the_limit_is_told_as_such() -> None:
    assert events(call(0, "a", "f", '{"x'), chunk(finish="length"))[-2] == Finish(Stop("length", native="length"))


@pytest.mark.parametrize(
    ("calls", "whole"),
    [
        ([call(0, "a", "f", '{"x"'), call(0, arguments=":1}")], True),
        ([call(0, "a", "f")], True),
        ([call(0, "a", "f", '{"x"'), call(0, arguments=":")], False),
        ([call(0, "a", "f", "{}"), call(1, "b", "g", '{"x":"')], False),
        ([chunk({"tool_calls": [{"index": 0, "type": "custom", "custom": {"name": "f", "input": "{"}}]})], True),
    ],
)
def test_without_a_finish_reason_half_a_call_is_a_broken_stream(calls: list[Wire], whole: bool) -> None:
    """mapping.md 13.6: only whole calls are an end."""
    emitted = events(say("Hi"), *calls)
    if whole:
        assert emitted[-2] == Finish(Stop("tool"))
    else:
        assert error_of(emitted) == BROKEN


def test_the_first_finish_reason_holds() -> None:
    assert events(say("Hi"), chunk(finish="length"), chunk(finish="stop"))[-2] == Finish(
        Stop("length", native="length")
    )


@pytest.mark.parametrize(("field", "value"), [("stop_reason", "END"), ("matched_stop", "END")])
def test_the_stop_string_that_matched(field: str, value: str) -> None:
    stop = Stop("stop_sequence", sequence="END", native="stop")
    assert events(say("Hi"), chunk(finish="stop", **{field: value}))[-2] == Finish(stop)
    assert events(say("Hi"), chunk(finish="stop", **{field: 128001}))[-2] == Finish(Stop("end", native="stop"))


def test_a_refusal_is_a_stop_of_its_own() -> None:
    assert events(chunk({"refusal": "No"}), chunk(finish="stop"))[-2] == Finish(Stop("refusal", native="stop"))


@pytest.mark.parametrize(
    ("reason", "kind", "retry"),
    [
        ("error", ErrorClass.SERVER, None),
        ("network_error", ErrorClass.SERVER, None),
        ("insufficient_system_resource", ErrorClass.OVERLOADED, None),
        ("MALFORMED_FUNCTION_CALL", ErrorClass.SERVER, True),
    ],
)
def test_a_finish_reason_that_is_a_failure(reason: str, kind: ErrorClass, retry: bool | None) -> None:
    error = error_of(events(say("Hi"), chunk(finish=reason), chunk(finish="stop")))
    assert error == Error(kind, f"The backend broke the answer off: {reason}.", should_retry=retry)


# --- the end of the stream ---


@pytest.mark.parametrize(
    ("chunks", "done", "ends_well"),
    [
        ([], False, False),
        ([], True, False),
        ([say("Hi")], False, False),
        ([say("Hi")], True, True),
        ([say("Hi"), chunk(finish="stop")], False, True),
        ([say("Hi"), chunk(finish="")], False, False),
        ([call(0, "a", "f", "{")], False, False),
    ],
)
def test_how_a_stream_may_end(chunks: list[Wire], done: bool, ends_well: bool) -> None:
    emitted = events(*chunks, done=done)
    if ends_well:
        assert isinstance(emitted[-2], Finish)
    else:
        assert error_of(emitted) == BROKEN


def test_a_server_may_be_known_to_tell_a_finish_reason() -> None:
    assert error_of(events(say("Hi"), dialect=Dialect(finish_required=True))) == BROKEN


@pytest.mark.parametrize(
    ("wire", "error"),
    [
        (
            {"error": {"message": "Slow down", "type": "rate_limit_error", "code": 429}},
            Error(ErrorClass.RATE_LIMIT, "Slow down", code="429", http=429, type="rate_limit_error"),
        ),
        ({"error": "boom"}, Error(ErrorClass.SERVER, "boom")),
        (
            {"object": "error", "message": "boom", "code": 500},
            Error(ErrorClass.SERVER, "boom", code="500", http=500),
        ),
        ({**say("Hi"), "x_groq": {"error": "over capacity"}}, Error(ErrorClass.SERVER, "over capacity")),
        ({**say("Hi"), "error": {"message": "boom"}}, Error(ErrorClass.SERVER, "boom")),
    ],
)
def test_an_error_inside_a_stream(wire: Wire, error: Error) -> None:
    assert error_of(events(say("Hi"), wire, say("more"))) == error


def test_an_event_named_error_is_one() -> None:
    emitted: list[Event] = []
    reader = StreamReader(emitted.append, Spelling(), GENERIC, LossReport())
    reader.feed({"message": "boom"}, "error")
    assert emitted == [Fail(Error(ErrorClass.SERVER, "boom")), End()]


def test_images_in_an_answer_are_recorded() -> None:
    losses = LossReport()
    events(chunk({"content": "Look", "images": [{"type": "image_url"}]}), chunk(finish="stop"), losses=losses)
    assert losses.losses == [Loss(Rule.IMAGE_GENERATION, "drop", "choices[0].message.images")]
