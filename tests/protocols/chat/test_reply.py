"""Whole answers of a Chat backend, and for a Chat client."""

import json
from typing import Any

import pytest

from proxy.canonical.errors import Error, ErrorClass, InexactNumber, Reason, Rejected
from proxy.canonical.loss import LossReport
from proxy.canonical.parts import Call, Citation, HostedCall, Reasoning, Refusal, ReplyPart, Text
from proxy.canonical.reply import Reply, ReplyContext
from proxy.canonical.spelling import Spelling
from proxy.canonical.stop import Stop
from proxy.canonical.target import Dialect
from proxy.canonical.usage import Usage
from proxy.protocols.chat import read_reply, write_reply
from tests.harness.sdk import read_whole

Wire = dict[str, Any]
CONTEXT = ReplyContext("req_1", "asked", now=7)


def read(wire: Wire) -> Reply:
    return read_reply(wire, Spelling(), Dialect(), LossReport())


def refusal(wire: Wire) -> Error:
    with pytest.raises(Rejected) as caught:
        read(wire)
    return caught.value.error


def write(*parts: ReplyPart, stop: Stop | None = None, context: ReplyContext = CONTEXT, **fields: Any) -> Wire:
    written = write_reply(Reply("msg_1", "m", list(parts), stop or Stop("end"), created=5, **fields), context)
    wire: Wire = json.loads(written)
    assert read_whole("chat", written)["choices"]
    return wire


def message(*parts: ReplyPart, **fields: Any) -> Wire:
    written: Wire = write(*parts, **fields)["choices"][0]["message"]
    return written


def test_an_answer_of_openai() -> None:
    entry = {"token": "Hello", "logprob": 0.0, "bytes": None, "top_logprobs": []}
    annotation = {
        "type": "url_citation",
        "url_citation": {"start_index": 0, "end_index": 5, "title": "A", "url": "https://a"},
    }
    assert read(
        {
            "id": "chatcmpl-A",
            "object": "chat.completion",
            "created": 1790000000,
            "model": "m-2026-01-01",
            "choices": [
                {
                    "index": 0,
                    "message": {
                        "role": "assistant",
                        "content": "Hello",
                        "refusal": None,
                        "annotations": [annotation],
                        "tool_calls": [
                            {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}},
                            {"id": "c2", "type": "custom", "custom": {"name": "g", "input": "x"}},
                        ],
                    },
                    "logprobs": {"content": [entry], "refusal": None},
                    "finish_reason": "tool_calls",
                }
            ],
            "usage": {
                "prompt_tokens": 9,
                "completion_tokens": 2,
                "total_tokens": 11,
                "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 1},
                "completion_tokens_details": {"reasoning_tokens": 1},
            },
            "service_tier": "default",
            "system_fingerprint": "fp",
        }
    ) == Reply(
        "chatcmpl-A",
        "m-2026-01-01",
        [
            Text("Hello", [Citation("url", "https://a", "A", start=0, end=5, native=annotation)], logprobs=[entry]),
            Call("c1", "f", '{"a":1}'),
            Call("c2", "g", "x", kind="custom"),
        ],
        Stop("tool", native="tool_calls"),
        Usage(input_fresh=4, cache_read=4, cache_write=1, output=2, reasoning=1),
        1790000000,
        "default",
        "fp",
    )


def test_an_answer_without_words() -> None:
    assert read({"choices": [{"message": {"content": None}, "finish_reason": "length"}]}) == Reply(
        "", "", [], Stop("length", native="length")
    )


@pytest.mark.parametrize(
    ("wire", "error"),
    [
        (
            {"error": {"message": "Busy", "code": 503}},
            Error(ErrorClass.OVERLOADED, "Busy", code="503", http=503),
        ),
        (
            {"choices": [{"finish_reason": "error"}]},
            Error(ErrorClass.SERVER, "The backend broke the answer off: error."),
        ),
        (
            {"ok": True},
            Error(
                ErrorClass.BAD_GATEWAY,
                "The backend's answer is not a chat completion: it has no choices.",
                reason=Reason.UPSTREAM_ERROR,
            ),
        ),
    ],
)
def test_an_error_in_a_200(wire: Wire, error: Error) -> None:
    assert refusal(wire) == error


