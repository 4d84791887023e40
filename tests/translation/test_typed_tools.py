"""Tools that a vendor's model knows by heart work on every other backend, whole and streamed (mapping.md 5.3)."""

import json

import pytest

from proxy.canonical.errors import ErrorClass, Rejected
from proxy.canonical.target import Dialect, ModelProfile, Target
from proxy.translation import pair
from proxy.translation.codecs import BackendProtocol
from proxy.translation.prepared import Prepared
from proxy.translation.typed_schemas import MEMBERS, fits
from tests.harness.model_rules import check_request
from tests.harness.wire import Json, typed_event

BACKENDS: list[BackendProtocol] = ["chat", "responses", "messages"]


def prepared(body: Json, backend: BackendProtocol) -> Prepared:
    client: BackendProtocol = "messages" if "max_tokens" in body else "responses"
    target = Target(backend, "there", Dialect(custom_tools=True), ModelProfile())
    return pair.prepare(pair.peek(client, json.dumps({"model": "m", **body}).encode()), target, pair.Options())


def sent(asked: Prepared) -> Json:
    body = json.loads(asked.body)
    check_request(asked.backend, body)
    return body


def tools_of(body: Json) -> dict[str, Json]:
    """The functions of a request by name: (description, schema)."""
    tools = [tool.get("function", tool) for tool in body["tools"]]
    return {tool["name"]: (tool.get("description"), tool.get("parameters", tool.get("input_schema"))) for tool in tools}


