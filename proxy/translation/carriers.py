"""Reasoning that a backend wants back travels with the client, in its protocol's own opaque slot (mapping.md 8.6).

On the way out each vendor block is sealed into an envelope and put where that client keeps such things; on the way
back it is opened and stands in the history as the backend sent it, or is dropped and recorded. An envelope never
reaches a backend.
"""

import hashlib

from proxy.canonical.events import Close, Delta, Event, Open, only_deltas
from proxy.canonical.loss import LossReport, Path, Rule
from proxy.canonical.parts import Call, Extra, HostedCall, Opaque, Part, Reasoning, ReplyPart, Turn
from proxy.canonical.reply import Reply
from proxy.canonical.request import Request
from proxy.canonical.target import Target
from proxy.protocols.fields import Wire, is_object
from proxy.translation.codecs import BACKENDS, ClientProtocol
from proxy.translation.directives import DIRECTIVE
from proxy.translation.envelope import Scope, is_envelope, open_envelope, origin_in, seal
from proxy.translation.recall import DETAILS, Remembered
from proxy.translation.restoring import CITATIONS, Cited, place, restore_citations, without_shown

FORMAT = "dragoman-v1"
ANTHROPIC_FORMAT = "anthropic-claude-v1"
OPENAI_FORMAT = "openai-responses-v1"

_TOKENS = ("signature", "data", "encrypted_content")
_APART = "\n\n"  # between texts that are shown as one
_VERBATIM = 64  # characters of visible text that are not worth a hash


# --- on the way out: one vendor block into the client's slot ---


def sealed(
    native: Extra | None, shown: str, field: str | None, kind: str, client: ClientProtocol, scope: Scope, model: str
) -> Extra | None:
    """The client protocol's own block around an envelope; None when there is nothing to bring back.

    `native` is the vendor's block, `shown` the text that the client sees of it, `field` the Chat field it came under.
    `kind` says what is sealed: `reasoning`, `hosted` or `directive`.
    """
    content: Wire = {"m": model}
    if native is not None:
        content |= {"k": [kind], "v": [_without_shown(native, shown)]}
    elif shown and field is not None:
        content["k"] = ["plain"]
    else:
        return None
    if field is not None:
        content["c"] = field
    return in_slot(seal(content, scope), native if kind == "reasoning" else None, shown, client)


def in_slot(envelope: str, native: Extra | None, shown: str, client: ClientProtocol) -> Extra | None:
    """The client protocol's own block around an envelope; None where it has no such block."""
    match client:
        case "messages":
            if shown or (native is not None and _texts(native)):
                return {"type": "thinking", "thinking": shown, "signature": envelope}
            return {"type": "redacted_thinking", "data": envelope}
        case "responses":
            return {"type": "reasoning", "encrypted_content": envelope}
        case "chat":
            return {"type": DETAILS, "entries": _entries(native, shown, envelope)}
        case "completions":
            return None


def _entries(native: Extra | None, shown: str, envelope: str) -> list[Wire]:
    """Chat's two entries of one block: the text, with the signature that clients already know, and the envelope."""
    entries: list[Wire] = []
    if shown:
        entry: Wire = {"type": "reasoning.text", "text": shown}
        if native is not None and native.get("type") == "thinking" and native.get("signature"):
            entry |= {"signature": native["signature"], "format": ANTHROPIC_FORMAT}
        entries.append(entry)
    entries.append({"type": "reasoning.encrypted", "data": envelope, "format": FORMAT})
    return entries


def _texts(native: Extra) -> list[tuple[Wire, str]]:
    """The visible texts of a vendor block: (holder, field) in the order in which they are shown."""
    if type(native.get("thinking")) is str:
        return [(native, "thinking")] if native["thinking"] else []
    for name in ("summary", "content"):
        parts = native.get(name)
        if isinstance(parts, list) and parts:
            return [(part, "text") for part in parts if is_object(part) and type(part.get("text")) is str]
    for name in ("text", "summary"):
        if type(native.get(name)) is str and native[name]:
            return [(native, name)]
    return []


def _without_shown(native: Extra, shown: str) -> Wire:
    """The block with the text that the client holds anyway replaced by its length and hash."""
    texts = [str(holder[name]) for holder, name in _texts(native)]
    if len(shown) <= _VERBATIM or _APART.join(texts) != shown:
        return native
    copied = _copied(native)
    for holder, name in _texts(copied):
        text = str(holder[name])
        holder[name] = {"n": len(text), "h": _hash(text)}
    return copied


