"""Write instructions and turns as `messages` (mapping.md 2.1 to 2.6, 4.5, 8.8).

A run of assistant turns is one message here, with its text before its calls; the answers of tools follow as messages
of their own, and images among them come after the last of these, since OpenAI takes only text in a tool message.
"""

from typing import assert_never

from proxy.canonical.loss import LossReport, Rule
from proxy.canonical.parts import (
    Audio,
    Call,
    Document,
    HostedCall,
    Image,
    Opaque,
    Part,
    Reasoning,
    Refusal,
    Result,
    SearchResult,
    Text,
    Turn,
)
from proxy.canonical.request import Request
from proxy.canonical.target import Target
from proxy.protocols.arguments import arguments_text
from proxy.protocols.chat.part_writer import MARKS, PartWriter, text_part
from proxy.protocols.chat.reasoning_echo import echo_reasoning
from proxy.protocols.chat.tables import CALL_SIGNATURE, OPAQUE_RULES
from proxy.protocols.fields import Wire
from proxy.protocols.system_tag import tag_of, tagged

NO_OUTPUT = "(no output)"
PARAGRAPH = "\n\n"


def write_messages(request: Request, target: Target, losses: LossReport) -> list[Wire]:
    """The `messages` of a prepared request. Raises `Rejected` for a part that the backend can't take."""
    parts = PartWriter(target, losses)
    messages = _write_instructions(request, target, parts, losses)
    runs = _split_runs(request.turns)
    loop = _current_loop(runs)
    for index, run in enumerate(runs):
        if run[0].role == "assistant":
            messages.append(_AssistantMessage(target, parts, losses).write(run, in_loop=index >= loop))
        else:
            messages += _UserRun(request, target, parts, losses).write(run)
    return messages


def _split_runs(turns: list[Turn]) -> list[list[Turn]]:
    """Turns of the assistant in a row, and the others in a row."""
    runs: list[list[Turn]] = []
    for turn in turns:
        if runs and (runs[-1][0].role == "assistant") == (turn.role == "assistant"):
            runs[-1].append(turn)
        else:
            runs.append([turn])
    return runs


def _current_loop(runs: list[list[Turn]]) -> int:
    """The first run after the last words of the user; text beside a tool's answer does not end a loop."""
    for index in range(len(runs) - 1, -1, -1):
        if _is_words(runs[index]):
            return index + 1
    return 0


def _is_words(run: list[Turn]) -> bool:
    """Whether a run holds words of the user and no tool's answer."""
    words = False
    for turn in run:
        if turn.role == "assistant":
            return False
        words = words or turn.role == "user"
        for part in turn.parts:
            if type(part) is Result:
                return False
    return words


def _write_instructions(request: Request, target: Target, parts: PartWriter, losses: LossReport) -> list[Wire]:
    """One message for instructions of one role that follow each other; parts only where a cache mark is."""
    runs: list[tuple[str, list[Text]]] = []
    keeps_developer = target.dialect.developer_role and request.origin in ("chat", "responses")
    for instruction in request.instructions:
        role = "system"
        if instruction.authority == "developer":
            if keeps_developer:
                role = "developer"
            else:
                losses.approx(Rule.ROLE_DEVELOPER, instruction.at)
        if instruction.name is not None:
            losses.drop(Rule.PARTICIPANT_NAME, (*instruction.at, "name"))
        said = [part for part in instruction.parts if part.text]
        if not said:
            continue
        if not runs or (runs[-1][0] != role and not target.dialect.single_system):
            runs.append((role, []))
        runs[-1][1].extend(said)
    return [{"role": role, "content": _system_content(said, parts)} for role, said in runs]


def _system_content(said: list[Text], parts: PartWriter) -> object:
    if any(part.cache is not None for part in said):
        return [parts.marked(text_part(part.text), part.cache) for part in said]
    return PARAGRAPH.join(part.text for part in said)


