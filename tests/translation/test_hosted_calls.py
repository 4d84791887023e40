"""What a backend ran itself, through any client and back, byte for byte (mapping.md 4.7, 5.5, I4)."""

import json
from collections.abc import Iterator
from typing import Literal

import pytest

from proxy.canonical.target import Target
from proxy.translation import pair
from proxy.translation.envelope import PREFIXES, Scope
from proxy.translation.prepared import Prepared
from proxy.translation.profiles import profile_of
from proxy.upstream.dialects import PROFILES
from tests.harness.assemble import assemble
from tests.harness.grammar import check_stream
from tests.harness.sdk import read_stream
from tests.harness.wire import Json, Protocol, read_events

Backend = Literal["responses", "messages"]

SCOPES = [Scope("0123456789ab"), Scope("0123456789ab", (bytes(range(32)),), "team-a")]
TARGETS: dict[Backend, Target] = {
    "responses": Target("responses", "gpt-5.4", PROFILES["responses"]["openai"], profile_of("gpt-5.4")),
    "messages": Target(
        "messages", "claude-sonnet-4-6", PROFILES["messages"]["anthropic"], profile_of("claude-sonnet-4-6")
    ),
}
PAIRS: list[tuple[Protocol, Backend]] = [
    ("chat", "messages"),
    ("responses", "messages"),
    ("chat", "responses"),
    ("messages", "responses"),
]
REQUESTS: dict[Protocol, Json] = {
    "chat": {"model": "m", "web_search_options": {}, "messages": [{"role": "user", "content": "go"}]},
    "responses": {"model": "m", "tools": [{"type": "web_search"}], "input": [{"role": "user", "content": "go"}]},
    "messages": {
        "model": "m",
        "max_tokens": 900,
        "tools": [{"type": "web_search_20250305", "name": "web_search"}],
        "messages": [{"role": "user", "content": "go"}],
    },
}


# --- what backends say ---


def message(content: list[Json], stop: str = "end_turn") -> Json:
    usage = {"input_tokens": 10, "output_tokens": 5, "server_tool_use": {"web_search_requests": 1}}
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-6",
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": usage,
    }


def response(output: list[Json]) -> Json:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": "gpt-5.4",
        "output": output,
        "usage": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15},
    }


def message_events(whole: Json) -> Iterator[Json]:
    yield {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}
    for index, block in enumerate(whole["content"]):
        begun, deltas = begun_block(block)
        yield {"type": "content_block_start", "index": index, "content_block": begun}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    yield {"type": "message_delta", "delta": {"stop_reason": whole["stop_reason"]}, "usage": whole["usage"]}
    yield {"type": "message_stop"}


def begun_block(block: Json) -> tuple[Json, list[Json]]:
    match block["type"]:
        case "text":
            half = len(block["text"]) // 2
            texts = [{"type": "text_delta", "text": text} for text in (block["text"][:half], block["text"][half:])]
            cited = [{"type": "citations_delta", "citation": citation} for citation in block.get("citations") or ()]
            return {"type": "text", "text": ""}, [*texts, *cited]
        case "thinking":
            thought = {"type": "thinking_delta", "thinking": block["thinking"]}
            signature = {"type": "signature_delta", "signature": block["signature"]}
            return {"type": "thinking", "thinking": "", "signature": ""}, [thought, signature]
        case "server_tool_use" | "mcp_tool_use" | "tool_use":
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
        case _:
            return block, []


def response_events(whole: Json) -> Iterator[Json]:
    begun = {**whole, "status": "in_progress", "output": []}
    yield {"type": "response.created", "response": begun}
    for index, item in enumerate(whole["output"]):
        yield {"type": "response.output_item.added", "output_index": index, "item": {**item, "content": []}}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": whole}


def streamed(backend: Backend, whole: Json) -> list[bytes]:
    events = message_events(whole) if backend == "messages" else response_events(whole)
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]


# --- one exchange, and the next request ---


def ask(client: Protocol, request: Json, target: Target, scope: Scope = SCOPES[0], *, stream: bool = False) -> Prepared:
    raw = json.dumps({**request, "stream": stream}).encode()
    prepared = pair.prepare(pair.peek(client, raw), target, pair.Options(scope=scope))
    assert not any(mark.encode() in prepared.body for mark in PREFIXES)
    return prepared


