"""Whole replies, both ways."""

import pytest

from proxy.canonical.errors import ErrorClass, InexactNumber, Rejected
from proxy.canonical.jsontext import loads
from proxy.canonical.loss import LossReport
from proxy.canonical.parts import Call, Citation, HostedCall, Opaque, Reasoning, Refusal, ReplyPart, Text
from proxy.canonical.reply import Reply, ReplyContext
from proxy.canonical.spelling import Spelling, ToolName
from proxy.canonical.stop import Stop, StopKind
from proxy.canonical.target import Dialect
from proxy.canonical.usage import Beside, Usage
from proxy.protocols.messages import read_reply, write_reply
from proxy.protocols.messages.reply_writer import message_id

Wire = dict[str, object]
CONTEXT = ReplyContext("req_1", "asked-for", estimate_prompt=lambda: 7)


def read(wire: object, spelling: Spelling | None = None, *, exact: bool = False) -> Reply:
    return read_reply(wire, spelling or Spelling(), Dialect(), LossReport(), exact=exact)


def message(*blocks: Wire, stop: str | None = "end_turn", **fields: object) -> Wire:
    return {"id": "msg_1", "type": "message", "model": "m", "content": list(blocks), "stop_reason": stop, **fields}


def write(reply: Reply, context: ReplyContext = CONTEXT) -> Wire:
    wire = loads(write_reply(reply, context))
    assert isinstance(wire, dict)
    return wire


# --- reading ---


def test_a_whole_reply() -> None:
    thinking = {"type": "thinking", "thinking": "", "signature": "EqQB"}
    wire = message(
        thinking,
        {"type": "text", "text": "Checking.", "citations": None},
        {
            "type": "tool_use",
            "id": "toolu_01",
            "name": "get",
            "input": {"b": 1, "a": "ü"},
            "caller": {"type": "direct"},
        },
        stop="tool_use",
        usage={
            "input_tokens": 410,
            "cache_creation_input_tokens": 30,
            "cache_read_input_tokens": 20,
            "cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 20},
            "output_tokens": 61,
            "output_tokens_details": {"thinking_tokens": 22},
            "server_tool_use": {"web_search_requests": 2, "web_fetch_requests": 0},
            "service_tier": "priority",
        },
    )
    assert read(wire) == Reply(
        "msg_1",
        "m",
        [
            Reasoning("", native=thinking),
            Text("Checking."),
            Call("toolu_01", "get", '{"b":1,"a":"ü"}', extra={"caller": {"type": "direct"}}),
        ],
        Stop("tool", native="tool_use"),
        Usage(410, 20, 30, 20, 61, 22, {"web_search": 2}),
        service_tier="priority",
    )


def test_names_and_ids_are_the_clients() -> None:
    spelling = Spelling({"short": ToolName("a very long name", "ns", "custom")}, {"drgh_1": "original"}.__getitem__)
    wire = message(
        {"type": "tool_use", "id": "drgh_1", "name": "short", "input": {}},
        {"type": "tool_use", "id": "", "name": "made_up", "input": None},
        {"type": "tool_use", "id": "drgh_1", "name": "made_up", "input": "{"},
    )
    assert read(wire, spelling).parts == [
        Call("original", "a very long name", "{}", kind="custom", namespace="ns"),
        Call("call_msg_1_1", "made_up", "{}"),
        Call("original-2", "made_up", "{"),
    ]


def test_blocks_that_must_come_back_are_kept_whole() -> None:
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    mcp = {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "n", "server_name": "s", "input": {}}
    hidden = {"type": "redacted_thinking", "data": "d"}
    future = {"type": "hologram", "x": 1}
    reply = read(message(search, found, mcp, hidden, future))
    assert reply.parts == [
        HostedCall("web_search", search, "srvtoolu_1"),
        HostedCall("web_search", found, "srvtoolu_1", is_result=True),
        HostedCall("mcp", mcp, "mcptoolu_1"),
        Reasoning("", native=hidden, redacted=True),
        Opaque("hologram", future),
    ]


def test_a_rounded_integer_is_read_again_before_any_id_is_spent() -> None:
    wire = message({"type": "tool_use", "id": "t", "name": "f", "input": {"n": 2.0**64}})
    spelling = Spelling()
    with pytest.raises(InexactNumber):
        read(wire, spelling)
    assert read(wire, spelling, exact=True).parts == [Call("t", "f", '{"n":1.8446744073709552e+19}')]


TOOL_USE = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
SERVER_TOOL_USE = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}


