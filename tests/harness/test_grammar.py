"""The stream grammar accepts what is legal and finds each thing that is not."""

import json
from collections.abc import Callable
from copy import deepcopy

import pytest

from tests.harness.grammar import check_stream
from tests.harness.model_replies import numbered, render, response_object
from tests.harness.samples import ANSWER, sample_events, sample_stream
from tests.harness.wire import DONE, PROTOCOLS, Json, Protocol

Mutation = Callable[[list[Json]], object]

CHAT_ERROR = {"error": {"message": "broken", "type": "server_error", "param": None, "code": None}}
MESSAGES_ERROR = {"type": "error", "error": {"type": "api_error", "message": "broken"}}
FAILED = {**response_object(ANSWER, "failed", []), "error": {"code": "server_error", "message": "broken"}}
RESPONSES_ERROR = [
    {"type": "error", "error": {"type": "server_error", "code": "server_error", "message": "broken", "param": None}},
    {"type": "response.failed", "response": FAILED},
]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("passed_through", [False, True])
def test_a_legal_stream_has_no_problem(protocol: Protocol, passed_through: bool) -> None:
    raw = sample_stream(protocol)
    assert check_stream(protocol, raw, passed_through=passed_through) == []
    assert check_stream(protocol, b": ping\n\n" + raw) == []


def chat_chunk(delta: Json) -> Json:
    (first, *_) = sample_events("chat")
    return {**first, "choices": [{**first["choices"][0], "delta": delta}]}


FAILURES: list[tuple[Protocol, list[Json]]] = [
    ("chat", [CHAT_ERROR]),
    ("chat", [*sample_events("chat")[:4], CHAT_ERROR]),
    ("messages", [MESSAGES_ERROR]),
    ("messages", [*sample_events("messages")[:4], MESSAGES_ERROR]),
    ("responses", numbered(RESPONSES_ERROR)),
    ("responses", numbered([*sample_events("responses")[:2], *RESPONSES_ERROR])),
]


@pytest.mark.parametrize(("protocol", "events"), FAILURES)
def test_a_stream_that_tells_its_failure_is_legal_only_as_one_that_failed(
    protocol: Protocol, events: list[Json]
) -> None:
    raw = render(protocol, events)
    assert check_stream(protocol, raw, expect_end="error") == []
    assert check_stream(protocol, raw) != []


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_stream_that_ends_well_has_not_failed(protocol: Protocol) -> None:
    assert check_stream(protocol, sample_stream(protocol), expect_end="error") != []


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_stream_cut_after_any_event_is_found(protocol: Protocol) -> None:
    events = sample_events(protocol)
    for end in range(len(events)):
        assert check_stream(protocol, render(protocol, events[:end])), f"cut after {end} events"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_framing_is_exact_where_we_write_and_free_where_we_pass_through(protocol: Protocol) -> None:
    raw = sample_stream(protocol)
    for reframed in (
        raw.replace(b"\n", b"\r\n"),
        raw.replace(b"data: ", b"data:"),
        b"id: 1\n" + raw,
        b"retry: 10\n" + raw,
        raw.replace(b"\n\n", b"\n\n\n", 1),
        b"\xef\xbb\xbf" + raw,
    ):
        assert check_stream(protocol, reframed), reframed[:40]
        assert check_stream(protocol, reframed, passed_through=True) == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("passed_through", [False, True])
def test_broken_bytes_are_found(protocol: Protocol, passed_through: bool) -> None:
    raw = sample_stream(protocol)
    for broken in (
        raw[:-1],
        raw.replace(b"data: ", b"date: ", 1),
        raw.replace(b"look.", b"look\xff"),
        raw.replace(b"data: {", b"data: [", 1),
    ):
        assert check_stream(protocol, broken, passed_through=passed_through)


def test_only_chat_ends_with_a_done_mark() -> None:
    for protocol in PROTOCOLS:
        raw = sample_stream(protocol)
        assert check_stream(protocol, raw + b"data: [DONE]\n\n") == (
            [] if protocol == "chat" else [f"not framed as {protocol} writes it: b'data: [DONE]\\n\\n'"]
        )


def at(index: int, path: str, value: Json) -> Mutation:
    """Sets the field at a dotted path of one event."""

    def mutate(events: list[Json]) -> None:
        node = events[index]
        *way, last = [int(step) if step.isdigit() else step for step in path.split(".")]
        for step in way:
            node = node[step]
        node[last] = value

    return mutate


def without(index: int, path: str) -> Mutation:
    def mutate(events: list[Json]) -> None:
        node = events[index]
        *way, last = [int(step) if step.isdigit() else step for step in path.split(".")]
        for step in way:
            node = node[step]
        del node[last]

    return mutate