class _UserRun:
    """The turns between two runs of the assistant: tool messages first, then the user's and the system's words."""

    __slots__ = ("_attachments", "_losses", "_messages", "_parts", "_request", "_target")

    def __init__(self, request: Request, target: Target, parts: PartWriter, losses: LossReport) -> None:
        self._request = request
        self._target = target
        self._parts = parts
        self._losses = losses
        self._messages: list[Wire] = []
        self._attachments: list[Wire] = []  # images of tool results, on their way into the next user message

    def write(self, run: list[Turn]) -> list[Wire]:
        """The messages of the run."""
        tags: list[str] = []
        for turn in run:
            if turn.role == "user":
                self._user(turn)
            elif self._target.dialect.single_system:
                self._losses.approx(Rule.MID_SYSTEM, turn.at)
                tags.append(_joined(turn))
            else:
                self._system(turn)
        if self._attachments:
            self._add_user([], None)
        self._add_tags(tags)
        return [self._shaped(message) for message in self._messages]

    def _user(self, turn: Turn) -> None:
        text = _only_text(turn.parts)
        if text is not None and not self._attachments and turn.name is None:
            self._messages.append({"role": "user", "content": text})
            return
        content: list[Wire] = []
        alone = True
        for part in turn.parts:
            if isinstance(part, Result):
                self._messages.append(self._tool_message(part))
                alone = False
            elif (written := self._parts.part(part, turn.at)) is not None:
                content.append(written)
        if content or alone:
            self._add_user(content, turn.name)

    def _add_user(self, content: list[Wire], name: str | None) -> None:
        message: Wire = {"role": "user", "content": self._attachments + content}
        if name is not None:
            message["name"] = name
        self._messages.append(message)
        self._attachments = []

    def _system(self, turn: Turn) -> None:
        if self._attachments:
            self._add_user([], None)
        role = "system"
        if turn.role == "developer":
            if self._target.dialect.developer_role:
                role = "developer"
            else:
                self._losses.approx(Rule.ROLE_DEVELOPER, turn.at)
        for part in turn.parts:
            if not isinstance(part, Text) and (written := self._parts.part(part, turn.at)) is not None:
                # Only text may stand here; the user's next words take the rest along.
                self._losses.approx(Rule.CONTENT, part.at if isinstance(part, Image | Document) else turn.at)
                self._attachments.append(written)
        said = [part for part in turn.parts if isinstance(part, Text) and part.text]
        if said:
            message: Wire = {"role": role, "content": _system_content(said, self._parts)}
            if turn.name is not None:
                message["name"] = turn.name
            self._messages.append(message)

    def _add_tags(self, tags: list[str]) -> None:
        """System text that this backend takes only at the start: at the end of what the user says."""
        if not tags:
            return
        tag = tag_of(self._request)
        words = [text_part(tagged(text, tag)) for text in tags]
        if not self._messages or self._messages[-1]["role"] != "user":
            self._messages.append({"role": "user", "content": words})
            return
        content = self._messages[-1]["content"]
        before = content if isinstance(content, list) else [text_part(str(content))] if content else []
        self._messages[-1]["content"] = before + words

    def _shaped(self, message: Wire) -> Wire:
        """One text is a string, which every server takes; so are several where only strings are taken."""
        content = message["content"]
        if message["role"] != "user" or not isinstance(content, list) or _has_mark(content):
            return message
        texts = [part["text"] for part in content if part["type"] == "text"]
        if len(texts) == len(content) and (len(texts) < 2 or self._target.dialect.string_content):
            message["content"] = PARAGRAPH.join(texts)
        return message

    def _tool_message(self, result: Result) -> Wire:
        dialect = self._target.dialect
        text = _only_text(result.parts)
        if text:
            return {"role": "tool", "tool_call_id": result.call_id or "", "content": text}
        content: list[Wire] = []
        attached = 0
        for part in result.parts:
            if isinstance(part, Image | Document) and not dialect.tool_images:
                attached += 1
                content.append(self._attach(part, result, attached))
            elif (written := self._parts.part(part, result.at)) is not None:
                content.append(written)
        texts = [part["text"] for part in content if part["type"] == "text"]
        body: object = content
        if len(texts) == len(content) and (len(texts) < 2 or not dialect.tool_content_parts) and not _has_mark(content):
            body = "\n".join(str(text) for text in texts)
        if not body and dialect.no_empty_tool:
            body = NO_OUTPUT
        return {"role": "tool", "tool_call_id": result.call_id or "", "content": body}

    def _attach(self, part: Image | Document, result: Result, number: int) -> Wire:
        """Move a picture or a file behind the tool messages; what stays in its place says where it is."""
        kind = "image" if isinstance(part, Image) else "document"
        self._losses.approx(Rule.TOOL_IMAGE, part.at or result.at)
        label = f"{kind.capitalize()} {number} of the result of call {result.call_id}:"
        written = self._parts.part(part, result.at)
        self._attachments += [text_part(label)] + ([written] if written is not None else [])
        return text_part(f"[{kind} {number} of this result follows]")