def _with_shown(item: Wire, shown: str) -> bool:
    """Put the visible text back in place; False when the client has changed it."""
    at = 0
    for holder, name in _hidden(item):
        mark = holder[name]
        size = mark.get("n") if is_object(mark) else None
        if type(size) is not int or not is_object(mark):
            return False
        text = shown[at : at + size]
        if _hash(text) != mark.get("h"):
            return False
        holder[name] = text
        at += size + len(_APART)
    return True


def _hidden(item: Wire) -> list[tuple[Wire, str]]:
    found: list[tuple[Wire, str]] = []
    found += [(item, name) for name in ("thinking", "text", "summary") if is_object(item.get(name))]
    for name in ("summary", "content"):
        parts = item.get(name)
        if isinstance(parts, list):
            found += [(part, "text") for part in parts if is_object(part) and is_object(part.get("text"))]
    return found


def _copied(native: Extra) -> Wire:
    return {
        name: [dict(part) if is_object(part) else part for part in value] if isinstance(value, list) else value
        for name, value in native.items()
    }


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]


class Carrying:
    """A stage of the reply: vendor blocks in events become the client's blocks with envelopes."""

    __slots__ = ("_client", "_fields", "_hides", "_leaves_hosted", "_model", "_remembered", "_scope", "_shown")

    def __init__(
        self,
        client: ClientProtocol,
        scope: Scope,
        model: str,
        remembered: Remembered,
        *,
        hides: bool,
        leaves_hosted: bool = False,
    ) -> None:
        self._leaves_hosted = leaves_hosted  # to a later stage
        self._remembered = remembered
        self._client = client
        self._scope = scope
        self._model = model
        self._hides = hides  # the client does not want to see reasoning
        self._shown: dict[int, list[str]] = {}
        self._fields: dict[int, str | None] = {}

    def pass_on(self, events: list[Event]) -> list[Event]:
        """The same events, with the client's blocks in place of the vendor's."""
        if not self._shown and only_deltas(events):
            return events
        out: list[Event] = []
        for event in events:
            match event:
                case Delta():
                    if event.k in self._shown:
                        self._shown[event.k].append(event.text)
                    out.append(event)
                case Open():
                    out.append(self._open(event))
                case Close():
                    out.append(self._close(event))
                case _:
                    out.append(event)
        return out

    def _open(self, event: Open) -> Open:
        part = event.part
        if isinstance(part, HostedCall | Opaque):
            return Open(event.k, self._hosted(part))
        if isinstance(part, Call):
            self._remembered.calls.append(part.id)
        if not isinstance(part, Reasoning):
            return event
        if part.redacted:
            return Open(event.k, Reasoning("", redacted=True, native=self._sealed(part.native, "", part.field)))
        self._shown[event.k] = [part.text]
        self._fields[event.k] = part.field
        return event

    def _hosted(self, part: HostedCall | Opaque) -> ReplyPart:
        kind = DIRECTIVE if isinstance(part, Opaque) and part.type == DIRECTIVE else "hosted"
        if self._leaves_hosted and kind == "hosted":
            return part
        native = sealed(part.native, "", None, kind, self._client, self._scope, self._model)
        return part if native is None else Reasoning("", redacted=True, native=native)

    def _close(self, event: Close) -> Close:
        pieces = self._shown.pop(event.k, None)
        if pieces is None:
            return Close(event.k)
        return Close(event.k, self._sealed(event.native, "".join(pieces), self._fields.pop(event.k)))

    def _sealed(self, native: Extra | None, shown: str, field: str | None) -> Extra | None:
        shown = "" if self._hides else shown
        return self._noted(sealed(native, shown, field, "reasoning", self._client, self._scope, self._model))

    def _noted(self, native: Extra | None) -> Extra | None:
        """The same; entries that a Chat client may fail to send back are noted beside it (mapping.md 8.9)."""
        entries = native.get("entries") if native is not None else None
        if isinstance(entries, list):
            self._remembered.entries += entries
        return native

    def whole(self, reply: Reply) -> None:
        """The same for a reply that came whole, in place."""
        parts: list[ReplyPart] = []
        for part in reply.parts:
            if isinstance(part, Reasoning):
                native = self._sealed(part.native, part.text, part.field)
                parts.append(Reasoning(part.text, part.full, native, part.redacted, part.field))
            elif isinstance(part, HostedCall | Opaque):
                parts.append(self._hosted(part))
            else:
                if isinstance(part, Call):
                    self._remembered.calls.append(part.id)
                parts.append(part)
        reply.parts = parts


