"""The rules by which the real APIs refuse requests: a client must never meet such a 400 through the proxy.

Only the main ones of each protocol: known fields, roles, tool calls and their results, ids, empty text.
"""

import json
import re
from collections.abc import Callable, Iterable

from tests.harness.model_replies import sign
from tests.harness.wire import Json, Protocol


class Refused(Exception):
    """A request that the API answers with 400; `where` is the path of the mistake."""

    def __init__(self, where: str, message: str) -> None:
        super().__init__(f"{where}: {message}")
        self.where = where


def check_request(protocol: Protocol, body: Json) -> None:
    """Raises Refused at the first mistake."""
    CHECKS[protocol](body)


def _need(holds: bool, where: str, message: str) -> None:
    if not holds:
        raise Refused(where, message)


def _only(wire: Json, known: Iterable[str], where: str) -> None:
    _need(isinstance(wire, dict), where, "should be an object")
    for name in wire:
        _need(name in known, f"{where}.{name}".lstrip("."), "unknown field")


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


FUNCTION_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def _check_name(name: Json, where: str) -> None:
    _need(isinstance(name, str) and FUNCTION_NAME.fullmatch(name) is not None, where, f"{name!r} is no tool name")


def _check_arguments(text: Json, where: str) -> None:
    _need(isinstance(text, str), where, "arguments are a string of JSON")
    try:
        json.loads(text)
    except ValueError:
        raise Refused(where, "arguments are not JSON") from None


def _check_schema(schema: Json, where: str) -> None:
    _need(isinstance(schema, dict) and schema.get("type") == "object", where, "a schema of type object is needed")


# ---- Chat Completions

CHAT_FIELDS = _names(
    "messages model audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens"
    " max_tokens metadata modalities moderation n parallel_tool_calls prediction presence_penalty prompt_cache_key"
    " prompt_cache_options prompt_cache_retention reasoning_effort response_format safety_identifier seed service_tier"
    " stop store stream stream_options temperature tool_choice tools top_logprobs top_p user verbosity"
)
CHAT_MESSAGE_FIELDS: dict[str, frozenset[str]] = {
    "developer": _names("role content name"),
    "system": _names("role content name"),
    "user": _names("role content name"),
    # annotations are not documented here, but SDKs send them back; reasoning_content belongs to other vendors
    "assistant": _names("role content name refusal tool_calls audio function_call annotations reasoning_content"),
    "tool": _names("role content tool_call_id"),
}
CHAT_PARTS: dict[str, frozenset[str]] = {
    "developer": _names("text"),
    "system": _names("text"),
    "user": _names("text image_url input_audio file"),
    "assistant": _names("text refusal"),
    "tool": _names("text"),
}
CALL_ID_LENGTH = 40


def _check_chat(body: Json) -> None:
    _only(body, CHAT_FIELDS, "")
    _need(isinstance(body.get("model"), str), "model", "is required")
    _need(bool(body.get("messages")), "messages", "at least one is required")
    _need("stream_options" not in body or body.get("stream") is True, "stream_options", "only with stream")
    for field in ("tool_choice", "parallel_tool_calls"):
        _need(field not in body or bool(body.get("tools")), field, "only with tools")
    _need(body.get("tools") != [], "tools", "empty list")
    for index, tool in enumerate(body.get("tools") or ()):
        where = f"tools[{index}]"
        _only(tool, ("type", "function", "custom"), where)
        if tool.get("type") == "function":
            _only(tool.get("function"), ("name", "description", "parameters", "strict"), f"{where}.function")
            _check_name(tool["function"].get("name"), f"{where}.function.name")
            _check_schema(tool["function"].get("parameters", {"type": "object"}), f"{where}.function.parameters")
        else:
            _need(tool.get("type") == "custom" and "custom" in tool, f"{where}.type", "function or custom")

    unanswered: list[str] = []
    for index, message in enumerate(body["messages"]):
        where = f"messages[{index}]"
        role = message.get("role")
        _need(role in CHAT_MESSAGE_FIELDS, f"{where}.role", f"{role!r} is no role")
        _only(message, CHAT_MESSAGE_FIELDS[role], where)
        if role == "tool":
            call_id = message.get("tool_call_id")
            _need(call_id in unanswered, where, "a tool message must answer a call of the message before")
            unanswered.remove(call_id)
        else:
            _need(not unanswered, where, f"these calls are not answered: {unanswered}")
        _check_chat_content(message, where)
        unanswered += [_check_chat_call(call, f"{where}.tool_calls") for call in message.get("tool_calls") or ()]
    _need(not unanswered, "messages", f"these calls are not answered: {unanswered}")


def _check_chat_content(message: Json, where: str) -> None:
    content, role = message.get("content"), message["role"]
    if content is None:
        _need(bool(message.get("tool_calls")), f"{where}.content", "is required")
    elif not isinstance(content, str):
        _need(isinstance(content, list) and bool(content), f"{where}.content", "text or parts")
        for part in content:
            _need(part.get("type") in CHAT_PARTS[role], f"{where}.content", f"{part.get('type')!r} in a {role} message")
    _need(message.get("tool_calls") != [], f"{where}.tool_calls", "empty list")


