"""The rules by which the real APIs refuse requests: a client must never meet such a 400 through the proxy.

The types of the SDKs know the fields (`request_types`); here is what they can't say: roles, tool calls and their
results, ids, empty text, and what fits together. What single models refuse is in `model_limits`.
"""

import json
import re
from collections.abc import Callable

from tests.harness.model_limits import check_claude, check_gpt
from tests.harness.model_replies import sign
from tests.harness.request_types import Refused, check_types, need
from tests.harness.schema_rules import check_closed, check_strict
from tests.harness.wire import Json, Protocol


def as_the_vendor_reads(protocol: Protocol, body: Json) -> Json:
    """A request with what the API fills in or lets pass of its own clients, and a translator has no reason to write."""
    read = {name: value for name, value in body.items() if value is not None}
    if "output_format" in read and protocol == "messages":  # its name while it was a beta
        form = read.pop("output_format")
        read["output_config"] = {**read.get("output_config", {}), "format": form}
    if protocol != "responses":
        return read
    if not read.get("tools"):
        read = {name: value for name, value in read.items() if name not in NEED_TOOLS}
    else:
        read["tools"] = [{"strict": None, **tool} if tool["type"] == "function" else tool for tool in read["tools"]]
    if isinstance(read.get("input"), list):
        read["input"] = [_completed(item) for item in read["input"]]
    return read


NEED_TOOLS = ("tools", "tool_choice", "parallel_tool_calls")


def _completed(item: Json) -> Json:
    """A message that says it is one, and whose images say how closely to look at them."""
    if "role" not in item or not isinstance(item.get("content"), list):
        return item
    parts = [{"detail": "auto", **part} if part["type"] == "input_image" else part for part in item["content"]]
    return {"type": "message", **item, "content": parts}


def check_request(protocol: Protocol, body: Json, also: frozenset[str] = frozenset(), *, beta: bool = False) -> None:
    """Raises Refused at the first mistake. `also` are top-level fields that the backend takes beside the vendor's.
    beta: whether those of Messages that are betas are taken."""
    check_types(protocol, body, beta=beta or _uses_beta(body), also=also)
    CHECKS[protocol](body)


def _uses_beta(body: Json) -> bool:
    """Whether a Messages request needs the betas of MCP servers or of bound thinking, whose types are apart."""
    if not isinstance(body, dict):
        return False
    if "mcp_servers" in body or '"mcp_tool_' in json.dumps(body.get("messages")):
        return True
    return isinstance(body.get("thinking"), dict) and "block_binding" in body["thinking"]


FUNCTION_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def _check_name(name: Json, where: str) -> None:
    need(FUNCTION_NAME.fullmatch(name) is not None, where, f"{name!r} is no tool name")


def _check_names(names: list[str], where: str) -> None:
    need(len(set(names)) == len(names), where, "tool names must be unique")


def _check_arguments(text: Json, where: str) -> None:
    try:
        arguments = json.loads(text)
    except ValueError:
        raise Refused(where, "arguments are not JSON") from None
    need(isinstance(arguments, dict), where, "arguments are no object")


def _check_schema(schema: Json, where: str) -> None:
    need(isinstance(schema, dict) and schema.get("type") == "object", where, "a schema of type object is needed")


def _check_openai_function(function: Json, where: str) -> None:
    _check_name(function["name"], f"{where}.name")
    if function.get("parameters") is not None:
        _check_schema(function["parameters"], f"{where}.parameters")
        need("properties" in function["parameters"], f"{where}.parameters", "an object without properties")
        if function.get("strict"):
            check_strict(function["parameters"], f"{where}.parameters")


def _check_format(given: Json, where: str, words: str) -> None:
    """A Chat `json_schema` or a Responses `text.format`; `words`: the prompt, as JSON."""
    if given["type"] == "json_object":
        need("json" in words.lower(), where, "the input must contain the word json")
    elif given["type"] == "json_schema":
        named = given.get("json_schema", given)
        need(FUNCTION_NAME.fullmatch(named.get("name", "")) is not None, where, "a name is needed")
        need(isinstance(named.get("schema"), dict), where, "a schema is needed")
        if named.get("strict"):
            check_strict(named["schema"], where)


