"""What a Responses backend streams, as canonical events."""

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.canonical.errors import Error, ErrorClass, Reason
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
from proxy.canonical.fold import broken_stream
from proxy.canonical.loss import Loss, LossReport, Rule
from proxy.canonical.parts import Call, Citation, HostedCall, Opaque, Reasoning, Refusal, Text
from proxy.canonical.spelling import Spelling, ToolName
from proxy.canonical.stop import Stop
from proxy.canonical.target import Dialect
from proxy.canonical.usage import Usage
from proxy.protocols.responses import StreamReader
from tests.protocols.responses.test_request_reader import JSON, places, replaced

Wire = dict[str, object]
CREATED: Wire = {
    "type": "response.created",
    "response": {
        "id": "resp_1",
        "model": "gpt-5.6",
        "created_at": 1790000000.0,
        "status": "in_progress",
        "usage": None,
    },
}
USAGE: Wire = {
    "input_tokens": 10,
    "input_tokens_details": {
        "cached_tokens": 4,
        "cache_write_tokens": 3,
        "cache_write_tokens_details": {"ttl_12h_tokens": 2},
    },
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 1},
    "total_tokens": 15,
}
START = Start("resp_1", "gpt-5.6", 1790000000)
ENDED: list[Event] = [Finish(Stop("end", native="completed")), End()]


def event(name: str, **fields: object) -> Wire:
    return {"type": f"response.{name}", **fields}


def completed(output: object = None, **fields: object) -> Wire:
    return event("completed", response={"id": "resp_1", "status": "completed", "output": output, **fields})


def read(
    *wires: Wire,
    spelling: Spelling | None = None,
    dialect: Dialect | None = None,
) -> tuple[list[Event], list[Loss]]:
    events: list[Event] = []
    losses = LossReport()
    reader = StreamReader(events.append, spelling or Spelling(), dialect or Dialect(), losses)
    reader.exact = True
    for wire in wires:
        reader.feed(wire, "")
    reader.end()
    return events, losses.losses


def body_of(*wires: Wire) -> list[Event]:
    """The events between Start and the end."""
    events, losses = read(CREATED, *wires, completed())
    assert events[0] == START
    assert losses == []
    return events[1:-2]


def message(*content: Wire, **fields: object) -> Wire:
    return {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": list(content),
        **fields,
    }


def output_text(text: str, *annotations: Wire) -> Wire:
    return {"type": "output_text", "text": text, "annotations": list(annotations), "logprobs": []}


def delta(name: str, text: object, index: int = 0, item_id: str = "msg_1", **fields: object) -> Wire:
    return event(f"{name}.delta", item_id=item_id, output_index=index, delta=text, **fields)


def test_a_text() -> None:
    events, losses = read(
        CREATED,
        event("in_progress", response={}),
        event("output_item.added", output_index=0, item=message(status="in_progress")),
        event("content_part.added", item_id="msg_1", output_index=0, content_index=0, part=output_text("")),
        delta("output_text", "Hel", content_index=0, logprobs=[]),
        delta("output_text", "lo", content_index=0, logprobs=[{"token": "lo", "logprob": -1, "top_logprobs": []}]),
        event("output_text.done", item_id="msg_1", output_index=0, content_index=0, text="Hello"),
        event("content_part.done", item_id="msg_1", output_index=0, content_index=0, part=output_text("Hello")),
        event("output_item.done", output_index=0, item=message(output_text("Hello"))),
        completed([message(output_text("Hello"))], usage=USAGE, service_tier="priority"),
    )
    assert losses == []
    assert events == [
        START,
        Ping(),
        Open(0, Text("")),
        Delta(0, "Hel"),
        Delta(0, "lo", [{"token": "lo", "logprob": -1, "bytes": None, "top_logprobs": []}]),
        Close(0),
        UsageUpdate(Usage(3, 4, 3, 2, 5, 1)),
        Finish(Stop("end", native="completed"), "priority"),
        End(),
    ]


