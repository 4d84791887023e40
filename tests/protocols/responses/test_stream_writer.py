"""What a Responses client is streamed for canonical events."""

import copy
import json
from itertools import count

import pytest

from proxy.canonical.errors import Error, ErrorClass
from proxy.canonical.events import (
    Cite,
    Close,
    Delta,
    End,
    Event,
    Fail,
    Finish,
    Open,
    Ping,
    Start,
    UsageUpdate,
)
from proxy.canonical.fold import Fold, broken_stream
from proxy.canonical.parts import Call, Citation, HostedCall, Opaque, Reasoning, Refusal, ReplyPart, Text
from proxy.canonical.reply import ReplyContext
from proxy.canonical.stop import Stop, StopKind
from proxy.canonical.usage import Usage
from proxy.protocols.responses import StreamWriter, write_reply
from tests.harness import sdk
from tests.harness.grammar import check_stream

Wire = dict[str, object]
START = Start("chatcmpl-1", "gpt-x", 1790000000)
END: list[Event] = [UsageUpdate(Usage(3, 2, 1, 0, 7, 4)), Finish(Stop("end")), End()]


def context(**fields: object) -> ReplyContext:
    return ReplyContext("req_1", "asked-for", now=1790000005, **fields)  # type: ignore[arg-type]


def write(events: list[Event], **fields: object) -> bytes:
    writer = StreamWriter(context(**fields))
    return b"".join(writer.write([event]) for event in events)


def wires(raw: bytes) -> list[Wire]:
    """The events, after the framing and the numbers of each have been checked and taken away."""
    found: list[Wire] = []
    numbers = count()
    for frame in raw.decode().removesuffix("\n\n").split("\n\n"):
        name, payload = frame.split("\n")
        wire = json.loads(payload.removeprefix("data: "))
        assert (name, wire.pop("sequence_number")) == (f"event: {wire['type']}", next(numbers))
        found.append(wire)
    return found


def between(*events: Event, **fields: object) -> list[Wire]:
    """The events of the items, between in_progress and completed; ids are replaced by their prefix."""
    raw = write([START, *events, *END], **fields)
    assert check_stream("responses", raw) == []
    return [_short(wire) for wire in wires(raw)[2:-1]]


def _short(value: Wire) -> Wire:
    """The event without what its type says already, and with the ids' prefixes only."""
    short = {
        name: inner.split("_")[0] if name in ("id", "item_id") and isinstance(inner, str) else inner
        for name, inner in value.items()
    }
    return {name: _short(inner) if isinstance(inner, dict) else inner for name, inner in short.items()}


def grown(k: int, part: ReplyPart, *pieces: str, native: Wire | None = None) -> list[Event]:
    return [Open(k, part), *(Delta(k, piece) for piece in pieces), Close(k, native)]


TEXT_PART: Wire = {"type": "output_text", "annotations": [], "logprobs": [], "text": ""}


def test_a_text() -> None:
    place: Wire = {"item_id": "msg", "output_index": 0, "content_index": 0}
    message: Wire = {"id": "msg", "type": "message", "status": "in_progress", "content": [], "role": "assistant"}
    part: Wire = {**TEXT_PART, "text": "Hé ho"}
    assert between(*grown(0, Text(""), "Hé", "", " ho")) == [
        {"type": "response.output_item.added", "output_index": 0, "item": message},
        {"type": "response.content_part.added", **place, "part": TEXT_PART},
        {"type": "response.output_text.delta", **place, "delta": "Hé", "logprobs": []},
        {"type": "response.output_text.delta", **place, "delta": " ho", "logprobs": []},
        {"type": "response.output_text.done", **place, "text": "Hé ho", "logprobs": []},
        {"type": "response.content_part.done", **place, "part": part},
        {
            "type": "response.output_item.done",
            "output_index": 0,
            "item": {**message, "status": "completed", "content": [part]},
        },
    ]


