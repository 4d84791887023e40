"""Chat Completions as other servers speak it."""

import json

from proxy.canonical.target import Dialect
from tests.harness.wire import DONE, Json
from tests.quirks.quirk import OSLO, Quirk, broken

USAGE = {"prompt_tokens": 12, "completion_tokens": 7, "total_tokens": 19}
HEAD = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1790000000, "model": "demo-model"}
CITY = {"city": "Oslo"}


def chunk(delta: Json, finish: str | None = None, **more: Json) -> Json:
    return {**HEAD, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


def text(content: Json, **more: Json) -> Json:
    return chunk({"content": content}, **more)


def call(name: str | None = None, arguments: Json = None, **fields: Json) -> Json:
    """A fragment of a call with only these fields."""
    function = {"name": name, "arguments": arguments}
    return {**fields, "function": {field: value for field, value in function.items() if value is not None}}


def calls(*fragments: Json) -> Json:
    return chunk({"tool_calls": list(fragments)})


def whole(message: Json, finish: str = "stop", **more: Json) -> Json:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return {**HEAD, "object": "chat.completion", "choices": [choice], "usage": USAGE, **more}


def cited(start: int, end: int, url: str = "https://a") -> Json:
    return {"type": "url_citation", "url_citation": {"start_index": start, "end_index": end, "title": "T", "url": url}}


def raw(wire: Json) -> bytes:
    return json.dumps(wire).encode()


ROLE = chunk({"role": "assistant", "content": ""})
COUNTED = {**HEAD, "choices": [], "usage": USAGE}
END = [chunk({}, "stop"), COUNTED, DONE]
CALLED = [chunk({}, "tool_calls"), COUNTED, DONE]
ONE = [("get_weather", CITY)]
TWO = [("get_weather", CITY), ("get_time", CITY)]
NULLS = dict.fromkeys(
    ("role", "content", "tool_calls", "function_call", "refusal", "annotations", "reasoning", "reasoning_content")
)
AZURE = {"choices": [], "created": 0, "id": "", "model": "", "object": "", "prompt_filter_results": [{}]}
DETAIL = {"type": "reasoning.text", "index": 0, "format": "anthropic-claude-v1"}
TWICE = json.dumps(OSLO)


def one_call(arguments: Json) -> Json:
    return whole(
        {"content": None, "tool_calls": [call("get_weather", arguments, id="c1", type="function")]}, "tool_calls"
    )


FRAMING = [
    Quirk("comments between events", [b": OPENROUTER PROCESSING\n\n", ROLE, b":\n\n", text("Hi"), *END], "Hi"),
    Quirk("no space after the colon, spaces at the end", [b"data:" + raw(text("Hi")) + b"  \n\n", *END], "Hi"),
    Quirk("events without data", [ROLE, b"data:\n\n", b"event: ping\n\n", b"data: \n\n", text("Hi"), *END], "Hi"),
    Quirk(
        "one object in several data lines", [b'data: {"choices":[{"delta":\ndata: {"content":"Hi"}}]}\n\n', *END], "Hi"
    ),
    Quirk("no blank line at the end", [ROLE, text("Hi"), b"data: " + raw(chunk({}, "stop"))], "Hi"),
    Quirk("no [DONE]", [ROLE, text("Hi"), chunk({}, "stop")], "Hi"),
    Quirk("[DONE] without a finish reason", [ROLE, text("Hi"), DONE], "Hi"),
    Quirk(
        "[DONE] without a finish reason, with a call",
        [ROLE, calls(call("get_weather", OSLO, index=0)), DONE],
        calls=ONE,
        stop="tool",
    ),
    broken("the same where a finish reason is required", [ROLE, text("Hi"), DONE], Dialect(finish_required=True)),
    broken("neither a finish reason nor [DONE]", [ROLE, text("Hi")]),
    broken("nothing", []),
    broken("[DONE] alone", [DONE]),
    broken("an object over two events", [ROLE, b'data: {"id":"x","cho\n\ndata: ices":[]}\n\n', *END]),
    broken("text that is no JSON", [ROLE, b"data: Internal error\n\n", *END]),
    broken("a list", [ROLE, b'data: [{"error":{"message":"no"}}]\n\n']),
    Quirk("events after [DONE]", [ROLE, text("Hi"), *END, text("more")], "Hi"),
]
CHUNKS = [
    Quirk(
        "a first chunk with neither choices nor id",
        [AZURE, ROLE, text("Hi"), *END],
        "Hi",
        whole=whole({"content": "Hi"}),
    ),
    Quirk("null in every field", [chunk({**NULLS}, usage=None), text("Hi"), chunk(NULLS), *END], "Hi"),
    Quirk("no choices at all", [ROLE, {**HEAD, "choices": None}, text("Hi"), *END], "Hi"),
    Quirk("a delta that is null", [ROLE, text("Hi"), chunk(None, "stop"), COUNTED], "Hi"),
    Quirk(
        "another choice",
        [ROLE, text("Hi"), {**HEAD, "choices": [{"index": 1, "delta": {"content": "no"}}]}, *END],
        "Hi",
    ),
    Quirk("usage beside the last text", [ROLE, text("H"), chunk({"content": "i"}, "stop", usage=USAGE), DONE], "Hi"),
    Quirk(
        "usage in every chunk",
        [{**ROLE, "usage": USAGE}, text("Hi", usage=USAGE), chunk({}, "stop", usage=USAGE)],
        "Hi",
    ),
    Quirk("usage in Groq's corner", [ROLE, text("Hi"), chunk({}, "stop", x_groq={"usage": USAGE}), DONE], "Hi"),
    Quirk(
        "text and a finish reason after the finish",
        [ROLE, text("Hi"), chunk({}, "stop"), text("!"), chunk({}, "length"), DONE],
        "Hi!",
    ),
    Quirk(
        "a message in place of a delta",
        [
            {
                **HEAD,
                "choices": [
                    {
                        "message": {"content": "Hi", "tool_calls": [call("get_weather", OSLO, id="c1")]},
                        "finish_reason": "tool_calls",
                    }
                ],
            },
            COUNTED,
        ],
        "Hi",
        calls=ONE,
        stop="tool",
    ),
    Quirk(
        "content as a list",
        [
            ROLE,
            text(
                [
                    {"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]},
                    {"type": "text", "text": "Hi"},
                    {"type": "reference", "reference_ids": [1]},
                ]
            ),
            *END,
        ],
        "Hi",
        "Hm",
    ),
    Quirk(
        "an emoji in two halves",
        [ROLE, text("a\ud83d"), text("\ude00b"), *END],
        "a😀b",
        whole=whole({"content": "a😀b"}),
    ),
    Quirk("a very long event", [ROLE, text("x" * 300_000), *END], "x" * 300_000),
    Quirk("no text at all", [chunk({}, "stop"), COUNTED, DONE], whole=whole({"content": ""})),
]
REASONING = [
    Quirk(
        "reasoning under two names",
        [ROLE, chunk({"reasoning": "Hm", "reasoning_content": "Hm"}), text("Hi"), *END],
        "Hi",
        "Hm",
        whole=whole({"content": "Hi", "reasoning": "Hm", "reasoning_content": "Hm"}),
    ),
    Quirk(
        "reasoning and text in one chunk", [ROLE, chunk({"reasoning_content": "Hm", "content": "Hi"}), *END], "Hi", "Hm"
    ),
    Quirk(
        "reasoning in detail",
        [
            ROLE,
            chunk({"reasoning": "Hm", "reasoning_details": [{**DETAIL, "text": "Hm"}]}),
            chunk({"reasoning_details": [{**DETAIL, "signature": "S"}]}),
            text("Hi"),
            *END,
        ],
        "Hi",
        "Hm",
    ),
    Quirk("empty reasoning", [ROLE, chunk({"reasoning_content": "", "content": "Hi"}), *END], "Hi"),
    Quirk(
        "blanks between reasoning and answer",
        [ROLE, chunk({"reasoning_content": "Hm"}), text("\n\n"), text("Hi"), *END],
        "Hi",
        "Hm",
        dialect=Dialect(strip_leading_ws=True),
    ),
    Quirk(
        "thinking in tags",
        [ROLE, text("<thi"), text("nk>Hm</th"), text("ink>Hi"), *END],
        "Hi",
        "Hm",
        dialect=Dialect(think_tags=True),
    ),
]
CALLS = [
    Quirk(
        "arguments as an object",
        [ROLE, calls(call("get_weather", CITY, index=0, id="c1")), *CALLED],
        calls=ONE,
        stop="tool",
        whole=one_call(CITY),
    ),
    Quirk(
        "a call in one chunk with finish reason stop",
        [ROLE, chunk({"tool_calls": [call("get_weather", OSLO, index=0, id="c1")]}, "stop"), COUNTED],
        calls=ONE,
        stop="tool",
    ),
    Quirk("a finish reason for calls without calls", [ROLE, text("Hi"), *CALLED], "Hi"),
    Quirk(
        "no index",
        [ROLE, calls(call("get_weather", OSLO, id="c1")), calls(call("get_time", OSLO, id="c2")), *CALLED],
        calls=TWO,
        stop="tool",
    ),
    Quirk(
        "no index, in one chunk",
        [ROLE, calls(call("get_weather", OSLO, id="c1"), call("get_time", OSLO, id="c2")), *CALLED],
        calls=TWO,
        stop="tool",
    ),
    Quirk(
        "index 0 for every call",
        [
            ROLE,
            calls(call("get_weather", OSLO, index=0, id="c1")),
            calls(call("get_time", OSLO, index=0, id="c2")),
            *CALLED,
        ],
        calls=TWO,
        stop="tool",
    ),
    Quirk(
        "index 0 and one id for every call",
        [ROLE, calls(call("get_weather", OSLO, index=0, id="c"), call("get_time", OSLO, index=0, id="c")), *CALLED],
        calls=TWO,
        stop="tool",
    ),
    Quirk(
        "index 0 and no id for every call",
        [ROLE, calls(call("get_weather", OSLO, index=0)), calls(call("get_time", OSLO, index=0)), *CALLED],
        calls=TWO,
        stop="tool",
    ),
    Quirk(
        "neither index nor id, the same tool",
        [ROLE, calls(call("get_weather", OSLO)), calls(call("get_weather", OSLO)), *CALLED],
        calls=ONE * 2,
        stop="tool",
    ),
    Quirk(
        "a first index that is not 0",
        [ROLE, calls(call("get_weather", OSLO, index=1, id="c1")), *CALLED],
        calls=ONE,
        stop="tool",
    ),
    Quirk(
        "ids that are none",
        [
            ROLE,
            calls(call("get_weather", OSLO, index=0, id="null")),
            calls(call("get_time", OSLO, index=1, id="")),
            *CALLED,
        ],
        calls=TWO,
        stop="tool",
    ),
    Quirk(
        "one id for two calls",
        [
            ROLE,
            calls(call("get_weather", OSLO, index=0, id="call_0")),
            calls(call("get_time", OSLO, index=1, id="call_0")),
            *CALLED,
        ],
        calls=TWO,
        stop="tool",
    ),
    Quirk(
        "id and name in every fragment",
        [
            ROLE,
            *(calls(call("get_weather", piece, index=0, id="c1")) for piece in ('{"ci', 'ty":"Os', 'lo"}', "")),
            *CALLED,
        ],
        calls=ONE,
        stop="tool",
    ),
    Quirk(
        "a name in pieces",
        [
            ROLE,
            calls(call("get_", index=0, id="c1")),
            calls(call("weather", index=0)),
            calls(call(None, OSLO, index=0)),
            *CALLED,
        ],
        calls=ONE,
        stop="tool",
        dialect=Dialect(split_names=True),
    ),
    Quirk(
        "arguments before the name",
        [
            ROLE,
            calls(call(None, '{"city"', index=0, id="c1")),
            calls(call("get_weather", ':"Oslo"}', index=0)),
            *CALLED,
        ],
        calls=ONE,
        stop="tool",
    ),
    broken("a call without a name", [ROLE, calls(call(None, OSLO, index=0, id="c1")), *CALLED]),
    Quirk(
        "no arguments",
        [ROLE, calls(call("get_weather", "", index=0, id="c1")), *CALLED],
        calls=[("get_weather", {})],
        stop="tool",
        whole=one_call(""),
    ),
    Quirk(
        "null for arguments",
        [ROLE, calls(call("get_weather", "nu", index=0, id="c1")), calls(call(None, "ll", index=0)), *CALLED],
        calls=[("get_weather", {})],
        stop="tool",
        whole=one_call("null"),
    ),
    Quirk(
        "blanks for arguments",
        [ROLE, calls(call("get_weather", " \n", index=0, id="c1")), *CALLED],
        calls=[("get_weather", {})],
        stop="tool",
        whole=one_call(" \n"),
    ),
    Quirk(
        "arguments encoded twice",
        [ROLE, calls(call("get_weather", TWICE[:5], index=0, id="c1")), calls(call(None, TWICE[5:], index=0)), *CALLED],
        calls=ONE,
        stop="tool",
        whole=one_call(TWICE),
    ),
    Quirk(
        "arguments that are no JSON",
        [ROLE, calls(call("get_weather", "{not", index=0, id="c1")), *CALLED],
        calls=[("get_weather", "{not")],
        stop="tool",
        whole=one_call("{not"),
    ),
    Quirk(
        "arguments cut by the limit",
        [ROLE, calls(call("get_weather", '{"ci', index=0, id="c1")), chunk({}, "length"), COUNTED],
        calls=[("get_weather", '{"ci')],
        stop="length",
    ),
    Quirk(
        "blanks before a call",
        [ROLE, text("\n\n"), calls(call("get_weather", OSLO, index=0, id="c1")), *CALLED],
        calls=ONE,
        stop="tool",
    ),
    Quirk(
        "interleaved arguments",
        [
            ROLE,
            calls(call("get_weather", "", index=0, id="c1"), call("get_time", "", index=1, id="c2")),
            calls(call(None, '{"city"', index=0)),
            calls(call(None, '{"city":', index=1)),
            calls(call(None, ':"Oslo"}', index=0)),
            calls(call(None, '"Oslo"}', index=1)),
            *CALLED,
        ],
        calls=TWO,
        stop="tool",
    ),
    Quirk(
        "a deprecated function call",
        [
            ROLE,
            chunk({"function_call": {"name": "get_weather", "arguments": ""}}),
            chunk({"function_call": {"arguments": OSLO}}),
            chunk({}, "function_call"),
            COUNTED,
        ],
        calls=ONE,
        stop="tool",
    ),
]
STOPS = [
    *(
        Quirk(f"finish reason {word!r}", [ROLE, text("Hi"), chunk({}, word), COUNTED, DONE], "Hi")
        for word in ("eos", "eos_token", "end_turn", "STOP", "", "function_call", "whatever")
    ),
    *(
        Quirk(f"finish reason {word!r}", [ROLE, text("Hi"), chunk({}, word), COUNTED], "Hi", stop="length")
        for word in ("max_tokens", "MAX_TOKENS", "model_length")
    ),
    *(
        Quirk(f"finish reason {word!r}", [ROLE, text("Hi"), chunk({}, word), COUNTED], "Hi", stop="filter")
        for word in ("content_filter", "safety", "SAFETY", "recitation", "sensitive", "PROHIBITED_CONTENT")
    ),
    *(
        broken(f"finish reason {word!r}", [ROLE, text("Hi"), chunk({}, word), DONE])
        for word in (
            "error",
            "network_error",
            "insufficient_system_resource",
            "abort",
            "malformed_function_call",
            "MALFORMED_FUNCTION_CALL",
        )
    ),
    Quirk(
        "a refusal",
        [ROLE, chunk({"refusal": "I "}), chunk({"refusal": "can't"}), *END],
        "I can't",
        stop="refusal",
        whole=whole({"content": None, "refusal": "I can't"}),
    ),
    Quirk(
        "a matched stop string",
        [
            ROLE,
            text("Hi"),
            {**HEAD, "choices": [{"delta": {}, "finish_reason": "stop", "stop_reason": "END"}]},
            COUNTED,
        ],
        "Hi",
        stop="stop_sequence",
    ),
    *(
        broken(f"an error: {error!r:.40}", [ROLE, text("Hi"), error, DONE])
        for error in (
            {"error": {"message": "no", "code": 502}},
            {"error": "no"},
            {"object": "error", "message": "no", "code": 500},
            b'event: error\ndata: {"message":"no"}\n\n',
        )
    ),
    broken(
        "an error in Groq's corner", [ROLE, text("Hi"), {**HEAD, "choices": [], "x_groq": {"error": "over capacity"}}]
    ),
    broken("an error at once", [{"error": {"message": "no", "code": 502}}]),
]
CITATIONS = [
    Quirk(
        "annotations before the text",
        [ROLE, chunk({"annotations": [cited(0, 5)]}), text("Hello you"), *END],
        "Hello you",
        cited=("https://a",),
    ),
    Quirk(
        "annotations after the text",
        [ROLE, text("Hello"), text(" you"), chunk({"annotations": [cited(0, 5)]}), *END],
        "Hello you",
        cited=("https://a",),
        whole=whole({"content": "Hello you", "annotations": [cited(0, 5)]}),
    ),
    Quirk(
        "sources of the whole answer",
        [
            {**ROLE, "citations": ["https://a"]},
            text("Hello", search_results=[{"url": "https://b", "title": "B"}]),
            *END,
        ],
        "Hello",
        cited=("https://b",),
        whole=whole({"content": "Hello"}, search_results=[{"url": "https://b", "title": "B"}]),
    ),
]
QUIRKS = [*FRAMING, *CHUNKS, *REASONING, *CALLS, *STOPS, *CITATIONS]