@pytest.mark.parametrize(
    ("wire", "stop"),
    [
        (message(), Stop("end", native="end_turn")),
        (message(TOOL_USE), Stop("tool", native="end_turn")),
        (message(SERVER_TOOL_USE, stop="tool_use"), Stop("end", native="tool_use")),
        (message(TOOL_USE, stop="max_tokens"), Stop("length", native="max_tokens")),
        (
            message(stop="stop_sequence", stop_sequence="END"),
            Stop("stop_sequence", sequence="END", native="stop_sequence"),
        ),
        (message(stop="pause_turn"), Stop("pause", native="pause_turn")),
        (message(stop="compaction"), Stop("compaction", native="compaction")),
        (
            message(stop="model_context_window_exceeded"),
            Stop("context", native="model_context_window_exceeded"),
        ),
        (
            message(stop="refusal", stop_details={"type": "refusal", "category": "bio", "explanation": "No."}),
            Stop("refusal", classifier=True, category="bio", explanation="No.", native="refusal"),
        ),
        (message(stop="tired"), Stop("end", native="tired", unknown=True)),
        (message(stop=None), Stop("end")),
    ],
)
def test_stop(wire: Wire, stop: Stop) -> None:
    assert read(wire).stop == stop


@pytest.mark.parametrize(
    ("citation", "canonical"),
    [
        (
            {"type": "web_search_result_location", "url": "https://a", "title": None, "cited_text": "c"},
            {"kind": "url", "url": "https://a", "cited_text": "c"},
        ),
        (
            {"type": "search_result_location", "source": "https://a", "title": "t", "cited_text": "c"},
            {"kind": "url", "url": "https://a", "title": "t", "cited_text": "c"},
        ),
        (
            {"type": "search_result_location", "source": "doc-1", "title": "t", "cited_text": "c"},
            {"kind": "file", "url": "doc-1", "title": "t", "cited_text": "c"},
        ),
        (
            {"type": "char_location", "document_title": "D", "cited_text": "c"},
            {"kind": "document", "title": "D", "cited_text": "c"},
        ),
    ],
)
def test_citation(citation: Wire, canonical: dict[str, str]) -> None:
    reply = read(message({"type": "text", "text": "x", "citations": [citation, 3]}))
    assert reply.parts == [Text("x", [Citation(**canonical, native=citation)])]


def test_what_is_missing_reads_as_empty() -> None:
    assert read({}) == Reply("", "")
    assert read({"content": "plain"}).parts == [Text("plain")]
    assert read({"content": [{}, 3, {"type": "text"}]}).parts == [Opaque("", {}), Text("")]