def test_reasoning_summaries_are_parted_by_a_blank_line() -> None:
    item: Wire = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "One."}, {"type": "summary_text", "text": "Two."}],
        "encrypted_content": "sealed",
    }
    assert body_of(
        event("output_item.added", output_index=0, item={"type": "reasoning", "id": "rs_1", "summary": []}),
        event("reasoning_summary_part.added", item_id="rs_1", output_index=0, summary_index=0, part={}),
        delta("reasoning_summary_text", "On", item_id="rs_1", summary_index=0),
        delta("reasoning_summary_text", "e.", item_id="rs_1", summary_index=0),
        event("reasoning_summary_text.done", item_id="rs_1", output_index=0, summary_index=0, text="One."),
        event("reasoning_summary_text.done", item_id="rs_1", output_index=0, summary_index=1, text="Two."),
        event("output_item.done", output_index=0, item=item),
    ) == [
        Open(0, Reasoning("")),
        Delta(0, "On"),
        Delta(0, "e."),
        Delta(0, "\n\n"),
        Delta(0, "Two."),
        Close(0, item),
    ]


def test_of_two_reasoning_texts_the_first_is_shown() -> None:
    item: Wire = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "short"}],
        "content": [{"type": "reasoning_text", "text": "long chain"}],
    }
    assert body_of(
        delta("reasoning_text", "long", item_id="rs_1", content_index=0),
        delta("reasoning_summary_text", "short", item_id="rs_1", summary_index=0),
        event("output_item.done", output_index=0, item=item),
    ) == [Open(0, Reasoning("", full=True)), Delta(0, "long"), Delta(0, " chain"), Close(0, item)]


@pytest.mark.parametrize(
    ("wire", "full"),
    [
        (event("reasoning_summary_part.done", summary_index=0, part={"type": "summary_text", "text": "Hm"}), False),
        (event("content_part.done", content_index=0, part={"type": "reasoning_text", "text": "Hm"}), True),
    ],
)
def test_reasoning_that_only_its_part_tells(wire: Wire, full: bool) -> None:
    assert body_of(wire | {"item_id": "rs_1", "output_index": 0}) == [
        Open(0, Reasoning("", full=full)),
        Delta(0, "Hm"),
        Close(0),
    ]


def test_a_text_and_its_log_probabilities_that_only_come_at_the_end() -> None:
    assert body_of(
        event("output_text.done", item_id="msg_1", text="A", logprobs=[{"token": "A", "logprob": -0.5}])
    ) == [
        Open(0, Text("")),
        Delta(0, "A", [{"token": "A", "logprob": -0.5, "bytes": None, "top_logprobs": []}]),
        Close(0),
    ]


def test_reasoning_that_only_comes_at_the_end() -> None:
    shown: Wire = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "t"}],
    }
    hidden: Wire = {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "x"}
    assert body_of(
        event("output_item.done", output_index=0, item=shown), event("output_item.done", output_index=1, item=hidden)
    ) == [
        Open(0, Reasoning("", full=True)),
        Delta(0, "t"),
        Close(0, shown),
        Open(1, Reasoning("", native=hidden, redacted=True)),
        Close(1, hidden),
    ]


