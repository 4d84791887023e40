"""Read `messages` into instructions and turns.

Call ids are what the client sent, "" where it sent none. The deprecated functions have no ids at all: theirs are made
from the position in the conversation (mapping.md 3.2, step 5), for call and result alike.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NoReturn

from proxy.canonical import jsontext
from proxy.canonical.errors import InexactNumber
from proxy.canonical.loss import LossReport, Path, Rule
from proxy.canonical.parts import (
    Audio,
    Call,
    Extra,
    Part,
    Reasoning,
    Refusal,
    Result,
    Text,
    Turn,
)
from proxy.canonical.request import Instruction
from proxy.protocols.arguments import may_be_rounded
from proxy.protocols.chat.part_reader import read_parts, texts_of
from proxy.protocols.fields import (
    Wire,
    array,
    as_object,
    invalid,
    is_object,
    kind,
    mapping,
    need_text,
    one_of,
    report_unknown,
    text,
)

_NAMES_OF_ROLES = "'system', 'developer', 'user', 'assistant', 'tool', 'function'"
_CALL_TYPES = frozenset({"function", "custom"})

_PLAIN = 2  # fields of a message without a name: role and content
_PLAIN_FIELDS = frozenset({"role", "content", "name"})
_TOOL_FIELDS = frozenset({"role", "content", "name", "tool_call_id"})
_PLAIN_CALL_FIELDS = frozenset({"id", "type", "index", "function"})
_CALL_FIELDS = frozenset({"id", "type", "index", "function", "custom", "extra_content"})
# `annotations` come back from clients that send a whole answer: the text they mark is there, and a citation alone is
# of no use to a backend (mapping.md 4.7).
_REASONING_FIELDS = frozenset({"reasoning_content", "reasoning", "reasoning_details"})
_USUAL_FIELDS = frozenset({"role", "content", "tool_calls", "annotations"})
_ASSISTANT_FIELDS = _USUAL_FIELDS | _REASONING_FIELDS | {"function_call", "refusal", "audio", "name"}
_AUDIO_FIELDS = frozenset({"id", "data", "expires_at", "transcript"})  # all of an answer's; a request needs the id
_CALLED_FIELDS = {"function": frozenset({"name", "arguments"}), "custom": frozenset({"name", "input"})}


@dataclass(slots=True)
class _Conversation:
    """What has been read so far, and the calls that later results refer to.

    `custom` are ids of free-text calls; `functions` are calls in the deprecated form that wait for a result, as
    (function, id) in their order. `exact`: long integers were decoded as they are.
    """

    losses: LossReport
    exact: bool
    instructions: list[Instruction] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    custom: set[str] = field(default_factory=set)
    functions: list[tuple[str, str]] = field(default_factory=list)


Read = Callable[[_Conversation, Wire, Path], None]


def read_messages(wire: Wire, losses: LossReport, *, exact: bool) -> tuple[list[Instruction], list[Turn]]:
    """The system and developer messages before any other, and the rest as turns.

    Raises `InexactNumber` for arguments whose long integers the decoder may have rounded, unless they are `exact`.
    """
    messages = array(wire, "messages", ())
    if messages is None:
        invalid(("messages",), "this field is required.", code="missing_required_parameter")
    if not messages:
        invalid(("messages",), "at least one message is required.", code="empty_array")
    conversation = _Conversation(losses, exact)
    for index, message in enumerate(messages):
        at: Path = ("messages", index)
        if type(message) is not dict:
            message = as_object(message, at)
        role = message.get("role")
        read = READ.get(role) if type(role) is str else None
        if read is None:
            _reject_role(message, at)
        read(conversation, message, at)
    return conversation.instructions, conversation.turns


def _reject_role(message: Wire, path: Path) -> NoReturn:
    role = need_text(message, "role", path)
    invalid((*path, "role"), f"'{role}' is not one of {_NAMES_OF_ROLES}.", code="invalid_value")


def _read_system(conversation: _Conversation, message: Wire, path: Path) -> None:
    _read_instruction(conversation, message, "system", path)


def _read_developer(conversation: _Conversation, message: Wire, path: Path) -> None:
    _read_instruction(conversation, message, "developer", path)


def _read_instruction(
    conversation: _Conversation, message: Wire, role: Literal["system", "developer"], path: Path
) -> None:
    name = _read_name(message, path, conversation.losses) if len(message) > _PLAIN else None
    texts = texts_of(_read_content(message, path, conversation.losses), (*path, "content"))
    if conversation.turns:
        conversation.turns.append(Turn(role, list(texts), name=name, at=path))
    else:
        conversation.instructions.append(Instruction(texts, role, at=path, name=name))


def _read_user(conversation: _Conversation, message: Wire, path: Path) -> None:
    name = _read_name(message, path, conversation.losses) if len(message) > _PLAIN else None
    parts = _read_content(message, path, conversation.losses)
    conversation.turns.append(Turn("user", parts, name, None, path))


def _read_assistant(conversation: _Conversation, message: Wire, path: Path) -> None:
    parts: list[Part] = []
    usual = message.keys() <= _USUAL_FIELDS
    if not usual and not _REASONING_FIELDS.isdisjoint(message):
        parts += _read_reasoning(message, path)
    if message.get("content") not in (None, ""):
        parts += _read_content(message, path, conversation.losses)
    name = None if usual else _read_rarities(message, parts, path, conversation.losses)
    if "tool_calls" in message:
        _read_calls(conversation, message, parts, path)
    if not usual and "function_call" in message:
        _read_function_call(conversation, message, parts, path)
    conversation.turns.append(Turn("assistant", parts, name, None, path))


def _read_rarities(message: Wire, parts: list[Part], path: Path, losses: LossReport) -> str | None:
    """A refusal, an earlier spoken answer, fields that nobody knows; and the name."""
    if not message.keys() <= _ASSISTANT_FIELDS:
        report_unknown(message, _ASSISTANT_FIELDS, path, losses)
    refusal = text(message, "refusal", path)
    if refusal:
        parts.append(Refusal(refusal))
    audio = mapping(message, "audio", path)
    if audio is not None:
        at = (*path, "audio")
        report_unknown(audio, _AUDIO_FIELDS, at, losses)
        transcript = text(audio, "transcript", at)
        parts.append(Audio("", "", id=need_text(audio, "id", at), transcript=transcript, at=at))
    return text(message, "name", path)


def _read_tool(conversation: _Conversation, message: Wire, path: Path) -> None:
    if not message.keys() <= _TOOL_FIELDS:
        report_unknown(message, _TOOL_FIELDS, path, conversation.losses)
    call_id = text(message, "tool_call_id", path) or ""
    result = Result(
        call_id,
        _read_result(message, path, conversation.losses),
        False,
        "custom" if call_id in conversation.custom else "function",
        text(message, "name", path) if "name" in message else None,
        None,
        None,
        path,
    )
    conversation.turns.append(Turn("user", [result], None, None, path))


def _read_function(conversation: _Conversation, message: Wire, path: Path) -> None:
    """The deprecated role: the result names its function, not its call."""
    if not message.keys() <= _PLAIN_FIELDS:
        report_unknown(message, _PLAIN_FIELDS, path, conversation.losses)
    name = need_text(message, "name", path)
    parts = _read_result(message, path, conversation.losses)
    result = Result(_last_call(conversation, name), parts, name=name, at=path)
    conversation.turns.append(Turn("user", [result], at=path))


READ: dict[str, Read] = {
    "system": _read_system,
    "developer": _read_developer,
    "user": _read_user,
    "assistant": _read_assistant,
    "tool": _read_tool,
    "function": _read_function,
}


def _read_name(message: Wire, path: Path, losses: LossReport) -> str | None:
    """The name in a message that has more than a role and content."""
    if not message.keys() <= _PLAIN_FIELDS:
        report_unknown(message, _PLAIN_FIELDS, path, losses)
    return text(message, "name", path)


def _read_content(message: Wire, path: Path, losses: LossReport) -> list[Part]:
    content = message.get("content")
    if type(content) is str:
        return [Text(content)]
    if content is None:
        invalid((*path, "content"), "this field is required.", code="missing_required_parameter")
    return read_parts(content, (*path, "content"), losses)


def _read_result(message: Wire, path: Path, losses: LossReport) -> list[Part]:
    """A tool's answer. Some clients send an object where text is wanted (mapping.md 4.5)."""
    content = message.get("content")
    if type(content) is str:
        return [Text(content)]
    if content is None:
        return []
    if is_object(content):
        losses.approx(Rule.CONTENT, (*path, "content"))
        return [Text(jsontext.dumps(content).decode())]
    return _read_content(message, path, losses)


