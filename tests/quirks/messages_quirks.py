"""Messages as other servers speak it, and its rarer parts."""

import json

from tests.harness.wire import Json
from tests.quirks.quirk import OSLO, Quirk, broken

USAGE = {"input_tokens": 12, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 2, "output_tokens": 7}
HEAD = {"id": "msg_1", "type": "message", "role": "assistant", "model": "demo-model"}
CITY = {"city": "Oslo"}
ONE = [("get_weather", CITY)]


def start(**fields: Json) -> Json:
    begun: Json = {
        **HEAD,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**USAGE, "output_tokens": 1},
    }
    return {"type": "message_start", "message": {**begun, **fields}}


def opened(index: Json, **block: Json) -> Json:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: Json, **fields: Json) -> Json:
    return {"type": "content_block_delta", "index": index, "delta": fields}


def stopped(index: Json) -> Json:
    return {"type": "content_block_stop", "index": index}


def block(index: Json, native: Json, *deltas: Json) -> list[Json]:
    return [opened(index, **native), *(delta(index, **fields) for fields in deltas), stopped(index)]


def text(index: Json, *pieces: str) -> list[Json]:
    return block(index, {"type": "text", "text": ""}, *({"type": "text_delta", "text": piece} for piece in pieces))


def thinking(index: Json, *pieces: str, signatures: tuple[str, ...] = ("SIG",)) -> list[Json]:
    deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces]
    deltas += [{"type": "signature_delta", "signature": signature} for signature in signatures]
    return block(index, {"type": "thinking", "thinking": "", "signature": ""}, *deltas)


def tool(index: Json, name: str, *pieces: str, call_id: Json = "toolu_1", **given: Json) -> list[Json]:
    native = {"type": "tool_use", "id": call_id, "name": name, "input": given}
    return block(index, native, *({"type": "input_json_delta", "partial_json": piece} for piece in pieces))


def end(reason: Json = "end_turn", usage: Json = None, **fields: Json) -> list[Json]:
    told = {"stop_reason": reason, "stop_sequence": None, **fields}
    return [{"type": "message_delta", "delta": told, "usage": usage or USAGE}, {"type": "message_stop"}]


def whole(content: list[Json], reason: str = "end_turn", **more: Json) -> Json:
    return {**HEAD, "content": content, "stop_reason": reason, "stop_sequence": None, "usage": USAGE, **more}


def said(words: str) -> Json:
    return {"type": "text", "text": words}


def used(name: str = "get_weather", call_id: str = "toolu_1") -> Json:
    return {"type": "tool_use", "id": call_id, "name": name, "input": CITY}


def nameless(*events: Json) -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


def typeless(*events: Json) -> bytes:
    lines = [(event["type"], {name: value for name, value in event.items() if name != "type"}) for event in events]
    return "".join(f"event: {kind}\ndata: {json.dumps(fields)}\n\n" for kind, fields in lines).encode()


HELLO = text(0, "Hel", "lo")
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search"}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [
        {"type": "web_search_result", "url": "https://a", "title": "T", "encrypted_content": "E", "page_age": None}
    ],
}
SEARCHED = [
    *block(1, {**SEARCH, "input": {}}, {"type": "input_json_delta", "partial_json": '{"query":"x"}'}),
    *block(2, FOUND),
]
SEARCHED_WHOLE = [{**SEARCH, "input": {"query": "x"}}, FOUND]
WEB = {
    "type": "web_search_result_location",
    "url": "https://a",
    "title": "T",
    "cited_text": "ct",
    "encrypted_index": "E",
}
PAGE = {
    "type": "page_location",
    "cited_text": "c",
    "document_index": 0,
    "document_title": "D",
    "start_page_number": 1,
    "end_page_number": 2,
}
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
NO = {"type": "refusal", "category": "cyber", "explanation": "No."}