@pytest.mark.parametrize(
    ("wire", "kind"),
    [
        ([], ErrorClass.BAD_GATEWAY),
        ({"content": 3}, ErrorClass.BAD_GATEWAY),
        ({"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}}, ErrorClass.OVERLOADED),
        ({"error": {"message": "slow down", "code": 429}}, ErrorClass.RATE_LIMIT),
    ],
)
def test_a_200_that_is_no_message(wire: object, kind: ErrorClass) -> None:
    with pytest.raises(Rejected) as caught:
        read(wire)
    assert caught.value.error.kind == kind


# --- writing ---


def test_a_whole_reply_has_every_key() -> None:
    reply = Reply(
        "chatcmpl-1",
        "gpt-x",
        [
            Reasoning("hm"),
            Text(""),
            Text("It is", [Citation("url", "https://a", "T", start=3, end=5), Citation("file", "file-1")]),
            Call("call_1", "f", '{"b": 1.0}', extra={"extra_content": {}}),
        ],
        Stop("tool"),
        Usage(10, 20, 30, 5, 40, 15, {"web_search": 1}),
        service_tier="default",
    )
    assert write(reply) == {
        "id": "msg_chatcmpl1",
        "type": "message",
        "role": "assistant",
        "model": "gpt-x",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": ""},
            {
                "type": "text",
                "text": "It is",
                "citations": [
                    {
                        "type": "web_search_result_location",
                        "url": "https://a",
                        "title": "T",
                        "cited_text": "is",
                        "encrypted_index": "",
                    }
                ],
            },
            {"type": "tool_use", "id": "call_1", "name": "f", "input": {"b": 1.0}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "stop_details": None,
        "container": None,
        "diagnostics": None,
        "usage": {
            "input_tokens": 10,
            "cache_creation_input_tokens": 30,
            "cache_read_input_tokens": 20,
            "output_tokens": 40,
            "output_tokens_details": {"thinking_tokens": 15},
            "server_tool_use": {"web_search_requests": 1, "web_fetch_requests": 0},
            "cache_creation": {"ephemeral_5m_input_tokens": 25, "ephemeral_1h_input_tokens": 5},
            "service_tier": "standard",
            "inference_geo": None,
            "speed": None,
        },
    }


def test_an_empty_reply_with_nothing_known() -> None:
    wire = write(Reply("", ""))
    usage = wire["usage"]
    assert (wire["id"], wire["model"], wire["content"], wire["stop_reason"]) == (
        "msg_req_1",
        "asked-for",
        [],
        "end_turn",
    )
    assert isinstance(usage, dict)
    assert (usage["input_tokens"], usage["output_tokens"]) == (7, 0)


def test_the_alias_that_the_client_asked_for() -> None:
    assert write(Reply("x", "real"), ReplyContext("r", "alias", model_override="alias"))["model"] == "alias"


STOPS: list[tuple[Stop, list[ReplyPart], tuple[str, str | None, Wire | None]]] = [
    (Stop("end"), [], ("end_turn", None, None)),
    (Stop("end"), [Call("c", "f", "{}")], ("tool_use", None, None)),
    (Stop("tool"), [], ("end_turn", None, None)),
    (Stop("length"), [Call("c", "f", "{")], ("max_tokens", None, None)),
    (Stop("stop_sequence", sequence="END"), [], ("stop_sequence", "END", None)),
    (Stop("stop_sequence"), [], ("end_turn", None, None)),
    (Stop("context"), [], ("model_context_window_exceeded", None, None)),
    (Stop("max_messages"), [], ("max_tokens", None, None)),
    (Stop("steered"), [], ("end_turn", None, None)),
    (Stop("pause"), [], ("pause_turn", None, None)),
    (Stop("compaction"), [], ("compaction", None, None)),
    (
        Stop("filter", explanation="cut"),
        [],
        ("refusal", None, {"type": "refusal", "category": None, "explanation": "cut"}),
    ),
    (Stop("refusal"), [Refusal("No.")], ("refusal", None, {"type": "refusal", "category": None, "explanation": None})),
    (Stop("end"), [Refusal("No.")], ("refusal", None, {"type": "refusal", "category": None, "explanation": None})),
]


@pytest.mark.parametrize(("stop", "parts", "expected"), STOPS)
def test_stop_reason(stop: Stop, parts: list[ReplyPart], expected: tuple[str, str | None, Wire | None]) -> None:
    wire = write(Reply("x", "m", parts, stop))
    assert (wire["stop_reason"], wire["stop_sequence"], wire["stop_details"]) == expected


def test_every_stop_is_known() -> None:
    assert {stop.kind for stop, _, _ in STOPS} == set(StopKind.__args__)


def test_the_words_of_a_refusal_and_of_a_broken_call() -> None:
    assert write(Reply("x", "m", [Refusal("No."), Call("c", "f", '{"a": Oslo}')]))["content"] == [
        {"type": "text", "text": "No.", "citations": None},
        {"type": "tool_use", "id": "c", "name": "f", "input": {"INVALID_JSON": '{"a": Oslo}'}},
    ]


def test_own_blocks_come_back_as_they_were_and_foreign_ones_stay_hidden() -> None:
    own: list[Wire] = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "redacted_thinking", "data": "d"},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
        {"type": "container_upload", "file_id": "f"},
    ]
    reply = read(message(*own))
    reply.parts += [
        HostedCall("web_search", {"type": "web_search_call", "id": "ws_1"}),
        Opaque("compaction", {"type": "compaction", "id": "cmp_1", "encrypted_content": "x"}),
        Reasoning("", native={"type": "reasoning", "encrypted_content": "x"}, redacted=True),
    ]
    assert write(reply)["content"] == own


def test_thinking_that_the_client_does_not_want_to_see() -> None:
    context = ReplyContext("r", "m", show_reasoning=False)
    reply = Reply(
        "x", "m", [Reasoning("hm"), Reasoning("hm", native={"type": "thinking", "thinking": "hm", "signature": "s"})]
    )
    assert write(reply, context)["content"] == [{"type": "thinking", "thinking": "", "signature": "s"}]


@pytest.mark.parametrize(
    ("backend_id", "shown"),
    [
        ("msg_01", "msg_01"),
        ("resp_0a", "msg_resp_0a"),
        ("chatcmpl-0.a", "msg_chatcmpl0a"),
        ("", "msg_req_1"),
        ("---", "msg_cb3f91d54eee30e53e35b2b99905f70f169ed549fd78909d"),
    ],
)
def test_message_id(backend_id: str, shown: str) -> None:
    assert message_id(backend_id, "req_1") == shown


def test_a_long_message_id_is_hashed() -> None:
    assert message_id("a" * 61, "") == message_id("a" * 61, "") != message_id("a" * 62, "")
    assert len(message_id("a" * 61, "")) == 52


def test_what_a_compaction_used_is_kept_beside_the_counts_and_not_shown() -> None:
    iterations = [
        {"type": "compaction", "input_tokens": 180_000, "output_tokens": 3500},
        {"type": "message", "input_tokens": 23_000, "output_tokens": 1000},
    ]
    counts = {"input_tokens": 23_000, "output_tokens": 1000}
    reply = read(message(usage={**counts, "iterations": iterations}))
    assert reply.usage == Usage(input_fresh=23_000, output=1000, beside=[Beside(None, Usage(180_000, output=3500))])
    usage = write(reply)["usage"]
    assert isinstance(usage, dict)
    assert "iterations" not in usage


def test_of_several_attempts_all_but_the_last_were_used_beside_the_counts() -> None:
    iterations: list[dict[str, object]] = [
        {"type": "message", "model": "first", "input_tokens": 9, "output_tokens": 2},
        {"type": "advisor_message", "model": "wise", "input_tokens": 7, "output_tokens": 1},
        {"type": "fallback_message", "model": "last", "input_tokens": 8, "output_tokens": 3},
    ]
    reply = read(message(usage={"input_tokens": 8, "output_tokens": 3, "iterations": iterations}))
    beside = [Beside("first", Usage(9, output=2)), Beside("wise", Usage(7, output=1))]
    assert reply.usage == Usage(8, output=3, beside=beside)