def test_a_long_number_in_an_object_of_arguments_must_be_decoded_exactly() -> None:
    call = {"id": "c", "function": {"name": "f", "arguments": {"n": 10**30}}}
    rounded = {"id": "c", "function": {"name": "f", "arguments": {"n": 1e30}}}
    with pytest.raises(InexactNumber):
        read({"choices": [{"message": {"tool_calls": [rounded]}}]})
    exact = {"choices": [{"message": {"tool_calls": [call]}}]}
    reply = read_reply(exact, Spelling(), Dialect(), LossReport(), exact=True)
    assert reply.parts == [Call("c", "f", '{"n":1000000000000000000000000000000}')]


def test_the_whole_answer() -> None:
    usage = Usage(input_fresh=4, cache_read=3, output=2)
    assert write(Text("Hi"), usage=usage, service_tier="standard", fingerprint="fp") == {
        "id": "chatcmpl-msg_1",
        "object": "chat.completion",
        "created": 5,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hi", "refusal": None, "annotations": []},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": 7,
            "completion_tokens": 2,
            "total_tokens": 9,
            "prompt_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 0, "audio_tokens": 0},
            "completion_tokens_details": {
                "reasoning_tokens": 0,
                "audio_tokens": 0,
                "accepted_prediction_tokens": 0,
                "rejected_prediction_tokens": 0,
            },
        },
        "service_tier": "default",
        "system_fingerprint": "fp",
    }


def test_calls_and_thinking() -> None:
    parts = (Reasoning("Hm"), Reasoning("Ah"), Call("a", "f"), Call("b", "sql", "SELECT", kind="custom"))
    assert message(*parts, stop=Stop("tool")) == {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "annotations": [],
        "reasoning_content": "Hm\n\nAh",
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}},
            {"id": "b", "type": "custom", "custom": {"name": "sql", "input": "SELECT"}},
        ],
    }


def test_a_call_for_a_client_of_the_deprecated_functions() -> None:
    context = ReplyContext("r", "m", legacy_functions=True)
    choice = write(Call("a", "f", "{}"), Call("b", "g"), stop=Stop("tool"), context=context)["choices"][0]
    assert (choice["finish_reason"], choice["message"]["function_call"], "tool_calls" in choice["message"]) == (
        "function_call",
        {"name": "f", "arguments": "{}"},
        False,
    )


def test_an_empty_answer_has_empty_content() -> None:
    assert message() == {"role": "assistant", "content": "", "refusal": None, "annotations": []}


def test_a_refusal_in_the_models_words_or_a_classifiers() -> None:
    said = message(Refusal("No."), stop=Stop("refusal"))
    assert (said["content"], said["refusal"]) == (None, "No.")
    stop = Stop("refusal", classifier=True, explanation="Because.")
    choice = write(Text("So"), stop=stop)["choices"][0]
    assert (choice["finish_reason"], choice["message"]["content"], choice["message"]["refusal"]) == (
        "content_filter",
        "So",
        "Because.",
    )


def test_texts_are_joined_and_citations_count_from_the_start() -> None:
    written = message(
        Text("abc"),
        Text("def", [Citation("url", "https://a", start=1, end=2), Citation("file", title="F")]),
        HostedCall("web_search", {}),
        Text("ghi", [Citation("url", "https://b", "B")], logprobs=[{"token": "ghi"}]),
    )
    assert written["content"] == "abcdef\n\nghi"
    assert [annotation["url_citation"] for annotation in written["annotations"]] == [
        {"start_index": 4, "end_index": 5, "title": "https://a", "url": "https://a"},
        {"start_index": 8, "end_index": 11, "title": "B", "url": "https://b"},
    ]


def test_log_probabilities_are_those_of_all_texts() -> None:
    one, two = {"token": "a"}, {"token": "b"}
    written = write(Text("a", logprobs=[one]), Text("b", logprobs=[two]))
    assert written["choices"][0]["logprobs"] == {"content": [one, two], "refusal": None}