def test_the_response_around_the_items() -> None:
    raw = write([START, *grown(0, Text(""), "Hi"), *END], echo={"instructions": "Be brief.", "temperature": 0.5})
    created, in_progress, *_, completed = wires(raw)
    head: Wire = {
        "id": "resp_0adc2896ac2cdafbbf37f789801ef8c00c4db43d9773c002",
        "object": "response",
        "created_at": 1790000000,
        "model": "gpt-x",
        "error": None,
        "incomplete_details": None,
        "background": False,
        "conversation": None,
        "frequency_penalty": 0.0,
        "instructions": "Be brief.",
        "max_output_tokens": None,
        "max_tool_calls": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "presence_penalty": 0.0,
        "previous_response_id": None,
        "prompt": None,
        "prompt_cache_key": None,
        "prompt_cache_options": None,
        "prompt_cache_retention": None,
        "reasoning": {"effort": None, "summary": None},
        "safety_identifier": None,
        "store": False,
        "temperature": 0.5,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": "auto",
        "tools": [],
        "top_logprobs": 0,
        "top_p": 1.0,
        "truncation": "disabled",
        "user": None,
        "access_programs": None,
        "image": None,
        "input_transformations": None,
        "moderation": None,
        "prompt_cache_diagnostics": None,
        "tool_usage": {
            "image_gen": {
                "input_tokens": 0,
                "input_tokens_details": {"image_tokens": 0, "text_tokens": 0},
                "output_tokens": 0,
                "total_tokens": 0,
            },
            "web_search": {"num_requests": 0},
        },
    }
    begun: Wire = {
        **head,
        "status": "in_progress",
        "completed_at": None,
        "output": [],
        "service_tier": "auto",
        "usage": None,
    }
    assert created == {"type": "response.created", "response": begun}
    assert in_progress == {"type": "response.in_progress", "response": begun}
    assert completed == {
        "type": "response.completed",
        "response": {
            **head,
            "status": "completed",
            "completed_at": 1790000005,
            "output": [
                {
                    "id": completed["response"]["output"][0]["id"],  # type: ignore[index]
                    "type": "message",
                    "status": "completed",
                    "content": [{**TEXT_PART, "text": "Hi"}],
                    "role": "assistant",
                }
            ],
            "service_tier": "default",
            "usage": {
                "input_tokens": 6,
                "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 1},
                "output_tokens": 7,
                "output_tokens_details": {"reasoning_tokens": 4},
                "total_tokens": 13,
            },
        },
    }


def test_text_after_text_goes_on_and_citations_count_in_the_joined_text() -> None:
    citation = Citation("url", "https://x", "X", cited_text="so")
    events = between(
        Open(0, Text("")),
        Delta(0, "Ich "),
        Close(0),
        Open(1, Text("")),
        Delta(1, "bin"),
        Cite(1, citation),
        Cite(1, Citation("url", "https://y", start=1, end=2)),
        Close(1),
        Cite(1, Citation("document", title="d.pdf", native={"document_index": 3})),
    )
    place: Wire = {"item_id": "msg", "output_index": 0, "content_index": 0}
    annotations: list[Wire] = [
        {"type": "url_citation", "start_index": 4, "end_index": 7, "url": "https://x", "title": "X"},
        {"type": "url_citation", "start_index": 5, "end_index": 6, "url": "https://y", "title": "https://y"},
        {"type": "file_citation", "file_id": "document-3", "filename": "d.pdf", "index": 7},
    ]
    assert events[4:] == [
        *(
            {"type": "response.output_text.annotation.added", **place, "annotation_index": number, "annotation": one}
            for number, one in enumerate(annotations)
        ),
        {"type": "response.output_text.done", **place, "text": "Ich bin", "logprobs": []},
        {
            "type": "response.content_part.done",
            **place,
            "part": {**TEXT_PART, "text": "Ich bin", "annotations": annotations},
        },
        {
            "type": "response.output_item.done",
            "output_index": 0,
            "item": {
                "id": "msg",
                "type": "message",
                "status": "completed",
                "content": [{**TEXT_PART, "text": "Ich bin", "annotations": annotations}],
                "role": "assistant",
            },
        },
    ]


