"""Read `messages` into instructions and turns.

Call ids are what the client sent, "" where it sent none. The deprecated functions have no ids at all: theirs are made
from the position in the conversation (mapping.md 3.2, step 5), for call and result alike.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from proxy.canonical import jsontext
from proxy.canonical.errors import InexactNumber
from proxy.canonical.loss import LossReport, Path, Rule
from proxy.canonical.parts import (
    Audio,
    Call,
    CallKind,
    Extra,
    Part,
    Reasoning,
    Refusal,
    Result,
    Text,
    Turn,
)
from proxy.canonical.request import Instruction
from proxy.protocols.chat.part_reader import read_content, read_texts
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

_PLAIN_FIELDS = frozenset({"role", "content", "name"})
_TOOL_FIELDS = frozenset({"role", "content", "name", "tool_call_id"})
_CALL_FIELDS = frozenset({"id", "type", "index", "function", "custom", "extra_content"})
# `annotations` come back from clients that send a whole answer: the text they mark is there, and a citation alone is
# of no use to a backend (mapping.md 4.7).
_ASSISTANT_FIELDS = _PLAIN_FIELDS | {
    "refusal",
    "tool_calls",
    "function_call",
    "audio",
    "annotations",
    "reasoning_content",
    "reasoning",
    "reasoning_details",
}


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
    for index, item in enumerate(messages):
        at: Path = ("messages", index)
        message = as_object(item, at)
        role = need_text(message, "role", at)
        if role not in READ:
            invalid((*at, "role"), f"'{role}' is not one of {_NAMES_OF_ROLES}.", code="invalid_value")
        READ[role](conversation, message, at)
    return conversation.instructions, conversation.turns


def _read_system(conversation: _Conversation, message: Wire, path: Path) -> None:
    _read_instruction(conversation, message, "system", path)


def _read_developer(conversation: _Conversation, message: Wire, path: Path) -> None:
    _read_instruction(conversation, message, "developer", path)


def _read_instruction(
    conversation: _Conversation, message: Wire, role: Literal["system", "developer"], path: Path
) -> None:
    _report(message, _PLAIN_FIELDS, path, conversation.losses)
    texts = read_texts(_required_content(message, path), (*path, "content"), conversation.losses)
    _read_name(message, path, conversation.losses)
    if conversation.turns:
        conversation.turns.append(Turn(role, list(texts), at=path))
    else:
        conversation.instructions.append(Instruction(texts, role, at=path))


def _read_user(conversation: _Conversation, message: Wire, path: Path) -> None:
    _report(message, _PLAIN_FIELDS, path, conversation.losses)
    parts = read_content(_required_content(message, path), (*path, "content"), conversation.losses)
    name = _read_name(message, path, conversation.losses)
    conversation.turns.append(Turn("user", parts, name=name, at=path))


def _read_assistant(conversation: _Conversation, message: Wire, path: Path) -> None:
    _report(message, _ASSISTANT_FIELDS, path, conversation.losses)
    parts = _read_reasoning(message, path)
    content = message.get("content")
    if content is not None and content != "":
        parts += read_content(content, (*path, "content"), conversation.losses)
    refusal = text(message, "refusal", path)
    if refusal:
        parts.append(Refusal(refusal))
    parts += _read_audio(message, path)
    parts += _read_calls(conversation, message, path)
    name = _read_name(message, path, conversation.losses)
    conversation.turns.append(Turn("assistant", parts, name=name, at=path))


def _read_tool(conversation: _Conversation, message: Wire, path: Path) -> None:
    _report(message, _TOOL_FIELDS, path, conversation.losses)
    call_id = text(message, "tool_call_id", path) or ""
    result = Result(
        call_id,
        _read_result(message, path, conversation.losses),
        kind="custom" if call_id in conversation.custom else "function",
        name=text(message, "name", path),
        at=path,
    )
    conversation.turns.append(Turn("user", [result], at=path))


def _read_function(conversation: _Conversation, message: Wire, path: Path) -> None:
    """The deprecated role: the result names its function, not its call."""
    _report(message, _PLAIN_FIELDS, path, conversation.losses)
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


def _report(message: Wire, known: frozenset[str], path: Path, losses: LossReport) -> None:
    if not message.keys() <= known:
        report_unknown(message, known, path, losses)


def _read_name(message: Wire, path: Path, losses: LossReport) -> str | None:
    """The participant's name, which no other protocol has."""
    name = text(message, "name", path)
    if name is not None:
        losses.drop(Rule.PARTICIPANT_NAME, (*path, "name"))
    return name


def _required_content(message: Wire, path: Path) -> object:
    content = message.get("content")
    if content is None:
        invalid((*path, "content"), "this field is required.", code="missing_required_parameter")
    return content


def _read_result(message: Wire, path: Path, losses: LossReport) -> list[Part]:
    """A tool's answer. Some clients send an object where text is wanted (mapping.md 4.5)."""
    content = message.get("content")
    at = (*path, "content")
    if content is None:
        return []
    if is_object(content):
        losses.approx(Rule.CONTENT, at)
        return [Text(jsontext.dumps(content).decode())]
    return read_content(content, at, losses)


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


def _read_audio(message: Wire, path: Path) -> list[Part]:
    """An earlier spoken answer, by its id."""
    audio = mapping(message, "audio", path)
    if audio is None:
        return []
    at = (*path, "audio")
    return [Audio("", "", id=need_text(audio, "id", at), transcript=text(audio, "transcript", at), at=at)]


def _read_calls(conversation: _Conversation, message: Wire, path: Path) -> list[Part]:
    """`tool_calls`, then the deprecated `function_call`."""
    calls: list[Part] = []
    for index, item in enumerate(array(message, "tool_calls", path) or ()):
        at = (*path, "tool_calls", index)
        wire = as_object(item, at)
        type_ = one_of(wire, "type", _CALL_TYPES, at) or ("custom" if "custom" in wire else "function")
        _report(wire, _CALL_FIELDS, at, conversation.losses)
        called = as_object(wire.get(type_), (*at, type_))
        call = _read_call(conversation, called, "custom" if type_ == "custom" else "function", (*at, type_))
        call.id = text(wire, "id", at) or ""
        call.extra = _read_signature(wire, at, conversation.losses)
        if call.kind == "custom":
            conversation.custom.add(call.id)
        calls.append(call)
    legacy = mapping(message, "function_call", path)
    if legacy is not None:
        call = _read_call(conversation, legacy, "function", (*path, "function_call"))
        call.id = f"drgp_{path[-1]}_{len(calls)}"
        conversation.functions.append((call.name, call.id))
        calls.append(call)
    return calls


def _read_call(conversation: _Conversation, wire: Wire, call_kind: CallKind, path: Path) -> Call:
    """A call without its id. Some servers write arguments as an object, and their clients send it back."""
    name = need_text(wire, "name", path)
    if call_kind == "custom":
        return Call("", name, text(wire, "input", path) or "", kind="custom", at=path)
    arguments = wire.get("arguments")
    if arguments is None or type(arguments) is str:
        return Call("", name, arguments or "", at=path)
    if is_object(arguments):
        if not conversation.exact and jsontext.may_be_rounded(jsontext.dumps(arguments)):
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
