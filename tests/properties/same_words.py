"""The parts of a request that have several forms of one meaning: conversations, tools, deprecated forms.

`OLDER_FORMS` makes the current form of what is deprecated, `CONVERSATION` one form of each message, block and tool.
"""

from collections.abc import Callable

from proxy.protocols.messages.tables import VENDOR_TOOLS, base_type
from proxy.protocols.responses.tables import WITH_LOGPROBS
from proxy.protocols.responses.tool_reader import HOSTED_TOOLS
from tests.harness.wire import Json, Protocol
from tests.properties.told_places import TOLD

# How texts become one that another protocol, or a string, has no way to hold apart (mapping.md 2.1, 2.4, 4.5).
BETWEEN = {"system": "\n\n", "developer": "\n\n", "tool": "\n", "assistant": ""}
MARKS = ("prompt_cache_breakpoint", "cache_control")
MAGIC = {"iVBORw0": "image/png", "/9j/": "image/jpeg", "R0lGOD": "image/gif", "UklGR": "image/webp"}


def parts_of(content: Json, kind: str = "text") -> list[Json]:
    """Content as a list: a string is one text, and an empty text is none."""
    if content is TOLD or isinstance(content, str):
        content = [content if content is TOLD else {"type": kind, "text": content}] if content else []
    return [part for part in content or () if not (isinstance(part, dict) and part.get("text") == "")]


def joined(parts: list[Json], between: str) -> list[Json]:
    """Texts with nothing between them as one."""
    found: list[Json] = []
    for part in parts:
        if found and _is_plain(part) and _is_plain(found[-1]):
            part = {**part, "text": found.pop()["text"] + between + part["text"]}
        found.append(part)
    return found


def _is_plain(part: Json) -> bool:
    return isinstance(part, dict) and part.keys() == {"type", "text"} and isinstance(part["text"], str)


def unmarked(part: Json) -> Json:
    """A part without its cache mark, which goes on to the next one that can carry it (mapping.md 10.1)."""
    return {name: part[name] for name in part if name not in MARKS} if isinstance(part, dict) else part


# --- Chat Completions ---


def _older_chat(request: Json) -> Json:
    request = _with_effort(_with_retention(request, {"24h": "30m"}))
    if isinstance(request.get("stop"), str):
        request = {**request, "stop": [request["stop"]]}
    if isinstance(functions := request.get("functions"), list):
        tools = [{"type": "function", "function": function} for function in functions]
        one_call = {} if request.get("tools") or not functions else {"parallel_tool_calls": False}
        request = {**_without(request, "functions"), "tools": (request.get("tools") or []) + tools, **one_call}
    if "function_call" in request:
        called = request["function_call"]
        choice = {"type": "function", "function": called} if isinstance(called, dict) else called
        request = {"tool_choice": choice, **_without(request, "function_call")}
    return request


def _with_effort(request: Json) -> Json:
    """OpenRouter's `reasoning.effort` is stronger than `reasoning_effort`."""
    reasoning = request.get("reasoning")
    effort = reasoning.get("effort") if isinstance(reasoning, dict) else None
    return {**request, "reasoning_effort": effort} if effort is not None else request


def _with_retention(request: Json, ttls: dict[str, str]) -> Json:
    """`prompt_cache_retention` is the older name of a lifetime."""
    retention = request.get("prompt_cache_retention")
    if not isinstance(retention, str):
        return request
    options = {"ttl": ttls.get(retention, "30m"), **(request.get("prompt_cache_options") or {})}
    return {**_without(request, "prompt_cache_retention"), "prompt_cache_options": options}


def _without(request: Json, name: str) -> Json:
    return {other: request[other] for other in request if other != name}


def _chat(request: Json) -> Json:
    messages = request["messages"]
    if not isinstance(messages, list):
        return request
    return {**request, "messages": [_chat_message(messages, index) for index in range(len(messages))]}


def _chat_message(messages: list[Json], index: int) -> Json:
    message = messages[index]
    if not isinstance(message, dict):
        return message
    role = message["role"]
    parts = [_chat_part(part) for part in parts_of(message.get("content"))]
    if role == "assistant":
        refused = [part["refusal"] for part in parts if isinstance(part, dict) and part["type"] == "refusal"]
        parts = [unmarked(part) for part in parts if not (isinstance(part, dict) and part["type"] == "refusal")]
        message = {**message, "refusal": "".join(refused)} if refused and TOLD not in refused else message
        if isinstance(called := message.get("function_call"), dict):
            # The deprecated form has no ids: they are made of the place (mapping.md 3.2).
            call = {"id": f"drgp_{index}_0", "type": "function", "function": called}
            message = {**_without(message, "function_call"), "tool_calls": [call]}
    if role == "function":
        calling = max(i for i in range(index) if "function_call" in messages[i])
        message = {"role": "tool", "tool_call_id": f"drgp_{calling}_0"}
        role = "tool"
    return {**message, "content": joined(parts, BETWEEN[role]) if role in BETWEEN else parts}


def _chat_part(part: Json) -> Json:
    url = part.get("image_url") if isinstance(part, dict) else None
    return {**part, "image_url": {"url": url}} if isinstance(url, str) else part


# --- Responses ---