REASONING = [
    (Reasoning(""), False, "summary"),
    (Reasoning("", full=True), False, "raw"),
    (Reasoning("", full=True), True, "summary"),
]


@pytest.mark.parametrize(("part", "requested", "shape"), REASONING)
def test_reasoning(part: Reasoning, requested: bool, shape: str) -> None:
    events = between(*grown(0, part, "Hm", "m"), summary_requested=requested)
    if shape == "summary":
        place: Wire = {"item_id": "rs", "output_index": 0, "summary_index": 0}
        part_event, text_event, part_type = "reasoning_summary_part", "reasoning_summary_text", "summary_text"
        item: Wire = {"id": "rs", "type": "reasoning", "summary": [{"type": part_type, "text": "Hmm"}]}
    else:
        place = {"item_id": "rs", "output_index": 0, "content_index": 0}
        part_event, text_event, part_type = "content_part", "reasoning_text", "reasoning_text"
        item = {"id": "rs", "type": "reasoning", "summary": [], "content": [{"type": part_type, "text": "Hmm"}]}
    assert events == [
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {"id": "rs", "type": "reasoning", "summary": []},
        },
        {"type": f"response.{part_event}.added", **place, "part": {"type": part_type, "text": ""}},
        {"type": f"response.{text_event}.delta", **place, "delta": "Hm"},
        {"type": f"response.{text_event}.delta", **place, "delta": "m"},
        {"type": f"response.{text_event}.done", **place, "text": "Hmm"},
        {"type": f"response.{part_event}.done", **place, "part": {"type": part_type, "text": "Hmm"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
    ]


def test_hidden_reasoning_brings_only_encrypted_content_of_this_protocol() -> None:
    own: Wire = {"type": "reasoning", "encrypted_content": "sealed"}
    events = between(
        *grown(0, Reasoning("", redacted=True), native=own),
        *grown(1, Reasoning("", native={"type": "redacted_thinking", "data": "x"}, redacted=True)),
    )
    bare: Wire = {"id": "rs", "type": "reasoning", "summary": []}
    assert events == [
        {"type": "response.output_item.added", "output_index": 0, "item": bare},
        {
            "type": "response.output_item.done",
            "output_index": 0,
            "item": {**bare, "encrypted_content": "sealed"},
        },
        {"type": "response.output_item.added", "output_index": 1, "item": bare},
        {"type": "response.output_item.done", "output_index": 1, "item": bare},
    ]


def call_item(text: str, **fields: object) -> Wire:
    return {
        "id": "fc",
        "type": "function_call",
        "status": "completed",
        "arguments": text,
        "call_id": "c1",
        "name": "f",
        **fields,
    }


def test_calls_that_grow_side_by_side() -> None:
    first: Wire = {"item_id": "fc", "output_index": 0}
    second: Wire = {"item_id": "ctc", "output_index": 1}
    custom: Wire = {"id": "ctc", "type": "custom_tool_call", "status": "completed", "input": "free"}
    named: Wire = {"call_id": "c2", "name": "g", "namespace": "n"}
    assert between(
        Open(0, Call("c1", "f")),
        Delta(0, '{"a"'),
        Open(1, Call("c2", "g", kind="custom", namespace="n")),
        Delta(1, "fr"),
        Delta(0, ":1}"),
        Delta(1, "ee"),
        Close(1),
        Close(0),
    ) == [
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": call_item("", status="in_progress"),
        },
        {"type": "response.function_call_arguments.delta", **first, "delta": '{"a"'},
        {
            "type": "response.output_item.added",
            "output_index": 1,
            "item": {**custom, "status": "in_progress", "input": "", **named},
        },
        {"type": "response.custom_tool_call_input.delta", **second, "delta": "fr"},
        {"type": "response.function_call_arguments.delta", **first, "delta": ":1}"},
        {"type": "response.custom_tool_call_input.delta", **second, "delta": "ee"},
        {"type": "response.function_call_arguments.done", **first, "arguments": '{"a":1}'},
        {"type": "response.output_item.done", "output_index": 0, "item": call_item('{"a":1}')},
        {"type": "response.custom_tool_call_input.done", **second, "input": "free"},
        {"type": "response.output_item.done", "output_index": 1, "item": {**custom, **named}},
    ]