LENGTHS = {"user": 512, "safety_identifier": 64, "prompt_cache_key": 64}
METADATA_ENTRIES, METADATA_KEY, METADATA_VALUE = 16, 64, 512


def _check_openai_fields(body: Json) -> None:
    """What Chat and Responses have in common."""
    for field in ("temperature", "presence_penalty", "frequency_penalty"):
        need(-2 <= (body.get(field) or 0) <= 2, field, "out of range")
    need((body.get("temperature") or 0) >= 0, "temperature", "out of range")
    need(0 <= (body.get("top_p") or 0) <= 1, "top_p", "out of range")
    for field, limit in LENGTHS.items():
        need(len(body.get(field) or "") <= limit, field, f"more than {limit} characters")
    metadata = body.get("metadata") or {}
    need(len(metadata) <= METADATA_ENTRIES, "metadata", f"more than {METADATA_ENTRIES} entries")
    for name, value in metadata.items():
        need(len(name) <= METADATA_KEY and len(value) <= METADATA_VALUE, f"metadata.{name}", "too long")
    need(body.get("tools") != [], "tools", "empty list")
    need("stream_options" not in body or body.get("stream") is True, "stream_options", "only with stream")
    for field in ("tool_choice", "parallel_tool_calls"):
        need(field not in body or bool(body.get("tools")), field, "only with tools")


# ---- Chat Completions

CHAT_PARTS: dict[str, frozenset[str]] = {
    "developer": frozenset({"text"}),
    "system": frozenset({"text"}),
    "user": frozenset({"text", "image_url", "input_audio", "file"}),
    "assistant": frozenset({"text", "refusal"}),
    "tool": frozenset({"text"}),
}
CALL_ID_LENGTH = 40
STOP_STRINGS = 4
PARTICIPANT_NAME = re.compile(r"[^\s<|\\/>]{1,64}")


def _check_chat(body: Json) -> None:
    _check_openai_fields(body)
    need(bool(body["messages"]), "messages", "at least one is required")
    names = []
    for index, tool in enumerate(body.get("tools") or ()):
        if tool["type"] == "function":
            _check_openai_function(tool["function"], f"tools[{index}].function")
        names.append(tool[tool["type"]]["name"])
    _check_names(names, "tools")
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and choice["type"] != "allowed_tools":
        need(choice[choice["type"]]["name"] in names, "tool_choice", "names no tool")
    need(
        "max_tokens" not in body or "max_completion_tokens" not in body, "max_tokens", "not with max_completion_tokens"
    )
    for field in ("max_tokens", "max_completion_tokens"):
        need(body.get(field) is None or body[field] >= 1, field, "at least 1")
    need(
        not isinstance(body.get("stop"), list) or 1 <= len(body["stop"]) <= STOP_STRINGS,
        "stop",
        "at most 4, at least 1",
    )
    _check_format(body.get("response_format") or {"type": "text"}, "response_format", json.dumps(body["messages"]))
    _check_chat_messages(body["messages"])
    check_gpt("chat", body)


def _check_chat_messages(messages: Json) -> None:
    unanswered: list[str] = []
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        if message["role"] == "tool":
            need(
                message["tool_call_id"] in unanswered, where, "a tool message must answer a call of the message before"
            )
            unanswered.remove(message["tool_call_id"])
        else:
            need(not unanswered, where, f"these calls are not answered: {unanswered}")
        name = message.get("name")
        need(name is None or PARTICIPANT_NAME.fullmatch(name) is not None, f"{where}.name", f"{name!r} is no name")
        _check_chat_content(message, where)
        unanswered += [_check_chat_call(call, f"{where}.tool_calls") for call in message.get("tool_calls") or ()]
    need(not unanswered, "messages", f"these calls are not answered: {unanswered}")


