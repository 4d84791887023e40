"""What a Messages client asks, as the canonical request."""

import pytest

from proxy.canonical.errors import Error, ErrorClass, InexactNumber, Reason, Rejected
from proxy.canonical.loss import Loss, LossReport, Rule
from proxy.canonical.parts import (
    CacheMark,
    Call,
    Citation,
    Document,
    HostedCall,
    Image,
    Opaque,
    Part,
    Reasoning,
    Result,
    SearchResult,
    Source,
    Text,
    Turn,
)
from proxy.canonical.request import (
    CachePolicy,
    Identity,
    Instruction,
    Limits,
    Output,
    OutputFormat,
    ReasoningPolicy,
    Request,
    Sampling,
    Service,
)
from proxy.canonical.tools import FunctionTool, HostedTool, ToolPolicy, ToolRef, TypedTool
from proxy.protocols.messages import read_request

Wire = dict[str, object]
HELLO: Wire = {"role": "user", "content": "Hello"}


def body(**fields: object) -> Wire:
    return {"model": "claude-opus-5", "max_tokens": 1024, "messages": [HELLO], **fields}


def read(**fields: object) -> tuple[Request, list[Loss]]:
    losses = LossReport("Chat Completions")
    return read_request(body(**fields), losses), losses.losses


def parts_of(role: str, *blocks: Wire) -> list[Part]:
    request, _ = read(messages=[HELLO, {"role": role, "content": list(blocks)}])
    return request.turns[1].parts


def refusal(**fields: object) -> Error:
    with pytest.raises(Rejected) as caught:
        read(**fields)
    return caught.value.error


def test_a_small_request() -> None:
    request, losses = read()
    assert request == Request(
        "messages",
        "claude-opus-5",
        turns=[Turn("user", [Text("Hello")], at=("messages", 0))],
        tool_policy=ToolPolicy(),
        limits=Limits(1024, ("max_tokens",), [], ("stop_sequences",)),
    )
    assert losses == []


def test_all_settings() -> None:
    request, losses = read(
        max_tokens=20_000,
        system="Be brief.",
        tools=[{"name": "f", "input_schema": {"type": "object"}}],
        tool_choice={"type": "tool", "name": "f", "disable_parallel_tool_use": True},
        thinking={"type": "enabled", "budget_tokens": 4000, "display": "summarized"},
        output_config={"effort": "high", "format": {"type": "json_schema", "schema": {"type": "object"}}},
        temperature=0.5,
        top_p=0.9,
        top_k=40,
        stop_sequences=["END"],
        stream=True,
        metadata={"user_id": "u-1"},
        cache_control={"type": "ephemeral", "ttl": "1h"},
        service_tier="standard_only",
        speed="fast",
    )
    assert request == Request(
        "messages",
        "claude-opus-5",
        turns=[Turn("user", [Text("Hello")], at=("messages", 0))],
        instructions=[Instruction([Text("Be brief.")], top_level=True, at=("system",))],
        tools=[FunctionTool("f", {"type": "object"}, at=("tools", 0))],
        tool_policy=ToolPolicy("named", ToolRef("function", "f"), parallel=False),
        sampling=Sampling(temperature=0.5, top_p=0.9, top_k=40),
        reasoning=ReasoningPolicy("budget", "high", 4000, show=True, at=("thinking",)),
        output=Output(OutputFormat("json_schema", {"type": "object"}, strict=True, at=("output_config", "format"))),
        limits=Limits(20_000, ("max_tokens",), ["END"], ("stop_sequences",)),
        cache=CachePolicy(auto=True, ttl="long", at=("cache_control",)),
        identity=Identity("u-1", ("metadata", "user_id")),
        service=Service("standard_only", "fast"),
        stream=True,
    )
    assert losses == []


def test_nulls_of_optional_fields_read_as_absent() -> None:
    names = "system tools tool_choice thinking output_config temperature stop_sequences stream metadata cache_control "
    names += "service_tier inference_geo speed container diagnostics mcp_servers context_management thread fallbacks"
    assert read(**dict.fromkeys(names.split())) == read()


def test_system_blocks_keep_their_bounds_and_marks_and_lose_citations() -> None:
    request, losses = read(
        system=[
            {"type": "text", "text": "One.", "cache_control": {"type": "ephemeral"}},
            {"type": "text", "text": "Two.", "citations": [{"type": "page_location", "document_title": "d"}]},
        ]
    )
    assert request.instructions == [
        Instruction([Text("One.", cache=CacheMark("short")), Text("Two.")], top_level=True, at=("system",))
    ]
    assert losses == [Loss(Rule.CITATIONS, "drop", "system")]