def test_a_call_without_arguments_has_an_empty_object() -> None:
    place: Wire = {"item_id": "fc", "output_index": 0}
    assert between(*grown(0, Call("c1", "f")))[1:] == [
        {"type": "response.function_call_arguments.delta", **place, "delta": "{}"},
        {"type": "response.function_call_arguments.done", **place, "arguments": "{}"},
        {"type": "response.output_item.done", "output_index": 0, "item": call_item("{}")},
    ]


TYPED: list[tuple[Call, str, Wire, Wire]] = [
    (
        Call("c", "shell", kind="typed", tool="shell"),
        '{"commands":["ls"]}',
        {"id": "sh", "type": "shell_call", "call_id": "c", "action": {"commands": []}},
        {"id": "sh", "type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}},
    ),
    (
        Call("c", "local_shell", kind="typed", tool="local_shell"),
        '{"command":["ls"],"env":{}}',
        {"id": "lsh", "type": "local_shell_call", "call_id": "c", "action": {"type": "exec", "command": [], "env": {}}},
        {
            "id": "lsh",
            "type": "local_shell_call",
            "call_id": "c",
            "action": {"type": "exec", "command": ["ls"], "env": {}},
        },
    ),
    (
        Call("c", "apply_patch", kind="typed", tool="apply_patch"),
        '{"type":"delete_file","path":"x"}',
        {"id": "apc", "type": "apply_patch_call", "call_id": "c", "operation": {}},
        {"id": "apc", "type": "apply_patch_call", "call_id": "c", "operation": {"type": "delete_file", "path": "x"}},
    ),
    (
        Call("c", "computer", kind="typed", tool="computer"),
        '{"actions":[{"type":"wait"}]}',
        {"id": "cu", "type": "computer_call", "call_id": "c", "actions": [], "pending_safety_checks": []},
        {
            "id": "cu",
            "type": "computer_call",
            "call_id": "c",
            "actions": [{"type": "wait"}],
            "pending_safety_checks": [],
        },
    ),
    (
        Call("c", "shell", kind="typed", tool="shell"),
        '{"commands":["l',
        {"id": "sh", "type": "shell_call", "call_id": "c", "action": {"commands": []}},
        {"id": "sh", "type": "shell_call", "call_id": "c", "action": {}},
    ),
]


@pytest.mark.parametrize(("part", "arguments", "added", "done"), TYPED)
def test_typed_calls(part: Call, arguments: str, added: Wire, done: Wire) -> None:
    assert between(*grown(0, part, arguments[:4], arguments[4:])) == [
        {"type": "response.output_item.added", "output_index": 0, "item": {**added, "status": "in_progress"}},
        {"type": "response.output_item.done", "output_index": 0, "item": {**done, "status": "completed"}},
    ]


def kinds_of(*events: Event) -> list[str]:
    """The types of items, with those of their content parts."""
    return [
        " ".join([str(item["type"]), *(part["type"] for part in item.get("content", ()))])  # type: ignore[union-attr,attr-defined]
        for wire in between(*events)
        if wire["type"] == "response.output_item.done"
        for item in [wire["item"]]
    ]


ORDERS: list[tuple[list[ReplyPart], list[str]]] = [
    ([Text(""), Text("")], ["message output_text"]),
    ([Text(""), Refusal("")], ["message output_text refusal"]),
    ([Refusal(""), Refusal("")], ["message refusal refusal"]),
    ([Refusal(""), Text("")], ["message refusal", "message output_text"]),
    ([Text(""), Call("c", "f"), Text("")], ["message output_text", "function_call", "message output_text"]),
    ([Text("", phase="commentary"), Text("")], ["message output_text", "message output_text"]),
    ([Text(""), Reasoning(""), Reasoning("")], ["message output_text", "reasoning", "reasoning"]),
    ([Text(""), Opaque("compaction", {}), Text("")], ["message output_text", "message output_text"]),
    (
        [Text(""), HostedCall("web_search", {"type": "server_tool_use"}), Refusal("")],
        ["message output_text", "message refusal"],
    ),
    ([HostedCall("web_search", {"type": "web_search_call", "status": "completed"})], ["web_search_call"]),
]


@pytest.mark.parametrize(("parts", "items"), ORDERS)
def test_which_parts_share_an_item(parts: list[ReplyPart], items: list[str]) -> None:
    assert (
        kinds_of(*(event for k, part in enumerate(parts) for event in grown(k, part, *["x"] * growing(part)))) == items
    )


def growing(part: ReplyPart) -> int:
    return int(isinstance(part, Text | Refusal | Reasoning))


STOPS: list[tuple[Stop, str, str | None]] = [
    (Stop("end"), "completed", None),
    (Stop("tool"), "completed", None),
    (Stop("stop_sequence", "###"), "completed", None),
    (Stop("refusal"), "completed", None),
    (Stop("compaction"), "completed", None),
    (Stop("length"), "incomplete", "max_output_tokens"),
    (Stop("context"), "incomplete", "max_output_tokens"),
    (Stop("pause"), "incomplete", "max_output_tokens"),
    (Stop("filter"), "incomplete", "content_filter"),
    (Stop("refusal", classifier=True), "incomplete", "content_filter"),
    (Stop("max_messages"), "incomplete", "max_messages"),
    (Stop("steered"), "incomplete", "steered"),
]


def test_every_stop_has_a_status() -> None:
    assert {stop.kind for stop, _, _ in STOPS} == set(StopKind.__args__)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("stop", "status", "reason"), STOPS)