def answer(backend: BackendProtocol, *calls: tuple[str, str]) -> Json:
    """A whole reply that makes these calls: (name, arguments)."""
    if backend == "chat":
        made = [
            {"id": f"c{n}", "type": "function", "function": {"name": name, "arguments": text}}
            for n, (name, text) in enumerate(calls)
        ]
        message = {"role": "assistant", "content": None, "tool_calls": made}
        return {"id": "1", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    if backend == "responses":
        output = [
            {"type": "function_call", "id": f"fc_{n}", "call_id": f"c{n}", "name": name, "arguments": text}
            for n, (name, text) in enumerate(calls)
        ]
        return {"id": "1", "object": "response", "status": "completed", "output": output}
    blocks = [
        {"type": "tool_use", "id": f"c{n}", "name": name, "input": json.loads(text)}
        for n, (name, text) in enumerate(calls)
    ]
    return {"id": "1", "type": "message", "content": blocks, "stop_reason": "tool_use"}


def stream(backend: BackendProtocol, *calls: tuple[str, str]) -> bytes:
    """The same as a stream, the arguments in pieces of five characters."""
    wires: list[Json] = []
    if backend == "chat":
        for n, (name, text) in enumerate(calls):
            wires.append([{"index": n, "id": f"c{n}", "function": {"name": name, "arguments": ""}}])
            wires += [[{"index": n, "function": {"arguments": piece}}] for piece in pieces(text)]
        chunks = [{"id": "1", "choices": [{"index": 0, "delta": {"tool_calls": wire}}]} for wire in wires]
        chunks.append({"id": "1", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
        return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks).encode() + b"data: [DONE]\n\n"
    if backend == "responses":
        whole = answer(backend, *calls)
        wires.append({"type": "response.created", "response": {"id": "1"}})
        for n, item in enumerate(whole["output"]):
            place = {"output_index": n, "item_id": item["id"]}
            wires.append({"type": "response.output_item.added", **place, "item": {**item, "arguments": ""}})
            delta = {"type": "response.function_call_arguments.delta", **place}
            wires += [{**delta, "delta": piece} for piece in pieces(item["arguments"])]
            wires.append({"type": "response.output_item.done", **place, "item": item})
        wires.append({"type": "response.completed", "response": whole})
        return "".join(map(typed_event, wires)).encode()
    wires.append({"type": "message_start", "message": {"id": "1"}})
    for n, (name, text) in enumerate(calls):
        block = {"type": "tool_use", "id": f"c{n}", "name": name, "input": {}}
        wires.append({"type": "content_block_start", "index": n, "content_block": block})
        delta = {"type": "content_block_delta", "index": n}
        wires += [{**delta, "delta": {"type": "input_json_delta", "partial_json": piece}} for piece in pieces(text)]
        wires.append({"type": "content_block_stop", "index": n})
    wires += [{"type": "message_delta", "delta": {"stop_reason": "tool_use"}}, {"type": "message_stop"}]
    return "".join(map(typed_event, wires)).encode()


def pieces(text: str) -> list[str]:
    return [text[start : start + 5] for start in range(0, len(text), 5)]


def events(raw: bytes) -> list[Json]:
    return [json.loads(line[6:]) for line in raw.decode().split("\n") if line.startswith("data: {")]


def output(asked: Prepared, *calls: tuple[str, str]) -> list[Json]:
    """The items that a Responses client gets, the same whole and streamed; without their own ids."""
    whole = json.loads(asked.reply(json.dumps(answer(asked.backend, *calls)).encode()))["output"]
    translation = asked.translation()
    seen = events(translation.feed(stream(asked.backend, *calls)) + translation.end())
    assert seen[-1]["type"] == "response.completed"
    assert seen[-1]["response"]["output"] == [
        wire["item"] for wire in seen if wire["type"] == "response.output_item.done"
    ]
    items = [
        [{name: item[name] for name in item if name != "id"} for item in side]
        for side in (whole, seen[-1]["response"]["output"])
    ]
    # Spelling counts ids over both replies.
    assert [{**item, "call_id": ""} for item in items[0]] == [{**item, "call_id": ""} for item in items[1]]
    return items[0]


def content(asked: Prepared, *calls: tuple[str, str]) -> list[Json]:
    """The blocks that a Messages client gets whole, and that a streamed one has begun with the same deltas."""
    whole: list[Json] = json.loads(asked.reply(json.dumps(answer(asked.backend, *calls)).encode()))["content"]
    translation = asked.translation()
    blocks: list[Json] = []
    for wire in events(translation.feed(stream(asked.backend, *calls)) + translation.end()):
        if wire["type"] == "content_block_start":
            blocks.append({**wire["content_block"], "input": []})
        elif wire["type"] == "content_block_delta":
            blocks[wire["index"]]["input"].append(wire["delta"]["partial_json"])
    for block in blocks:
        assert "toolset_name" not in block or len(block["input"]) == 1
        block["input"] = json.loads("".join(block["input"]))
    assert [{**block, "id": ""} for block in whole] == [{**block, "id": ""} for block in blocks]
    return whole


RESPONSES_TOOLS: list[Json] = [
    {"type": "shell"},
    {"type": "local_shell"},
    {"type": "apply_patch"},
    {"type": "computer"},
    {"type": "tool_search", "execution": "client", "description": "Find tools.", "parameters": {"type": "object"}},
]
RESPONSES_CALLS: list[tuple[str, str, Json]] = [
    (
        "shell",
        '{"commands":["ls"],"timeout_ms":500}',
        {"type": "shell_call", "action": {"commands": ["ls"], "timeout_ms": 500}},
    ),
    (
        "local_shell",
        '{"command":["ls","-l"],"working_directory":"/tmp"}',
        {
            "type": "local_shell_call",
            "action": {"type": "exec", "command": ["ls", "-l"], "working_directory": "/tmp", "env": {}},
        },
    ),
    (
        "apply_patch",
        '{"type":"create_file","path":"a","diff":"+one"}',
        {"type": "apply_patch_call", "operation": {"type": "create_file", "path": "a", "diff": "+one"}},
    ),
    (
        "computer",
        '{"actions":[{"type":"screenshot"},{"type":"click","button":"left","x":1,"y":2}]}',
        {
            "type": "computer_call",
            "actions": [{"type": "screenshot"}, {"type": "click", "button": "left", "x": 1, "y": 2}],
            "pending_safety_checks": [],
        },
    ),
    (
        "tool_search",
        '{"query":"weather"}',
        {"type": "tool_search_call", "execution": "client", "arguments": {"query": "weather"}},
    ),
]


@pytest.mark.parametrize("backend", ["chat", "messages"])
def test_calls_come_back_as_the_clients_own_items(backend: BackendProtocol) -> None:
    asked = prepared({"input": "hi", "tools": RESPONSES_TOOLS}, backend)
    assert list(tools_of(sent(asked))) == ["shell", "local_shell", "apply_patch", "computer", "tool_search"]
    assert [(loss.rule, loss.level, loss.path) for loss in asked.losses] == [
        ("typed-tool", "approx", f"tools[{n}]") for n in range(5)
    ]
    items = output(asked, *[(name, arguments) for name, arguments, _ in RESPONSES_CALLS])
    assert items == [
        {**item, "status": "completed", "call_id": f"c{n}"} for n, (_, _, item) in enumerate(RESPONSES_CALLS)
    ]


@pytest.mark.parametrize("backend", ["chat", "messages"])
def test_the_older_computer_tool_makes_one_action_a_call(backend: BackendProtocol) -> None:
    tool = {"type": "computer_use_preview", "display_width": 800, "display_height": 600, "environment": "linux"}
    asked = prepared({"input": "hi", "tools": [tool]}, backend)
    description, schema = tools_of(sent(asked))["computer"]
    assert "800 pixels wide and 600 high. Its environment is linux." in description
    assert list(schema["properties"]) == ["action"]
    (item,) = output(asked, ("computer", '{"action":{"type":"wait"}}'))
    assert (item["type"], item["action"], "actions" in item) == ("computer_call", {"type": "wait"}, False)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("shell", '{"commands":"ls"}'),
        ("shell", "{}"),
        ("apply_patch", '{"type":"update_file","path":"a"}'),
        ("computer", '{"actions":[{"type":"click"}]}'),
        ("local_shell", '{"command":["ls"],"env":{"A":1},"timeout_ms":"soon"}'),
    ],
)
def test_arguments_that_fit_no_item_reach_the_client_as_the_call_that_it_was(name: str, arguments: str) -> None:
    asked = prepared({"input": "hi", "tools": RESPONSES_TOOLS}, "chat")
    assert output(asked, (name, arguments)) == [
        {"type": "function_call", "status": "completed", "arguments": arguments, "call_id": "c0", "name": name}
    ]