def _check_chat_content(message: Json, where: str) -> None:
    content, role = message.get("content"), message["role"]
    if content is None:
        told = (
            message.get("tool_calls") or message.get("function_call") or message.get("refusal") or message.get("audio")
        )
        need(role == "assistant" and bool(told), f"{where}.content", "is required")
    elif not isinstance(content, str):
        need(bool(content), f"{where}.content", "empty list")
        for place, part in enumerate(content):
            at = f"{where}.content[{place}]"
            need(part["type"] in CHAT_PARTS[role], at, f"{part['type']!r} in a {role} message")
            if part["type"] == "image_url":
                _check_image_url(part["image_url"]["url"], at)
    need(message.get("tool_calls") != [], f"{where}.tool_calls", "empty list")


IMAGE_URL = re.compile(r"https?://.+|data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}", re.DOTALL)


def _check_image_url(url: str, where: str) -> None:
    need(IMAGE_URL.fullmatch(url) is not None, where, f"no image: {url:.40}")


def _check_chat_call(call: Json, where: str) -> str:
    need(0 < len(call["id"]) <= CALL_ID_LENGTH, where, f"{call['id']!r} is no call id")
    _check_name(call[call["type"]]["name"], where)
    if call["type"] == "function":
        _check_arguments(call["function"]["arguments"], where)
    return str(call["id"])


# ---- Responses

# The items that a proxy without stored state can write; others name what only OpenAI has.
ITEMS = frozenset(
    {
        "message",
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
        "reasoning",
    }
)
HOSTED_ITEMS = frozenset(
    {"web_search_call", "code_interpreter_call", "mcp_list_tools", "mcp_call", "tool_search_call", "tool_search_output"}
)
ID_PREFIXES = {
    "message": "msg_",
    "function_call": "fc_",
    "custom_tool_call": "ctc_",
    "reasoning": "rs_",
    "web_search_call": "ws_",
    "code_interpreter_call": "ci_",
    "mcp_list_tools": "mcpl_",
    "mcp_call": "mcp_",
}
RESPONSES_PARTS: dict[str, frozenset[str]] = {
    "user": frozenset({"input_text", "input_image", "input_file"}),
    "system": frozenset({"input_text"}),
    "developer": frozenset({"input_text"}),
    "assistant": frozenset({"output_text", "refusal"}),
}
ITEM_CALL_ID_LENGTH = 64
MIN_OUTPUT_TOKENS = 16


def _check_responses(body: Json) -> None:
    _check_openai_fields(body)
    need(isinstance(body.get("model"), str), "model", "is required")
    need(bool(body.get("input")), "input", "is required")
    limit = body.get("max_output_tokens")
    need(limit is None or limit >= MIN_OUTPUT_TOKENS, "max_output_tokens", f"at least {MIN_OUTPUT_TOKENS}")
    names = []
    for index, tool in enumerate(body.get("tools") or ()):
        where = f"tools[{index}]"
        if tool["type"] == "function":
            need("strict" in tool, f"{where}.strict", "is strict when not said")
            need("parameters" in tool, f"{where}.parameters", "is required")
            _check_openai_function(tool, where)
        if "name" in tool:
            names.append(tool["name"])
    _check_names(names, "tools")
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and choice["type"] in ("function", "custom"):
        need(choice["name"] in names, "tool_choice", "names no tool")
    _check_format((body.get("text") or {}).get("format") or {"type": "text"}, "text.format", json.dumps(body["input"]))
    if not isinstance(body["input"], str):
        _check_items(body["input"])
    check_gpt("responses", body)