def dropped(index: int) -> Mutation:
    return lambda events: events.pop(index)


def repeated(index: int) -> Mutation:
    return lambda events: events.insert(index, deepcopy(events[index]))


def swapped(index: int) -> Mutation:
    def mutate(events: list[Json]) -> None:
        events[index], events[index + 1] = events[index + 1], events[index]

    return mutate


def both(first: Mutation, second: Mutation) -> Mutation:
    return lambda events: (first(events), second(events))


def inserted(index: int, event: Json) -> Mutation:
    return lambda events: events.insert(index, event)


CARRIER = chat_chunk({"reasoning_details": [{"index": 0}]})

CHAT_MUTATIONS: list[tuple[str, Mutation]] = [
    ("several ids", at(2, "id", "chatcmpl-2")),
    ("several created", at(2, "created", 1)),
    ("several model", at(2, "model", "other")),
    ("chunk: missing or wrong: object", at(2, "object", "chat.completion")),
    ("chunk: missing or wrong: choices", without(2, "choices")),
    ("choice: missing or wrong: index", without(2, "choices.0.index")),
    ("choice 1 after 1", at(2, "choices.0.index", 1)),
    ("choice: missing or wrong: finish_reason", without(2, "choices.0.finish_reason")),
    ("the first delta has no role", without(0, "choices.0.delta.role")),
    ("role comes twice", at(2, "choices.0.delta.role", "assistant")),
    ("delta: missing or wrong: content", at(2, "choices.0.delta.content", 7)),
    ("delta: missing or wrong: unheard_of", at(2, "choices.0.delta.unheard_of", 7)),
    ("call index 2 after 1 calls", at(8, "choices.0.delta.tool_calls.0.index", 2)),
    ("a call starts without id and name", without(5, "choices.0.delta.tool_calls.0.id")),
    ("a call starts without its type", without(5, "choices.0.delta.tool_calls.0.type")),
    ("the start of a call: missing or wrong: arguments", at(5, "choices.0.delta.tool_calls.0.function.arguments", "{")),
    ("a later fragment of a call repeats more than its index", at(6, "choices.0.delta.tool_calls.0.id", "call_0")),
    ("a call's name comes twice", at(6, "choices.0.delta.tool_calls.0.function.name", "get_weather")),
    ("an entry of reasoning_details has no index", inserted(4, chat_chunk({"reasoning_details": [{}]}))),
    ("reasoning_details comes twice", both(inserted(4, CARRIER), inserted(9, CARRIER))),
    ("the finish chunk has a delta", at(11, "choices.0.delta", {"content": "!"})),
    ("finish_reason sorry", at(11, "choices.0.finish_reason", "sorry")),
    ("finish_reason stop in spite of calls", at(11, "choices.0.finish_reason", "stop")),
    ("a second finish_reason", repeated(11)),
    ("no finish_reason", dropped(11)),
    ("delta chunk while finished", inserted(12, chat_chunk({"content": "late"}))),
    ("usage chunk while open", swapped(11)),
    ("usage chunk while counted", repeated(12)),
    ("usage: missing or wrong: total_tokens", without(12, "usage.total_tokens")),
    ("usage in a chunk with choices", at(2, "usage", {})),
    ("not every other chunk says usage: null", without(2, "usage")),
    ("an error is told", inserted(5, CHAT_ERROR)),
    ("no [DONE] at the end", dropped(13)),
    ("something follows [DONE]", swapped(12)),
]

