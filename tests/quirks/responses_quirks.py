"""Responses as other servers speak it, and its rarer parts."""

import json

from proxy.canonical.target import Dialect
from tests.harness.wire import Json
from tests.quirks.quirk import OSLO, Quirk, broken

USAGE = {
    "input_tokens": 12,
    "input_tokens_details": {"cached_tokens": 3},
    "output_tokens": 7,
    "output_tokens_details": {"reasoning_tokens": 2},
    "total_tokens": 19,
}
CITY = {"city": "Oslo"}
ONE = [("get_weather", CITY)]
TWO = [*ONE, ("get_time", CITY)]


def response(*output: Json, status: str = "completed", **fields: Json) -> Json:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1790000000,
        "status": status,
        "model": "demo-model",
        "output": list(output),
        "error": None,
        "incomplete_details": None,
        "usage": None if status == "in_progress" else USAGE,
        **fields,
    }


def on(index: int, item_id: str, kind: str, **fields: Json) -> Json:
    return {"type": f"response.{kind}", "output_index": index, "item_id": item_id, **fields}


def added(index: Json, item: Json) -> Json:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def done(index: Json, item: Json) -> Json:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def output_text(words: str, *annotations: Json) -> Json:
    return {"type": "output_text", "text": words, "annotations": list(annotations), "logprobs": []}


def message(item_id: str, *content: Json, **fields: Json) -> Json:
    return {
        "id": item_id,
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": list(content),
        **fields,
    }


def text(index: int, item_id: str, *pieces: str, annotations: tuple[Json, ...] = (), **fields: Json) -> list[Json]:
    """A message, from its announcement to its end."""
    words, at = "".join(pieces), {"content_index": 0}
    item = message(item_id, output_text(words, *annotations), **fields)
    deltas = [on(index, item_id, "output_text.delta", **at, delta=piece, logprobs=[]) for piece in pieces]
    marks = [
        on(index, item_id, "output_text.annotation.added", **at, annotation_index=number, annotation=annotation)
        for number, annotation in enumerate(annotations)
    ]
    return [
        added(index, {**item, "content": [], "status": "in_progress"}),
        on(index, item_id, "content_part.added", **at, part=output_text("")),
        *deltas,
        *marks,
        on(index, item_id, "output_text.done", **at, text=words, logprobs=[]),
        on(index, item_id, "content_part.done", **at, part=output_text(words, *annotations)),
        done(index, item),
    ]


