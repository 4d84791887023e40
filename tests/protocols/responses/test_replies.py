"""Whole replies: what a backend's response means, and what a client gets for a canonical reply."""

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.canonical.errors import Error, ErrorClass, Reason, Rejected
from proxy.canonical.fold import unfold
from proxy.canonical.loss import LossReport
from proxy.canonical.parts import Call, Citation, HostedCall, Reasoning, Refusal, Text
from proxy.canonical.reply import Reply, ReplyContext
from proxy.canonical.spelling import Spelling
from proxy.canonical.stop import Stop
from proxy.canonical.target import Dialect
from proxy.canonical.usage import Usage
from proxy.protocols.responses import StreamWriter, read_reply, write_reply
from tests.protocols.responses.test_request_reader import JSON, places, replaced

Wire = dict[str, object]
REASONING: Wire = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "Hm"}],
    "encrypted_content": "sealed",
}
SEARCH: Wire = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "query": "x"},
}
CITATION: Wire = {"type": "url_citation", "url": "https://x", "title": "X", "start_index": 0, "end_index": 3}
LOGPROB: Wire = {"token": "abc", "logprob": -1, "bytes": [97, 98, 99], "top_logprobs": []}
RESPONSE: Wire = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1790000000,
    "status": "completed",
    "model": "gpt-5.6",
    "service_tier": "default",
    "error": None,
    "output": [
        REASONING,
        SEARCH,
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "phase": "commentary",
            "content": [
                {"type": "output_text", "text": "abc", "annotations": [CITATION], "logprobs": [LOGPROB]},
                {"type": "refusal", "refusal": "No."},
            ],
        },
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": '{"a":1}'},
        {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_2", "name": "g", "input": "free"},
    ],
    "usage": {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 1},
        "total_tokens": 15,
    },
}


def read(wire: Wire) -> Reply:
    return read_reply(wire, Spelling(), Dialect(), LossReport(), exact=True)


def rejection(wire: Wire) -> Error:
    with pytest.raises(Rejected) as caught:
        read(wire)
    return caught.value.error


def test_a_response() -> None:
    assert read(RESPONSE) == Reply(
        "resp_1",
        "gpt-5.6",
        [
            Reasoning("Hm", native=REASONING),
            HostedCall("web_search", SEARCH, "ws_1"),
            Text("abc", [Citation("url", "https://x", "X", start=0, end=3, native=CITATION)], "commentary", [LOGPROB]),
            Refusal("No."),
            Call("call_1", "f", '{"a":1}'),
            Call("call_2", "g", "free", kind="custom"),
        ],
        Stop("tool", native="completed"),
        Usage(6, 4, 0, 0, 5, 1),
        1790000000,
        "default",
    )


def test_an_empty_response_stays_empty() -> None:
    assert read({"output": []}) == Reply("", "", stop=Stop("end", native="completed"))


def unreadable(message: str) -> Error:
    return Error(ErrorClass.BAD_GATEWAY, message, reason=Reason.UPSTREAM_ERROR)


REJECTIONS: list[tuple[Wire, Error]] = [
    ({}, unreadable("The backend's answer is not a response.")),
    ({"output": None}, unreadable("The backend's answer is not a response.")),
    ({"output": [], "status": "queued"}, unreadable("The backend answered before the response was complete.")),
    (
        {"output": [], "status": "failed", "error": {"code": "server_error", "message": "Oops."}},
        Error(ErrorClass.SERVER, "Oops.", "server_error"),
    ),
    ({"output": [], "status": "cancelled"}, Error(ErrorClass.SERVER, "The backend's response was cancelled.")),
    (
        {"error": {"message": "Slow.", "type": "tokens", "code": "rate_limit_exceeded"}},
        Error(ErrorClass.RATE_LIMIT, "Slow.", "rate_limit_exceeded", type="tokens"),
    ),
    ({"output": [{"type": "function_call"}]}, unreadable("The backend called a tool without naming it.")),
]