def call(**fields: object) -> Wire:
    return {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": "", **fields}


def test_a_call() -> None:
    events, _ = read(
        CREATED,
        event("output_item.added", output_index=0, item=call()),
        delta("function_call_arguments", '{"a"', item_id="fc_1"),
        delta("function_call_arguments", ":1}", item_id="fc_1"),
        event("function_call_arguments.done", item_id="fc_1", output_index=0, arguments='{"a":1}'),
        event("output_item.done", output_index=0, item=call(arguments='{"a":1}')),
        completed([call(arguments='{"a":1}')]),
    )
    assert events == [
        START,
        Open(0, Call("call_1", "f")),
        Delta(0, '{"a"'),
        Delta(0, ":1}"),
        Close(0),
        Finish(Stop("tool", native="completed")),
        End(),
    ]


def test_interleaved_calls_of_tools_that_the_client_calls_otherwise() -> None:
    spelling = Spelling(
        names={"n__f": ToolName("f", "n"), "g": ToolName("g", kind="custom")},
        encode=lambda call_id: f"x-{call_id}",
        mint=lambda response_id, index: f"{response_id}-{index}",
    )
    custom: Wire = {"type": "custom_tool_call", "id": "ctc_1", "name": "g", "input": ""}
    events, _ = read(
        CREATED,
        event("output_item.added", output_index=0, item=call(name="n__f")),
        event("output_item.added", output_index=2, item=custom),
        delta("custom_tool_call_input", "fr", 2, "ctc_1"),
        delta("function_call_arguments", "{}", item_id="fc_1"),
        delta("custom_tool_call_input", "ee", 2, "ctc_1"),
        completed([call(name="n__f", arguments="{}"), {**custom, "input": "free"}]),
        spelling=spelling,
    )
    assert events == [
        START,
        Open(0, Call("x-call_1", "f", namespace="n")),
        Open(1, Call("resp_1-1", "g", kind="custom")),
        Delta(1, "fr"),
        Delta(0, "{}"),
        Delta(1, "ee"),
        Close(0),
        Close(1),
        Finish(Stop("tool", native="completed")),
        End(),
    ]


ARGUMENTS_LATE: list[list[Wire]] = [
    [event("output_item.done", output_index=0, item=call(arguments='{"a":1}'))],
    [
        event("output_item.added", output_index=0, item=call()),
        event("function_call_arguments.done", item_id="fc_1", output_index=0, arguments='{"a":1}'),
    ],
    [event("output_item.added", output_index=0, item=call(arguments='{"a":1}'))],
    [
        event("function_call_arguments.done", item_id="fc_1", output_index=0, arguments='{"a":1}'),
        event("output_item.done", output_index=0, item=call()),
    ],
    [event("output_item.added", output_index=0, item=call()), completed([call(arguments={"a": 1}, id="other")])],
    [completed([call(arguments='{"a":1}')])],
]


@pytest.mark.parametrize("wires", ARGUMENTS_LATE)
def test_arguments_that_come_late_come_once(wires: list[Wire]) -> None:
    events, losses = read(CREATED, *wires, completed([call(arguments='{"a":1}')]))
    assert losses == []
    assert events[1:4] == [Open(0, Call("call_1", "f")), Delta(0, '{"a":1}'), Close(0)]


def test_arguments_before_the_call_is_named() -> None:
    assert body_of(
        delta("function_call_arguments", "{", item_id="fc_1"),
        delta("function_call_arguments", "}", item_id="fc_1"),
        event("output_item.done", output_index=0, item=call(arguments="{}")),
    ) == [Open(0, Call("call_1", "f")), Delta(0, "{"), Delta(0, "}"), Close(0)]


def test_a_call_without_a_name_fails_the_stream() -> None:
    events, _ = read(CREATED, event("output_item.done", output_index=0, item=call(name=None)), completed())
    message = "The backend called a tool without naming it."
    assert events == [START, Fail(Error(ErrorClass.BAD_GATEWAY, message, reason=Reason.UPSTREAM_ERROR)), End()]


def test_typed_calls_come_whole() -> None:
    shell: Wire = {"type": "shell_call", "id": "sh_1", "call_id": "c1", "action": {"commands": ["ls"]}}
    patch: Wire = {
        "type": "apply_patch_call",
        "id": "a",
        "call_id": "c2",
        "operation": {"type": "delete_file", "path": "x"},
    }
    assert body_of(
        event("output_item.added", output_index=0, item={**shell, "action": {"commands": []}}),
        event("shell_call_command.delta", output_index=0, command_index=0, delta="ls"),
        event("output_item.done", output_index=0, item=shell),
        event("output_item.done", output_index=1, item=patch),
    ) == [
        Open(0, Call("c1", "shell", kind="typed", tool="shell")),
        Delta(0, '{"commands":["ls"]}'),
        Close(0),
        Open(1, Call("c2", "apply_patch", kind="typed", tool="apply_patch")),
        Delta(1, '{"type":"delete_file","path":"x"}'),
        Close(1),
    ]


def test_hosted_and_unknown_items() -> None:
    search: Wire = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}}
    shell: Wire = {"type": "shell_call", "id": "sh_1", "call_id": "c", "environment": {"type": "container_reference"}}
    compaction: Wire = {"type": "compaction", "id": "cmp_1", "encrypted_content": "x"}
    assert body_of(
        event(
            "output_item.added", output_index=0, item={"type": "web_search_call", "id": "ws_1", "status": "in_progress"}
        ),
        event("web_search_call.searching", item_id="ws_1", output_index=0),
        event("output_item.done", output_index=0, item=search),
        event("output_item.done", output_index=1, item=shell),
        event("output_item.done", output_index=2, item=compaction),
    ) == [
        Ping(),
        Open(0, HostedCall("web_search", search, "ws_1")),
        Close(0, search),
        Open(1, HostedCall("shell", shell, "sh_1")),
        Close(1, shell),
        Open(2, Opaque("compaction", compaction)),
        Close(2, compaction),
    ]


