"""What clients carried for a backend comes back to it (mapping.md 8.6, "Return path").

An envelope is opened and its block stands in the history as the backend sent it, or it is dropped and recorded. An
envelope never reaches a backend.
"""

from dataclasses import replace
from typing import assert_never

from proxy.canonical.loss import LossReport, Path, Rule
from proxy.canonical.parts import Call, HostedCall, Part, Reasoning, Text, Turn
from proxy.canonical.request import Request
from proxy.canonical.target import Target
from proxy.protocols.fields import Wire, is_object
from proxy.protocols.openai_completions import PARAGRAPH
from proxy.translation.carriers import ANTHROPIC_FORMAT, follower, with_shown
from proxy.translation.codecs import CALL_SIGNATURE
from proxy.translation.directives import DIRECTIVE
from proxy.translation.envelope import NO_ORIGIN, Scope, is_envelope, join, open_envelope, origin_in, piece_of
from proxy.translation.opened import Carried, read_content
from proxy.translation.position import START, Spot
from proxy.translation.recall import DETAILS
from proxy.translation.restoring import CITATIONS, Cited, place, restore_citations, without_shown

OPENAI_FORMAT = "openai-responses-v1"

_TOKENS = ("signature", "data", "encrypted_content")


def open_carriers(request: Request, target: Target, scope: Scope, losses: LossReport) -> None:
    """Restore what this backend sent and drop what it never did, in every assistant turn, in place."""
    run: list[Turn] = []
    emptied = False
    for turn in request.turns:
        if turn.role == "assistant":
            run.append(turn)
        elif run:
            emptied |= _restore(run, target, scope, losses)
            run = []
    emptied |= _restore(run, target, scope, losses)
    if emptied:  # an empty message would look like an answer to be continued
        request.turns = [turn for turn in request.turns if turn.parts or turn.role != "assistant"]


def _restore(run: list[Turn], target: Target, scope: Scope, losses: LossReport) -> bool:
    """Open the carriers of a run of assistant turns, which is one turn to the backend; whether one became empty."""
    if not any(type(part) is Reasoning or _held(part) for turn in run for part in turn.parts):
        return False
    spoke = [turn for turn in run if turn.parts]
    opening = _Opening(target, scope, losses, spoke)
    for turn in spoke:
        turn.parts = opening.turn(turn.parts)
    restore_citations(spoke, losses)
    without_shown(spoke)
    opening.fit(spoke)
    return not all(turn.parts for turn in spoke)


def _held(part: Part) -> str:
    """The envelope in the results of a search that were made to show one; "" where there is none."""
    content = part.native.get("content") if type(part) is HostedCall and part.is_result else None
    first = content[0] if isinstance(content, list) and content else None
    held = first.get("encrypted_content") if is_object(first) else None
    return held if isinstance(held, str) and is_envelope(held) else ""


