"""How the parts of a conversation are written for telemetry: every kind, and within bounds."""

import json

import pytest

from proxy.canonical.parts import (
    Audio,
    Call,
    Document,
    HostedCall,
    Image,
    Opaque,
    Part,
    Reasoning,
    Refusal,
    Result,
    SearchResult,
    Source,
    Text,
    Turn,
)
from proxy.canonical.reply import Reply
from proxy.canonical.request import Request
from proxy.canonical.stop import Stop
from proxy.canonical.tools import CustomTool, FunctionTool, HostedTool, TypedTool
from proxy.telemetry.conversation import input_messages, output_messages, tool_definitions, written

SECRET = {"signature": "sig", "encrypted_content": "enc"}
PARTS: list[tuple[Part, dict[str, object] | None]] = [
    (Text("hi"), {"type": "text", "content": "hi"}),
    (Refusal("no"), {"type": "text", "content": "no"}),
    (Reasoning("hm", native=SECRET), {"type": "reasoning", "content": "hm"}),
    (Reasoning("", native=SECRET, redacted=True), None),
    (
        Image(Source("base64", "aWk=", "image/png")),
        {"type": "blob", "modality": "image", "mime_type": "image/png", "content": ""},
    ),
    (
        Image(Source("url", "https://x/y.png")),
        {"type": "uri", "modality": "image", "mime_type": None, "uri": "https://x/y.png"},
    ),
    (
        Document(Source("file", "file_1", vendor="openai")),
        {"type": "file", "modality": "document", "mime_type": None, "file_id": "file_1"},
    ),
    (Document(Source("text", "plain")), {"type": "text", "content": "plain"}),
    (Audio("aWk=", "wav"), {"type": "blob", "modality": "audio", "mime_type": "audio/wav", "content": ""}),
    (SearchResult("s", "t", [Text("a"), Text("b")]), {"type": "text", "content": "a\nb"}),
    (Call("c1", "f", '{"a":1}'), {"type": "tool_call", "id": "c1", "name": "f", "arguments": {"a": 1}}),
    (Call("c1", "f", '{"a":'), {"type": "tool_call", "id": "c1", "name": "f", "arguments": '{"a":'}),
    (Call("c1", "f", input={"a": 1}), {"type": "tool_call", "id": "c1", "name": "f", "arguments": {"a": 1}}),
    (Call("c1", "f", "[1]", kind="custom"), {"type": "tool_call", "id": "c1", "name": "f", "arguments": "[1]"}),
    (
        HostedCall("web_search", SECRET, "h1"),
        {"type": "server_tool_call", "id": "h1", "name": "web_search", "server_tool_call": {"type": "web_search"}},
    ),
    (
        HostedCall("web_search", SECRET, "h1", is_result=True),
        {
            "type": "server_tool_call_response",
            "id": "h1",
            "name": "web_search",
            "server_tool_call_response": {"type": "web_search"},
        },
    ),
    (Opaque("compaction", SECRET), {"type": "compaction"}),
    (Opaque("container_upload", SECRET), {"type": "container_upload"}),
]


@pytest.mark.parametrize(("part", "shown"), PARTS)
def test_every_kind_of_part_is_shown_without_bytes_and_seals(part: Part, shown: dict[str, object] | None) -> None:
    request = Request("chat", "m", [Turn("assistant", [part])])
    assert input_messages(request) == [{"role": "assistant", "parts": [shown] if shown is not None else []}]


def test_results_are_messages_of_the_tool() -> None:
    turn = Turn("user", [Result("c1", [Text("4 degrees")]), Text("and?")])
    response = {"type": "tool_call_response", "id": "c1", "response": [{"type": "text", "content": "4 degrees"}]}
    assert input_messages(Request("chat", "m", [turn])) == [
        {"role": "tool", "parts": [response]},
        {"role": "user", "parts": [{"type": "text", "content": "and?"}]},
    ]


def test_an_answer_tells_why_it_ended() -> None:
    assert output_messages(Reply("id", "m", [Text("x")], Stop("length"))) == [
        {"role": "assistant", "parts": [{"type": "text", "content": "x"}], "finish_reason": "length"}
    ]


def test_tools_are_shown_by_what_they_are() -> None:
    tools = [FunctionTool("f", {"type": "object"}, "d"), CustomTool("c"), TypedTool("bash", {}, "bash")]
    assert tool_definitions([*tools, HostedTool("web_search", {}, "web_search")]) == [
        {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}},
        {"type": "custom", "name": "c"},
        {"type": "bash", "name": "bash"},
        {"type": "web_search", "name": "web_search"},
    ]


def test_what_is_long_is_cut_and_of_many_the_last_are_kept() -> None:
    turns = [Turn("user", [Text(f"{number:03}" + "é" * 50_000)]) for number in range(40)]
    text = written(input_messages(Request("chat", "m", turns)))
    contents = [message["parts"][0]["content"] for message in json.loads(text)]
    assert len(text) <= 64 * 1024
    assert {len(content) for content in contents} == {16 * 1024}
    assert [content[:3] for content in contents] == [f"{number:03}" for number in range(40 - len(contents), 40)]
    assert len(contents) == 3


def test_half_a_character_is_no_reason_to_fail() -> None:
    assert written([{"content": "a\ud800"}]) == '[{"content":"a?"}]'