def answered(prepared: Prepared, whole: Json) -> Json:
    """The client's whole reply, also out of a stream, which must be legal."""
    backend: Backend = "messages" if prepared.backend == "messages" else "responses"
    if not prepared.stream:
        return json.loads(prepared.reply(json.dumps(whole).encode()))
    translation = prepared.translation()
    written = b"".join([*map(translation.feed, streamed(backend, whole)), translation.end()])
    client: Protocol = prepared.client  # type: ignore[assignment]
    assert check_stream(client, written) == []
    assert read_stream(client, written)  # the vendor's own SDK reads it to its end
    return assemble(client, read_events(written.decode()).events)


def with_reply(client: Protocol, request: Json, reply: Json) -> Json:
    more = {"role": "user", "content": "go on"}
    if client == "chat":
        return {**request, "messages": [*request["messages"], reply["choices"][0]["message"], more]}
    if client == "responses":
        return {**request, "input": [*request["input"], *reply["output"], more]}
    return {**request, "messages": [*request["messages"], {"role": "assistant", "content": reply["content"]}, more]}


def rules(prepared: Prepared) -> list[str]:
    """The losses, but for those of the declaration of a tool."""
    return [loss.rule for loss in prepared.losses if not loss.path.startswith(("tools", "web_search_options"))]


def history(backend: Backend, prepared: Prepared) -> list[list[Json]]:
    """What the backend gets back, turn by turn."""
    body = json.loads(prepared.body)
    if backend == "messages":
        return [turn["content"] for turn in body["messages"] if turn["role"] == "assistant"]
    turns: list[list[Json]] = [[]]
    for item in body["input"]:
        if item.get("role") == "user":
            turns.append([])
        else:
            turns[-1].append(item)
    return [turn for turn in turns if turn]


# --- Messages backends ---


def text(words: str, *citations: Json) -> Json:
    return {"type": "text", "text": words, **({"citations": list(citations)} if citations else {})}


def cited(url: str, number: int) -> Json:
    return {
        "type": "web_search_result_location",
        "cited_text": "some words",
        "url": url,
        "title": "A page",
        "encrypted_index": f"index-{number}",
    }


def searched(number: int, url: str = "https://a.example/") -> tuple[Json, Json]:
    found = {"type": "web_search_result", "url": url, "title": "A page", "encrypted_content": "enc", "page_age": None}
    call = {
        "type": "server_tool_use",
        "id": f"srvtoolu_{number}",
        "name": "web_search",
        "input": {"query": f"q{number}"},
    }
    return call, {"type": "web_search_tool_result", "tool_use_id": f"srvtoolu_{number}", "content": [found]}


def turn_of_claude(number: int) -> list[Json]:
    """Each turn another shape: words before, thinking between, searches side by side, words with sources."""
    call, found = searched(number)
    other, more = searched(number + 100, "https://b.example/")
    shapes: list[list[Json]] = [
        [call, found, text("Nothing there.")],
        [text("Let me look."), call, found, text("It is "), text("so", cited("https://a.example/", number)), text(".")],
        [
            {"type": "thinking", "thinking": "Hm. " * 40, "signature": "sig-1"},
            text("I look."),
            call,
            found,
            {"type": "thinking", "thinking": "And now?", "signature": "sig-2"},
            other,
            more,
            text("Both agree", cited("https://a.example/", number), cited("https://b.example/", number)),
            text(" here", cited("https://b.example/", number)),
        ],
        [call, other, found, more, text("Twice.")],
        [text("A", cited("https://a.example/", 1)), call, found, text("B "), text("C", cited("https://a.example/", 2))],
    ]
    return shapes[number % len(shapes)]


@pytest.mark.parametrize("scope", SCOPES, ids=["open", "sealed"])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("client", ["chat", "responses"])
def test_claude_gets_its_own_blocks_back(client: Protocol, stream: bool, scope: Scope) -> None:
    request = REQUESTS[client]
    for number in range(10):
        prepared = ask(client, request, TARGETS["messages"], scope, stream=stream)
        assert history("messages", prepared) == [turn_of_claude(past) for past in range(number)]
        reply = answered(prepared, message(turn_of_claude(number)))
        assert rules(prepared) == []
        request = with_reply(client, request, reply)