# --- blocks ---

PAGE = {"type": "page_location", "cited_text": "c", "document_index": 0, "document_title": "D", "start_page_number": 1}


@pytest.mark.parametrize(
    ("block", "part"),
    [
        (
            {"type": "text", "text": "t", "citations": None, "cache_control": {"type": "ephemeral", "ttl": "1h"}},
            Text("t", cache=CacheMark("long")),
        ),
        (
            {"type": "text", "text": "t", "citations": [PAGE]},
            Text("t", [Citation("document", title="D", cited_text="c", native=PAGE)]),
        ),
        (
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}},
            Image(Source("base64", "iVBO", "image/png"), at=("messages", 1, "content", 0)),
        ),
        (
            {"type": "image", "source": {"type": "url", "url": "https://a/b"}, "transformations": {}},
            Image(Source("url", "https://a/b"), transformed=True, at=("messages", 1, "content", 0)),
        ),
        (
            {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
            Image(Source("file", "file_1", vendor="anthropic"), at=("messages", 1, "content", 0)),
        ),
        (
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBE"},
                "title": "T",
                "context": "C",
                "citations": {"enabled": True},
            },
            Document(
                Source("base64", "JVBE", "application/pdf"), "T", "C", cite=True, at=("messages", 1, "content", 0)
            ),
        ),
        (
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "words"}},
            Document(Source("text", "words", "text/plain"), at=("messages", 1, "content", 0)),
        ),
        (
            {"type": "document", "source": {"type": "url", "url": "https://a/b.pdf"}},
            Document(Source("url", "https://a/b.pdf", "application/pdf"), at=("messages", 1, "content", 0)),
        ),
        (
            {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "x"}]}},
            Document(None, content=[Text("x")], at=("messages", 1, "content", 0)),
        ),
        (
            {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "x"}]},
            SearchResult("s", "t", [Text("x")], at=("messages", 1, "content", 0)),
        ),
        (
            {"type": "tool_result", "tool_use_id": "t1"},
            Result("t1", [], at=("messages", 1, "content", 0)),
        ),
        (
            {"type": "tool_result", "tool_use_id": "t1", "content": "19", "is_error": True, "toolset_name": "browser"},
            Result("t1", [Text("19")], True, extra={"toolset_name": "browser"}, at=("messages", 1, "content", 0)),
        ),
        (
            {
                "type": "tool_result",
                "tool_use_id": "t1",
                "content": [
                    {"type": "text", "text": "a"},
                    {"type": "image", "source": {"type": "url", "url": "https://a/b"}},
                    {"type": "tool_reference", "tool_name": "f"},
                ],
            },
            Result(
                "t1",
                [
                    Text("a"),
                    Image(Source("url", "https://a/b"), at=("messages", 1, "content", 0, "content", 1)),
                    Opaque(
                        "tool_reference",
                        {"type": "tool_reference", "tool_name": "f"},
                        at=("messages", 1, "content", 0, "content", 2),
                    ),
                ],
                at=("messages", 1, "content", 0),
            ),
        ),
    ],
)
def test_block_of_the_user(block: Wire, part: Part) -> None:
    assert parts_of("user", block) == [part]


THINKING = {"type": "thinking", "thinking": "hm", "signature": "s"}
REDACTED = {"type": "redacted_thinking", "data": "d"}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}


@pytest.mark.parametrize(
    ("block", "part"),
    [
        (THINKING, Reasoning("hm", native=THINKING, at=("messages", 1, "content", 0))),
        (REDACTED, Reasoning("", native=REDACTED, redacted=True, at=("messages", 1, "content", 0))),
        (
            {"type": "tool_use", "id": "t1", "name": "f", "input": {"b": 1, "a": 2}, "caller": {"type": "direct"}},
            Call(
                "t1",
                "f",
                input={"b": 1, "a": 2},
                extra={"caller": {"type": "direct"}},
                at=("messages", 1, "content", 0),
            ),
        ),
        (
            {"type": "tool_use", "id": "t1", "name": "f", "input": {"INVALID_JSON": "{oops"}},
            Call("t1", "f", "{oops", at=("messages", 1, "content", 0)),
        ),
        (
            {"type": "tool_use", "id": "t1", "name": "screenshot", "input": {}, "toolset_name": "computer"},
            Call(
                "t1",
                "screenshot",
                input={},
                kind="typed",
                namespace="computer",
                tool="computer",
                at=("messages", 1, "content", 0),
            ),
        ),
        (SEARCH, HostedCall("web_search", SEARCH, "srvtoolu_1", at=("messages", 1, "content", 0))),
        (FOUND, HostedCall("web_search", FOUND, "srvtoolu_1", is_result=True, at=("messages", 1, "content", 0))),
    ],
)
def test_block_of_the_assistant(block: Wire, part: Part) -> None:
    assert parts_of("assistant", block) == [part]