def _check_chat_call(call: Json, where: str) -> str:
    call_id = call.get("id")
    _need(isinstance(call_id, str) and 0 < len(call_id) <= CALL_ID_LENGTH, where, f"{call_id!r} is no call id")
    kind = call.get("type")
    _need(kind in ("function", "custom"), where, "function or custom")
    _only(call, ("id", "type", kind), where)
    _check_name(call[kind].get("name"), where)
    if kind == "function":
        _check_arguments(call["function"].get("arguments"), where)
    return str(call_id)


# ---- Responses

RESPONSES_FIELDS = _names(
    "access_programs background background_options context_management conversation image include input instructions"
    " max_output_tokens max_tool_calls metadata model moderation parallel_tool_calls prompt prompt_cache_key"
    " prompt_cache_options prompt_cache_retention reasoning safety_identifier service_tier store stream stream_options"
    " temperature text tool_choice tools top_logprobs top_p truncation user"
)
ITEM_FIELDS: dict[str, frozenset[str]] = {
    "message": _names("type role content id status phase"),
    "function_call": _names("type call_id name arguments id status namespace"),
    "function_call_output": _names("type call_id output id status"),
    "custom_tool_call": _names("type call_id name input id status namespace"),
    "custom_tool_call_output": _names("type call_id output id status"),
    "reasoning": _names("type id summary content encrypted_content status"),
}
ID_PREFIXES = {"message": "msg_", "function_call": "fc_", "custom_tool_call": "ctc_", "reasoning": "rs_"}
RESPONSES_PARTS: dict[str, frozenset[str]] = {
    "user": _names("input_text input_image input_file"),
    "system": _names("input_text"),
    "developer": _names("input_text"),
    "assistant": _names("output_text refusal"),
}
OUTPUT_PARTS = _names("input_text input_image input_file")
ITEM_CALL_ID_LENGTH = 64


def _check_responses(body: Json) -> None:
    _only(body, RESPONSES_FIELDS, "")
    _need(isinstance(body.get("model"), str), "model", "is required")
    _need(bool(body.get("input")), "input", "is required")
    _need(body.get("max_output_tokens") is None or body["max_output_tokens"] >= 16, "max_output_tokens", "at least 16")
    for index, tool in enumerate(body.get("tools") or ()):
        where = f"tools[{index}]"
        if tool.get("type") == "function":
            _only(tool, ("type", "name", "description", "parameters", "strict"), where)
            _check_name(tool.get("name"), f"{where}.name")
            _need("strict" in tool, f"{where}.strict", "is required")
            _check_schema(tool.get("parameters"), f"{where}.parameters")
        else:
            _need(tool.get("type") == "custom", f"{where}.type", "function or custom")
    if isinstance(body["input"], str):
        return
    calls: set[str] = set()
    outputs: set[str] = set()
    for index, item in enumerate(body["input"]):
        where = f"input[{index}]"
        kind = item.get("type", "message")
        _need(kind in ITEM_FIELDS, f"{where}.type", f"{kind!r} is no item")
        _only(item, ITEM_FIELDS[kind], where)
        if item.get("id") is not None:
            _need(
                item["id"].startswith(ID_PREFIXES.get(kind, "")), f"{where}.id", f"begins with {ID_PREFIXES.get(kind)}"
            )
        if kind == "message":
            _check_item_message(item, where)
        elif kind == "reasoning":
            thought = "".join(part["text"] for part in item.get("summary") or ())
            _need(item.get("encrypted_content") == sign(thought), where, "the encrypted content could not be verified")
        else:
            _check_call_item(kind, item, where, calls, outputs)
    _need(calls == outputs, "input", f"no tool output found for {sorted(calls - outputs)}")


def _check_item_message(item: Json, where: str) -> None:
    role, content = item.get("role"), item.get("content")
    _need(role in RESPONSES_PARTS, f"{where}.role", f"{role!r} is no role")
    if isinstance(content, str):
        return
    _need(bool(content), f"{where}.content", "text or parts")
    for part in content:
        _need(part.get("type") in RESPONSES_PARTS[role], f"{where}.content", f"{part.get('type')!r} from {role}")


def _check_call_item(kind: str, item: Json, where: str, calls: set[str], outputs: set[str]) -> None:
    call_id = item.get("call_id")
    right = isinstance(call_id, str) and 0 < len(call_id) <= ITEM_CALL_ID_LENGTH
    _need(right, f"{where}.call_id", f"{call_id!r} is no call id")
    if kind in ("function_call", "custom_tool_call"):
        _check_name(item.get("name"), f"{where}.name")
        _need(call_id not in calls, f"{where}.call_id", "comes twice")
        calls.add(str(call_id))
        if kind == "function_call":
            _check_arguments(item.get("arguments"), f"{where}.arguments")
        return
    _need(call_id in calls, where, f"no tool call found for {call_id}")
    outputs.add(str(call_id))
    output = item.get("output")
    parts = [] if isinstance(output, str) else output
    _need(isinstance(parts, list), f"{where}.output", "text or parts")
    _need(all(part.get("type") in OUTPUT_PARTS for part in parts), f"{where}.output", "input parts only")