@pytest.mark.parametrize("client", ["chat", "responses"])
def test_a_stream_says_what_the_whole_reply_says(client: Protocol) -> None:
    for number in range(5):
        replies = [
            answered(ask(client, REQUESTS[client], TARGETS["messages"], stream=stream), message(turn_of_claude(number)))
            for stream in (True, False)
        ]
        if client == "responses":
            assert replies[0]["output"] == replies[1]["output"]
        else:
            told = [reply["choices"][0]["message"] for reply in replies]
            for detail in (*told[0]["reasoning_details"], *(told[0].get("annotations") or ())):
                detail.pop("index")
            for detail in (*told[1]["reasoning_details"], *(told[1].get("annotations") or ())):
                detail.pop("index", None)
            for name in ("content", "reasoning_details"):
                assert told[0][name] == told[1][name]


def shown_items(content: list[Json]) -> list[Json]:
    reply = answered(ask("responses", REQUESTS["responses"], TARGETS["messages"], stream=True), message(content))
    return [
        {name: value for name, value in item.items() if name != "id"}
        for item in reply["output"]
        if item["type"] not in ("message", "reasoning")
    ]


SOURCES = [{"type": "url", "url": "https://a.example/"}]
ACTION = {"type": "search", "query": "q1", "queries": ["q1"], "sources": SOURCES}
CODE_CALL: Json = {"type": "server_tool_use", "id": "srvtoolu_2", "name": "code_execution", "input": {"code": "1+1"}}
BASH_CALL: Json = {
    "type": "server_tool_use",
    "id": "srvtoolu_3",
    "name": "bash_code_execution",
    "input": {"command": "ls"},
}
EDIT_CALL: Json = {
    "type": "server_tool_use",
    "id": "srvtoolu_4",
    "name": "text_editor_code_execution",
    "input": {"command": "view", "path": "/a"},
}
MCP_CALL: Json = {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "look", "server_name": "docs", "input": {"a": 1}}


def ran(call: Json, kind: str, content: Json) -> Json:
    return {"type": f"{kind}_tool_result", "tool_use_id": call["id"], "content": content}


def code(status: str, said: str, logs: str | None) -> Json:
    outputs = None if logs is None else [{"type": "logs", "logs": logs}]
    return {"type": "code_interpreter_call", "status": status, "code": said, "container_id": "", "outputs": outputs}


def served(status: str, output: str | None, error: Json = None) -> Json:
    return {
        "type": "mcp_call",
        "status": status,
        "server_label": "docs",
        "name": "look",
        "arguments": '{"a":1}',
        "output": output,
        "error": error,
        "approval_request_id": None,
    }


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (searched(1), [{"type": "web_search_call", "status": "completed", "action": ACTION}]),
        (
            (
                searched(1)[0],
                ran(
                    searched(1)[0], "web_search", {"type": "web_search_tool_result_error", "error_code": "unavailable"}
                ),
            ),
            [{"type": "web_search_call", "status": "failed", "action": {**ACTION, "sources": []}}],
        ),
        (searched(1)[:1], [{"type": "web_search_call", "status": "incomplete", "action": {**ACTION, "sources": []}}]),
        (
            (
                CODE_CALL,
                ran(
                    CODE_CALL,
                    "code_execution",
                    {"type": "code_execution_result", "stdout": "2", "stderr": "!", "return_code": 0, "content": []},
                ),
            ),
            [code("completed", "1+1", "2\n!")],
        ),
        (
            (
                BASH_CALL,
                ran(
                    BASH_CALL,
                    "bash_code_execution",
                    {"type": "bash_code_execution_tool_result_error", "error_code": "e"},
                ),
            ),
            [code("failed", "ls", "e")],
        ),
        (
            (
                EDIT_CALL,
                ran(
                    EDIT_CALL,
                    "text_editor_code_execution",
                    {"type": "text_editor_code_execution_view_result", "file_type": "text", "content": "abc"},
                ),
            ),
            [code("completed", "view /a", "abc")],
        ),
        (
            (MCP_CALL, {**ran(MCP_CALL, "mcp", [{"type": "text", "text": "found"}]), "is_error": False}),
            [served("completed", "found")],
        ),
        (
            (MCP_CALL, {**ran(MCP_CALL, "mcp", "broken"), "is_error": True}),
            [
                served(
                    "failed",
                    None,
                    {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": "broken"}]},
                )
            ],
        ),
        (({"type": "server_tool_use", "id": "srvtoolu_9", "name": "advisor", "input": {}},), []),
    ],
)
def test_what_a_client_of_responses_sees(content: tuple[Json, ...], shown: list[Json]) -> None:
    assert shown_items([*content, text("Done.")]) == shown
    # All of it comes back, whatever is shown of it.
    reply = answered(ask("responses", REQUESTS["responses"], TARGETS["messages"]), message([*content, text("Done.")]))
    following = ask("responses", with_reply("responses", REQUESTS["responses"], reply), TARGETS["messages"])
    assert history("messages", following) == [[*content, text("Done.")]]