# --- on the way back ---

_REASONING_TYPES = {
    "messages": frozenset({"thinking", "redacted_thinking"}),
    "responses": frozenset({"reasoning"}),
    "chat": frozenset({"reasoning.text", "reasoning.summary", "reasoning.encrypted"}),
}


def open_carriers(request: Request, target: Target, scope: Scope, losses: LossReport) -> None:
    """Restore what this backend sent and drop what it never did, in every assistant turn, in place."""
    run: list[Turn] = []
    for turn in request.turns:
        if turn.role != "assistant":
            run = _restored(run, losses)
        elif any(type(part) is Reasoning or _held(part) for part in turn.parts):
            turn.parts = _Opening(target, scope, losses).turn(turn.parts)
            run.append(turn)
        elif turn.parts:
            run.append(turn)
    _restored(run, losses)


def _restored(run: list[Turn], losses: LossReport) -> list[Turn]:
    """What carriers brought back for other parts of the same run of turns; gives an empty run to go on with."""
    if run:
        restore_citations(run, losses)
        without_shown(run)
    return []


def _held(part: Part) -> str:
    """The envelope in the results of a search that were made to show one; "" where there is none."""
    content = part.native.get("content") if type(part) is HostedCall and part.is_result else None
    first = content[0] if isinstance(content, list) and content else None
    held = first.get("encrypted_content") if is_object(first) else None
    return held if isinstance(held, str) and is_envelope(held) else ""


class _Opening:
    """One assistant turn. `failed`: some of its reasoning could not be restored."""

    __slots__ = ("_at", "_failed", "_losses", "_scope", "_target")

    def __init__(self, target: Target, scope: Scope, losses: LossReport) -> None:
        self._target = target
        self._scope = scope
        self._losses = losses
        self._failed = False
        self._at = 0  # characters of a Chat message before what the entries bring back

    def turn(self, parts: list[Part]) -> list[Part]:
        opened: list[Part] = []
        text_entry: Reasoning | None = None  # Chat's entry with the text, whose envelope may follow
        offsets: dict[int, int] = {}
        for part in parts:
            if isinstance(part, HostedCall) and (envelope := _held(part)):
                opened = [other for other in opened if not (type(other) is HostedCall and other.id == part.id)]
                opened += self._opened(Reasoning("", at=part.at), envelope, "")
                continue
            known = len(opened)
            if not isinstance(part, Reasoning):
                opened += self._natively(text_entry)
                text_entry = None
                opened.append(part)
                continue
            token = _token(part)
            if is_envelope(token):
                shown = text_entry.text if text_entry is not None else part.text
                text_entry = None
                opened += self._opened(part, str(token), shown)
                offsets |= {id(other): self._at for other in opened[known:] if self._at}
            elif part.field == DETAILS:
                opened += self._natively(text_entry)
                text_entry = part
            else:
                opened += self._natively(part)
        opened += self._natively(text_entry)
        return self._fitting(place(opened, offsets))

    def _opened(self, part: Reasoning, envelope: str, shown: str) -> list[Part]:
        if origin_in(envelope) != self._scope.origin:
            return self._drop(part, Rule.FOREIGN_REASONING)
        content = open_envelope(envelope, self._scope)
        kinds = content.get("k") if content is not None else None
        if content is None or not isinstance(kinds, list):
            return self._drop(part, Rule.CARRIER_BAD)
        before = content.get("p")
        self._at = max(self._at, before if type(before) is int else 0)
        field = content.get("c")
        named = field if isinstance(field, str) else None
        if "plain" in kinds:
            return [Reasoning(shown, full=True, field=named, at=part.at)]
        items = content.get("v")
        if not isinstance(items, list) or not items or not all(is_object(item) for item in items):
            return self._drop(part, Rule.CARRIER_BAD)
        if DIRECTIVE in kinds:
            return [HostedCall(DIRECTIVE, item, at=part.at) for item in items]
        if CITATIONS in kinds:
            return [Cited(CITATIONS, {}, at=part.at, blocks=items)]
        hosted = "hosted" in kinds
        known = BACKENDS[self._target.protocol].hosted_types if hosted else _REASONING_TYPES[self._target.protocol]
        restored: list[Part] = []
        for item in items:
            # Without a key anyone can write an envelope, so what it holds is held to the form that a vendor gives it.
            if item.get("type") not in known and not (hosted and self._scope.keys):
                return self._drop(part, Rule.CARRIER_BAD)
            if not hosted and not _with_shown(item, shown) and not self._without_text(item):
                return self._drop(part, Rule.FOREIGN_REASONING)
            if hosted:
                restored.append(HostedCall(str(item.get("type")), item, own=True, at=part.at))
            else:
                restored.append(Reasoning(shown, native=item, field=named, at=part.at))
        return restored

    def _without_text(self, item: Wire) -> bool:
        """Whether an item whose text was edited is still good: Responses reads only the encrypted content."""
        if self._target.protocol != "responses" or not item.get("encrypted_content"):
            return False
        item["summary"] = []
        item.pop("content", None)
        return True

    def _natively(self, part: Reasoning | None) -> list[Part]:
        """Reasoning that is in no envelope: only a block of this backend's own vendor may go back."""
        if part is None:
            return []
        native = _vendor_block(part, self._target)
        if native is None:
            return self._drop(part, Rule.FOREIGN_REASONING)
        return [Reasoning(part.text, native=native, at=part.at)]

    def _drop(self, part: Reasoning, rule: Rule) -> list[Part]:
        self._failed = True
        self._losses.drop(rule, part.at)
        return []

    def _fitting(self, parts: list[Part]) -> list[Part]:
        """All or nothing a turn toward Messages; toward Responses no reasoning without what it led to."""
        if self._target.protocol == "messages" and self._failed:
            return [part for part in parts if type(part) is not Reasoning]
        if self._target.protocol == "responses":
            while parts and type(parts[-1]) is Reasoning:
                self._losses.drop(Rule.FOREIGN_REASONING, parts[-1].at)
                parts = parts[:-1]
        return parts