def _read_reasoning(message: Wire, path: Path) -> list[Part]:
    """What reasoning the client sent back, by the names that servers give it (mapping.md 8.5).

    `reasoning_details` hold the chain with its signatures, so the plain text beside them is the same text again;
    unless they are only encrypted, then the plain text is the visible half.
    """
    parts: list[Part] = []
    shown = False
    for index, item in enumerate(array(message, "reasoning_details", path) or ()):
        at = (*path, "reasoning_details", index)
        native = as_object(item, at)
        summary = text(native, "summary", at)
        visible = text(native, "text", at) or summary or ""
        shown = shown or bool(visible)
        full = visible != "" and summary is None
        parts.append(
            Reasoning(visible, full, native=native, redacted=not visible, field="reasoning_details", at=at),
        )
    if shown:
        return parts
    plain = text(message, "reasoning_content", path)
    other = text(message, "reasoning", path)
    if other and other != plain:
        parts.insert(0, Reasoning(other, full=True, field="reasoning", at=(*path, "reasoning")))
    if plain:
        parts.insert(0, Reasoning(plain, full=True, field="reasoning_content", at=(*path, "reasoning_content")))
    return parts


def _read_calls(conversation: _Conversation, message: Wire, parts: list[Part], path: Path) -> None:
    for index, item in enumerate(array(message, "tool_calls", path) or ()):
        at = (*path, "tool_calls", index)
        wire = as_object(item, at)
        if wire.get("type") == "function" and wire.keys() <= _PLAIN_CALL_FIELDS:
            call = _read_call(conversation, wire, "function", at)
        else:
            call = _read_rare_call(conversation, wire, at)
        call.id = text(wire, "id", at) or ""
        if call.kind == "custom":
            conversation.custom.add(call.id)
        parts.append(call)