def _older_responses(request: Json) -> Json:
    request = _with_include(_with_retention(request, {"24h": "12h"}))
    reasoning = request.get("reasoning")
    if isinstance(reasoning, dict) and "generate_summary" in reasoning:
        newer = {"summary": reasoning["generate_summary"], **_without(reasoning, "generate_summary")}
        request = {**request, "reasoning": newer}
    if isinstance(tools := request.get("tools"), list):
        request = {**request, "tools": [tool for given in tools for tool in _members(given)]}
    text = request.get("text")
    form = text.get("format") if isinstance(text, dict) else None
    items = request.get("input")
    if isinstance(items, str):
        request["input"] = items = [{"role": "user", "content": items}]
    if isinstance(form, dict) and form.get("type") == "json_object" and request.get("instructions"):
        # The word "json" must stand in the input (mapping.md 9.1).
        told = {"role": "developer", "content": request["instructions"]}
        request = {**_without(request, "instructions"), "input": [told, *items]}
    return request


def _with_include(request: Json) -> Json:
    """The proxy asks for what it needs itself (mapping.md 8.6), and without log probabilities none are the top."""
    if WITH_LOGPROBS in (request.get("include") or ()):
        return {**request, "include": [WITH_LOGPROBS]}
    return _without(_without(request, "include"), "top_logprobs")


def _members(tool: Json) -> list[Json]:
    """A group's tools: it becomes a part of their names, where they are spelled (mapping.md 3.3)."""
    wire_type = tool.get("type") if isinstance(tool, dict) else None
    if wire_type in HOSTED_TOOLS:
        return [{**tool, "type": HOSTED_TOOLS[wire_type]}]  # whatever its version (mapping.md 5.4)
    return list(tool.get("tools") or ()) if wire_type == "namespace" else [tool]


def _responses(request: Json) -> Json:
    items = request["input"]
    return {**request, "input": [_item(item) for item in items]} if isinstance(items, list) else request


def _item(item: Json) -> Json:
    if not isinstance(item, dict):
        return item
    if "role" in item and item.get("type", "message") == "message":
        parts = [_input_text(part) for part in parts_of(item.get("content"), "input_text")]
        if item["role"] == "assistant":
            parts = joined([unmarked(part) for part in parts], "")
        return {"type": "message", **item, "content": parts}
    if item.get("type") in ("function_call_output", "custom_tool_call_output"):
        # The call that is answered has the name.
        return {**_without(item, "name"), "output": parts_of(item.get("output"), "input_text")}
    return item


def _input_text(part: Json) -> Json:
    """Text of an answer is sent back as a string, which is the short form of all texts (mapping.md 2.4)."""
    if not isinstance(part, dict) or part.get("type") not in ("output_text", "text"):
        return part
    beside = {name: part[name] for name in part if name not in ("annotations", "logprobs") or part[name]}
    return {**beside, "type": "input_text"}


# --- Messages ---


def _older_messages(request: Json) -> Json:
    if "output_format" not in request:
        return request
    output = {"format": request["output_format"], **(request.get("output_config") or {})}
    return {**_without(request, "output_format"), "output_config": output}


def _messages(request: Json) -> Json:
    """One message for each block, as runs of one role are one turn."""
    messages = request["messages"]
    if isinstance(messages, list):
        messages = [block for message in messages for block in _blocks(message)]
    tools = request.get("tools") or []
    if isinstance(tools, list):
        tools = [_hosted(tool) for tool in tools]
    return {**request, "messages": messages, "tools": tools, "system": parts_of(request.get("system"))}


def _blocks(message: Json) -> list[Json]:
    if not isinstance(message, dict):
        return [message]
    beside = {name: message[name] for name in message if name not in ("role", "content")}
    found: list[Json] = [beside] if beside else []
    for block in parts_of(message.get("content")):
        if message["role"] == "system":
            block = unmarked(block)
        found.append(block if block is TOLD else {"role": message["role"], "block": _block(block)})
    return found


def _block(block: Json) -> Json:
    if not isinstance(block, dict):
        return block
    source = block.get("source")
    if isinstance(source, dict) and isinstance(source.get("data"), str):
        # The vendor refuses a picture that is not what it is said to be (mapping.md 4.2).
        kinds = [kind for start, kind in MAGIC.items() if source["data"].startswith(start)]
        block = {**block, "source": {**source, "media_type": kinds[0]}} if kinds else block
    if isinstance(source, dict) and "content" in source:
        inner = [_block(part) for part in parts_of(source["content"])]
        return {**block, "source": {**source, "content": inner}}
    if block.get("type") == "tool_result":
        return {**block, "content": [_block(part) for part in parts_of(block.get("content"))]}
    return block


def _hosted(tool: Json) -> Json:
    """A vendor's own tool, whatever its version, has one name (mapping.md 5.4)."""
    wire_type = tool.get("type") if isinstance(tool, dict) else None
    if not isinstance(wire_type, str):
        return tool
    side, kind, _ = VENDOR_TOOLS.get(base_type(wire_type), ("client", "", ""))
    return {**_without(tool, "name"), "type": kind} if side == "server" else tool


Form = Callable[[Json], Json]
OLDER_FORMS: dict[Protocol, Form] = {
    "chat": _older_chat,
    "responses": _older_responses,
    "messages": _older_messages,
}
CONVERSATION: dict[Protocol, Form] = {"chat": _chat, "responses": _responses, "messages": _messages}