def strip_envelopes(wire: object, path: Path, losses: LossReport) -> None:
    """Remove blocks, items and entries with envelopes from a request that passes through, in place.

    Within one protocol nothing was ever put into an envelope, so what comes in one belongs to another backend.
    """
    if is_object(wire):
        for name, value in wire.items():
            strip_envelopes(value, (*path, name), losses)
    elif isinstance(wire, list):
        kept: list[object] = []
        for index, value in enumerate(wire):
            if is_object(value) and any(is_envelope(value.get(name)) for name in _TOKENS):
                losses.drop(Rule.FOREIGN_REASONING, (*path, index))
            elif is_object(value) and _shows_search(value):
                losses.drop(Rule.FOREIGN_REASONING, (*path, index))
                kept = [other for other in kept if not (is_object(other) and other.get("id") == value["tool_use_id"])]
            else:
                strip_envelopes(value, (*path, index), losses)
                kept.append(value)
        wire[:] = kept


def _shows_search(block: Wire) -> bool:
    """Whether a block holds results of a search of another vendor's, which were made to show it."""
    return type(block.get("tool_use_id")) is str and bool(_held(HostedCall("web_search", block, is_result=True)))


def _token(part: Reasoning) -> object:
    native = part.native or {}
    return next((native[name] for name in _TOKENS if native.get(name)), None)


def _vendor_block(part: Reasoning, target: Target) -> Wire | None:
    """A Chat client's entry of another gateway's making, as the vendor's block that it stands for."""
    entry = part.native or {}
    if part.field != DETAILS:
        return None
    if entry.get("format") == ANTHROPIC_FORMAT and target.protocol == "messages":
        if entry.get("type") == "reasoning.text" and entry.get("signature"):
            return {"type": "thinking", "thinking": part.text, "signature": entry["signature"]}
        if entry.get("type") == "reasoning.encrypted" and entry.get("data"):
            return {"type": "redacted_thinking", "data": entry["data"]}
    if entry.get("format") == OPENAI_FORMAT and target.protocol == "responses" and entry.get("data"):
        item: Wire = {"type": "reasoning", "summary": [], "encrypted_content": entry["data"]}
        return {**item, "id": entry["id"]} if type(entry.get("id")) is str else item
    return None