# ---- Messages

MESSAGES_FIELDS = _names(
    "model max_tokens messages system tools tool_choice thinking output_config stop_sequences stream metadata"
    " cache_control service_tier inference_geo speed container diagnostics"
)
BLOCK_FIELDS: dict[str, frozenset[str]] = {
    "text": _names("type text cache_control citations"),
    "image": _names("type source cache_control"),
    "document": _names("type source title context citations cache_control"),
    "tool_use": _names("type id name input cache_control caller"),
    "tool_result": _names("type tool_use_id content is_error cache_control"),
    "thinking": _names("type thinking signature"),
    "redacted_thinking": _names("type data"),
}
BLOCKS_OF_ROLE: dict[str, frozenset[str]] = {
    "user": _names("text image document tool_result"),
    "assistant": _names("text tool_use thinking redacted_thinking"),
}
TOOL_USE_ID = re.compile(r"[a-zA-Z0-9_-]+")


def _check_messages(body: Json) -> None:
    _only(body, MESSAGES_FIELDS, "")
    _need(isinstance(body.get("model"), str), "model", "Field required")
    _need(isinstance(body.get("max_tokens"), int), "max_tokens", "Field required")
    _need(bool(body.get("messages")), "messages", "at least one message is required")
    _need(body["messages"][0].get("role") == "user", "messages", 'first message must use the "user" role')
    for sequence in body.get("stop_sequences") or ():
        _need(bool(sequence.strip()), "stop_sequences", "each stop sequence must contain non-whitespace")
    if isinstance(body.get("system"), list):
        for index, block in enumerate(body["system"]):
            _need(block.get("type") == "text", f"system.{index}", "text blocks only")
            _check_block(block, f"system.{index}")
    for index, tool in enumerate(body.get("tools") or ()):
        where = f"tools.{index}"
        _only(tool, ("type", "name", "description", "input_schema", "cache_control", "strict"), where)
        _check_name(tool.get("name"), f"{where}.name")
        _check_schema(tool.get("input_schema"), f"{where}.input_schema")
    _need("tool_choice" not in body or bool(body.get("tools")), "tool_choice", "only with tools")

    unanswered: set[str] = set()
    for index, message in enumerate(body["messages"]):
        where = f"messages.{index}"
        _only(message, ("role", "content"), where)
        role, content = message.get("role"), message.get("content")
        _need(role in BLOCKS_OF_ROLE, f"{where}.role", f"{role!r} is no role")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        _need(bool(blocks), f"{where}.content", "all messages must have non-empty content")
        results = [block.get("tool_use_id") for block in blocks if block.get("type") == "tool_result"]
        _need(set(results) == unanswered, where, f"`tool_use` ids {sorted(unanswered)}, `tool_result` ids {results}")
        _need(len(results) == len(unanswered), where, "a call has several results")
        first = [block.get("type") for block in blocks[: len(results)]]
        _need(first == ["tool_result"] * len(results), where, "`tool_result` blocks come first")
        for place, block in enumerate(blocks):
            _need(
                block.get("type") in BLOCKS_OF_ROLE[role],
                f"{where}.content.{place}",
                f"{block.get('type')} from {role}",
            )
            _check_block(block, f"{where}.content.{place}")
        unanswered = {block["id"] for block in blocks if block["type"] == "tool_use"}
    _need(not unanswered, "messages", f"`tool_use` ids without `tool_result`: {sorted(unanswered)}")


def _check_block(block: Json, where: str) -> None:
    kind = block["type"]
    _only(block, BLOCK_FIELDS[kind], where)
    if kind == "text":
        _need(bool(block["text"].strip()), where, "text content blocks must contain non-whitespace text")
    elif kind == "thinking":
        _need(block.get("signature") == sign(block["thinking"]), where, "Invalid `signature` in `thinking` block")
    elif kind == "redacted_thinking":
        raise Refused(where, "Invalid `data` in `redacted_thinking` block")  # this backend never makes one
    elif kind == "tool_use":
        _need(isinstance(block.get("input"), dict), f"{where}.input", "Input should be a valid dictionary")
        _check_name(block.get("name"), f"{where}.name")
        _need(TOOL_USE_ID.fullmatch(block.get("id", "")) is not None, f"{where}.id", f"{block.get('id')!r} is no id")
    elif kind == "tool_result" and isinstance(block.get("content"), list):
        for part in block["content"]:
            _need(part.get("type") in ("text", "image", "document"), where, f"{part.get('type')} in a tool_result")
            _check_block(part, where)


CHECKS: dict[Protocol, Callable[[Json], None]] = {
    "chat": _check_chat,
    "responses": _check_responses,
    "messages": _check_messages,
}
