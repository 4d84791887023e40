"""Read the items of `input` into turns (responses.md 4).

An item is not a message: one assistant turn is a run of items (reasoning, a message, calls), and tool outputs are items
of their own. A second message in a run starts a new turn, so that the border between two texts survives.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from proxy.canonical.loss import LossReport, Path, Rule
from proxy.canonical.parts import Call, HostedCall, Opaque, Part, Reasoning, Result, Role, Text, Turn
from proxy.canonical.request import Instruction
from proxy.canonical.tools import Tool
from proxy.protocols.fields import (
    Wire,
    array,
    as_object,
    flag,
    invalid,
    is_object,
    kind,
    need_text,
    report_unknown,
    text,
)
from proxy.protocols.responses.input_content import read_content
from proxy.protocols.responses.reasoning_text import read_reasoning_text
from proxy.protocols.responses.tables import HOSTED_ITEMS, HOSTED_RESULTS, TYPED_CALLS, runs_at_service
from proxy.protocols.responses.tool_reader import read_tools
from proxy.protocols.responses.typed_items import OUTPUTS, read_caller, read_search_output, read_typed_call

PLAIN_CALL = frozenset({"type", "id", "call_id", "name", "arguments", "input", "status"})
_CALL = PLAIN_CALL | {"namespace", "async", "caller"}
_OUTPUT = frozenset({"type", "id", "call_id", "output", "status", "caller"})
# The fields of items that are read one by one; the other items are lost or kept as a whole. An item's own id and its
# status are known and of no use: no other server can look the id up, and what is sent back is complete.
FIELDS: dict[str, frozenset[str]] = {
    "message": frozenset({"type", "id", "role", "content", "status", "phase"}),
    "function_call": _CALL,
    "function_call_output": _OUTPUT | {"name", "namespace"},
    "custom_tool_call": _CALL,
    "custom_tool_call_output": _OUTPUT,
    "additional_tools": frozenset({"type", "id", "role", "tools"}),
    "configuration_update": frozenset({"type", "id", "reasoning", "text"}),
}
ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system", "developer": "developer"}


@dataclass(slots=True)
class Conversation:
    """What the items of `input` add up to. `updates` are the `configuration_update` items with their places."""

    losses: LossReport
    turns: list[Turn] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)
    tools: list[Tool] = field(default_factory=list)
    found: list[Tool] = field(default_factory=list)  # by the client's own search
    updates: list[tuple[Wire, Path]] = field(default_factory=list)
    has_message: bool = False  # the assistant turn at the end holds a message item
    hosted_shells: set[str] = field(default_factory=set)  # ids of shell calls that the service ran


def read_input(value: object, path: Path, losses: LossReport) -> Conversation:
    """The conversation in `input`: a string, or an array of items. Raises `Rejected`."""
    conversation = Conversation(losses)
    if type(value) is str:
        conversation.turns.append(Turn("user", [Text(value)], at=path))
        return conversation
    if type(value) is not list:
        invalid(path, f"expected a string or an array of items, got {kind(value)}.")
    for index, item in enumerate(value):
        at = (*path, index)
        if type(item) is not dict:
            item = as_object(item, at)
        item_type = item.get("type")
        if type(item_type) is not str or not item_type:
            item_type = text(item, "type", at) or _implied_type(item, at)
        known = FIELDS.get(item_type)
        if known is not None and not item.keys() <= known:
            report_unknown(item, known, at, losses)
        ON_ITEM.get(item_type, _on_unknown)(conversation, item, at)
    return conversation


def _implied_type(item: Wire, path: Path) -> str:
    """Only messages and references may leave out their type (responses.md 4)."""
    if "role" in item:
        return "message"
    if "id" in item:
        return "item_reference"
    invalid((*path, "type"), "this field is required.", code="missing_required_parameter")


def _assistant_turn(conversation: Conversation, path: Path) -> Turn:
    turns = conversation.turns
    if not turns or turns[-1].role != "assistant":
        turns.append(Turn("assistant", at=path))
        conversation.has_message = False
    return turns[-1]


def _result_turn(conversation: Conversation, path: Path) -> Turn:
    """The turn that holds the outputs before this one, or a new one."""
    turns = conversation.turns
    if not turns or turns[-1].role != "user" or not turns[-1].parts or type(turns[-1].parts[-1]) is not Result:
        turns.append(Turn("user", at=path))
    return turns[-1]


# --- messages ---


def _on_message(conversation: Conversation, wire: Wire, path: Path) -> None:
    role = ROLES.get(need_text(wire, "role", path))
    content = wire.get("content")
    if role is None:
        options = ", ".join(f"'{option}'" for option in ROLES)
        invalid((*path, "role"), f"'{wire['role']}' is not one of {options}.", code="invalid_value")
    if content is None:
        invalid((*path, "content"), "this field is required.", code="missing_required_parameter")
    losses = conversation.losses
    phase = text(wire, "phase", path) if role == "assistant" else None
    if phase is not None:
        losses.approx(Rule.PHASE, (*path, "phase"))
    parts = read_content(content, (*path, "content"), losses, phase)
    if role == "assistant":
        _message_turn(conversation, path).parts += parts
        conversation.has_message = True
    elif role == "user" or conversation.turns:
        conversation.turns.append(Turn(role, parts, None, None, path))
    else:
        texts = [part for part in parts if isinstance(part, Text)]
        if len(texts) == len(parts):
            conversation.instructions.append(Instruction(texts, role, at=path))
        else:
            conversation.turns.append(Turn(role, parts, at=path))


def _message_turn(conversation: Conversation, path: Path) -> Turn:
    """The turn of the next assistant message: a new one after another message, with the reasoning just before it."""
    turn = _assistant_turn(conversation, path)
    if not conversation.has_message:
        return turn
    following = Turn("assistant", at=path)
    while turn.parts and isinstance(reasoning := turn.parts[-1], Reasoning):
        following.parts.insert(0, turn.parts.pop())
        following.at = reasoning.at
    conversation.turns.append(following)
    return following


def _on_reasoning(conversation: Conversation, wire: Wire, path: Path) -> None:
    shown, full = read_reasoning_text(wire)
    part = Reasoning(shown, full=full, native=wire, redacted=not shown, at=path)
    _assistant_turn(conversation, path).parts.append(part)


# --- calls and outputs of the client's tools ---


def _on_function_call(conversation: Conversation, wire: Wire, path: Path) -> None:
    arguments = wire.get("arguments")
    given = arguments if is_object(arguments) else None  # some clients send the object itself
    call = Call(
        need_text(wire, "call_id", path),
        need_text(wire, "name", path),
        "" if given is not None else need_text(wire, "arguments", path),
        given,
        "function",
        None,
        None,
        None,
        None,
        path,
    )
    if not wire.keys() <= PLAIN_CALL:
        _add_rarities(call, conversation, wire, path)
    _assistant_turn(conversation, path).parts.append(call)


def _on_custom_call(conversation: Conversation, wire: Wire, path: Path) -> None:
    call = Call(
        need_text(wire, "call_id", path),
        need_text(wire, "name", path),
        need_text(wire, "input", path),
        kind="custom",
        at=path,
    )
    if not wire.keys() <= PLAIN_CALL:
        _add_rarities(call, conversation, wire, path)
    _assistant_turn(conversation, path).parts.append(call)


def _add_rarities(call: Call, conversation: Conversation, wire: Wire, path: Path) -> None:
    """Fields that few calls have. A program's call reads as one of the model's own (mapping.md 5.1)."""
    call.namespace = text(wire, "namespace", path)
    if flag(wire, "async", path):
        conversation.losses.refuse(Rule.ASYNC_TOOL, (*path, "async"), "its result may come turns later.")
    call.extra = read_caller(wire, path, conversation.losses)


def _on_typed_call(conversation: Conversation, wire: Wire, path: Path) -> None:
    if runs_at_service(wire):
        conversation.hosted_shells.add(str(wire.get("call_id")))
        _on_hosted(conversation, wire, path)
    else:
        _assistant_turn(conversation, path).parts.append(read_typed_call(wire, path, conversation.losses))


def _on_function_output(conversation: Conversation, wire: Wire, path: Path) -> None:
    result = Result(
        text(wire, "call_id", path),
        _output(conversation, wire, path),
        False,
        "function",
        text(wire, "name", path) if "name" in wire else None,
        None,
        read_caller(wire, path, conversation.losses) if "caller" in wire else None,
        path,
    )
    _result_turn(conversation, path).parts.append(result)


def _on_custom_output(conversation: Conversation, wire: Wire, path: Path) -> None:
    result = Result(
        need_text(wire, "call_id", path),
        _output(conversation, wire, path),
        kind="custom",
        extra=read_caller(wire, path, conversation.losses),
        at=path,
    )
    _result_turn(conversation, path).parts.append(result)


def _output(conversation: Conversation, wire: Wire, path: Path) -> list[Part]:
    output = wire.get("output")
    if type(output) is str:
        return [Text(output)]
    if output is None:
        invalid((*path, "output"), "this field is required.", code="missing_required_parameter")
    return read_content(output, (*path, "output"), conversation.losses)


def _on_typed_output(conversation: Conversation, wire: Wire, path: Path) -> None:
    if wire["type"] == "shell_call_output" and text(wire, "call_id", path) in conversation.hosted_shells:
        _on_hosted(conversation, wire, path)
        return
    result = OUTPUTS[str(wire["type"])](wire, path, conversation.losses)
    _result_turn(conversation, path).parts.append(result)


def _on_search_output(conversation: Conversation, wire: Wire, path: Path) -> None:
    if runs_at_service(wire):
        _on_hosted(conversation, wire, path)
        return
    result, found = read_search_output(wire, path, conversation.losses)
    conversation.found += found
    _result_turn(conversation, path).parts.append(result)


# --- everything else ---


def _on_hosted(conversation: Conversation, wire: Wire, path: Path) -> None:
    item_type = str(wire["type"])
    item_id = text(wire, "id", path) or ""
    tool = HOSTED_ITEMS.get(item_type, "shell")
    part = HostedCall(tool, wire, item_id, is_result=item_type in HOSTED_RESULTS, at=path)
    _assistant_turn(conversation, path).parts.append(part)


def _on_additional_tools(conversation: Conversation, wire: Wire, path: Path) -> None:
    conversation.losses.approx(Rule.TOOL_CHANGE, path)
    conversation.tools += read_tools(array(wire, "tools", path) or [], (*path, "tools"), conversation.losses)


def _on_configuration_update(conversation: Conversation, wire: Wire, path: Path) -> None:
    conversation.losses.approx(Rule.CONFIGURATION_UPDATE, path)
    conversation.updates.append((wire, path))


def _on_reference(conversation: Conversation, _: Wire, path: Path) -> None:
    conversation.losses.refuse(Rule.ITEM_REFERENCE, path, "no item is stored; send the item itself.")


def _on_compaction(conversation: Conversation, wire: Wire, path: Path) -> None:
    conversation.losses.drop(Rule.COMPACTION, path)
    _assistant_turn(conversation, path).parts.append(Opaque("compaction", wire, path))


def _on_compaction_trigger(conversation: Conversation, _: Wire, path: Path) -> None:
    conversation.losses.drop(Rule.COMPACTION, path)


def _on_unknown(conversation: Conversation, wire: Wire, path: Path) -> None:
    conversation.losses.drop(Rule.UNKNOWN_FIELD, path)
    _assistant_turn(conversation, path).parts.append(Opaque(str(wire["type"]), wire, path))


OnItem = Callable[[Conversation, Wire, Path], None]

ON_ITEM: dict[str, OnItem] = {
    "message": _on_message,
    "reasoning": _on_reasoning,
    "function_call": _on_function_call,
    "function_call_output": _on_function_output,
    "custom_tool_call": _on_custom_call,
    "custom_tool_call_output": _on_custom_output,
    **dict.fromkeys(TYPED_CALLS, _on_typed_call),
    **dict.fromkeys(OUTPUTS, _on_typed_output),
    **dict.fromkeys(HOSTED_ITEMS.keys() - TYPED_CALLS.keys(), _on_hosted),
    "tool_search_output": _on_search_output,
    "additional_tools": _on_additional_tools,
    "configuration_update": _on_configuration_update,
    "item_reference": _on_reference,
    "compaction": _on_compaction,
    "compaction_trigger": _on_compaction_trigger,
}