def test_a_typed_tool_and_a_function_of_one_name_are_two_tools() -> None:
    function = {"type": "function", "name": "shell", "parameters": {"type": "object", "properties": {}}}
    choice = {"tool_choice": {"type": "shell"}}
    asked = prepared({"input": "hi", "tools": [function, {"type": "shell"}], **choice}, "messages")
    body = sent(asked)
    plain, other = tools_of(body)
    assert (plain, body["tool_choice"]["name"]) == ("shell", other)
    assert [item["type"] for item in output(asked, ("shell", "{}"), (other, '{"commands":[]}'))] == [
        "function_call",
        "shell_call",
    ]


HISTORY: list[Json] = [
    {"role": "user", "content": "hi"},
    {"type": "shell_call", "call_id": "c1", "action": {"commands": ["ls", "false"]}, "status": "completed"},
    {
        "type": "apply_patch_call",
        "call_id": "c2",
        "operation": {"type": "delete_file", "path": "a"},
        "status": "completed",
    },
    {
        "type": "shell_call_output",
        "call_id": "c1",
        "output": [
            {"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
            {"stdout": "", "stderr": "oops", "outcome": {"type": "timeout"}},
        ],
    },
    {"type": "apply_patch_call_output", "call_id": "c2", "status": "failed", "output": "no such file"},
]
LISTED = "stdout:\na\nexit code: 0\n\nstderr:\noops\ntimed out"


def test_history_toward_chat() -> None:
    body = sent(prepared({"input": HISTORY, "tools": [{"type": "shell"}]}, "chat"))
    assert [call["function"] for call in body["messages"][1]["tool_calls"]] == [
        {"name": "shell", "arguments": '{"commands":["ls","false"]}'},
        {"name": "apply_patch", "arguments": '{"type":"delete_file","path":"a"}'},
    ]
    assert [message["content"] for message in body["messages"][2:]] == [LISTED, "failed: no such file"]


def test_history_toward_messages() -> None:
    body = sent(prepared({"input": HISTORY, "tools": [{"type": "shell"}]}, "messages"))
    assert body["messages"][1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "c1", "name": "shell", "input": {"commands": ["ls", "false"]}},
                {"type": "tool_use", "id": "c2", "name": "apply_patch", "input": {"type": "delete_file", "path": "a"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": LISTED},
                {"type": "tool_result", "tool_use_id": "c2", "content": "failed: no such file"},
            ],
        },
    ]