def test_what_a_client_of_chat_sees() -> None:
    reply = answered(ask("chat", REQUESTS["chat"], TARGETS["messages"]), message(turn_of_claude(1)))
    told = reply["choices"][0]["message"]
    assert told["content"] == "Let me look.\n\nIt is so."
    assert "tool_calls" not in told
    (annotation,) = told["annotations"]
    assert annotation["url_citation"]["start_index"] == len("Let me look.\n\nIt is ")


def test_an_answer_in_several_requests_is_one() -> None:
    call, found = searched(1)
    prepared = ask("responses", REQUESTS["responses"], TARGETS["messages"])
    assert prepared.take(json.dumps(message([text("I look."), call], "pause_turn")).encode()) is None
    raw = prepared.take(json.dumps(message([found, text("Here.")])).encode())
    assert raw is not None
    output = json.loads(raw)["output"]
    assert [item["type"] for item in output] == ["message", "web_search_call", "reasoning", "message"]
    assert output[1]["status"] == "completed"


def test_large_results_are_carried_apart() -> None:
    call, found = searched(1)
    found["content"] = [{**found["content"][0], "encrypted_content": "x" * 150_000}]
    other, more = searched(2)
    more["content"] = [{**more["content"][0], "encrypted_content": "y" * 150_000}]
    content = [call, other, found, more, text("Done.")]
    reply = answered(ask("responses", REQUESTS["responses"], TARGETS["messages"]), message(content))
    assert [item["type"] for item in reply["output"]].count("reasoning") == 2
    following = ask("responses", with_reply("responses", REQUESTS["responses"], reply), TARGETS["messages"])
    assert history("messages", following) == [content]


def test_a_text_that_was_edited_loses_its_citations() -> None:
    reply = answered(ask("responses", REQUESTS["responses"], TARGETS["messages"]), message(turn_of_claude(1)))
    reply["output"][3]["content"][0]["text"] = "It is not."
    following = ask("responses", with_reply("responses", REQUESTS["responses"], reply), TARGETS["messages"])
    (got,) = history("messages", following)
    assert got == [*turn_of_claude(1)[:3], text("It is not.")]
    assert rules(following) == ["citations", "citations"]


# --- Responses backends ---

QUERY: Json = {
    "id": "ws_1",
    "type": "web_search_call",
    "status": "completed",
    "action": {
        "type": "search",
        "queries": ["a", "b"],
        "sources": [*SOURCES, {"type": "url", "url": "https://b.example/"}],
    },
}
OPENED: Json = {
    "id": "ws_2",
    "type": "web_search_call",
    "status": "completed",
    "action": {"type": "open_page", "url": "https://a.example/"},
}
FAILED: Json = {"id": "ws_3", "type": "web_search_call", "status": "failed", "action": {"type": "search", "query": "a"}}
RAN: Json = {
    "id": "ci_1",
    "type": "code_interpreter_call",
    "status": "completed",
    "code": "1",
    "container_id": "cntr_1",
    "outputs": None,
}
LISTED: Json = {"id": "mcpl_1", "type": "mcp_list_tools", "server_label": "docs", "tools": []}
THOUGHT: Json = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "enc"}