def test_stops(stop: Stop, status: str, reason: str | None) -> None:
    raw = write([START, *grown(0, Text(""), "a"), *grown(1, Call("c", "f"), "{"), Finish(stop), End()])
    assert check_stream("responses", raw) == []
    last = wires(raw)[-1]
    response = last["response"]
    assert isinstance(response, dict)
    told = (
        last["type"],
        response["status"],
        response["incomplete_details"],
        [item["status"] for item in response["output"]],
    )
    assert told == (f"response.{status}", status, reason and {"reason": reason}, ["completed", status])


def test_the_words_of_a_classifier_join_the_message() -> None:
    raw = write([START, *grown(0, Text(""), "Well"), Finish(Stop("refusal", classifier=True, explanation="No."))])
    assert check_stream("responses", raw) == []
    response = wires(raw)[-1]["response"]
    assert isinstance(response, dict)
    assert response["output"][0]["content"] == [{**TEXT_PART, "text": "Well"}, {"type": "refusal", "refusal": "No."}]


def test_log_probabilities() -> None:
    told: list[object] = [
        {"token": "é", "logprob": -1, "bytes": None, "top_logprobs": [{"token": "e", "logprob": -2, "bytes": [101]}]},
        "broken",
    ]
    events = between(Open(0, Text("")), Delta(0, "é", told), Delta(0, "!"), Close(0))
    short = {"token": "é", "logprob": -1, "top_logprobs": [{"token": "e", "logprob": -2}]}
    full = {
        "token": "é",
        "logprob": -1,
        "bytes": [195, 169],
        "top_logprobs": [{"token": "e", "logprob": -2, "bytes": [101]}],
    }
    assert [wire["logprobs"] for wire in events if "logprobs" in wire] == [[short], [], [full]]