# Two choices, one chunk of the one and one of the other, and the usage of both.
CHOICES = [
    {**event, "choices": [{**choice, "index": index} for choice in event["choices"]]}
    for event in sample_events("chat")
    if isinstance(event, dict) and event["choices"]
    for index in (0, 1)
]
CHOICES += sample_events("chat")[len(CHOICES) // 2 :]

CHOICES_MUTATIONS: list[tuple[str, Mutation]] = [
    ("choice 1 after 0", swapped(0)),
    ("choice 2 after 2", at(4, "choices.0.index", 2)),
    ("the first delta has no role", without(1, "choices.0.delta.role")),
    ("role comes twice", repeated(1)),
    ("no finish_reason", dropped(-3)),
    ("no finish_reason", dropped(-4)),
    ("a chunk of a choice that has finished", inserted(-3, chat_chunk({"content": "late"}))),
    ("a second finish_reason", repeated(-4)),
    ("usage chunk while open", swapped(-3)),
    ("an error is told", inserted(5, CHAT_ERROR)),
]

MESSAGES_MUTATIONS: list[tuple[str, Mutation]] = [
    ("ping while new", swapped(0)),
    ("message_start while between", repeated(0)),
    ("message_start: missing or wrong: content", at(0, "message.content", [{"type": "text", "text": ""}])),
    ("message_start: missing or wrong: usage", without(0, "message.usage")),
    ("message_start: missing or wrong: role", without(0, "message.role")),
    (
        "message_start usage: missing or wrong: cache_read_input_tokens",
        without(0, "message.usage.cache_read_input_tokens"),
    ),
    ("unheard_of is no event of this protocol", inserted(1, {"type": "unheard_of"})),
    ("content_block_delta while between", dropped(2)),
    ("the start of a thinking block: missing or wrong: signature", without(2, "content_block.signature")),
    ("a delta follows the signature", swapped(3)),
    ("content_block_start while block", dropped(5)),
    ("block 2 starts where 1 should", at(6, "index", 2)),
    ("a delta for a block that is not open", at(7, "index", 0)),
    ("a block is stopped that is not open", at(10, "index", 0)),
    ("input_json_delta in a text block", at(7, "delta", {"type": "input_json_delta", "partial_json": "{"})),
    ("text_delta: missing or wrong: text", without(7, "delta.text")),
    ("a delta of type 'unheard_of'", at(7, "delta", {"type": "unheard_of"})),
    ("a block of type 'unheard_of'", at(6, "content_block.type", "unheard_of")),
    ("the start of a tool_use block: missing or wrong: input", at(11, "content_block.input", {"city": "Lima"})),
    ("message_delta while block", dropped(18)),
    ("message_delta while stopped", repeated(19)),
    ("stop_reason 'sorry'", at(19, "delta.stop_reason", "sorry")),
    ("stop_reason end_turn in spite of calls", at(19, "delta.stop_reason", "end_turn")),
    ("message_delta: missing or wrong: stop_sequence", without(19, "delta.stop_sequence")),
    ("message_delta usage: missing or wrong: input_tokens", without(19, "usage.input_tokens")),
    ("message_stop while between", dropped(19)),
    ("ends while stopped", dropped(20)),
    ("ping while ended", inserted(21, {"type": "ping"})),
    ("an error is told", inserted(19, MESSAGES_ERROR)),
]

RESPONSES_MUTATIONS: list[tuple[str, Mutation]] = [
    ("response.in_progress is the first event", dropped(0)),
    ("a second response.created", repeated(0)),
    ("response.created: missing or wrong: output", at(0, "response.output", [{}])),
    ("response.created: missing or wrong: usage", at(0, "response.usage", {})),
    ("response.created: missing or wrong: truncation", without(0, "response.truncation")),
    ("the response's id changes", at(1, "response.id", "resp_2")),
    ("sequence_number 7 after 2", at(3, "sequence_number", 7)),
    ("sequence_number 2 after 2", at(3, "sequence_number", 2)),
    ("response.unheard_of is no event that we write", inserted(2, {"type": "response.unheard_of"})),
    ("ping is no event of this protocol", inserted(2, {"type": "ping"})),
    ("output_index 5, expected 1", at(8, "output_index", 5)),
    ("an item has no id of its own", at(8, "item.id", "rs_0001")),
    ("a message is announced with content", at(8, "item.content", [{"type": "output_text", "text": ""}])),
    ("the announced message: missing or wrong: status", at(8, "item.status", "completed")),
    ("for an item that was not announced", at(9, "item_id", "msg_0002")),
    ("content_index 1, expected 0", at(9, "content_index", 1)),
    ("the announced output_text: missing or wrong: text", at(9, "part.text", "Let")),
    ("response.output_text.delta for a part that was not announced", dropped(9)),
    ("response.function_call_arguments.delta for a message", at(10, "type", "response.function_call_arguments.delta")),
    ("response.output_text.delta: missing or wrong: logprobs", without(10, "logprobs")),
    ("response.output_text.delta: missing or wrong: delta", without(10, "delta")),
    ("response.output_text.done differs from its deltas", dropped(10)),
    ("response.output_text.done differs from its deltas", at(13, "text", "Let me see.")),
    ("response.output_text.delta after response.output_text.done", swapped(12)),
    ("the output_text part is done before its text is", dropped(13)),
    ("the done output_text part differs from its deltas", at(14, "part.text", "Let me see.")),
    ("a message is done before its parts are", dropped(14)),
    ("the content of the done message differs from its deltas", at(15, "item.content.0.text", "Let me see.")),
    ("the content of the done message is not its done parts", at(15, "item.content.0.annotations", [{}])),
    ("response.output_item.done for an item that was not announced", at(15, "item.id", "msg_0002")),
    ("response.content_part.done for a finished item", swapped(14)),
    ("message done as in_progress", at(15, "item.status", "in_progress")),
    ("the announced function_call: missing or wrong: arguments", at(16, "item.arguments", "{")),
    ("the call_id of a function_call changes", at(20, "item.call_id", "call_9")),
    ("response.function_call_arguments.done differs from its deltas", at(19, "arguments", "{}")),
    ("a function_call is done before its arguments are", dropped(19)),
    ("the done function_call differs from its deltas", at(20, "item.arguments", "{}")),
    ("left open: function_call", dropped(20)),
    ("the final output lists other items", at(26, "response.output", [])),
    ("tells a function_call differently", at(26, "response.output.2.arguments", "{}")),
    ("the final output is not the done items", at(26, "response.output.0.extra", 1)),
    ("response.completed has status in_progress", at(26, "response.status", "in_progress")),
    ("usage: missing or wrong: total_tokens", without(26, "response.usage.total_tokens")),
    ("usage: missing or wrong: cached_tokens", without(26, "response.usage.input_tokens_details.cached_tokens")),
    ("response.completed after the end", repeated(26)),
    ("the stream ends with response.output_item.done", dropped(26)),
    ("incomplete_details: missing or wrong: reason", at(26, "type", "response.incomplete")),
]


def _found(protocol: Protocol, events: list[Json], mutate: Mutation) -> list[str]:
    mutated = json.loads(json.dumps(events))  # no two events share an object
    mutate(mutated)
    return check_stream(protocol, render(protocol, mutated))


@pytest.mark.parametrize(("problem", "mutate"), CHAT_MUTATIONS)
def test_chat_mutations_are_found(problem: str, mutate: Mutation) -> None:
    assert problem in "\n".join(_found("chat", sample_events("chat"), mutate))


def test_several_choices_are_legal_where_they_were_asked_for() -> None:
    raw = render("chat", CHOICES)
    assert check_stream("chat", raw, choices=2) == []
    assert check_stream("chat", raw, passed_through=True) == []
    assert check_stream("chat", raw) != []
    assert check_stream("chat", raw, choices=3) != []
    assert check_stream("chat", render("chat", [*CHOICES[:-3], CHAT_ERROR]), choices=2, expect_end="error") == []
    one_by_one = sorted(CHOICES[:-2], key=lambda chunk: chunk["choices"][0]["index"])
    assert check_stream("chat", render("chat", [*one_by_one, *CHOICES[-2:]]), choices=2) == []
    assert check_stream("chat", render("chat", [*one_by_one, *CHOICES[-2:]]), passed_through=True) == []


@pytest.mark.parametrize(("problem", "mutate"), CHOICES_MUTATIONS)
def test_mutations_of_several_choices_are_found(problem: str, mutate: Mutation) -> None:
    mutated = json.loads(json.dumps(CHOICES))
    mutate(mutated)
    assert problem in "\n".join(check_stream("chat", render("chat", mutated), choices=2))


@pytest.mark.parametrize(("problem", "mutate"), MESSAGES_MUTATIONS)
def test_messages_mutations_are_found(problem: str, mutate: Mutation) -> None:
    assert problem in "\n".join(_found("messages", sample_events("messages"), mutate))


@pytest.mark.parametrize(("problem", "mutate"), RESPONSES_MUTATIONS)
def test_responses_mutations_are_found(problem: str, mutate: Mutation) -> None:
    assert problem in "\n".join(_found("responses", sample_events("responses"), mutate))


def test_the_event_line_names_the_type() -> None:
    for protocol in ("responses", "messages"):
        raw = sample_stream(protocol)
        name = raw.split(b"\n")[0]
        assert check_stream(protocol, raw.replace(name, b"event: other", 1), passed_through=True)


def test_a_failure_is_the_last_word() -> None:
    text = chat_chunk({"role": "assistant", "content": "more"})
    assert check_stream("chat", render("chat", [CHAT_ERROR, text]), expect_end="error")
    assert check_stream("chat", render("chat", [CHAT_ERROR, DONE]), expect_end="error")
    ping = {"type": "ping"}
    assert check_stream("messages", render("messages", [MESSAGES_ERROR, ping]), expect_end="error")


def test_a_failed_response_has_no_item_left_open() -> None:
    events = numbered([*sample_events("responses")[:11], *RESPONSES_ERROR])
    assert check_stream("responses", render("responses", events), expect_end="error") == ["left open: message"]