def _read_rare_call(conversation: _Conversation, wire: Wire, path: Path) -> Call:
    """A call that is not a function's, does not say its type or has more fields than most, without its id."""
    type_ = one_of(wire, "type", _CALL_TYPES, path) or ("custom" if "custom" in wire else "function")
    if not wire.keys() <= _CALL_FIELDS:
        report_unknown(wire, _CALL_FIELDS, path, conversation.losses)
    call = _read_call(conversation, wire, "custom" if type_ == "custom" else "function", path)
    if "extra_content" in wire:
        call.extra = _read_signature(wire, path, conversation.losses)
    return call


def _read_function_call(conversation: _Conversation, message: Wire, parts: list[Part], path: Path) -> None:
    """The deprecated form of a call, which has no id."""
    if message["function_call"] is None:
        return
    call = _read_call(conversation, message, "function", path, "function_call")
    call.id = f"drgp_{path[-1]}_{sum(isinstance(part, Call) for part in parts)}"
    conversation.functions.append((call.name, call.id))
    parts.append(call)


def _read_call(
    conversation: _Conversation,
    wire: Wire,
    call_kind: Literal["function", "custom"],
    path: Path,
    field_name: str | None = None,
) -> Call:
    """The call in the field of its kind, without its id.

    Some servers write arguments as an object, and their clients send it back.
    """
    field_name = field_name or call_kind
    path = (*path, field_name)
    called = as_object(wire.get(field_name), path)
    known = _CALLED_FIELDS[call_kind]
    if not called.keys() <= known:
        report_unknown(called, known, path, conversation.losses)
    name = need_text(called, "name", path)
    if call_kind == "custom":
        return Call("", name, text(called, "input", path) or "", kind="custom", at=path)
    arguments = called.get("arguments")
    if type(arguments) is str:
        return Call("", name, arguments, None, "function", None, None, None, None, path)
    if arguments is None:
        return Call("", name, at=path)
    if is_object(arguments):
        if not conversation.exact and may_be_rounded(arguments):
            raise InexactNumber
        return Call("", name, input=arguments, at=path)
    invalid((*path, "arguments"), f"expected a string, got {kind(arguments)}.")


def _read_signature(wire: Wire, path: Path, losses: LossReport) -> Extra | None:
    """Gemini's thought signature: of use to Gemini alone, whose clients talk to it in this protocol."""
    extra = mapping(wire, "extra_content", path)
    if extra is None:
        return None
    losses.drop(Rule.FOREIGN_REASONING, (*path, "extra_content"))
    return {"extra_content": extra}


def _last_call(conversation: _Conversation, function: str) -> str | None:
    """The id of the last call of this function that has no result yet."""
    waiting = conversation.functions
    for index in range(len(waiting) - 1, -1, -1):
        if waiting[index][0] == function:
            return waiting.pop(index)[1]
    return None