@pytest.mark.parametrize(
    ("wires", "loss"),
    [
        (
            [event("hologram.projected", delta="a"), event("hologram.closed")],
            Loss(Rule.UNKNOWN_FIELD, "drop", "stream.response.hologram.projected"),
        ),
        (
            [event("audio.delta", delta="UklG"), event("audio.transcript.delta", delta="Hi"), event("audio.done")],
            Loss(Rule.AUDIO, "drop", "stream.audio"),
        ),
    ],
)
def test_events_that_no_client_can_be_given_are_recorded_once(wires: list[Wire], loss: Loss) -> None:
    assert read(CREATED, *wires, *wires, completed([])) == ([START, *ENDED], [loss])


def test_events_of_what_is_told_when_it_is_done_are_no_loss() -> None:
    events = body_of(
        event("code_interpreter_call_code.delta", item_id="ci_1", output_index=0, delta="1"),
        event("apply_patch_call_operation_diff.delta", item_id="apc_1", output_index=1, delta="+"),
        event("image_generation_call.partial_image", item_id="ig_1", output_index=2, partial_image_b64="iVBO"),
    )
    assert events == []


def test_safety_checks_of_a_call_are_recorded() -> None:
    call: Wire = {
        "type": "computer_call",
        "id": "cu_1",
        "call_id": "c",
        "actions": [],
        "pending_safety_checks": [{"id": "sc_1", "code": "malicious_instructions"}],
    }
    _, losses = read(CREATED, completed([call]))
    assert losses == [Loss(Rule.TYPED_TOOL, "drop", "output[0].pending_safety_checks")]


def test_annotations() -> None:
    first: Wire = {"type": "url_citation", "url": "https://a", "title": "A", "start_index": 0, "end_index": 2}
    second: Wire = {"type": "file_citation", "file_id": "file-1", "filename": "b.txt", "index": 2}
    events, losses = read(
        CREATED,
        delta("output_text", "Hi", content_index=0),
        event("output_text.annotation.added", item_id="msg_1", output_index=0, content_index=0, annotation=first),
        event(
            "content_part.done", item_id="msg_1", output_index=0, content_index=0, part=output_text("Hi", first, second)
        ),
        completed(),
    )
    assert events[1:-2] == [
        Open(0, Text("")),
        Delta(0, "Hi"),
        Cite(0, Citation("url", "https://a", "A", start=0, end=2, native=first)),
        Cite(0, Citation("file", title="b.txt", native=second)),
        Close(0),
    ]
    assert losses == []  # whether the client has a place for it is not known here


def test_phases_refusals_and_further_messages() -> None:
    assert read(
        CREATED,
        event("output_item.added", output_index=0, item=message(phase="commentary")),
        delta("output_text", "a", content_index=0),
        delta("refusal", "no", content_index=1),
        event("refusal.done", item_id="msg_1", output_index=0, content_index=1, refusal="no!"),
        event("output_item.done", output_index=1, item=message(output_text("b"), id="msg_2")),
        completed(),
    )[0] == [
        START,
        Open(0, Text("", phase="commentary")),
        Delta(0, "a"),
        Open(1, Refusal("")),
        Delta(1, "no"),
        Delta(1, "!"),
        Open(2, Text("", apart=True)),
        Delta(2, "b"),
        Close(2),
        Close(0),
        Close(1),
        *ENDED,
    ]