def _check_items(items: Json) -> None:
    calls: dict[str, str] = {}
    outputs: set[str] = set()
    for index, item in enumerate(items):
        where = f"input[{index}]"
        kind = item.get("type", "message")
        need(kind in ITEMS | HOSTED_ITEMS, f"{where}.type", f"{kind!r} is not for this backend")
        prefix = ID_PREFIXES.get(kind, "")
        need((item.get("id") or prefix).startswith(prefix), f"{where}.id", f"begins with {prefix}")
        if kind == "message":
            _check_item_message(item, where)
        elif kind == "reasoning":
            thought = "".join(part["text"] for part in item.get("summary") or ())
            need(item.get("encrypted_content") == sign(thought), where, "the encrypted content could not be verified")
        elif kind not in HOSTED_ITEMS:
            _check_call_item(kind, item, where, calls, outputs)
    need(calls.keys() == outputs, "input", f"no tool output found for {sorted(calls.keys() - outputs)}")


def _check_item_message(item: Json, where: str) -> None:
    content = item["content"]
    if isinstance(content, str):
        return
    need(bool(content), f"{where}.content", "empty list")
    for place, part in enumerate(content):
        at = f"{where}.content[{place}]"
        need(part["type"] in RESPONSES_PARTS[item["role"]], at, f"{part['type']!r} from {item['role']}")
        if part.get("image_url"):
            _check_image_url(part["image_url"], at)


def _check_call_item(kind: str, item: Json, where: str, calls: dict[str, str], outputs: set[str]) -> None:
    call_id = item["call_id"]
    need(0 < len(call_id) <= ITEM_CALL_ID_LENGTH, f"{where}.call_id", f"{call_id!r} is no call id")
    if kind in ("function_call", "custom_tool_call"):
        _check_name(item["name"], f"{where}.name")
        need(call_id not in calls, f"{where}.call_id", "comes twice")
        calls[call_id] = f"{kind}_output"
        if kind == "function_call":
            _check_arguments(item["arguments"], f"{where}.arguments")
        return
    need(calls.get(call_id) == kind, where, f"no tool call found for {call_id}")
    need(call_id not in outputs, where, f"{call_id} is answered twice")
    outputs.add(call_id)


# ---- Messages

BLOCKS_OF_ROLE: dict[str, frozenset[str]] = {
    "user": frozenset({"text", "image", "document", "tool_result"}),
    "assistant": frozenset(
        {
            "text",
            "tool_use",
            "thinking",
            "redacted_thinking",
            "server_tool_use",
            "web_search_tool_result",
            "web_fetch_tool_result",
            "code_execution_tool_result",
            "bash_code_execution_tool_result",
            "tool_search_tool_result",
            "mcp_tool_use",
            "mcp_tool_result",
        }
    ),
    "system": frozenset({"text"}),
}
TOOL_USE_ID = re.compile(r"[a-zA-Z0-9_-]+")
CACHE_MARKS = 4


def _check_messages(body: Json) -> None:
    need(bool(body["messages"]), "messages", "at least one message is required")
    need(body["messages"][0]["role"] == "user", "messages", 'first message must use the "user" role')
    need(body["max_tokens"] >= 1, "max_tokens", "at least 1")
    need(0 <= (body.get("temperature") or 0) <= 1, "temperature", "out of range")
    need(0 <= (body.get("top_p") or 0) <= 1, "top_p", "out of range")
    for sequence in body.get("stop_sequences") or ():
        need(bool(sequence.strip()), "stop_sequences", "each stop sequence must contain non-whitespace")
    if isinstance(body.get("system"), list):
        for index, block in enumerate(body["system"]):
            _check_block(block, f"system.{index}")
    _check_messages_tools(body)
    need(json.dumps(body).count('"cache_control": {') <= CACHE_MARKS, "cache_control", f"more than {CACHE_MARKS}")
    closed = (body.get("output_config") or {}).get("format")
    if closed:
        check_closed(closed["schema"], "output_config.format.schema")
    _check_turns(body["messages"])
    check_claude(body)


SERVER_TOOLS = frozenset({"web_search_20250305", "code_execution_20250825", "tool_search_tool_bm25_20251119"})