def _has_mark(content: list[Wire]) -> bool:
    """Whether a content part carries a cache mark, which a string can't."""
    return any(not part.keys().isdisjoint(MARKS) for part in content)


def _only_text(parts: list[Part]) -> str | None:
    """The text of what is one text and nothing else, as most turns and results are."""
    if len(parts) != 1:
        return None
    part = parts[0]
    return part.text if type(part) is Text and part.cache is None and part.citations is None else None


def _joined(turn: Turn) -> str:
    return PARAGRAPH.join(part.text for part in turn.parts if isinstance(part, Text) and part.text)


class _AssistantMessage:
    """One message of a run of assistant turns."""

    __slots__ = ("_apart", "_calls", "_losses", "_parts", "_phase", "_reasoning", "_refusal", "_target", "_text")

    def __init__(self, target: Target, parts: PartWriter, losses: LossReport) -> None:
        self._target = target
        self._parts = parts
        self._losses = losses
        self._text = ""
        self._apart = False  # whether the next text begins a paragraph
        self._phase: str | None = None
        self._calls: list[Wire] = []
        self._reasoning: list[tuple[Reasoning, int]] = []  # with the characters of the text before
        self._refusal = ""

    def write(self, run: list[Turn], *, in_loop: bool) -> Wire:
        """The message. `in_loop`: it belongs to the tool loop that is still going on."""
        for turn in run:
            self._apart = True
            for part in turn.parts:
                self._take(part, turn)
        message: Wire = {"role": "assistant", "content": self._text}
        if run[0].name is not None:
            message["name"] = run[0].name
        if not self._text and (self._calls or self._refusal) and not self._target.dialect.no_null_content:
            message["content"] = None
        if self._refusal:
            message["refusal"] = self._refusal
        dialect = self._target.dialect
        if self._reasoning or dialect.reasoning_required:
            echo_reasoning(message, self._reasoning, dialect, self._losses, in_loop=in_loop, calls=bool(self._calls))
        if self._calls:
            message["tool_calls"] = self._calls
        return message

    def _take(self, part: Part, turn: Turn) -> None:
        match part:
            case Text():
                self._take_text(part, turn)
                return
            case Call():
                self._calls.append(_write_call(part, self._losses))
            case Reasoning():
                self._reasoning.append((part, len(self._text)))
            case Refusal():
                self._refusal += part.text
            case Audio():
                self._losses.approx(Rule.AUDIO, part.at)
                if part.transcript:
                    self._take_text(Text(part.transcript), turn)
            case HostedCall():
                self._losses.drop(Rule.HOSTED_TOOL, part.at)
            case Opaque():
                self._losses.drop(OPAQUE_RULES.get(part.type, Rule.UNKNOWN_FIELD), part.at)
            case Image() | Document() | SearchResult() | Result():
                self._losses.drop(Rule.CONTENT, turn.at)
            case _:
                assert_never(part)
        self._apart = True

    def _take_text(self, part: Text, turn: Turn) -> None:
        """Texts that touch are one text, split by another protocol at its citations."""
        if part.citations:
            self._parts.note_citations(turn.at)
        if not part.text:
            return
        if self._calls:
            self._losses.approx(Rule.TEXT_AFTER_CALL, turn.at)
        if self._text and (self._apart or part.phase != self._phase):
            self._text += PARAGRAPH
        self._text += part.text
        self._phase = part.phase
        self._apart = False


def _write_call(call: Call, losses: LossReport) -> Wire:
    match call.kind:
        case "function":
            function = {"name": call.name, "arguments": arguments_text(call)}
            written: Wire = {"id": call.id, "type": "function", "function": function}
            if call.extra is not None and CALL_SIGNATURE in call.extra:
                written[CALL_SIGNATURE] = call.extra[CALL_SIGNATURE]
            return written
        case "custom":
            return {"id": call.id, "type": "custom", "custom": {"name": call.name, "input": call.arguments}}
        case "typed":
            losses.refuse(Rule.TYPED_TOOL, call.at, f"'{call.tool or call.name}' is another vendor's tool.")
        case _:
            assert_never(call.kind)