def test_items_that_share_an_index_are_told_apart_by_their_ids() -> None:
    assert body_of(
        event("output_item.added", output_index=0, item=message()),
        event("output_item.added", output_index=0, item=call()),
        delta("output_text", "a", content_index=0),
        delta("function_call_arguments", "{}", item_id="fc_1"),
        event("output_item.done", output_index=0, item=message(output_text("a"))),
        event("output_item.done", output_index=0, item=call(arguments="{}")),
    ) == [Open(0, Call("call_1", "f")), Open(1, Text("")), Delta(1, "a"), Delta(0, "{}"), Close(1), Close(0)]


def test_ids_that_change_between_the_events_and_the_end() -> None:
    events, losses = read(
        CREATED,
        event("output_item.added", output_index=0, item=message(id="a")),
        delta("output_text", "Hi", item_id="b", content_index=0),
        completed([message(output_text("Hi there"), id="c"), message(output_text("Bye"), id="d")]),
    )
    assert losses == []
    assert events[1:-2] == [
        Open(0, Text("")),
        Delta(0, "Hi"),
        Delta(0, " there"),
        Close(0),
        Open(1, Text("", apart=True)),
        Delta(1, "Bye"),
        Close(1),
    ]


def test_a_final_text_that_contradicts_the_deltas_is_recorded() -> None:
    events, losses = read(
        CREATED,
        delta("output_text", "Hi", content_index=0),
        event("output_text.done", item_id="msg_1", output_index=0, content_index=0, text="Ho"),
        event("output_item.done", output_index=0, item=message(output_text("Hi"))),
        delta("output_text", "late", content_index=0),
        completed(),
    )
    assert events[1:-2] == [Open(0, Text("")), Delta(0, "Hi"), Close(0)]
    assert losses == [Loss(Rule.STREAM_MISMATCH, "approx", "output[0]")] * 2