def test_block_of_tomorrow_is_kept_and_recorded() -> None:
    block = {"type": "hologram", "data": 1}
    request, losses = read(messages=[{"role": "user", "content": [block]}])
    assert request.turns[0].parts == [Opaque("hologram", block, at=("messages", 0, "content", 0))]
    assert losses == [Loss(Rule.UNKNOWN_FIELD, "drop", "messages[0].content[0]")]


@pytest.mark.parametrize(
    ("block", "rule"),
    [
        ({"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}}, Rule.FALLBACKS),
        ({"type": "mcp_tool_listing", "mcp_server_name": "m", "tools": []}, Rule.MCP_SERVERS),
        ({"type": "container_upload", "file_id": "f"}, Rule.CONTAINER_UPLOAD),
        ({"type": "compaction", "content": None, "encrypted_content": "x"}, Rule.COMPACTION),
    ],
)
def test_blocks_that_only_the_vendor_can_use_are_dropped(block: Wire, rule: Rule) -> None:
    request, losses = read(messages=[HELLO, {"role": "assistant", "content": [block]}])
    assert request.turns[1].parts == [Opaque(str(block["type"]), block, at=("messages", 1, "content", 0))]
    assert losses == [Loss(rule, "drop", "messages[1].content[0]")]


def test_words_of_a_compaction_survive() -> None:
    block = {"type": "compaction", "content": "Earlier: hello.", "signature": "s"}
    request, losses = read(messages=[{"role": "user", "content": [block, {"type": "text", "text": "Go on."}]}])
    assert request.turns[0].parts == [Text("Earlier: hello."), Text("Go on.")]
    assert losses == [Loss(Rule.COMPACTION, "approx", "messages[0].content[0]")]


def test_unknown_field_is_recorded_with_its_path() -> None:
    _, losses = read(messages=[{"role": "user", "content": [{"type": "text", "text": "t", "id": "x"}], "name": "me"}])
    assert losses == [
        Loss(Rule.UNKNOWN_FIELD, "drop", "messages[0].name"),
        Loss(Rule.UNKNOWN_FIELD, "drop", "messages[0].content[0].id"),
    ]


def test_integer_that_the_decoder_rounded_is_not_taken() -> None:
    wire = body(
        messages=[
            HELLO,
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {"n": [2.0**70]}}]},
        ]
    )
    with pytest.raises(InexactNumber):
        read_request(wire, LossReport())
    request = read_request(wire, LossReport(), exact=True)
    assert request.turns[1].parts == [Call("t", "f", input={"n": [2.0**70]}, at=("messages", 1, "content", 0))]


# --- system messages ---


def test_system_message_in_the_middle_is_a_turn_and_a_leading_one_an_instruction() -> None:
    request, losses = read(
        messages=[
            {"role": "system", "content": "First."},
            HELLO,
            {"role": "system", "content": [{"type": "text", "text": "Later."}]},
        ]
    )
    assert request.instructions == [Instruction([Text("First.")], at=("messages", 0))]
    assert request.turns == [
        Turn("user", [Text("Hello")], at=("messages", 1)),
        Turn("system", [Text("Later.")], at=("messages", 2)),
    ]
    assert losses == []


def test_system_message_that_is_cleared_by_the_next_user_message() -> None:
    shown = {"role": "system", "content": "Now.", "clear_at": "next_user_message"}
    answer = {"role": "assistant", "content": "Yes."}
    request, losses = read(messages=[HELLO, shown, answer, HELLO, shown])
    assert [(turn.role, turn.at) for turn in request.turns] == [
        ("user", ("messages", 0)),
        ("assistant", ("messages", 2)),
        ("user", ("messages", 3)),
        ("system", ("messages", 4)),
    ]
    assert losses == [
        Loss(Rule.CLEAR_AT, "approx", "messages[1].clear_at"),
        Loss(Rule.CLEAR_AT, "approx", "messages[4].clear_at"),
    ]