def call(index: int, call_id: Json, name: str, *pieces: str, **fields: Json) -> list[Json]:
    item_id, arguments = f"fc_{index}", "".join(pieces)
    item = {"id": item_id, "type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}
    item |= {"status": "completed", **fields}
    stem = "function_call_arguments"
    return [
        added(index, {**item, "arguments": "", "status": "in_progress"}),
        *(on(index, item_id, f"{stem}.delta", delta=piece) for piece in pieces),
        on(index, item_id, f"{stem}.done", arguments=arguments),
        done(index, item),
    ]


def reasoning(index: int, *summary: str) -> list[Json]:
    item_id, stem = f"rs_{index}", "reasoning_summary"
    parts = [{"type": "summary_text", "text": words} for words in summary]
    item = {"id": item_id, "type": "reasoning", "summary": parts, "encrypted_content": "E"}
    events = [added(index, {**item, "summary": [], "encrypted_content": None})]
    for number, part in enumerate(parts):
        at = {"summary_index": number}
        events += [
            on(index, item_id, f"{stem}_part.added", **at, part={**part, "text": ""}),
            on(index, item_id, f"{stem}_text.delta", **at, delta=part["text"]),
            on(index, item_id, f"{stem}_text.done", **at, text=part["text"]),
            on(index, item_id, f"{stem}_part.done", **at, part=part),
        ]
    return [*events, done(index, item)]


def items_of(events: list[Json]) -> list[Json]:
    return [
        event["item"] for event in events if isinstance(event, dict) and event["type"] == "response.output_item.done"
    ]


def ended(*output: Json, status: str = "completed", **fields: Json) -> Json:
    return {"type": f"response.{status}", "response": response(*output, status=status, **fields)}


def stream(events: list[Json], **fields: Json) -> list[Json]:
    """The events between the beginning and an end that repeats the done items."""
    return [*BEGUN, *events, ended(*items_of(events), **fields)]


def whole(events: list[Json], **fields: Json) -> Json:
    return response(*items_of(events), **fields)


BEGUN: list[Json] = [
    {"type": f"response.{stage}", "response": response(status="in_progress")} for stage in ("created", "in_progress")
]
HELLO = text(0, "m1", "Hel", "lo")
SAID = items_of(HELLO)[0]
CALL = call(0, "call_1", "get_weather", OSLO[:6], OSLO[6:])
CALLED = items_of(CALL)[0]
SIDE = call(1, "call_2", "get_time", OSLO[:6], OSLO[6:])
MARK = {"type": "url_citation", "url": "https://a", "title": "T", "start_index": 0, "end_index": 3}
MARKED = text(0, "m1", "Hello", annotations=(MARK,))
FILE = {"type": "file_citation", "file_id": "f", "filename": "x.pdf", "index": 3}
DECLINED = message("m1", {"type": "refusal", "refusal": "I can't"})
AT = {"content_index": 0}
DECLINING = [
    added(0, {**DECLINED, "content": []}),
    on(0, "m1", "content_part.added", **AT, part={"type": "refusal", "refusal": ""}),
    on(0, "m1", "refusal.delta", **AT, delta="I "),
    on(0, "m1", "refusal.delta", **AT, delta="can't"),
    on(0, "m1", "refusal.done", **AT, refusal="I can't"),
    done(0, DECLINED),
]
SEARCH = {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "q"}}
SEARCHED = [
    added(0, {**SEARCH, "status": "in_progress"}),
    on(0, "ws_1", "web_search_call.searching"),
    on(0, "ws_1", "web_search_call.completed"),
    done(0, SEARCH),
]
CUT_CALL = {**CALLED, "arguments": '{"ci', "status": "incomplete"}
LIMIT = {"reason": "max_output_tokens"}
RAW = {"id": "rs_0", "type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm"}]}
THOUGHT = [added(0, {**RAW, "content": []}), on(0, "rs_0", "reasoning_text.delta", **AT, delta="Hm"), done(0, RAW)]
NULLS: list[Json] = [
    {"type": "response.created", "response": None},
    added(None, None),
    {"type": "response.output_text.delta", "delta": "Hi", "item_id": None, "output_index": None, "logprobs": None},
    {"type": "response.output_text.done", "text": None},
    {"type": "response.content_part.done", "part": None},
    done(None, None),
    {"type": "response.output_text.annotation.added", "annotation": None},
    {"type": "response.completed", "response": {"output": None, "usage": None, "status": None}},
]
ERROR = {"type": "server_error", "code": "context_length_exceeded", "message": "too long", "param": None}