def said(words: str) -> Json:
    annotation = {"type": "url_citation", "start_index": 0, "end_index": 2, "url": "https://a.example/", "title": "A"}
    content = [{"type": "output_text", "text": words, "annotations": [annotation], "logprobs": []}]
    return {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": content}


TURNS_OF_GPT: list[list[Json]] = [
    [QUERY, said("It is so.")],
    [LISTED, THOUGHT, QUERY, OPENED, said("Both.")],
    [FAILED, RAN, said("Neither.")],
]


def kept(items: list[Json]) -> list[Json]:
    """As they come back: a message in its short form, with the phase that its place tells (mapping.md 4.1)."""
    return [
        {
            "type": "message",
            "role": "assistant",
            "content": item["content"][0]["text"],
            "phase": "commentary" if any(later["type"].endswith("_call") for later in items[at:]) else "final_answer",
        }
        if item["type"] == "message"
        else item
        for at, item in enumerate(items)
    ]


@pytest.mark.parametrize("scope", SCOPES, ids=["open", "sealed"])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("client", ["chat", "messages"])
def test_gpt_gets_its_own_items_back(client: Protocol, stream: bool, scope: Scope) -> None:
    request = REQUESTS[client]
    for number in range(6):
        prepared = ask(client, request, TARGETS["responses"], scope, stream=stream)
        turns = [TURNS_OF_GPT[past % 3] for past in range(number)]
        assert history("responses", prepared) == [kept(turn) for turn in turns]
        assert set(rules(prepared)) - {"store", "citations"} == set()
        reply = answered(prepared, response(TURNS_OF_GPT[number % 3]))
        request = with_reply(client, request, reply)


def test_what_a_client_of_messages_sees() -> None:
    reply = answered(
        ask("messages", REQUESTS["messages"], TARGETS["responses"], stream=True), response(TURNS_OF_GPT[1])
    )
    assert [block["type"] for block in reply["content"]] == [
        "redacted_thinking",
        "redacted_thinking",
        "server_tool_use",
        "web_search_tool_result",
        "server_tool_use",
        "web_search_tool_result",
        "text",
    ]
    call, found = reply["content"][2:4]
    assert (call["id"], call["name"], call["input"]) == (found["tool_use_id"], "web_search", {"query": "a, b"})
    assert [page["url"] for page in found["content"]] == ["https://a.example/", "https://b.example/"]
    assert reply["stop_reason"] == "end_turn"
    (citation,) = reply["content"][-1]["citations"]
    assert (citation["cited_text"], citation["encrypted_index"]) == ("Bo", "")
    failed = answered(ask("messages", REQUESTS["messages"], TARGETS["responses"]), response(TURNS_OF_GPT[2]))
    assert failed["content"][1]["content"] == {"type": "web_search_tool_result_error", "error_code": "unavailable"}


# --- other backends ---


@pytest.mark.parametrize(("client", "backend"), PAIRS)
def test_another_account_gets_nothing_of_it(client: Protocol, backend: Backend) -> None:
    content = message(turn_of_claude(1)) if backend == "messages" else response(TURNS_OF_GPT[0])
    reply = answered(ask(client, REQUESTS[client], TARGETS[backend]), content)
    request = with_reply(client, REQUESTS[client], reply)
    following = ask(client, request, TARGETS[backend], Scope("ba9876543210"))
    (got,) = history(backend, following)
    assert [block["type"] for block in got] == (["message"] if backend == "responses" else ["text"] * len(got))
    assert "foreign-reasoning" in rules(following)


@pytest.mark.parametrize(("client", "backend"), [("responses", "messages"), ("messages", "responses")])
def test_what_the_clients_own_vendor_ran_is_of_no_use_to_another(client: Protocol, backend: Backend) -> None:
    ours: list[Json] = [*searched(1), text("So.")] if client == "messages" else [QUERY, said("So.")]
    reply = {"content": ours, "output": ours}
    prepared = ask(client, with_reply(client, REQUESTS[client], reply), TARGETS[backend])
    (got,) = history(backend, prepared)
    assert len(got) == 1
    assert "hosted-tool" in rules(prepared)


@pytest.mark.parametrize(("client", "backend"), PAIRS)
def test_the_clients_own_vendor_never_sees_it(client: Protocol, backend: Backend) -> None:
    content = message(turn_of_claude(1)) if backend == "messages" else response(TURNS_OF_GPT[0])
    reply = answered(ask(client, REQUESTS[client], TARGETS[backend]), content)
    target = Target(client, "m", PROFILES[client]["generic"])
    prepared = ask(client, with_reply(client, REQUESTS[client], reply), target)
    assert "foreign-reasoning" in rules(prepared)
    assert b"srvtoolu" not in prepared.body


def test_damaged_results_of_a_search_are_left_out() -> None:
    reply = answered(ask("messages", REQUESTS["messages"], TARGETS["responses"]), response(TURNS_OF_GPT[0]))
    page = reply["content"][1]["content"][0]
    page["encrypted_content"] = page["encrypted_content"][:-4] + "0000"
    following = ask("messages", with_reply("messages", REQUESTS["messages"], reply), TARGETS["responses"])
    assert history("responses", following) == [kept([said("It is so.")])]
    assert "carrier-bad" in rules(following)


def test_an_open_envelope_brings_only_what_a_vendor_may_have_sent() -> None:
    reply = answered(ask("responses", REQUESTS["responses"], TARGETS["messages"]), message([*searched(1), text("So.")]))
    forged = answered(
        ask("responses", REQUESTS["responses"], TARGETS["messages"]),
        message([{"type": "tool_made_up", "id": "x"}, text("So.")]),
    )
    assert [item["type"] for item in forged["output"]] == ["reasoning", "message"]
    assert [item["type"] for item in reply["output"]] == ["web_search_call", "reasoning", "message"]
    following = ask("responses", with_reply("responses", REQUESTS["responses"], forged), TARGETS["messages"])
    assert history("messages", following) == [[text("So.")]]
    assert "carrier-bad" in rules(following)


# --- answers that no vendor gives ---

VALUES: list[Json] = [None, 1, "x", [], [1, None], [{}], {}, {"type": 1}, {"url": [1]}, True]
CLAUDE_BLOCKS = [*searched(1), CODE_CALL, MCP_CALL, ran(MCP_CALL, "mcp", [text("found")]), turn_of_claude(1)[4]]
GPT_ITEMS = [QUERY, OPENED, FAILED, RAN, LISTED]


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize(("client", "backend"), PAIRS)
def test_whatever_a_field_holds(client: Protocol, backend: Backend, stream: bool) -> None:
    for block in CLAUDE_BLOCKS if backend == "messages" else GPT_ITEMS:
        for name in block.keys() - {"type"}:
            for value in VALUES:
                broken = {**block, name: value}
                if backend == "messages":
                    if stream and block["type"] in ("server_tool_use", "mcp_tool_use", "text") and name != "id":
                        continue  # in a stream these come in pieces
                    whole = message([broken, *searched(2), text("So.")])
                else:
                    whole = response([broken, said("So.")])
                prepared = ask(client, REQUESTS[client], TARGETS[backend], stream=stream)
                reply = answered(prepared, whole)
                ask(client, with_reply(client, REQUESTS[client], reply), TARGETS[backend])


def test_a_cache_mark_on_a_text_that_was_cited_in_stands_behind_all_of_it() -> None:
    call, found = searched(0)
    request = REQUESTS["chat"]
    said = message([call, found, text("It is "), text("so", cited("https://a.example/", 1)), text(".")])
    later = with_reply("chat", request, answered(ask("chat", request, TARGETS["messages"]), said))
    told = later["messages"][1]
    told["content"] = [{"type": "text", "text": told["content"], "cache_control": {"type": "ephemeral"}}]
    blocks = json.loads(ask("chat", later, TARGETS["messages"]).body)["messages"][1]["content"]
    assert [(block.get("text"), "cache_control" in block) for block in blocks[2:]] == [
        ("It is ", False),
        ("so", False),
        (".", True),
    ]