class _Opening:
    """One run of assistant turns. `failed`: some of its reasoning could not be restored."""

    __slots__ = (
        "_envelopes",
        "_failed",
        "_led_to",
        "_losses",
        "_scope",
        "_signatures",
        "_spot",
        "_target",
        "_thought",
        "_wholes",
    )

    def __init__(self, target: Target, scope: Scope, losses: LossReport, run: list[Turn]) -> None:
        tokens = [_token(part) for turn in run for part in turn.parts if isinstance(part, Reasoning)]
        self._envelopes = [str(token) for token in tokens if is_envelope(token)]
        self._wholes: dict[str, Wire | None] = {}  # of those that came in pieces, by their marks
        self._target = target
        self._scope = scope
        self._losses = losses
        self._failed = False
        self._thought: Text | None = None  # another backend's, as text
        self._led_to: dict[int, list[str]] = {}  # by the id of the part
        self._signatures: dict[str, object] = {}  # of calls, by their ids
        self._spot = START  # in a Chat message, of what the entries bring back

    def turn(self, parts: list[Part]) -> list[Part]:
        """The parts of one turn of the run, with what its carriers bring back."""
        opened: list[Part] = []
        text_entry: Reasoning | None = None  # Chat's entry with the text, whose envelope may follow
        spots: dict[int, Spot] = {}
        self._spot, self._thought = START, None
        for part in parts:
            if isinstance(part, HostedCall) and (envelope := _held(part)):
                opened = [other for other in opened if not (type(other) is HostedCall and other.id == part.id)]
                opened += self._opened(Reasoning("", at=part.at), envelope, "")
                continue
            known = len(opened)
            if not isinstance(part, Reasoning):
                opened += self._natively(text_entry)
                text_entry = None
                if self._thought is not None and isinstance(part, Text):
                    self._thought.text += PARAGRAPH  # texts that follow each other are joined
                self._thought = None
                opened.append(part)
                continue
            token = _token(part)
            if is_envelope(token):
                shown = text_entry.text if text_entry is not None else part.text
                text_entry = None
                opened += self._opened(part, str(token), shown)
                if part.field == DETAILS:  # no other protocol has them apart from what they stood among
                    spots |= {id(other): self._spot_of(other) for other in opened[known:]}
            elif part.field == DETAILS:
                opened += self._natively(text_entry)
                text_entry = part
            else:
                opened += self._natively(part)
        opened += self._natively(text_entry)
        return place(opened, spots)

    def _spot_of(self, part: Part) -> Spot:
        led_to = self._led_to.get(id(part), [])
        return replace(self._spot, call=led_to[1]) if led_to[:1] == ["call"] and len(led_to) == 2 else self._spot

    def _opened(self, part: Reasoning, envelope: str, shown: str) -> list[Part]:
        origin = origin_in(envelope)
        if len(origin) != len(NO_ORIGIN):
            return self._drop(part, Rule.CARRIER_BAD)  # cut before it says whose it is
        if origin != self._scope.origin:
            return self._foreign(part, shown)
        content = open_envelope(envelope, self._scope)
        if content is not None and (piece := piece_of(content)) is not None:
            mark, number = piece
            if mark not in self._wholes:
                self._wholes[mark] = self._whole(mark)
            elif number > 0 or self._wholes[mark] is None:
                return []  # its whole has been seen to
            content = self._wholes[mark] if number == 0 else None
        if content is None:
            return self._drop(part, Rule.CARRIER_BAD)
        carried = read_content(content, self._target.protocol, trusted=bool(self._scope.keys))
        if carried is None:
            return self._drop(part, Rule.CARRIER_BAD)
        self._spot = Spot(max(self._spot.text, carried.spot.text), max(self._spot.calls, carried.spot.calls))
        match carried.kind:
            case "plain":
                return [Reasoning(carried.text or shown, full=True, field=carried.field, at=part.at)]
            case "reasoning":
                return self._thoughts(part, carried, shown)
            case "hosted":
                return [HostedCall(str(item.get("type")), item, own=True, at=part.at) for item in carried.items]
            case "directive":
                return [HostedCall(DIRECTIVE, item, at=part.at) for item in carried.items]
            case "gemini_sig":
                self._signatures |= {str(item.get("id")): item.get(CALL_SIGNATURE) for item in carried.items}
                return []
            case "citations":
                return [Cited(CITATIONS, {}, at=part.at, blocks=carried.items)]
            case _:
                assert_never(carried.kind)

    def _whole(self, mark: str) -> Wire | None:
        """What all pieces with this mark come to, which may be anywhere in the run."""
        pieces: dict[int, Wire] = {}
        for envelope in self._envelopes:
            content = open_envelope(envelope, self._scope) if origin_in(envelope) == self._scope.origin else None
            piece = piece_of(content) if content is not None else None
            if content is not None and piece is not None and piece[0] == mark:
                pieces[piece[1]] = content
        return join(pieces)

    def _thoughts(self, part: Reasoning, carried: Carried, shown: str) -> list[Part]:
        """The vendor's own blocks, with their visible text; none where the text was edited and had to stay."""
        for item in carried.items:
            if not with_shown(item, shown, carried.hashed) and not self._without_text(item):
                return self._drop(part, Rule.FOREIGN_REASONING)
            if self._target.protocol == "messages" and not self._is_signed(item):
                return self._drop(part, Rule.FOREIGN_REASONING)
        thoughts = [Reasoning(shown, native=item, field=carried.field, at=part.at) for item in carried.items]
        if thoughts and carried.led_to is not None:
            self._led_to[id(thoughts[-1])] = carried.led_to
        return [*thoughts]

    def _is_signed(self, block: Wire) -> bool:
        """Whether the vendor can tell that a block of thinking is its own; not every server of its protocol signs."""
        if block.get("type") == "redacted_thinking":
            return bool(block.get("data"))
        return bool(block.get("signature")) or self._target.dialect.unsigned_thinking

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
            return self._foreign(part, part.text)
        return [Reasoning(part.text, native=native, at=part.at)]

    def _foreign(self, part: Reasoning, shown: str) -> list[Part]:
        """What another backend thought: left out, unless the operator wants its text in the history."""
        if self._target.foreign_reasoning == "drop" or not shown.strip():
            return self._drop(part, Rule.FOREIGN_REASONING)
        self._failed = True
        self._losses.approx(Rule.FOREIGN_REASONING, part.at)
        self._thought = Text(shown)
        return [self._thought]

    def _drop(self, part: Reasoning, rule: Rule) -> list[Part]:
        self._failed = True
        self._losses.drop(rule, part.at)
        return []

    def fit(self, run: list[Turn]) -> None:
        """All or nothing a run toward Messages; toward Responses no reasoning without what it led to; toward Gemini a
        signature on its call. In place.
        """
        for turn in run if self._signatures else ():
            for part in turn.parts:
                if isinstance(part, Call) and part.id in self._signatures:
                    part.extra = {**(part.extra or {}), CALL_SIGNATURE: self._signatures[part.id]}
        if self._target.protocol == "messages" and self._failed:
            for turn in run:
                turn.parts = [part for part in turn.parts if type(part) is not Reasoning]
        if self._target.protocol == "responses":
            self._leave_out_orphans(run)

    def _leave_out_orphans(self, run: list[Turn]) -> None:
        """Reasoning whose item is gone, in place. A call is known by its id, wherever it stands."""
        behind: Part | None = None
        calls: set[str] = set()
        for turn in reversed(run):
            kept: list[Part] = []
            for part in reversed(turn.parts):
                if isinstance(part, Reasoning) and not _leads(self._led_to.get(id(part)), behind, calls):
                    self._losses.drop(Rule.FOREIGN_REASONING, part.at)
                    continue
                if isinstance(part, Call):
                    calls.add(part.id)
                if not (isinstance(part, Text) and not part.text):
                    behind = part
                kept.append(part)
            turn.parts = kept[::-1]