STOPS: list[tuple[Wire, Stop]] = [
    (
        {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
        Stop("length", native="max_output_tokens"),
    ),
    (
        {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
        Stop("filter", native="content_filter"),
    ),
    (
        {"status": "incomplete", "incomplete_details": {"reason": "max_messages"}},
        Stop("max_messages", native="max_messages"),
    ),
    ({"status": "incomplete", "incomplete_details": {"reason": "steered"}}, Stop("steered", native="steered")),
    ({"status": "incomplete", "incomplete_details": {"reason": "tired"}}, Stop("length", native="tired", unknown=True)),
    ({"status": "incomplete", "incomplete_details": None}, Stop("length", native="incomplete")),
    ({"output": [message({"type": "refusal", "refusal": "No."})]}, Stop("refusal", native="completed")),
    ({"output": [message(output_text("a"), {"type": "refusal", "refusal": "No."})]}, Stop("end", native="completed")),
    ({"output": [call()], "status": "incomplete"}, Stop("length", native="incomplete")),
    ({}, Stop("end", native="completed")),
]


@pytest.mark.parametrize(("response", "stop"), STOPS)
def test_stops(response: Wire, stop: Stop) -> None:
    events, _ = read(CREATED, event("completed", response=response))
    assert events[-2:] == [Finish(stop), End()]


def test_the_name_of_the_event_tells_when_the_response_does_not() -> None:
    events, _ = read(CREATED, event("incomplete"))
    assert events == [START, Finish(Stop("length", native="incomplete")), End()]


QUOTA: Wire = {"type": "insufficient_quota", "code": "insufficient_quota", "message": "No money.", "param": None}
FAILURES: list[tuple[Wire, Error]] = [
    (
        {"type": "error", "error": QUOTA},
        Error(ErrorClass.QUOTA, "No money.", "insufficient_quota", should_retry=False, type="insufficient_quota"),
    ),
    (
        {"type": "error", "code": "rate_limit_exceeded", "message": "Please try again in 1.2s.", "param": None},
        Error(ErrorClass.RATE_LIMIT, "Please try again in 1.2s.", "rate_limit_exceeded", retry_after=1.2),
    ),
    ({"type": "error"}, Error(ErrorClass.SERVER, "The backend reported an error and gave no message.")),
    ({"error": "overloaded"}, Error(ErrorClass.SERVER, "overloaded")),
    (
        event("failed", response={"error": {"code": "server_error", "message": "Oops."}}),
        Error(ErrorClass.SERVER, "Oops.", "server_error"),
    ),
    (event("failed", response=None), Error(ErrorClass.SERVER, "The backend's response failed.")),
    (event("cancelled"), Error(ErrorClass.SERVER, "The backend's response was cancelled.")),
    (
        event(
            "completed", response={"status": "failed", "error": {"code": "context_length_exceeded", "message": "Long."}}
        ),
        Error(ErrorClass.CONTEXT_LENGTH, "Long.", "context_length_exceeded"),
    ),
    (
        event("completed", response={"status": "completed", "error": {"code": "server_error", "message": "Oops."}}),
        Error(ErrorClass.SERVER, "Oops.", "server_error"),
    ),
]


@pytest.mark.parametrize(("wire", "error"), FAILURES)
def test_failures(wire: Wire, error: Error) -> None:
    assert read(wire, event("failed"), completed())[0] == [Fail(error), End()]


def test_a_stream_without_its_end_has_failed() -> None:
    assert read()[0] == [Fail(broken_stream()), End()]
    opened = delta("output_text", "Hi", content_index=0)
    assert read(CREATED, opened)[0] == [START, Open(0, Text("")), Delta(0, "Hi"), Fail(broken_stream()), End()]


def test_some_servers_just_stop() -> None:
    done = event("output_item.done", output_index=0, item=message(output_text("Hi")))
    opened = event("output_item.added", output_index=1, item=call())
    lax = Dialect(lax_terminal=True)
    assert read(CREATED, done, dialect=lax)[0][-3:] == [Close(0), *ENDED]
    assert read(CREATED, done, opened, dialect=lax)[0][-2:] == [Fail(broken_stream()), End()]


def test_done_marks_end_the_input_and_change_nothing_after_the_end() -> None:
    events: list[Event] = []
    reader = StreamReader(events.append, Spelling(), Dialect(), LossReport())
    reader.feed(CREATED, "")
    reader.feed(completed(), "")
    reader.done()
    reader.end()
    assert events == [START, *ENDED]
    reader = StreamReader(events.append, Spelling(), Dialect(), LossReport())
    events.clear()
    reader.done()
    assert events == [Fail(broken_stream()), End()]


def test_early_usage_and_a_start_that_comes_late() -> None:
    assert read(event("in_progress", response={"id": "r", "usage": USAGE}))[0][0] == Start(
        "r", "", usage=Usage(3, 4, 3, 2, 5, 1)
    )
    assert read(event("completed", response={"id": "r", "created_at": 1790000000000}))[0][0] == Start(
        "r", "", 1790000000
    )


def test_the_event_name_is_the_fallback_for_a_type() -> None:
    events: list[Event] = []
    reader = StreamReader(events.append, Spelling(), Dialect(), LossReport())
    reader.feed({"response": {"id": "r"}}, "response.created")
    assert events == [Start("r", "")]


def test_hosted_calls_are_counted() -> None:
    events, _ = read(completed([], usage=USAGE, tool_usage={"web_search": {"num_requests": 2}}))
    assert events[1:2] == [UsageUpdate(Usage(3, 4, 3, 2, 5, 1, {"web_search": 2}))]


# Any JSON in any place of any event: the promises of the canonical stream hold.
STREAM: list[Wire] = [
    CREATED,
    event("output_item.added", output_index=0, item={"type": "reasoning", "id": "rs_1", "summary": []}),
    delta("reasoning_summary_text", "a", item_id="rs_1", summary_index=0),
    delta("reasoning_text", "a", item_id="rs_1", content_index=0),
    event("output_item.added", output_index=1, item=message(phase="commentary")),
    delta("output_text", "Hi", 1, content_index=0, logprobs=[{"token": "a", "top_logprobs": [{"token": "b"}]}]),
    event("output_text.annotation.added", item_id="msg_1", output_index=1, content_index=0, annotation={"url": "u"}),
    event("output_text.done", item_id="msg_1", output_index=1, content_index=0, text="Hi"),
    delta("refusal", "no", 1, content_index=1),
    event("content_part.done", item_id="msg_1", output_index=1, content_index=0, part=output_text("Hi", {"url": "u"})),
    event("output_item.added", output_index=2, item=call()),
    delta("function_call_arguments", "{", 2, "fc_1"),
    event("function_call_arguments.done", item_id="fc_1", output_index=2, arguments="{}"),
    event("output_item.done", output_index=2, item=call(arguments="{}")),
    event("output_item.done", output_index=3, item={"type": "shell_call", "call_id": "c", "action": {"commands": []}}),
    event("output_item.done", output_index=4, item={"type": "computer_call", "call_id": "d", "actions": [{}]}),
    event("web_search_call.searching"),
    completed(
        [
            {"type": "reasoning", "id": "rs_1", "summary": [{"text": "a"}], "content": [{"text": "a"}]},
            message(output_text("Hi"), {"type": "refusal", "refusal": "no"}),
            call(arguments="{}"),
        ],
        usage=USAGE,
        error=None,
        incomplete_details={"reason": "steered"},
    ),
]


def keeps_its_promises(events: list[Event]) -> bool:
    opened: set[int] = set()
    closed: set[int] = set()
    started = ended = False
    for one in events:
        if ended:
            return isinstance(one, End) and one is events[-1]
        match one:
            case Start():
                assert not started
                started = True
            case Open():
                assert started
                assert one.k == len(opened)
                opened.add(one.k)
            case Delta():
                assert type(one.text) is str
                assert one.k in opened - closed
            case Cite():
                assert one.k in opened
            case Close():
                assert one.k in opened - closed
                closed.add(one.k)
            case Finish():
                assert opened == closed
                ended = True
            case Fail():
                ended = True
            case _:
                pass
    return False


@settings(max_examples=400, deadline=None)
@given(st.data(), JSON)
def test_whatever_comes_the_promises_of_the_canonical_stream_hold(data: st.DataObject, new: object) -> None:
    wires: object = copy.deepcopy(STREAM)
    for _ in range(data.draw(st.integers(1, 3))):
        wires = replaced(wires, data.draw(st.sampled_from(places(wires))), new)
        if type(wires) is not list:
            return
    events, _ = read(*(wire for wire in wires if isinstance(wire, dict)))
    assert keeps_its_promises(events)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(STREAM), max_size=30))
def test_events_in_any_order_keep_the_promises_too(wires: list[Wire]) -> None:
    events, _ = read(*json.loads(json.dumps(wires)))
    assert keeps_its_promises(events)


@pytest.mark.parametrize(
    ("places", "apart"),
    [
        ([{"item_id": "a", "output_index": 0}, {"item_id": "b", "output_index": 1}], True),
        ([{"item_id": "a", "output_index": 0}, {"item_id": "b", "output_index": 0}], None),
        ([{"item_id": "a"}, {"item_id": "b"}], False),
        ([{}, {}], False),
        ([{"output_index": 0, "content_index": 0}, {"output_index": 0, "content_index": 1}], False),
    ],
)
def test_only_what_is_known_to_be_another_message_is_set_apart(places: list[Wire], apart: bool | None) -> None:
    """mapping.md 13.9: toward Chat a blank line stands before it. Servers leave out ids and places."""
    events, _ = read(CREATED, *(event("output_text.delta", delta="x", **place) for place in places))
    found = [opened.part.apart for opened in events if isinstance(opened, Open) and isinstance(opened.part, Text)]
    assert found == [False] if apart is None else [False, apart]