def test_a_broken_answer() -> None:
    raw = write(
        [START, *grown(0, Text(""), "Hi"), Open(1, Call("c", "f")), Delta(1, "{"), Fail(broken_stream()), End()]
    )
    assert check_stream("responses", raw, expect_end="error") == []
    *_, call_done, error, failed = wires(raw)
    message = "The backend closed the stream before the answer was complete."
    response = failed["response"]
    assert isinstance(response, dict)
    assert call_done["item"] == {
        "id": response["output"][1]["id"],
        "type": "function_call",
        "status": "incomplete",
        "arguments": "{",
        "call_id": "c",
        "name": "f",
    }
    assert error == {
        "type": "error",
        "error": {"type": "server_error", "code": "server_error", "message": message, "param": None},
    }
    assert (failed["type"], response["status"], response["error"], [item["status"] for item in response["output"]]) == (
        "response.failed",
        "failed",
        {"code": "server_error", "message": message},
        ["completed", "incomplete"],
    )


def test_a_failure_before_the_start_is_told_under_an_id_of_the_request() -> None:
    raw = write([Fail(Error(ErrorClass.OVERLOADED, "Busy.")), End()])
    assert check_stream("responses", raw, expect_end="error") == []
    error, failed = wires(raw)
    response = failed["response"]
    assert isinstance(response, dict)
    assert error["error"] == {
        "type": "service_unavailable_error",
        "code": "server_error",
        "message": "Busy.",
        "param": None,
    }
    assert (response["id"], response["model"], response["created_at"], response["output"]) == (
        "resp_dfe7be6cee3b99ca63628de710b914dd23b325851137e6ca",
        "asked-for",
        1790000005,
        [],
    )


def test_a_heartbeat_is_a_comment() -> None:
    assert write([Ping()]) == b": ping\n\n"


def test_the_client_can_keep_the_name_it_asked_for() -> None:
    raw = write([START, *END], model_override="alias")
    response = wires(raw)[0]["response"]
    assert isinstance(response, dict)
    assert response["model"] == "alias"


EVERYTHING: list[Event] = [
    START,
    *grown(0, Reasoning("", full=True), "Let me", " think"),
    *grown(1, Text(""), "Looking"),
    *grown(2, Text(""), " it up"),
    Cite(2, Citation("url", "https://x", "X")),
    *grown(3, Refusal(""), "Not that"),
    Open(4, Call("c1", "f")),
    Open(5, Call("c2", "g")),
    Delta(4, '{"a":1}'),
    Delta(5, "{}"),
    Close(4),
    Close(5),
    *grown(6, Text(""), "Done"),
    *END,
]


@pytest.mark.parametrize("summary_requested", [False, True])
def test_openai_reads_the_stream_as_the_whole_reply(summary_requested: bool) -> None:
    raw = write(EVERYTHING, summary_requested=summary_requested)
    assert check_stream("responses", raw) == []
    fold = Fold()
    for event in copy.deepcopy(EVERYTHING):
        fold.emit(event)
    whole = json.loads(write_reply(fold.reply(), context(summary_requested=summary_requested)))
    streamed = wires(raw)[-1]["response"]
    assert streamed == whole
    assert unparsed(sdk.read_stream("responses", raw)) == sdk.read_whole("responses", json.dumps(whole).encode())


def unparsed(value: object) -> object:
    """What the stream helper read, without what it parsed on top of it."""
    if isinstance(value, dict):
        return {
            name: unparsed(inner) for name, inner in value.items() if not name.startswith(("parsed", "output_parsed"))
        }
    return [unparsed(inner) for inner in value] if isinstance(value, list) else value


def test_openai_raises_what_broke() -> None:
    raw = write([START, Fail(Error(ErrorClass.RATE_LIMIT, "Slow down", retry_after=1.25)), End()])
    assert sdk.read_stream_error("responses", raw).message == "Slow down. Please try again in 1.25s."