FRAMING = [
    Quirk(
        "events of the future",
        [*BEGUN, {"type": "codex.rate_limits"}, *HELLO, {"type": "keepalive"}, ended(SAID)],
        "Hello",
    ),
    Quirk("[DONE] after the end", [*stream(HELLO), b"data: [DONE]\n\n"], "Hello"),
    Quirk("null everywhere", NULLS, "Hi"),
    Quirk("an end without a response", [*BEGUN, *HELLO, {"type": "response.completed"}], "Hello"),
    Quirk(
        "items done and no end, where that is allowed", [*BEGUN, *HELLO], "Hello", dialect=Dialect(lax_terminal=True)
    ),
    broken("nothing", []),
    broken("items done and no end", [*BEGUN, *HELLO]),
    broken("an end in the middle", [*BEGUN, *HELLO[:3]]),
    broken("[DONE] without an end", [*BEGUN, *HELLO, b"data: [DONE]\n\n"]),
    broken("a failure", [*BEGUN, *HELLO[:3], ended(status="failed", error=ERROR)]),
    broken("a failure that says nothing", [*BEGUN, *HELLO[:3], ended(status="failed")]),
    broken("a completion that has failed", [*BEGUN, *HELLO[:3], {**ended(), "response": response(status="failed")}]),
    broken("cancelled", [*BEGUN, *HELLO[:3], ended(status="cancelled")]),
    broken("an error", [*BEGUN, *HELLO[:3], {"type": "error", "error": ERROR}]),
    broken("a flat error", [*BEGUN, *HELLO[:3], {**ERROR, "type": "error"}]),
    broken("an error at once", [{**ERROR, "type": "error"}]),
]
ITEMS = [
    Quirk("the end alone", [ended(SAID)], "Hello", whole=whole(HELLO)),
    Quirk("an end with empty output", [*BEGUN, *HELLO, ended()], "Hello"),
    Quirk("an end without output", [*BEGUN, *HELLO, {**ended(), "response": response(output=None)}], "Hello"),
    Quirk("other ids at the end", [*BEGUN, *CALL, ended({**CALLED, "id": "other"})], calls=ONE, stop="tool"),
    Quirk("other ids of a message at the end", [*BEGUN, *HELLO, ended({**SAID, "id": "other"})], "Hello"),
    Quirk("one index for two items", stream([*HELLO, *CALL]), "Hello", calls=ONE, stop="tool"),
    Quirk("items never announced", [*BEGUN, *CALL[1:], ended(CALLED)], calls=ONE, stop="tool"),
    Quirk(
        "items done and nothing else",
        [*BEGUN, CALL[-1], HELLO[-1], ended(CALLED, SAID)],
        "Hello",
        calls=ONE,
        stop="tool",
    ),
    broken("a call never announced and never done", [*BEGUN, CALL[1], ended()]),
    Quirk("deltas after their end", [*BEGUN, *HELLO, HELLO[2], ended(SAID)], "Hello"),
    Quirk("empty output", stream([]), whole=whole([])),
    Quirk("an empty text", stream(text(0, "m1")), whole=whole(text(0, "m1"))),
    Quirk(
        "two messages in a row",
        stream([*HELLO, *text(1, "m2", "!")]),
        "Hello!",
        whole=whole([*HELLO, *text(1, "m2", "!")]),
    ),
    Quirk(
        "phases",
        stream([*text(0, "m1", "Hm.", phase="commentary"), *text(1, "m2", "Hi", phase="final_answer")]),
        "Hm.Hi",
        whole=whole([*text(0, "m1", "Hm.", phase="commentary"), *text(1, "m2", "Hi", phase="final_answer")]),
    ),
    Quirk(
        "a compaction",
        stream([done(0, {"id": "c", "type": "compaction", "encrypted_content": "E"}), *text(1, "m1", "Hi")]),
        "Hi",
    ),
    Quirk("items of the future", stream([done(0, {"id": "h", "type": "hologram"}), *text(1, "m1", "Hi")]), "Hi"),
    Quirk("a search", stream([*SEARCHED, *text(1, "m1", "Hi")]), "Hi", whole=whole([*SEARCHED, *text(1, "m1", "Hi")])),
    Quirk(
        "text beside a call",
        [*BEGUN, *HELLO[:3], *SIDE[:2], HELLO[3], *SIDE[2:], *HELLO[4:], ended(SAID, *items_of(SIDE))],
        "Hello",
        calls=[("get_time", CITY)],
        stop="tool",
        late=True,
    ),
]
CALLS = [
    Quirk("arguments when they are done", [*BEGUN, CALL[0], *CALL[3:], ended(CALLED)], calls=ONE, stop="tool"),
    Quirk("arguments when the item is done", [*BEGUN, CALL[0], CALL[-1], ended(CALLED)], calls=ONE, stop="tool"),
    Quirk(
        "arguments when the item is announced",
        [*BEGUN, added(0, CALLED), CALL[-1], ended(CALLED)],
        calls=ONE,
        stop="tool",
    ),
    Quirk(
        "arguments announced and told again",
        [*BEGUN, added(0, CALLED), *CALL[1:], ended(CALLED)],
        calls=ONE,
        stop="tool",
    ),
    Quirk(
        "no arguments",
        stream(call(0, "call_1", "get_weather")),
        calls=[("get_weather", {})],
        stop="tool",
        whole=whole(call(0, "call_1", "get_weather")),
    ),
    Quirk(
        "null for arguments",
        stream(call(0, "call_1", "get_weather", "null")),
        calls=[("get_weather", {})],
        stop="tool",
        whole=whole(call(0, "call_1", "get_weather", "null")),
    ),
    Quirk(
        "arguments encoded twice",
        stream(call(0, "call_1", "get_weather", json.dumps(OSLO))),
        calls=ONE,
        stop="tool",
        whole=whole(call(0, "call_1", "get_weather", json.dumps(OSLO))),
    ),
    Quirk(
        "one id for two calls",
        stream([*CALL, *call(1, "call_1", "get_time", OSLO)]),
        calls=TWO,
        stop="tool",
        whole=whole([*CALL, *call(1, "call_1", "get_time", OSLO)]),
    ),
    Quirk("no call id", stream(call(0, None, "get_weather", OSLO)), calls=ONE, stop="tool"),
    Quirk(
        "interleaved arguments",
        [
            *BEGUN,
            CALL[0],
            SIDE[0],
            CALL[1],
            SIDE[1],
            CALL[2],
            SIDE[2],
            *SIDE[3:],
            *CALL[3:],
            ended(CALLED, *items_of(SIDE)),
        ],
        calls=TWO,
        stop="tool",
        whole=response(CALLED, *items_of(SIDE)),
    ),
    Quirk(
        "text after a call",
        stream([*CALL, *text(1, "m1", "Hi")]),
        "Hi",
        calls=ONE,
        stop="tool",
        whole=whole([*CALL, *text(1, "m1", "Hi")]),
    ),
    Quirk(
        "a call cut by the limit",
        [
            *BEGUN,
            CALL[0],
            on(0, "fc_0", "function_call_arguments.delta", delta='{"ci'),
            done(0, CUT_CALL),
            ended(CUT_CALL, status="incomplete", incomplete_details=LIMIT),
        ],
        calls=[("get_weather", '{"ci')],
        stop="length",
    ),
]
REASONING = [
    Quirk(
        "a summary in parts",
        stream([*reasoning(0, "One", "Two"), *text(1, "m1", "Hi")]),
        "Hi",
        "OneTwo",
        whole=whole([*reasoning(0, "One", "Two"), *text(1, "m1", "Hi")]),
    ),
    Quirk(
        "hidden reasoning",
        stream([*reasoning(0), *text(1, "m1", "Hi")]),
        "Hi",
        whole=whole([*reasoning(0), *text(1, "m1", "Hi")]),
    ),
    Quirk(
        "raw reasoning",
        stream([*THOUGHT, *text(1, "m1", "Hi")]),
        "Hi",
        "Hm",
        whole=whole([*THOUGHT, *text(1, "m1", "Hi")]),
    ),
]
STOPS = [
    Quirk("a refusal", stream(DECLINING), "I can't", stop="refusal", whole=whole(DECLINING)),
    *(
        Quirk(
            f"incomplete: {reason}",
            stream(HELLO, status="incomplete", incomplete_details={"reason": reason}),
            "Hello",
            stop=stop,
            whole=whole(HELLO, status="incomplete", incomplete_details={"reason": reason}),
        )
        for reason, stop in (
            ("max_output_tokens", "length"),
            ("content_filter", "filter"),
            ("max_messages", "length"),
            ("steered", "end"),
            ("whatever", "length"),
            (None, "length"),
        )
    ),
]
CITATIONS = [
    Quirk("an annotation", stream(MARKED), "Hello", cited=("https://a",), whole=whole(MARKED)),
    Quirk(
        "an annotation before its text",
        [*BEGUN, *MARKED[:2], MARKED[3], MARKED[2], *MARKED[4:], ended(*items_of(MARKED))],
        "Hello",
        cited=("https://a",),
        whole=whole(MARKED),
    ),
    Quirk(
        "an annotation told twice",
        [*BEGUN, *MARKED[:3], *MARKED[4:6], MARKED[3], MARKED[6], ended(*items_of(MARKED))],
        "Hello",
        cited=("https://a",),
        whole=whole(MARKED),
    ),
    Quirk(
        "an annotation of a file",
        stream(text(0, "m1", "Hello", annotations=(FILE,))),
        "Hello",
        whole=whole(text(0, "m1", "Hello", annotations=(FILE,))),
    ),
]
QUIRKS = [*FRAMING, *ITEMS, *CALLS, *REASONING, *STOPS, *CITATIONS]