def test_effort_of_the_last_system_message_holds() -> None:
    request, losses = read(
        output_config={"effort": "low"},
        messages=[
            HELLO,
            {"role": "system", "content": [], "output_config": {"effort": "low"}},
            {"role": "system", "output_config": {"effort": "max"}},
        ],
    )
    assert request.reasoning == ReasoningPolicy(effort="max", at=("messages", 2, "output_config", "effort"))
    assert request.turns == [Turn("user", [Text("Hello")], at=("messages", 0))]
    assert losses == [Loss(Rule.OUTPUT_CONFIG, "approx", f"messages[{n}].output_config") for n in (1, 2)]


def test_tool_changes_of_system_messages_fold_into_the_tool_list() -> None:
    request, losses = read(
        tools=[
            {"name": "a", "input_schema": {}},
            {"name": "b", "input_schema": {}, "defer_loading": True},
        ],
        messages=[
            HELLO,
            {
                "role": "system",
                "content": [
                    {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "a"}},
                    {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "b"}},
                    {
                        "type": "tool_addition",
                        "tool": {"type": "tool_definition", "definition": {"name": "c", "input_schema": {}}},
                    },
                    {"type": "text", "text": "Tools changed."},
                ],
            },
        ],
    )
    place = ("messages", 1, "content", 2, "tool", "definition")
    assert request.tools == [FunctionTool("b", {}, at=("tools", 1)), FunctionTool("c", {}, at=place)]
    assert request.turns[1] == Turn("system", [Text("Tools changed.")], at=("messages", 1))
    assert losses == [Loss(Rule.TOOL_CHANGE, "approx", f"messages[1].content[{n}]") for n in range(3)]


# --- tools ---


@pytest.mark.parametrize(
    ("wire", "tool"),
    [
        (
            {
                "type": "custom",
                "name": "f",
                "description": "d",
                "input_schema": {"type": "object"},
                "strict": True,
                "defer_loading": True,
                "cache_control": {"type": "ephemeral"},
                "eager_input_streaming": None,
            },
            FunctionTool("f", {"type": "object"}, "d", strict=True, deferred=True, cache=CacheMark(), at=("tools", 0)),
        ),
        ({"type": "bash_20250124", "name": "bash"}, ("bash", "bash")),
        ({"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"}, "text_editor"),
        ({"type": "memory_20250818", "name": "memory"}, "memory"),
        ({"type": "computer_20991231", "name": "computer", "display_width_px": 1}, "computer"),
        ({"type": "computer_toolset_20260801"}, ("computer", "computer")),
        ({"type": "browser_toolset_20260801"}, ("browser", "browser")),
        ({"type": "web_search_20260318", "name": "web_search"}, HostedTool),
        ({"type": "tool_search_tool_regex", "name": "tool_search_tool_regex"}, HostedTool),
        ({"type": "mcp_toolset", "mcp_server_name": "m"}, HostedTool),
        ({"type": "teleport_20270101", "name": "teleport"}, HostedTool),
    ],
)
def test_tool(wire: Wire, tool: object) -> None:
    request, losses = read(tools=[wire])
    (read_tool,) = request.tools
    if isinstance(tool, FunctionTool):
        assert read_tool == tool
    elif tool is HostedTool:
        kinds = {"tool_search_tool_regex": "tool_search", "mcp_toolset": "mcp", "web_search_20260318": "web_search"}
        kind = kinds.get(str(wire["type"]), wire["type"])
        assert read_tool == HostedTool(kind, wire, wire.get("name", "mcp_toolset"), at=("tools", 0))
    else:
        kind, name = tool if isinstance(tool, tuple) else (tool, wire["name"])
        assert read_tool == TypedTool(kind, wire, name, at=("tools", 0))
    assert losses == []


def test_calls_of_typed_tools_are_typed() -> None:
    request, _ = read(
        tools=[{"type": "bash_20250124", "name": "bash"}],
        messages=[
            HELLO,
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "bash", "input": {}}]},
        ],
    )
    call = Call("t", "bash", input={}, kind="typed", tool="bash", at=("messages", 1, "content", 0))
    assert request.turns[1].parts == [call]