FRAMING = [
    Quirk("pings without data", [start(), b"event: ping\n\n", b"event: ping\ndata:\n\n", *HELLO, *end()], "Hello"),
    Quirk("no event lines", [nameless(start(), *HELLO, *end())], "Hello"),
    Quirk("types in event lines only", [typeless(start(), *HELLO, *end())], "Hello"),
    Quirk("no message_stop", [start(), *HELLO, end()[0]], "Hello"),
    Quirk("[DONE] in place of message_stop", [start(), *HELLO, end()[0], b"data: [DONE]\n\n"], "Hello"),
    Quirk("no message_start", [*HELLO, *end()], "Hello"),
    Quirk("events of the future", [start(), {"type": "future", "x": 1}, *HELLO, *end()], "Hello"),
    Quirk(
        "Bedrock's metrics", [start(), *HELLO, end()[0], {**end()[1], "amazon-bedrock-invocationMetrics": {}}], "Hello"
    ),
    broken("nothing", []),
    broken("pings alone", [{"type": "ping"}]),
    broken("no stop reason", [start(), *HELLO]),
    broken("[DONE] without a stop reason", [start(), *HELLO, b"data: [DONE]\n\n"]),
    broken("an end in the middle of a block", [start(), *HELLO[:2]]),
    broken("message_stop alone", [{"type": "message_stop"}]),
    broken("an error", [start(), *HELLO, OVERLOADED, *end()]),
    broken("an error at once", [OVERLOADED]),
    broken("an error in OpenAI's shape", [start(), b'data: {"error":{"message":"no","type":"server_error"}}\n\n']),
    broken("a delta of no block", [start(), delta(5, type="text_delta", text="a"), *end()]),
]
BLOCKS = [
    Quirk(
        "text in the start of a block",
        [start(), opened(0, type="text", text="Hel"), delta(0, type="text_delta", text="lo"), stopped(0), *end()],
        "Hello",
    ),
    Quirk(
        "null everywhere",
        [
            {"type": "message_start", "message": None},
            opened(None, type="text", text=None, citations=None),
            delta(None, type="text_delta", text="Hi"),
            {**delta(0), "delta": None},
            stopped(None),
            {"type": "message_delta", "delta": None, "usage": None},
            *end(),
        ],
        "Hi",
    ),
    Quirk(
        "no index",
        [
            start(),
            {"type": "content_block_start", "content_block": said("")},
            {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Hi"}},
            {"type": "content_block_stop"},
            *end(),
        ],
        "Hi",
    ),
    Quirk(
        "index 0 for every block",
        [
            start(),
            *HELLO,
            *tool(0, "get_weather", OSLO),
            *tool(0, "get_time", OSLO, call_id="toolu_2"),
            *end("tool_use"),
        ],
        "Hello",
        calls=[*ONE, ("get_time", CITY)],
        stop="tool",
    ),
    Quirk(
        "gaps between indices",
        [start(), *text(3, "Hel"), *text(7, "lo"), *tool(9, "get_weather", OSLO), *end("tool_use")],
        "Hello",
        calls=ONE,
        stop="tool",
    ),
    Quirk(
        "blocks that never stop",
        [start(), *HELLO[:-1], *tool(1, "get_weather", OSLO)[:-1], *end("tool_use")],
        "Hello",
        calls=ONE,
        stop="tool",
    ),
    Quirk(
        "several texts in a row",
        [start(), *text(0, "Hel"), *text(1, "lo"), *text(2, "!"), *end()],
        "Hello!",
        whole=whole([said("Hel"), said("lo"), said("!")]),
    ),
    Quirk(
        "empty texts",
        [start(), *text(0), *text(1, "Hi"), *text(2), *end()],
        "Hi",
        whole=whole([said(""), said("Hi"), said("")]),
    ),
    Quirk("no blocks", [start(), *end()], whole=whole([])),
    Quirk(
        "blocks of the future",
        [start(), *block(0, {"type": "hologram", "x": 1}, {"type": "hologram_delta", "y": 2}), *text(1, "Hi"), *end()],
        "Hi",
        whole=whole([{"type": "hologram", "x": 1, "y": 2}, said("Hi")]),
    ),
    Quirk(
        "a block of the future where the limit cut",
        [start(), *text(0, "Hi"), *block(1, {"type": "hologram", "x": 1}), *end("max_tokens")],
        "Hi",
        stop="length",
        whole=whole([said("Hi"), {"type": "hologram", "x": 1}], "max_tokens"),
    ),
    Quirk(
        "a compaction",
        [
            start(),
            *block(0, {"type": "compaction", "content": ""}, {"type": "compaction_delta", "content": "C"}),
            *text(1, "Hi"),
            *end(),
        ],
        "Hi",
    ),
    Quirk(
        "usage that comes at the end only",
        [start(usage={"input_tokens": 0, "output_tokens": 0}), *HELLO, *end()],
        "Hello",
        whole=whole([said("Hello")]),
    ),
    Quirk(
        "null in the last usage",
        [start(), *HELLO, *end(usage={**dict.fromkeys(USAGE), "output_tokens": 7})],
        "Hello",
        whole=whole([said("Hello")]),
    ),
]
CALLS = [
    Quirk(
        "arguments in the start of a block",
        [start(), *tool(0, "get_weather", city="Oslo"), *end("tool_use")],
        calls=ONE,
        stop="tool",
        whole=whole([used()], "tool_use"),
    ),
    Quirk(
        "no arguments",
        [start(), *tool(0, "get_weather"), *end("tool_use")],
        calls=[("get_weather", {})],
        stop="tool",
        whole=whole([{**used(), "input": {}}], "tool_use"),
    ),
    Quirk(
        "null for arguments",
        [start(), *tool(0, "get_weather", "null"), *end("tool_use")],
        calls=[("get_weather", {})],
        stop="tool",
    ),
    Quirk(
        "calls with end_turn", [start(), *tool(0, "get_weather", "", OSLO), *end("end_turn")], calls=ONE, stop="tool"
    ),
    Quirk("tool_use without calls", [start(), *HELLO, *end("tool_use")], "Hello"),
    Quirk(
        "text after a call",
        [start(), *HELLO, *tool(1, "get_weather", OSLO), *text(2, "!"), *end("tool_use")],
        "Hello!",
        calls=ONE,
        stop="tool",
        whole=whole([said("Hello"), used(), said("!")], "tool_use"),
    ),
    Quirk(
        "blanks before a call",
        [start(), *text(0, "\n"), *tool(1, "get_weather", OSLO), *end("tool_use")],
        calls=ONE,
        stop="tool",
        whole=whole([said("\n"), used()], "tool_use"),
    ),
    Quirk("no id", [start(), *tool(0, "get_weather", OSLO, call_id=None), *end("tool_use")], calls=ONE, stop="tool"),
    Quirk(
        "one id for two calls",
        [start(), *tool(0, "get_weather", OSLO), *tool(1, "get_time", OSLO), *end("tool_use")],
        calls=[*ONE, ("get_time", CITY)],
        stop="tool",
        whole=whole([used(), used("get_time")], "tool_use"),
    ),
    Quirk(
        "arguments cut by the limit",
        [start(), *tool(0, "get_weather", '{"ci'), *end("max_tokens")],
        calls=[("get_weather", '{"ci')],
        stop="length",
    ),
    broken("a call without a name", [start(), *tool(0, "", OSLO), *end("tool_use")]),
]
THINKING = [
    Quirk(
        "thinking",
        [start(), *thinking(0, "H", "m"), *text(1, "Hi"), *end()],
        "Hi",
        "Hm",
        whole=whole([{"type": "thinking", "thinking": "Hm", "signature": "SIG"}, said("Hi")]),
    ),
    Quirk(
        "omitted thinking",
        [start(), *thinking(0), *text(1, "Hi"), *end()],
        "Hi",
        whole=whole([{"type": "thinking", "thinking": "", "signature": "SIG"}, said("Hi")]),
    ),
    Quirk("unsigned thinking", [start(), *thinking(0, "Hm", signatures=()), *text(1, "Hi"), *end()], "Hi", "Hm"),
    Quirk(
        "a signature in pieces",
        [start(), *thinking(0, "Hm", signatures=("SI", "G")), *text(1, "Hi"), *end()],
        "Hi",
        "Hm",
        whole=whole([{"type": "thinking", "thinking": "Hm", "signature": "SIG"}, said("Hi")]),
    ),
    Quirk(
        "a signature that grows",
        [start(), *thinking(0, "Hm", signatures=("SI", "SIG")), *text(1, "Hi"), *end()],
        "Hi",
        "Hm",
        whole=whole([{"type": "thinking", "thinking": "Hm", "signature": "SIG"}, said("Hi")]),
    ),
    Quirk(
        "redacted thinking",
        [start(), *block(0, {"type": "redacted_thinking", "data": "E"}), *text(1, "Hi"), *end()],
        "Hi",
        whole=whole([{"type": "redacted_thinking", "data": "E"}, said("Hi")]),
    ),
]
HOSTED = [
    Quirk(
        "a search",
        [
            start(),
            *text(0, "Looking."),
            *SEARCHED,
            *text(3, "It "),
            opened(4, type="text", text="", citations=[]),
            delta(4, type="citations_delta", citation=WEB),
            delta(4, type="text_delta", text="is"),
            stopped(4),
            *text(5, "."),
            *end(),
        ],
        "Looking.It is.",
        cited=("https://a",),
        whole=whole([said("Looking."), *SEARCHED_WHOLE, said("It "), {**said("is"), "citations": [WEB]}, said(".")]),
    ),
    Quirk(
        "a search where the limit cut",
        [start(), *text(0, "Looking."), *SEARCHED, *end("max_tokens")],
        "Looking.",
        stop="length",
        whole=whole([said("Looking."), *SEARCHED_WHOLE], "max_tokens"),
    ),
    Quirk(
        "a tool of an MCP server",
        [
            start(),
            *block(0, {"type": "mcp_tool_use", "id": "m1", "name": "x", "server_name": "s", "input": {}}),
            *block(1, {"type": "mcp_tool_result", "tool_use_id": "m1", "is_error": False, "content": [said("r")]}),
            *text(2, "Hi"),
            *end("tool_use"),
        ],
        "Hi",
    ),
    Quirk(
        "a citation of a document",
        [
            start(),
            opened(0, type="text", text=""),
            delta(0, type="text_delta", text="It is."),
            delta(0, type="citations_delta", citation=PAGE),
            stopped(0),
            *end(),
        ],
        "It is.",
        whole=whole([{**said("It is."), "citations": [PAGE]}]),
    ),
]
STOPS = [
    Quirk(
        "a refusal",
        [start(), *text(0, "Well"), *end("refusal", stop_details=NO)],
        "WellNo.",
        stop="filter",
        whole=whole([said("Well")], "refusal", stop_details=NO),
    ),
    Quirk(
        "a refusal without words",
        [start(), *end("refusal", stop_details={**NO, "explanation": None})],
        stop="filter",
        whole=whole([], "refusal"),
    ),
    Quirk(
        "a matched stop string",
        [start(), *HELLO, *end("stop_sequence", stop_sequence="END")],
        "Hello",
        whole=whole([said("Hello")], "stop_sequence"),
    ),
    Quirk("a full context", [start(), *HELLO, *end("model_context_window_exceeded")], "Hello", stop="length"),
    Quirk(
        "a stop reason of the future",
        [start(), *HELLO, *end("whatever")],
        "Hello",
        whole=whole([said("Hello")], "whatever"),
    ),
]
QUIRKS = [*FRAMING, *BLOCKS, *CALLS, *THINKING, *HOSTED, *STOPS]