def _leads(to: list[str] | None, behind: Part | None, calls: set[str]) -> bool:
    """Whether what reasoning led to is there still: `behind` comes next, `calls` are all that come later."""
    if behind is None or to is None:
        return behind is not None
    if to[0] == "call":
        return len(to) == 2 and to[1] in calls
    return to == follower(behind)


def strip_envelopes(wire: object, path: Path, losses: LossReport, *, as_text: bool = False) -> None:
    """Remove blocks, items and entries with envelopes from a request that passes through, in place.

    Within one protocol nothing was ever put into an envelope, so what comes in one belongs to another backend.
    `as_text`: blocks and items with visible text become plain text (`foreign_reasoning`).
    """
    if is_object(wire):
        for name, value in wire.items():
            strip_envelopes(value, (*path, name), losses, as_text=as_text)
    elif isinstance(wire, list):
        kept: list[object] = []
        for index, value in enumerate(wire):
            if is_object(value) and any(is_envelope(value.get(name)) for name in _TOKENS):
                if as_text and (said := _as_text(value)) is not None:
                    losses.approx(Rule.FOREIGN_REASONING, (*path, index))
                    kept.append(said)
                else:
                    losses.drop(Rule.FOREIGN_REASONING, (*path, index))
            elif is_object(value) and _shows_search(value):
                losses.drop(Rule.FOREIGN_REASONING, (*path, index))
                kept = [other for other in kept if not (is_object(other) and other.get("id") == value["tool_use_id"])]
            else:
                lists = _lists_of(value)
                strip_envelopes(value, (*path, index), losses, as_text=as_text)
                if not (is_object(value) and _is_emptied(value, lists)):
                    kept.append(value)
        wire[:] = kept


_IDLE = frozenset({"role", "type", "id", "status", "name", "phase"})  # say nothing in a message that has nothing else


def _lists_of(wire: object) -> list[str]:
    """The fields of an assistant's message that may have held envelopes."""
    if not is_object(wire) or wire.get("role") != "assistant":
        return []
    return [name for name in ("content", DETAILS) if isinstance(wire.get(name), list) and wire[name]]


def _is_emptied(message: Wire, lists: list[str]) -> bool:
    """Whether a message had nothing but envelopes in these fields: no vendor takes an answer that says nothing."""
    emptied = [name for name in lists if not message[name]]
    if DETAILS in emptied:
        del message[DETAILS]
    return bool(emptied) and not any(message[name] for name in message.keys() - _IDLE)


def _as_text(wire: Wire) -> Wire | None:
    """The visible text of a Messages block or a Responses item, as its protocol says text; None where there is none."""
    if wire.get("type") == "thinking":
        text = wire.get("thinking")
        return {"type": "text", "text": text} if type(text) is str and text.strip() else None
    summary = wire.get("summary")
    if not isinstance(summary, list):
        return None
    texts = [text for part in summary if is_object(part) and isinstance(text := part.get("text"), str)]
    joined = PARAGRAPH.join(texts)
    return {"role": "assistant", "content": joined} if joined.strip() else None


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