def test_examples_join_the_description_and_programmatic_callers_go() -> None:
    request, losses = read(
        tools=[
            {"name": "f", "description": "d", "input_schema": {}, "input_examples": [{"a": 1}, {"a": 2}]},
            {"name": "g", "input_schema": {}, "allowed_callers": ["code_execution_20260120"]},
            {"name": "h", "input_schema": {}, "allowed_callers": ["direct", "code_execution_20260120"]},
            {"name": "i", "input_schema": {}, "input_examples": [{"a": "x" * 5000}]},
        ]
    )
    assert request.tools == [
        FunctionTool("f", {}, 'd\n\nExamples:\n{"a":1}\n{"a":2}', at=("tools", 0)),
        FunctionTool("h", {}, at=("tools", 2)),
        FunctionTool("i", {}, at=("tools", 3)),
    ]
    assert losses == [
        Loss(Rule.INPUT_EXAMPLES, "approx", "tools[0].input_examples"),
        Loss(Rule.ALLOWED_CALLERS, "approx", "tools[1].allowed_callers"),
        Loss(Rule.ALLOWED_CALLERS, "approx", "tools[2].allowed_callers"),
        Loss(Rule.INPUT_EXAMPLES, "approx", "tools[3].input_examples"),
    ]


@pytest.mark.parametrize(
    ("choice", "policy"),
    [
        ({"type": "auto"}, ToolPolicy("auto")),
        ({"type": "any", "disable_parallel_tool_use": False}, ToolPolicy("any", parallel=True)),
        ({"type": "none"}, ToolPolicy("none")),
        ({"type": "tool", "name": "web_search"}, ToolPolicy("named", ToolRef("web_search_20250305", "web_search"))),
    ],
)
def test_tool_choice(choice: Wire, policy: ToolPolicy) -> None:
    request, _ = read(tools=[{"type": "web_search_20250305", "name": "web_search"}], tool_choice=choice)
    assert request.tool_policy == policy


# --- thinking and format ---


@pytest.mark.parametrize(
    ("fields", "policy"),
    [
        ({"thinking": {"type": "disabled"}}, ReasoningPolicy("off", at=("thinking",))),
        ({"thinking": {"type": "between_tools"}}, ReasoningPolicy("between_tools", at=("thinking",))),
        (
            {"thinking": {"type": "adaptive", "display": "omitted"}, "output_config": {"effort": "xhigh"}},
            ReasoningPolicy("adaptive", "xhigh", show=False, at=("thinking",)),
        ),
        ({"output_config": {"effort": "low"}}, ReasoningPolicy(effort="low", at=("output_config", "effort"))),
    ],
)
def test_reasoning(fields: Wire, policy: ReasoningPolicy) -> None:
    request, losses = read(**fields)
    assert request.reasoning == policy
    assert losses == []


def test_notes_in_place_of_thinking_are_thinking_elsewhere() -> None:
    request, losses = read(thinking={"type": "adaptive", "display": "updates"})
    assert request.reasoning == ReasoningPolicy("adaptive", show=True, at=("thinking",))
    assert losses == [Loss(Rule.THINKING, "approx", "thinking.display")]


def test_budget_above_the_limit_is_accepted_and_recorded() -> None:
    request, losses = read(thinking={"type": "enabled", "budget_tokens": 2000})
    assert request.reasoning == ReasoningPolicy("budget", budget=2000, at=("thinking",))
    assert losses == [Loss(Rule.THINKING, "approx", "thinking.budget_tokens")]


def test_the_old_place_of_the_format() -> None:
    request, losses = read(output_format={"type": "json_schema", "schema": {"type": "object"}})
    assert request.output.format == OutputFormat("json_schema", {"type": "object"}, strict=True, at=("output_format",))
    assert losses == []


def test_a_prewarm() -> None:
    request, _ = read(max_tokens=0)
    at = ("max_tokens",)
    assert request.limits == Limits(0, at, [], ("stop_sequences",), prewarm=True, prewarm_at=at)


# --- what no other vendor has ---