def _check_messages_tools(body: Json) -> None:
    names = []
    servers = []
    for index, tool in enumerate(body.get("tools") or ()):
        where = f"tools.{index}"
        if tool.get("type") == "mcp_toolset":
            servers.append(tool["mcp_server_name"])
            continue
        if tool.get("type") in SERVER_TOOLS:
            names.append(tool["name"])
            continue
        need(tool.get("type", "custom") == "custom", where, "is not for this backend")
        _check_name(tool["name"], f"{where}.name")
        names.append(tool["name"])
        _check_schema(tool["input_schema"], f"{where}.input_schema")
        for word in ("oneOf", "allOf", "anyOf"):
            need(word not in tool["input_schema"], f"{where}.input_schema", f"{word} at the top level")
    _check_names(names, "tools")
    declared = [server["name"] for server in body.get("mcp_servers") or ()]
    need(sorted(servers) == sorted(declared), "mcp_servers", "each server is named by one toolset")
    choice = body.get("tool_choice")
    need(choice is None or bool(names), "tool_choice", "only with tools")
    need(not choice or choice["type"] != "tool" or choice["name"] in names, "tool_choice", "names no tool")


def _check_turns(messages: Json) -> None:
    unanswered: set[str] = set()
    made: list[str] = []
    role_before = ""
    for index, message in enumerate(messages):
        where = f"messages.{index}"
        role, content = message["role"], message["content"]
        need(role != role_before, f"{where}.role", "turns of one role are to be one message")
        role_before = role
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        need(bool(blocks), f"{where}.content", "all messages must have non-empty content")
        for place, block in enumerate(blocks):
            at = f"{where}.content.{place}"
            need(block["type"] in BLOCKS_OF_ROLE[role], at, f"{block['type']} from {role}")
            _check_block(block, at)
        if role == "system":
            continue
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        need(set(results) == unanswered, where, f"`tool_use` ids {sorted(unanswered)}, `tool_result` ids {results}")
        need(len(results) == len(unanswered), where, "a call has several results")
        first = [block["type"] for block in blocks[: len(results)]]
        need(first == ["tool_result"] * len(results), where, "`tool_result` blocks come first")
        unanswered = {block["id"] for block in blocks if block["type"] == "tool_use"}
        made += unanswered
    need(len(set(made)) == len(made), "messages", "`tool_use` ids must be unique")
    need(not unanswered, "messages", f"`tool_use` ids without `tool_result`: {sorted(unanswered)}")


MAGIC = {"image/png": "iVBOR", "image/jpeg": "/9j/", "image/gif": "R0lGO", "image/webp": "UklGR"}  # in base64


def _check_block(block: Json, where: str) -> None:
    kind = block["type"]
    if kind == "text":
        need(bool(block["text"].strip()), where, "text content blocks must contain non-whitespace text")
    elif kind == "thinking":
        need(block["signature"] == sign(block["thinking"]), where, "Invalid `signature` in `thinking` block")
    elif kind == "redacted_thinking":
        raise Refused(where, "Invalid `data` in `redacted_thinking` block")  # this backend never makes one
    elif kind == "tool_use":
        need(isinstance(block["input"], dict), f"{where}.input", "Input should be a valid dictionary")
        _check_name(block["name"], f"{where}.name")
        need(TOOL_USE_ID.fullmatch(block["id"]) is not None, f"{where}.id", f"{block['id']!r} is no id")
    elif kind == "image" and block["source"]["type"] == "base64":
        source = block["source"]
        need(source["data"].startswith(MAGIC[source["media_type"]]), where, f"is no {source['media_type']}")
    elif kind == "tool_result":
        parts = block.get("content")
        need(not block.get("is_error") or bool(parts), where, "an error must say something")
        for part in parts if isinstance(parts, list) else ():
            need(part["type"] in ("text", "image", "document"), where, f"{part['type']} in a tool_result")
            _check_block(part, where)


CHECKS: dict[Protocol, Callable[[Json], None]] = {
    "chat": _check_chat,
    "responses": _check_responses,
    "messages": _check_messages,
}