@pytest.mark.parametrize("backend", ["chat", "messages"])
def test_a_shell_that_the_vendor_hosts_is_refused(backend: BackendProtocol) -> None:
    tools = [{"type": "shell", "environment": {"type": "container_auto"}}, {"type": "apply_patch"}]
    with pytest.raises(Rejected) as caught:
        prepared({"input": "hi", "tools": tools}, backend)
    assert (caught.value.error.kind, caught.value.error.param) == (ErrorClass.UNSUPPORTED, "tools[0]")


def test_skills_of_a_shell_are_told() -> None:
    skills = [{"name": "pdf", "description": "Make PDFs.", "path": "/skills/pdf"}]
    shell = {"type": "shell", "environment": {"type": "local", "skills": skills}}
    assert tools_of(sent(prepared({"input": "hi", "tools": [shell]}, "chat")))["shell"][0].endswith(
        "\n- pdf (/skills/pdf): Make PDFs."
    )


# --- the client's own search ---

SEARCHED: list[Json] = [
    {"role": "user", "content": "weather?"},
    {"type": "tool_search_call", "call_id": "s1", "execution": "client", "arguments": {"query": "weather"}},
    {
        "type": "tool_search_output",
        "call_id": "s1",
        "execution": "client",
        "tools": [
            {"type": "function", "name": "look", "defer_loading": True, "parameters": {"type": "object"}},
            {
                "type": "namespace",
                "name": "crm",
                "description": "",
                "tools": [{"type": "function", "name": "get", "defer_loading": True, "parameters": {"type": "object"}}],
            },
        ],
    },
]


@pytest.mark.parametrize("backend", ["chat", "messages"])
def test_tools_that_a_search_found_are_ordinary_from_then_on(backend: BackendProtocol) -> None:
    search = RESPONSES_TOOLS[-1]
    deferred = {"type": "function", "name": "look", "defer_loading": True, "description": "declared"}
    other = {"type": "function", "name": "other", "defer_loading": True}
    asked = prepared({"input": SEARCHED, "tools": [search, deferred, other]}, backend)
    body = sent(asked)
    assert list(tools_of(body)) == ["tool_search", "look", "crm__get"]
    assert "Tools that can be called now:\\nlook\\ncrm__get" in json.dumps(body)
    (item,) = output(asked, ("crm__get", "{}"))
    assert (item["type"], item["name"], item["namespace"]) == ("function_call", "get", "crm")


def test_a_search_of_the_vendor_stays_the_vendors() -> None:
    """Without it nothing could find the deferred tools, so all are sent."""
    tools = [{"type": "tool_search"}, {"type": "function", "name": "look", "defer_loading": True}]
    asked = prepared({"input": "hi", "tools": tools}, "chat")
    assert list(tools_of(sent(asked))) == ["look"]
    assert ("tool-search", "drop") in {(loss.rule, loss.level) for loss in asked.losses}