@pytest.mark.parametrize(
    ("fields", "loss"),
    [
        ({"diagnostics": {"previous_message_id": None}}, Loss(Rule.DIAGNOSTICS, "drop", "diagnostics")),
        ({"fallbacks": "default"}, Loss(Rule.FALLBACKS, "drop", "fallbacks")),
        ({"fallback_credit_token": "t"}, Loss(Rule.FALLBACK_CREDIT_TOKEN, "drop", "fallback_credit_token")),
        ({"billing_policy": {"bill_to": "self"}}, Loss(Rule.BILLING_POLICY, "drop", "billing_policy")),
        ({"user_profile_id": "p"}, Loss(Rule.USER_PROFILE, "drop", "user_profile_id")),
        (
            {"output_config": {"task_budget": {"type": "tokens", "total": 20_000}}},
            Loss(Rule.TASK_BUDGET, "drop", "output_config.task_budget"),
        ),
        (
            {"context_management": {"edits": [{"type": "clear_thinking_20251015"}]}},
            Loss(Rule.CONTEXT_MANAGEMENT, "drop", "context_management.edits[0]"),
        ),
        (
            {"thinking": {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "error"}}},
            Loss(Rule.THINKING, "drop", "thinking.block_binding"),
        ),
        ({"reasoning_effort": "high"}, Loss(Rule.UNKNOWN_FIELD, "drop", "reasoning_effort")),
    ],
)
def test_dropped_with_a_record(fields: Wire, loss: Loss) -> None:
    _, losses = read(**fields)
    assert losses == [loss]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"container": "container_1"}, "container"),
        ({"compaction": {"type": "summarize"}}, "compaction"),
        ({"mcp_servers": [{"type": "url", "url": "https://m", "name": "m"}]}, "mcp_servers"),
        ({"thread": {"type": "create"}}, "thread"),
        (
            {"messages": [{"role": "user", "content": [{"type": "container_upload", "file_id": "f"}]}]},
            "messages[0].content[0]",
        ),
    ],
)
def test_refused(fields: Wire, param: str) -> None:
    error = refusal(**fields)
    assert (error.kind, error.param, error.reason) == (ErrorClass.UNSUPPORTED, param, Reason.LOSS_REFUSED)


def test_a_thread_is_refused_so_that_the_tool_runner_sends_everything_again() -> None:
    error = refusal(thread={"type": "continue", "previous_message_id": "msg_1"})
    assert error.details == {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}


def test_servers_go_with_the_toolset_that_names_them() -> None:
    servers = [{"type": "url", "url": "https://m", "name": "m"}]
    request, losses = read(mcp_servers=servers, tools=[{"type": "mcp_toolset", "mcp_server_name": "m"}])
    assert request.extra == {"mcp_servers": servers}
    assert losses == []


# --- what is wrong ---


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"model": None}, "model"),
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"messages": []}, "messages"),
        ({"messages": ["hi"]}, "messages[0]"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [3]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": [{}]}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
        (
            {"messages": [{"role": "user", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]}]},
            "messages[0].content[0].type",
        ),
        (
            {"messages": [{"role": "assistant", "content": [{"type": "tool_result", "tool_use_id": "t"}]}]},
            "messages[0].content[0].type",
        ),
        (
            {
                "messages": [
                    {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": 3}]}
                ]
            },
            "messages[0].content[0].input",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "svg"}}]}]},
            "messages[0].content[0].source.type",
        ),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "messages[0].content[0].source"),
        ({"system": [{"type": "image"}]}, "system[0].type"),
        ({"tools": [{"input_schema": {}}]}, "tools[0].name"),
        ({"tools": {"name": "f"}}, "tools"),
        ({"tool_choice": "auto"}, "tool_choice"),
        ({"tool_choice": {"type": "some"}}, "tool_choice.type"),
        ({"tool_choice": {"type": "tool"}}, "tool_choice.name"),
        ({"thinking": {"type": "enabled"}}, "thinking.budget_tokens"),
        ({"thinking": {}}, "thinking.type"),
        ({"output_config": {"effort": "extreme"}}, "output_config.effort"),
        ({"output_config": {"format": {"type": "json_object"}}}, "output_config.format.type"),
        ({"output_config": {"format": {"type": "json_schema"}}}, "output_config.format.schema"),
        ({"stop_sequences": ["a", 1]}, "stop_sequences[1]"),
        ({"metadata": {"user_id": 7}}, "metadata.user_id"),
        ({"cache_control": {"type": "ephemeral", "ttl": "2h"}}, "cache_control.ttl"),
        ({"service_tier": "priority"}, "service_tier"),
    ],
)
def test_a_wrong_field_is_named(fields: Wire, param: str) -> None:
    error = refusal(**fields)
    assert (error.kind, error.param) == (ErrorClass.INVALID, param)
