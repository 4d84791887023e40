"""The tables of the Responses stream grammar: what events hold, what items and parts look like, what grows."""

from dataclasses import dataclass

from tests.harness.grammar.findings import Shape

TERMINAL_STATUS = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
}

IN_PART: Shape = {"item_id": str, "output_index": int, "content_index": int}
IN_SUMMARY: Shape = {"item_id": str, "output_index": int, "summary_index": int}
IN_ITEM: Shape = {"item_id": str, "output_index": int}

# The fields of every event that we may write; hosted tools have further events that only name their item.
FIELDS: dict[str, Shape] = {
    "response.created": {"response": dict},
    "response.in_progress": {"response": dict},
    "response.completed": {"response": dict},
    "response.incomplete": {"response": dict},
    "response.failed": {"response": dict},
    "error": {},
    "response.output_item.added": {"output_index": int, "item": dict},
    "response.output_item.done": {"output_index": int, "item": dict},
    "response.content_part.added": {**IN_PART, "part": dict},
    "response.content_part.done": {**IN_PART, "part": dict},
    "response.output_text.delta": {**IN_PART, "delta": str},
    "response.output_text.done": {**IN_PART, "text": str},
    "response.output_text.annotation.added": {**IN_PART, "annotation_index": int, "annotation": dict},
    "response.refusal.delta": {**IN_PART, "delta": str},
    "response.refusal.done": {**IN_PART, "refusal": str},
    "response.reasoning_text.delta": {**IN_PART, "delta": str},
    "response.reasoning_text.done": {**IN_PART, "text": str},
    "response.reasoning_summary_part.added": {**IN_SUMMARY, "part": dict},
    "response.reasoning_summary_part.done": {**IN_SUMMARY, "part": dict},
    "response.reasoning_summary_text.delta": {**IN_SUMMARY, "delta": str},
    "response.reasoning_summary_text.done": {**IN_SUMMARY, "text": str},
    "response.function_call_arguments.delta": {**IN_ITEM, "delta": str},
    "response.function_call_arguments.done": {**IN_ITEM, "arguments": str},
    "response.custom_tool_call_input.delta": {**IN_ITEM, "delta": str},
    "response.custom_tool_call_input.done": {**IN_ITEM, "input": str},
    "response.code_interpreter_call_code.delta": {**IN_ITEM, "delta": str},
    "response.code_interpreter_call_code.done": {**IN_ITEM, "code": str},
    "response.web_search_call.in_progress": IN_ITEM,
    "response.web_search_call.searching": IN_ITEM,
    "response.web_search_call.completed": IN_ITEM,
    "response.code_interpreter_call.in_progress": IN_ITEM,
    "response.code_interpreter_call.interpreting": IN_ITEM,
    "response.code_interpreter_call.completed": IN_ITEM,
    "response.mcp_call_arguments.delta": {**IN_ITEM, "delta": str},
    "response.mcp_call_arguments.done": {**IN_ITEM, "arguments": str},
    "response.mcp_call.in_progress": IN_ITEM,
    "response.mcp_call.completed": IN_ITEM,
    "response.mcp_call.failed": IN_ITEM,
}

# Fields that only what we write must have.
OUR_FIELDS: dict[str, Shape] = {
    "response.output_text.delta": {"logprobs": list},
    "response.output_text.done": {"logprobs": list},
}

RESPONSE: Shape = {
    "id": str,
    "object": "response",
    "created_at": int,
    "status": str,
    "error": (dict, None),
    "incomplete_details": (dict, None),
    "instructions": (str, list, None),
    "metadata": (dict, None),
    "model": str,
    "output": list,
    "parallel_tool_calls": bool,
    "previous_response_id": (str, None),
    "reasoning": (dict, None),
    "store": bool,
    "temperature": (int, float, None),
    "text": dict,
    "tool_choice": (str, dict),
    "tools": list,
    "top_p": (int, float, None),
    "truncation": str,
    "usage": (dict, None),
}
USAGE: Shape = {
    "input_tokens": int,
    "input_tokens_details": dict,
    "output_tokens": int,
    "output_tokens_details": dict,
    "total_tokens": int,
}

# How an item is announced. Of items that are not here, those of hosted tools, only the id is known.
ANNOUNCED: dict[str, Shape] = {
    "message": {"id": str, "role": "assistant", "status": "in_progress", "content": []},
    "reasoning": {"id": str, "summary": []},
    "function_call": {"id": str, "call_id": str, "name": str, "arguments": "", "status": "in_progress"},
    "custom_tool_call": {"id": str, "call_id": str, "name": str, "input": ""},
}
# Items of tools that the service runs may end in a failure.
FAILS: dict[str, tuple[str, ...]] = dict.fromkeys(("web_search_call", "code_interpreter_call", "mcp_call"), ("failed",))
# What a client holds on to between an item's announcement and its end.
KEPT_FIELDS = ("type", "role", "call_id", "name", "namespace")


@dataclass(frozen=True)
class PartList:
    """Where the parts of an item stand, and which of the item's fields lists them."""

    index: str
    field: str


PART_EVENTS = {
    "response.content_part": PartList("content_index", "content"),
    "response.reasoning_summary_part": PartList("summary_index", "summary"),
}
EMPTY_PARTS: dict[str, Shape] = {
    "output_text": {"text": "", "annotations": []},
    "refusal": {"refusal": ""},
    "reasoning_text": {"text": ""},
    "summary_text": {"text": ""},
}


@dataclass(frozen=True)
class Piece:
    """Text that comes in deltas: whose it is, the part it is in (if in one), and where its whole is repeated."""

    item: str
    whole: str
    part: str | None = None
    parts: PartList | None = None


CONTENT, SUMMARY = PART_EVENTS["response.content_part"], PART_EVENTS["response.reasoning_summary_part"]
PIECES: dict[str, Piece] = {
    "response.output_text": Piece("message", "text", "output_text", CONTENT),
    "response.refusal": Piece("message", "refusal", "refusal", CONTENT),
    "response.reasoning_text": Piece("reasoning", "text", "reasoning_text", CONTENT),
    "response.reasoning_summary_text": Piece("reasoning", "text", "summary_text", SUMMARY),
    "response.function_call_arguments": Piece("function_call", "arguments"),
    "response.custom_tool_call_input": Piece("custom_tool_call", "input"),
    "response.mcp_call_arguments": Piece("mcp_call", "arguments"),
    "response.code_interpreter_call_code": Piece("code_interpreter_call", "code"),
}
# Items whose text must be stated as done before they are.
MUST_STATE_WHOLE = {"function_call": "arguments", "custom_tool_call": "input"}