@pytest.mark.parametrize(("wire", "error"), REJECTIONS)
def test_what_is_no_reply_is_rejected(wire: Wire, error: Error) -> None:
    assert rejection(wire) == error


REPLY = Reply(
    "msg_1",
    "claude",
    [
        Reasoning("Hm"),
        Text("One "),
        Text("two", [Citation("url", "https://x", "X")]),
        Call("toolu_1", "f", ""),
        Text("three"),
        Refusal("No."),
    ],
    Stop("length"),
    Usage(1, 2, 3, 3, 4, 1, {"web_search": 2}),
    service_tier="standard",
)


def test_a_reply() -> None:
    wire = json.loads(write_reply(copy.deepcopy(REPLY), ReplyContext("req_1", "asked-for", now=1790000005)))
    ids = [item.pop("id") for item in wire["output"]]
    assert [one.split("_")[0] for one in ids] == ["rs", "msg", "fc", "msg"]
    assert len(set(ids)) == len(ids)
    assert {
        name: wire[name] for name in ("object", "status", "created_at", "completed_at", "model", "service_tier")
    } == {
        "object": "response",
        "status": "incomplete",
        "created_at": 1790000005,
        "completed_at": None,
        "model": "claude",
        "service_tier": "default",
    }
    assert wire["incomplete_details"] == {"reason": "max_output_tokens"}
    assert wire["output"] == [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm"}]},
        {
            "type": "message",
            "status": "completed",
            "role": "assistant",
            "content": [
                {
                    "type": "output_text",
                    "text": "One two",
                    "annotations": [
                        {"type": "url_citation", "start_index": 4, "end_index": 7, "url": "https://x", "title": "X"}
                    ],
                    "logprobs": [],
                }
            ],
        },
        {"type": "function_call", "status": "completed", "call_id": "toolu_1", "name": "f", "arguments": "{}"},
        {
            "type": "message",
            "status": "incomplete",
            "role": "assistant",
            "content": [
                {"type": "output_text", "text": "three", "annotations": [], "logprobs": []},
                {"type": "refusal", "refusal": "No."},
            ],
        },
    ]
    assert (wire["usage"], wire["tool_usage"]["web_search"]) == (
        {
            "input_tokens": 6,
            "input_tokens_details": {
                "cached_tokens": 2,
                "cache_write_tokens": 3,
                "cache_write_tokens_details": {"ttl_30m_tokens": 0, "ttl_12h_tokens": 3},
            },
            "output_tokens": 4,
            "output_tokens_details": {"reasoning_tokens": 1},
            "total_tokens": 10,
        },
        {"num_requests": 2},
    )


def test_the_same_reply_streamed_after_the_fact() -> None:
    context = ReplyContext("req_1", "asked-for", now=1790000005)
    stream = StreamWriter(context).write(unfold(copy.deepcopy(REPLY)))
    last = stream.decode().strip().splitlines()[-1]
    assert json.loads(last.removeprefix("data: "))["response"] == json.loads(write_reply(REPLY, context))


TIERS = [
    (None, "default"),
    ("standard", "default"),
    ("batch", "default"),
    ("priority", "priority"),
    ("fast", "priority"),
    ("flex", "flex"),
]


@pytest.mark.parametrize(("told", "shown"), TIERS)
def test_service_tiers(told: str | None, shown: str) -> None:
    reply = Reply("r", "m", service_tier=told)
    assert json.loads(write_reply(reply, ReplyContext("req_1", "m")))["service_tier"] == shown


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(places(RESPONSE)), JSON)
def test_whatever_a_backend_answers_is_a_reply_or_rejected(path: tuple[str | int, ...], new: object) -> None:
    wire = replaced(RESPONSE, path, new)
    assert isinstance(wire, dict)
    try:
        reply = read(wire)
    except Rejected:
        return
    assert json.loads(write_reply(reply, ReplyContext("req_1", "m")))["object"] == "response"
