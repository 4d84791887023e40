"""What a Responses client asks, as the canonical request."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.canonical.errors import Error, ErrorClass, Reason, Rejected
from proxy.canonical.jsontext import dumps
from proxy.canonical.loss import Loss, LossReport, Rule
from proxy.canonical.parts import (
    Audio,
    CacheMark,
    Call,
    Citation,
    Document,
    HostedCall,
    Image,
    Opaque,
    Part,
    Reasoning,
    Refusal,
    Result,
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
    State,
)
from proxy.canonical.tools import CustomTool, FunctionTool, Grammar, HostedTool, ToolPolicy, ToolRef, TypedTool
from proxy.protocols.responses import read_request

Wire = dict[str, object]


def read(**fields: object) -> tuple[Request, list[Loss]]:
    losses = LossReport("Messages")
    return read_request({"model": "gpt-5.6", "input": "Hello", **fields}, losses), losses.losses


def turns_of(*items: object) -> list[Turn]:
    return read(input=list(items))[0].turns


def rejection(**fields: object) -> Error:
    with pytest.raises(Rejected) as caught:
        read(**fields)
    return caught.value.error


def test_the_smallest_request() -> None:
    request, losses = read()
    assert losses == []
    assert request == Request(
        "responses",
        "gpt-5.6",
        [Turn("user", [Text("Hello")], at=("input",))],
        reasoning=ReasoningPolicy(at=("reasoning", "effort")),
        limits=Limits(max_output_at=("max_output_tokens",)),
        identity=Identity(end_user_at=("user",)),
        echo=request.echo,
    )


def test_settings() -> None:
    request, losses = read(
        instructions="Be brief.",
        max_output_tokens=100,
        max_tool_calls=3,
        parallel_tool_calls=False,
        temperature=0.5,
        top_p=1,
        top_logprobs=2,
        include=["reasoning.encrypted_content", "message.output_text.logprobs"],
        reasoning={"effort": "xhigh", "summary": "concise"},
        text={"format": {"type": "json_schema", "name": "n", "schema": {"a": 1}, "strict": True}, "verbosity": "low"},
        metadata={"k": "v"},
        safety_identifier="abc",
        service_tier="flex",
        prompt_cache_key="key",
        prompt_cache_options={"mode": "explicit", "ttl": "12h"},
        store=False,
        stream=True,
        stream_options={"include_obfuscation": False},
        truncation="disabled",
    )
    assert losses == []
    assert request == Request(
        "responses",
        "gpt-5.6",
        request.turns,
        [Instruction([Text("Be brief.")], top_level=True, at=("instructions",))],
        tool_policy=ToolPolicy(parallel=False, max_calls=3),
        sampling=Sampling(0.5, 1, logprobs=True, top_logprobs=2),
        reasoning=ReasoningPolicy(effort="xhigh", show=True, summary="concise", at=("reasoning", "effort")),
        output=Output(OutputFormat("json_schema", {"a": 1}, "n", True, None, ("text", "format")), "low"),
        limits=Limits(100, ("max_output_tokens",)),
        cache=CachePolicy("key", False, "long", ("prompt_cache_options",)),
        state=State(
            False,
            truncation="disabled",
            include=["reasoning.encrypted_content", "message.output_text.logprobs"],
        ),
        identity=Identity("abc", ("safety_identifier",), {"k": "v"}),
        service=Service("flex"),
        stream=True,
        echo=request.echo,
    )


def test_a_run_of_items_is_one_turn_and_a_second_message_starts_another() -> None:
    reasoning: Wire = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm"}]}
    hidden: Wire = {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "x"}
    call: Wire = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{}"}
    spoken: Wire = {"type": "output_text", "text": "Looking.", "annotations": [], "logprobs": []}
    message: Wire = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [spoken]}
    assert turns_of(
        {"role": "user", "content": "Hi"}, reasoning, message, call, hidden, {**message, "id": "msg_2"}
    ) == [
        Turn("user", [Text("Hi")], at=("input", 0)),
        Turn(
            "assistant",
            [
                Reasoning("Hm", native=reasoning, at=("input", 1)),
                Text("Looking."),
                Call("c1", "f", "{}", at=("input", 3)),
            ],
            at=("input", 1),
        ),
        Turn(
            "assistant",
            [Reasoning("", native=hidden, redacted=True, at=("input", 4)), Text("Looking.")],
            at=("input", 4),
        ),
    ]


def test_outputs_stand_in_user_turns_in_the_order_they_came() -> None:
    assert turns_of(
        {"type": "function_call_output", "call_id": "c2", "output": "two"},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "one"}]},
        {"role": "user", "content": "Well?"},
        {"type": "function_call_output", "output": "unasked", "name": "clock"},
    ) == [
        Turn(
            "user",
            [
                Result("c2", [Text("two")], at=("input", 0)),
                Result("c1", [Text("one")], kind="custom", at=("input", 1)),
            ],
            at=("input", 0),
        ),
        Turn("user", [Text("Well?")], at=("input", 2)),
        Turn("user", [Result(None, [Text("unasked")], name="clock", at=("input", 3))], at=("input", 3)),
    ]


def test_leading_system_messages_are_instructions_and_later_ones_turns() -> None:
    request, _ = read(
        instructions="A",
        input=[
            {"role": "system", "content": "B"},
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "C"}]},
            {"role": "user", "content": "Hi"},
            {"role": "developer", "content": "D"},
        ],
    )
    assert (request.instructions, request.turns) == (
        [
            Instruction([Text("A")], top_level=True, at=("instructions",)),
            Instruction([Text("B")], at=("input", 0)),
            Instruction([Text("C")], "developer", at=("input", 1)),
        ],
        [Turn("user", [Text("Hi")], at=("input", 2)), Turn("developer", [Text("D")], at=("input", 3))],
    )


AT = ("input", 0, "content", 0)
CONTENT: list[tuple[Wire, Part]] = [
    ({"type": "input_text", "text": "a"}, Text("a")),
    (
        {"type": "input_text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "12h"}},
        Text("a", cache=CacheMark("long")),
    ),
    ({"type": "refusal", "refusal": "No."}, Refusal("No.")),
    (
        {"type": "input_image", "image_url": "https://x/a.png", "detail": "high"},
        Image(Source("url", "https://x/a.png"), "high", at=AT),
    ),
    (
        {"type": "input_image", "image_url": "data:Image/PNG;base64,QUJD"},
        Image(Source("base64", "QUJD", "image/png"), at=AT),
    ),
    ({"type": "input_image", "file_id": "file-1"}, Image(Source("file", "file-1", vendor="openai"), at=AT)),
    (
        {"type": "input_file", "file_data": "data:application/pdf;base64,QQ==", "filename": "a.pdf"},
        Document(Source("base64", "QQ==", "application/pdf"), "a.pdf", at=AT),
    ),
    (
        {"type": "input_file", "file_data": "JVBERi0xLjQ="},
        Document(Source("base64", "JVBERi0xLjQ=", "application/pdf"), at=AT),
    ),
    ({"type": "input_file", "file_url": "https://x/a.pdf"}, Document(Source("url", "https://x/a.pdf"), at=AT)),
    (
        {"type": "input_file", "file_id": "file-1", "detail": "low"},
        Document(Source("file", "file-1", vendor="openai"), detail="low", at=AT),
    ),
    ({"type": "input_audio", "input_audio": {"data": "QQ==", "format": "wav"}}, Audio("QQ==", "wav", at=AT)),
]


@pytest.mark.parametrize(("wire", "part"), CONTENT)
def test_content(wire: Wire, part: Part) -> None:
    assert turns_of({"role": "user", "content": [wire]})[0].parts == [part]


def test_replayed_output_text_keeps_citations_and_phase() -> None:
    annotation: Wire = {"type": "url_citation", "url": "https://x", "title": "X", "start_index": 0, "end_index": 3}
    file: Wire = {"type": "file_citation", "file_id": "file-1", "filename": "a.txt", "index": 3}
    part: Wire = {"type": "output_text", "text": "abc", "annotations": [annotation, file, None]}
    request, losses = read(input=[{"role": "assistant", "content": [part], "phase": "final_answer"}])
    citations = [
        Citation("url", "https://x", "X", start=0, end=3, native=annotation),
        Citation("file", title="a.txt", native=file),
    ]
    assert request.turns[0].parts == [Text("abc", citations, "final_answer")]
    assert losses == [Loss(Rule.PHASE, "approx", "input[0].phase")]


def test_calls_of_every_kind() -> None:
    action: Wire = {"commands": ["ls"], "timeout_ms": 5}
    operation: Wire = {"type": "delete_file", "path": "a"}
    container: Wire = {
        "type": "shell_call",
        "call_id": "c6",
        "action": action,
        "environment": {"type": "container_reference", "container_id": "c"},
    }
    hosted_output: Wire = {"type": "shell_call_output", "call_id": "c6", "output": []}
    parts = turns_of(
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "", "namespace": "n"},
        {"type": "function_call", "call_id": "c1b", "name": "f", "arguments": {"a": 1}},
        {"type": "custom_tool_call", "call_id": "c2", "name": "g", "input": "free text"},
        {"type": "shell_call", "call_id": "c3", "action": action},
        {
            "type": "local_shell_call",
            "id": "i",
            "call_id": "c4",
            "action": {"type": "exec", "command": ["ls"], "env": {}},
            "status": "completed",
        },
        {"type": "apply_patch_call", "call_id": "c5", "operation": operation, "status": "completed"},
        container,
        hosted_output,
        {"type": "computer_call", "id": "i", "call_id": "c7", "action": {"type": "wait"}, "pending_safety_checks": []},
    )[0].parts
    assert parts == [
        Call("c1", "f", "", namespace="n", at=("input", 0)),
        Call("c1b", "f", "", {"a": 1}, at=("input", 1)),
        Call("c2", "g", "free text", kind="custom", at=("input", 2)),
        Call("c3", "shell", input=action, kind="typed", tool="shell", at=("input", 3)),
        Call(
            "c4",
            "local_shell",
            input={"command": ["ls"], "env": {}},
            kind="typed",
            tool="local_shell",
            at=("input", 4),
        ),
        Call("c5", "apply_patch", input=operation, kind="typed", tool="apply_patch", at=("input", 5)),
        HostedCall("shell", container, at=("input", 6)),
        HostedCall("shell", hosted_output, is_result=True, at=("input", 7)),
        Call("c7", "computer", input={"action": {"type": "wait"}}, kind="typed", tool="computer", at=("input", 8)),
    ]


SHELL_OUTPUT: list[Wire] = [
    {"stdout": "a\n", "stderr": "b", "outcome": {"type": "exit", "exit_code": 1}},
    {"stdout": "", "stderr": "", "outcome": {"type": "timeout"}},
]
TYPED_OUTPUTS: list[tuple[Wire, str, list[Part]]] = [
    (
        {"type": "shell_call_output", "call_id": "c", "output": SHELL_OUTPUT},
        "c",
        [Text("stdout:\na\n\nstderr:\nb\nexit code: 1\n\ntimed out")],
    ),
    ({"type": "local_shell_call_output", "id": "c", "output": "done"}, "c", [Text("done")]),
    ({"type": "local_shell_call_output", "id": "i", "call_id": "c", "output": "done"}, "c", [Text("done")]),
    (
        {"type": "apply_patch_call_output", "call_id": "c", "status": "failed", "output": "no such file"},
        "c",
        [Text("failed: no such file")],
    ),
    ({"type": "apply_patch_call_output", "call_id": "c", "status": "completed"}, "c", [Text("completed")]),
    (
        {
            "type": "computer_call_output",
            "call_id": "c",
            "output": {"type": "computer_screenshot", "image_url": "https://x/s.png"},
        },
        "c",
        [Image(Source("url", "https://x/s.png"), at=("input", 0, "output"))],
    ),
]


@pytest.mark.parametrize(("wire", "call_id", "parts"), TYPED_OUTPUTS)
def test_outputs_of_typed_tools(wire: Wire, call_id: str, parts: list[Part]) -> None:
    request, losses = read(input=[wire])
    assert request.turns[0].parts == [Result(call_id, parts, kind="typed", extra={"native": wire}, at=("input", 0))]
    assert losses == [Loss(Rule.TYPED_TOOL, "approx", "input[0]")]


HOSTED = {
    "web_search_call": "web_search",
    "file_search_call": "file_search",
    "code_interpreter_call": "code",
    "image_generation_call": "image_generation",
    "mcp_list_tools": "mcp",
    "mcp_approval_request": "mcp",
    "mcp_approval_response": "mcp",
    "mcp_call": "mcp",
    "tool_search_call": "tool_search",
    "tool_search_output": "tool_search",
    "program": "program",
    "program_output": "program",
}


@pytest.mark.parametrize(("item_type", "tool"), HOSTED.items())
def test_hosted_items_are_kept_as_they_are(item_type: str, tool: str) -> None:
    wire: Wire = {"type": item_type, "id": "i", "anything": [1]}
    is_result = item_type in ("mcp_approval_response", "tool_search_output", "program_output")
    assert turns_of(wire)[0].parts == [HostedCall(tool, wire, "i", is_result, ("input", 0))]


@pytest.mark.parametrize(
    ("item_type", "rule"), [("compaction", Rule.COMPACTION), ("agent_message", Rule.UNKNOWN_FIELD)]
)
def test_items_that_only_openai_knows(item_type: str, rule: Rule) -> None:
    wire: Wire = {"type": item_type, "encrypted_content": "x"}
    request, losses = read(input=[wire])
    assert request.turns[0].parts == [Opaque(item_type, wire, ("input", 0))]
    assert losses == [Loss(rule, "drop", "input[0]")]


def test_unknown_content_parts() -> None:
    wire: Wire = {"type": "hologram", "data": "x"}
    request, losses = read(input=[{"role": "user", "content": [wire]}])
    assert request.turns[0].parts == [Opaque("hologram", wire, AT)]
    assert losses == [Loss(Rule.UNKNOWN_FIELD, "drop", "input[0].content[0]")]


def test_items_that_change_settings_on_the_way() -> None:
    request, losses = read(
        reasoning={"effort": "low"},
        input=[
            {"role": "user", "content": "Hi"},
            {"type": "additional_tools", "role": "developer", "tools": [{"type": "function", "name": "late"}]},
            {"type": "configuration_update", "reasoning": {"effort": "high"}},
            {"type": "configuration_update", "text": {"format": {"type": "text"}}, "reasoning": {"effort": "max"}},
            {"type": "compaction_trigger"},
        ],
        text={"format": {"type": "json_object"}},
    )
    assert request.tools == [FunctionTool("late", None, strict="try", at=("input", 1, "tools", 0))]
    assert request.reasoning == ReasoningPolicy(effort="max", at=("input", 3, "reasoning", "effort"))
    assert request.output == Output()
    assert losses == [
        Loss(Rule.TOOL_CHANGE, "approx", "input[1]"),
        Loss(Rule.CONFIGURATION_UPDATE, "approx", "input[2]"),
        Loss(Rule.CONFIGURATION_UPDATE, "approx", "input[3]"),
        Loss(Rule.COMPACTION, "drop", "input[4]"),
    ]


def test_tools() -> None:
    search: Wire = {"type": "web_search", "filters": {"allowed_domains": ["x"]}}
    mcp: Wire = {"type": "mcp", "server_label": "docs", "server_url": "https://x"}
    shell: Wire = {"type": "shell"}
    container: Wire = {"type": "shell", "environment": {"type": "container_auto"}}
    computer: Wire = {"type": "computer_use_preview", "display_width": 1, "display_height": 1, "environment": "mac"}
    tomorrow: Wire = {"type": "telepathy"}
    grammar: Wire = {"type": "grammar", "syntax": "lark", "definition": "start: X"}
    request, losses = read(
        tools=[
            {"type": "function", "name": "f", "description": "", "parameters": {"type": "object"}, "strict": None},
            {"type": "function", "name": "g", "parameters": None, "strict": False, "defer_loading": True},
            {"type": "custom", "name": "h", "description": "d", "format": grammar},
            {
                "type": "namespace",
                "name": "n",
                "description": "a group",
                "tools": [{"type": "function", "name": "f"}, {"type": "custom", "name": "h"}],
            },
            search,
            mcp,
            shell,
            container,
            computer,
            {"type": "programmatic_tool_calling"},
            {"type": "function", "name": "p", "output_schema": {}, "allowed_callers": ["programmatic"]},
            tomorrow,
        ]
    )
    assert request.tools == [
        FunctionTool("f", {"type": "object"}, strict="try", at=("tools", 0)),
        FunctionTool("g", None, strict=False, deferred=True, at=("tools", 1)),
        CustomTool("h", "d", Grammar("lark", "start: X"), at=("tools", 2)),
        FunctionTool("f", None, strict="try", namespace="n", at=("tools", 3, "tools", 0)),
        CustomTool("h", namespace="n", at=("tools", 3, "tools", 1)),
        HostedTool("web_search", search, "web_search", ("tools", 4)),
        HostedTool("mcp", mcp, "docs", ("tools", 5)),
        TypedTool("shell", shell, "shell", ("tools", 6)),
        HostedTool("shell", container, "shell", ("tools", 7)),
        TypedTool("computer", computer, "computer", ("tools", 8)),
        FunctionTool("p", None, strict="try", at=("tools", 10)),
        HostedTool("telepathy", tomorrow, "telepathy", ("tools", 11)),
    ]
    assert losses == [
        Loss(Rule.NAMESPACE, "approx", "tools[3].description"),
        Loss(Rule.PROGRAMMATIC_TOOL_CALLING, "approx", "tools[9]"),
        Loss(Rule.OUTPUT_SCHEMA, "drop", "tools[10].output_schema"),
        Loss(Rule.ALLOWED_CALLERS, "approx", "tools[10].allowed_callers"),
    ]


CHOICES: list[tuple[object, ToolPolicy]] = [
    ("none", ToolPolicy("none")),
    ("auto", ToolPolicy("auto")),
    ("required", ToolPolicy("any")),
    ({"type": "function", "name": "f"}, ToolPolicy("named", ToolRef("function", "f"))),
    ({"type": "custom", "name": "f"}, ToolPolicy("named", ToolRef("custom", "f"))),
    ({"type": "mcp", "server_label": "docs", "name": "x"}, ToolPolicy("named", ToolRef("mcp", "docs"))),
    ({"type": "web_search_preview"}, ToolPolicy("named", ToolRef("web_search_preview", "web_search"))),
    ({"type": "computer_use_preview"}, ToolPolicy("named", ToolRef("computer_use_preview", "computer"))),
    ({"type": "shell"}, ToolPolicy("named", ToolRef("shell", "shell"))),
    (
        {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}]},
        ToolPolicy("any", allowed=[ToolRef("function", "f")]),
    ),
]


@pytest.mark.parametrize(("choice", "policy"), CHOICES)
def test_tool_choice(choice: object, policy: ToolPolicy) -> None:
    assert read(tool_choice=choice)[0].tool_policy == policy


def test_a_choice_finds_its_tool_in_a_group() -> None:
    group = {"type": "namespace", "name": "g", "tools": [{"type": "function", "name": "f"}]}
    choice = {"type": "function", "name": "f"}
    request, _ = read(tools=[group], tool_choice=choice)
    assert request.tool_policy.named == ToolRef("function", "f", "g")
    request, _ = read(tools=[group], tool_choice={"type": "allowed_tools", "mode": "auto", "tools": [choice]})
    assert request.tool_policy.allowed == [ToolRef("function", "f", "g")]
    request, _ = read(tools=[group, {"type": "function", "name": "f"}], tool_choice=choice)
    assert request.tool_policy.named == ToolRef("function", "f")


DROPS: list[tuple[str, object, Loss]] = [
    ("client_metadata", {"a": "b"}, Loss(Rule.CLIENT_METADATA, "drop", "client_metadata")),
    ("access_programs", {"cyber": "standard"}, Loss(Rule.ACCESS_PROGRAMS, "drop", "access_programs")),
    ("background_options", {}, Loss(Rule.BACKGROUND_OPTIONS, "drop", "background_options")),
    ("context_management", [{"type": "other"}], Loss(Rule.CONTEXT_MANAGEMENT, "drop", "context_management[0]")),
    ("image", {"context_compression": "auto"}, Loss(Rule.IMAGE, "drop", "image")),
    ("include", ["file_search_call.results"], Loss(Rule.INCLUDE, "drop", "include[0]")),
    ("moderation", {"model": "m"}, Loss(Rule.MODERATION, "drop", "moderation")),
    ("store", True, Loss(Rule.STORE, "approx", "store")),
    ("truncation", "auto", Loss(Rule.TRUNCATION, "drop", "truncation")),
    ("reasoning", {"context": "all_turns"}, Loss(Rule.REASONING, "drop", "reasoning.context")),
    ("reasoning", {"mode": "pro"}, Loss(Rule.REASONING, "drop", "reasoning.mode")),
    (
        "prompt_cache_options",
        {"comparison_response_id": "resp_1"},
        Loss(Rule.PROMPT_CACHE_OPTIONS, "drop", "prompt_cache_options.comparison_response_id"),
    ),
    ("teleport", True, Loss(Rule.UNKNOWN_FIELD, "drop", "teleport")),
]


@pytest.mark.parametrize(("name", "value", "loss"), DROPS)
def test_what_no_other_protocol_carries_is_recorded(name: str, value: object, loss: Loss) -> None:
    assert read(**{name: value})[1] == [loss]


def test_null_reads_as_absent() -> None:
    names = json.loads(
        '["instructions","tools","tool_choice","reasoning","text","metadata","include","truncation",'
        '"prompt","conversation","previous_response_id","background","stream","stream_options","store",'
        '"max_output_tokens","temperature","moderation","prompt_cache_options","teleport","user"]'
    )
    assert read(**dict.fromkeys(names))[0] == read()[0]


def test_an_earlier_response_is_not_found() -> None:
    assert rejection(previous_response_id="resp_1") == Error(
        ErrorClass.INVALID,
        "Previous response with id 'resp_1' not found: send the whole history in 'input'.",
        code="previous_response_not_found",
        param="previous_response_id",
        reason=Reason.STATE_NOT_PORTABLE,
    )


REFUSALS: list[tuple[Wire, str, ErrorClass]] = [
    ({"conversation": "conv_1"}, "conversation", ErrorClass.UNSUPPORTED),
    ({"background": True}, "background", ErrorClass.UNSUPPORTED),
    ({"prompt": {"id": "pmpt_1"}}, "prompt", ErrorClass.UNSUPPORTED),
    ({"multi_agent": {"enabled": True}}, "multi_agent", ErrorClass.UNSUPPORTED),
    (
        {"moderation": {"model": "m", "policy": {"input": {"mode": "block"}}}},
        "moderation",
        ErrorClass.UNSUPPORTED,
    ),
    ({"tools": [{"type": "function", "name": "f", "async": True}]}, "tools[0].async", ErrorClass.UNSUPPORTED),
    ({"tool_choice": {"type": "programmatic_tool_calling"}}, "tool_choice", ErrorClass.UNSUPPORTED),
    ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0]", ErrorClass.UNSUPPORTED),
    ({"input": [{"id": "msg_1"}]}, "input[0]", ErrorClass.UNSUPPORTED),
    ({"model": None}, "model", ErrorClass.INVALID),
    ({"input": None}, "input", ErrorClass.INVALID),
    ({"input": 5}, "input", ErrorClass.INVALID),
    ({"input": ["x"]}, "input[0]", ErrorClass.INVALID),
    ({"input": [{}]}, "input[0].type", ErrorClass.INVALID),
    ({"input": [{"role": "critic", "content": ""}]}, "input[0].role", ErrorClass.INVALID),
    ({"input": [{"role": "user"}]}, "input[0].content", ErrorClass.INVALID),
    ({"input": [{"role": "user", "content": [{"text": "a"}]}]}, "input[0].content[0].type", ErrorClass.INVALID),
    (
        {"input": [{"role": "user", "content": [{"type": "input_image"}]}]},
        "input[0].content[0]",
        ErrorClass.INVALID,
    ),
    (
        {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png,abc"}]}]},
        "input[0].content[0].image_url",
        ErrorClass.INVALID,
    ),
    (
        {"input": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": 5}]},
        "input[0].arguments",
        ErrorClass.INVALID,
    ),
    ({"input": [{"type": "function_call_output", "call_id": "c"}]}, "input[0].output", ErrorClass.INVALID),
    ({"max_output_tokens": 0}, "max_output_tokens", ErrorClass.INVALID),
    ({"tools": {}}, "tools", ErrorClass.INVALID),
    ({"tools": [{"name": "f"}]}, "tools[0].type", ErrorClass.INVALID),
    (
        {"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "mcp"}]}]},
        "tools[0].tools[0].type",
        ErrorClass.INVALID,
    ),
    ({"tool_choice": "always"}, "tool_choice", ErrorClass.INVALID),
    ({"tool_choice": {"type": "teleport"}}, "tool_choice.type", ErrorClass.INVALID),
    ({"reasoning": {"effort": "huge"}}, "reasoning.effort", ErrorClass.INVALID),
    ({"text": {"format": {"type": "json_schema", "name": "n"}}}, "text.format.schema", ErrorClass.INVALID),
    ({"text": {"format": {"type": "xml"}}}, "text.format.type", ErrorClass.INVALID),
]


@pytest.mark.parametrize(("fields", "param", "kind"), REFUSALS)
def test_refusals_name_the_field(fields: Wire, param: str, kind: ErrorClass) -> None:
    error = rejection(**fields)
    assert (error.param, error.kind) == (param, kind)


def test_the_echo_repeats_what_the_client_asked_with_defaults_filled_in() -> None:
    request, _ = read(
        instructions="Be brief.",
        tools=[{"type": "function", "name": "f"}],
        tool_choice="required",
        metadata={"k": "v"},
        reasoning={"effort": "low"},
        text={"verbosity": "low"},
        temperature=0.2,
        store=True,
    )
    assert json.loads(dumps(request.echo)) == {
        "access_programs": None,
        "background": False,
        "conversation": None,
        "frequency_penalty": 0.0,
        "image": None,
        "input_transformations": None,
        "instructions": "Be brief.",
        "max_output_tokens": None,
        "max_tool_calls": None,
        "metadata": {"k": "v"},
        "moderation": None,
        "parallel_tool_calls": True,
        "presence_penalty": 0.0,
        "previous_response_id": None,
        "prompt": None,
        "prompt_cache_diagnostics": None,
        "prompt_cache_key": None,
        "prompt_cache_options": None,
        "prompt_cache_retention": None,
        "reasoning": {"effort": "low", "summary": None},
        "safety_identifier": None,
        "store": False,
        "temperature": 0.2,
        "text": {"format": {"type": "text"}, "verbosity": "low"},
        "tool_choice": "required",
        "tools": [{"type": "function", "name": "f"}],
        "top_logprobs": 0,
        "top_p": 1.0,
        "truncation": "disabled",
        "user": None,
    }


# Any JSON in any place: a request is read, or rejected with a reason.
FULL: Wire = {
    "model": "m",
    "instructions": "i",
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": "u"}]},
        {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "t"}], "content": []},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "t", "annotations": [{}]}],
        },
        {"type": "function_call", "call_id": "c", "name": "n", "arguments": "{}", "caller": {"type": "direct"}},
        {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_file", "file_id": "f"}]},
        {"type": "shell_call", "call_id": "s", "action": {"commands": []}, "environment": {"type": "local"}},
        {"type": "shell_call_output", "call_id": "s", "output": [{"stdout": "a", "stderr": "b", "outcome": {}}]},
        {"type": "computer_call", "call_id": "k", "actions": [{}]},
        {"type": "computer_call_output", "call_id": "k", "output": {"image_url": "u"}},
        {"type": "configuration_update", "reasoning": {"effort": "low"}, "text": {"format": {"type": "text"}}},
        {"type": "additional_tools", "tools": [{"type": "custom", "name": "n", "format": {"type": "text"}}]},
    ],
    "tools": [
        {"type": "function", "name": "n", "parameters": {}, "strict": True, "allowed_callers": ["direct"]},
        {"type": "namespace", "name": "n", "description": "d", "tools": [{"type": "function", "name": "n"}]},
        {"type": "shell", "environment": {"type": "local"}},
    ],
    "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "n"}]},
    "text": {"format": {"type": "json_schema", "name": "n", "schema": {}}, "verbosity": "low"},
    "reasoning": {"effort": "low", "summary": "auto", "context": "auto", "mode": "standard"},
    "prompt_cache_options": {"mode": "implicit", "ttl": "30m", "prewarm": False},
    "include": ["message.output_text.logprobs"],
    "moderation": {"model": "m", "policy": {"input": {"mode": "score"}, "output": None}},
    "metadata": {"k": "v"},
    "max_output_tokens": 5,
    "stream_options": {},
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | st.sampled_from(["", "x", "message"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["type", "id", "text"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def places(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The paths of all values inside a JSON value."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = [path] if path else []
    for step, inner in entries:
        found += places(inner, (*path, step))
    return found


def replaced(value: object, path: tuple[str | int, ...], new: object) -> object:
    """A copy of the JSON value with `new` at the path."""
    if not path:
        return new
    copy = json.loads(json.dumps(value))
    holder = copy
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = new
    return copy


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(places(FULL)), JSON)
def test_only_rejections_come_of_wrong_types(path: tuple[str | int, ...], new: object) -> None:
    wire = replaced(FULL, path, new)
    assert isinstance(wire, dict)
    assert named_by(wire) != ""


def named_by(wire: Wire) -> str | None:
    """The field that the rejection names; None when the request can be read."""
    try:
        read_request(wire, LossReport())
    except Rejected as rejected:
        return rejected.error.param or ""
    return None