def test_a_reference_of_messages_makes_a_deferred_tool_an_ordinary_one() -> None:
    def tools(found: bool) -> list[str]:
        reference = [{"type": "tool_reference", "tool_name": "look"}] if found else "nothing"
        turns = [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Search", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": reference}]},
        ]
        deferred = {"name": "look", "defer_loading": True, "input_schema": {"type": "object"}}
        declared = [{"name": "Search", "input_schema": {"type": "object"}}, deferred]
        return list(tools_of(sent(prepared({"max_tokens": 9, "messages": turns, "tools": declared}, "chat"))))

    assert (tools(found=False), tools(found=True)) == (["Search"], ["Search", "look"])


# --- Messages ---

MESSAGES_TOOLS: list[Json] = [
    {"type": "bash_20250124", "name": "bash"},
    {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool", "max_characters": 900},
    {"type": "memory_20250818", "name": "memory"},
    {"type": "browser_toolset_20260801", "configs": {"find": {"enabled": False}, "read_console": {"enabled": True}}},
    {"type": "computer_toolset_20260801"},
]


@pytest.mark.parametrize("backend", ["chat", "responses"])
def test_calls_come_back_as_the_clients_own_blocks(backend: BackendProtocol) -> None:
    asked = prepared(
        {"max_tokens": 9, "messages": [{"role": "user", "content": "hi"}], "tools": MESSAGES_TOOLS}, backend
    )
    tools = tools_of(sent(asked))
    assert list(tools)[:3] == ["bash", "str_replace_based_edit_tool", "memory"]
    assert "At most 900 characters" in tools["str_replace_based_edit_tool"][0]
    members = [name.partition("__") for name in list(tools)[3:]]
    assert [name for family, _, name in members if family == "computer"] == list(MEMBERS["computer"])
    browser = {name for family, _, name in members if family == "browser"}
    assert (len(browser), "find" in browser, "read_console" in browser) == (27, False, True)
    assert content(
        asked,
        ("bash", '{"command":"ls"}'),
        ("computer__left_click", '{"coordinate":[1,2]}'),
        ("browser__navigate", '{"url":"https://e.test"}'),
        ("str_replace_based_edit_tool", '{"command":"view","path":"/a"}'),
    ) == [
        {"type": "tool_use", "id": "c0", "name": "bash", "input": {"command": "ls"}},
        {
            "type": "tool_use",
            "id": "c1",
            "name": "left_click",
            "input": {"coordinate": [1, 2]},
            "toolset_name": "computer",
        },
        {
            "type": "tool_use",
            "id": "c2",
            "name": "navigate",
            "input": {"url": "https://e.test"},
            "toolset_name": "browser",
        },
        {
            "type": "tool_use",
            "id": "c3",
            "name": "str_replace_based_edit_tool",
            "input": {"command": "view", "path": "/a"},
        },
    ]


@pytest.mark.parametrize("backend", ["chat", "responses"])
def test_members_in_the_history_keep_their_family(backend: BackendProtocol) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
    call = {"type": "tool_use", "id": "t", "name": "screenshot", "input": {}, "toolset_name": "browser"}
    tabs = {"type": "browser_state", "tabs": []}
    result = {"type": "tool_result", "tool_use_id": "t", "toolset_name": "browser", "content": [image, tabs]}
    turns = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]
    body = sent(prepared({"max_tokens": 9, "messages": turns, "tools": MESSAGES_TOOLS[3:4]}, backend))
    told = json.dumps(body["input"] if backend == "responses" else body["messages"])
    assert '"name": "browser__screenshot"' in told
    assert "browser_state" in told
    assert "data:image/png;base64,iVBORw0KGgo=" in told


@pytest.mark.parametrize(
    ("tool", "actions", "told"),
    [
        ({"type": "computer_20241022"}, 10, ""),
        ({"type": "computer_20250124", "display_number": 2}, 16, "display number 2"),
        ({"type": "computer_20251124", "enable_zoom": True}, 17, "1024 pixels wide"),
    ],
)
def test_the_single_computer_tool_has_the_actions_of_its_version(tool: Json, actions: int, told: str) -> None:
    tool = {"name": "computer", "display_width_px": 1024, "display_height_px": 768, **tool}
    body = {"max_tokens": 9, "messages": [{"role": "user", "content": "hi"}], "tools": [tool]}
    description, schema = tools_of(sent(prepared(body, "chat")))["computer"]
    assert (len(schema["properties"]["action"]["enum"]), told in description) == (actions, True)


@pytest.mark.parametrize("backend", ["chat", "responses"])
def test_a_choice_may_name_a_typed_tool(backend: BackendProtocol) -> None:
    choice = {"tool_choice": {"type": "tool", "name": "bash"}}
    turns = [{"role": "user", "content": "hi"}]
    body = sent(prepared({"max_tokens": 9, "messages": turns, "tools": MESSAGES_TOOLS[:1], **choice}, backend))
    named = body["tool_choice"]
    assert named == (
        {"type": "function", "name": "bash"}
        if backend == "responses"
        else {"type": "function", "function": {"name": "bash"}}
    )


def test_what_a_declaration_says_beside_its_type_is_kept() -> None:
    bash = {"type": "bash_20250124", "name": "bash", "defer_loading": True, "input_examples": [{"command": "ls"}]}
    turns = [{"role": "user", "content": "hi"}]
    asked = {"max_tokens": 9, "messages": turns, "tools": [bash, MESSAGES_TOOLS[2]]}
    assert list(tools_of(sent(prepared(asked, "chat")))) == ["memory"]
    bash["defer_loading"] = False
    assert tools_of(sent(prepared(asked, "chat")))["bash"][0].endswith('Examples:\n{"command":"ls"}')


@pytest.mark.parametrize(
    ("tool", "at"),
    [
        ({"type": "browser_toolset_20260801", "configs": {"find": 3}}, "tools[0].configs.find"),
        ({"type": "browser_toolset_20260801", "configs": []}, "tools[0].configs"),
        ({"type": "text_editor_20250728", "max_characters": "many"}, "tools[0].max_characters"),
        ({"type": "computer_20251124", "display_width_px": "wide"}, "tools[0].display_width_px"),
    ],
)
def test_a_declaration_of_the_wrong_form_is_named(tool: Json, at: str) -> None:
    with pytest.raises(Rejected) as caught:
        prepared({"max_tokens": 9, "messages": [{"role": "user", "content": "hi"}], "tools": [tool]}, "chat")
    assert (caught.value.error.kind, caught.value.error.param) == (ErrorClass.INVALID, at)


@pytest.mark.parametrize(
    ("value", "schema", "does"),
    [
        ({}, {"type": "object", "required": ["a"]}, False),
        ({"a": 1, "b": 2}, {"type": "object", "properties": {"a": {"type": "integer"}}}, True),
        (True, {"type": "number"}, False),
        ([1, "x"], {"type": "array", "items": {"type": "integer"}}, False),
        ("a", {"anyOf": [{"type": "integer"}, {"type": "string", "enum": ["a"]}]}, True),
    ],
)
def test_forms(value: Json, schema: Json, does: bool) -> None:
    assert fits(value, schema) is does


def test_checks_of_another_vendor_are_no_reason_to_refuse_a_history() -> None:
    check = {"id": "sc_1", "code": "malicious_instructions", "message": "Look out."}
    call = {"type": "computer_call", "call_id": "k1", "actions": [{"type": "screenshot"}], "status": "completed"}
    screen = {"type": "computer_screenshot", "image_url": "data:image/png;base64,iVBORw0KGgo="}
    items = [
        {"role": "user", "content": "hi"},
        {**call, "pending_safety_checks": [check]},
        {"type": "computer_call_output", "call_id": "k1", "output": screen, "acknowledged_safety_checks": [check]},
    ]
    body = json.dumps({"model": "m", "input": items, "tools": [{"type": "computer"}]}).encode()
    asked = pair.prepare(pair.peek("responses", body), Target("messages", "m"), pair.Options(strict=True))
    assert [loss.path for loss in asked.losses if "checks" in loss.path] == [
        "input[1].pending_safety_checks",
        "input[2].acknowledged_safety_checks",
    ]
