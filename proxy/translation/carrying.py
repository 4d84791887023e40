"""A stage of the reply: vendor blocks in events become the client's blocks with envelopes (mapping.md 8.6)."""

from typing import cast

from proxy.canonical.events import Close, Delta, Event, Finish, Open, only_deltas
from proxy.canonical.parts import Call, Extra, HostedCall, Opaque, Reasoning, ReplyPart
from proxy.canonical.reply import Reply
from proxy.protocols.fields import Wire
from proxy.translation.carriers import follower, in_slot, place_of, reasoning_content
from proxy.translation.codecs import ClientProtocol
from proxy.translation.directives import DIRECTIVE
from proxy.translation.envelope import Scope, seal_all
from proxy.translation.position import START, Position, Spot
from proxy.translation.recall import Remembered


class _Thought:
    """Reasoning that is still open: what was said of it, where it began, and the vendor's block once it is over."""

    __slots__ = ("native", "part", "pieces", "spot")

    def __init__(self, part: Reasoning, spot: Spot) -> None:
        self.part = part
        self.pieces = [part.text]
        self.spot = spot
        self.native: Extra | None = None


class Carrying:
    """`counts`: reasoning may come behind other parts, in an order that the messages of a Chat client do not show.
    `waits`: the backend takes reasoning only with what it led to, so it is sealed when that has begun.
    """

    __slots__ = (
        "_client",
        "_counts",
        "_followers",
        "_hides",
        "_leaves_hosted",
        "_model",
        "_next",
        "_position",
        "_remembered",
        "_rest",
        "_scope",
        "_thoughts",
        "_waiting",
        "_waits",
    )

    def __init__(
        self,
        client: ClientProtocol,
        scope: Scope,
        model: str,
        remembered: Remembered,
        *,
        hides: bool,
        counts: bool,
        waits: bool,
        leaves_hosted: bool = False,
    ) -> None:
        self._leaves_hosted = leaves_hosted  # to a later stage
        self._remembered = remembered
        self._client = client
        self._scope = scope
        self._model = model
        self._hides = hides  # the client does not want to see reasoning
        self._counts = counts
        self._position: Position | None = None
        self._thoughts: dict[int, _Thought] = {}
        self._next = 0
        self._rest: list[str] = []  # envelopes that had no room in the slots of what they are pieces of
        self._waits = waits
        self._waiting: dict[int, _Thought] = {}  # reasoning that is over and has led to nothing yet
        self._followers: dict[int, list[str]] = {}  # what each part is to the one before it

    def whole(self, reply: Reply) -> None:
        """The same for a reply that came whole, in place."""
        parts: list[ReplyPart] = []
        for k, part in enumerate(reply.parts):
            self._begin(k, part)
            if isinstance(part, Reasoning):
                thought = _Thought(part, self._spot())
                thought.native = part.native
                behind = reply.parts[k + 1 : k + 2] if self._waits else ()
                native = self._sealed(thought, follower(behind[0]) if behind else None)
                parts.append(Reasoning(part.text, part.full, native, part.redacted, part.field))
            elif isinstance(part, HostedCall | Opaque):
                parts.append(self._hosted(part))
            else:
                if isinstance(part, Call):
                    self._remembered.calls.append(part.id)
                parts.append(part)
            if self._position is not None:
                self._position.open(k, part)
        rest: list[Event] = []
        self._carry_rest(rest)
        reply.parts = parts + [event.part for event in rest if isinstance(event, Open)]

    def pass_on(self, events: list[Event]) -> list[Event]:
        """The same events, with the client's blocks in place of the vendor's."""
        position = self._position
        if not self._thoughts and only_deltas(events):
            if position is not None:
                position.grow_all(cast("list[Delta]", events))
            return events
        out: list[Event] = []
        for event in events:
            match event:
                case Delta():
                    if event.k in self._thoughts:
                        self._thoughts[event.k].pieces.append(event.text)
                    elif position is not None:
                        position.grow(event.k, event.text)
                    out.append(event)
                case Open():
                    self._open(event, out)
                    if (position := self._position) is not None:
                        position.open(event.k, event.part)
                case Close():
                    self._close(event, out)
                case Finish():
                    for k in list(self._waiting):
                        self._end(k, self._waiting.pop(k), out)
                    self._carry_rest(out)
                    out.append(event)
                case _:
                    out.append(event)
        return out

    def _open(self, event: Open, out: list[Event]) -> None:
        part = event.part
        self._next = event.k + 1
        if self._waits:
            self._followers[event.k] = follower(part)
            if (before := self._waiting.pop(event.k - 1, None)) is not None:
                self._end(event.k - 1, before, out)
        self._begin(event.k, part)
        if isinstance(part, Reasoning):
            self._thoughts[event.k] = _Thought(part, self._spot())
            if not part.redacted:
                out.append(event)
        elif isinstance(part, HostedCall | Opaque):
            out.append(Open(event.k, self._hosted(part)))
        else:
            if isinstance(part, Call):
                self._remembered.calls.append(part.id)
            out.append(event)

    def _begin(self, k: int, part: ReplyPart) -> None:
        """Whether to count shows with the first part."""
        if k == 0 and self._client == "chat" and (self._counts or isinstance(part, Reasoning)):
            self._position = Position()

    def _spot(self) -> Spot:
        return self._position.spot if self._position is not None else START

    def _hosted(self, part: HostedCall | Opaque) -> HostedCall | Opaque | Reasoning:
        kind = DIRECTIVE if isinstance(part, Opaque) and part.type == DIRECTIVE else "hosted"
        if self._leaves_hosted and kind == "hosted":
            return part
        content: Wire = {"m": self._model, "k": [kind], "v": [part.native]}
        native = in_slot(self._sealed_all(content), None, "", self._client)
        return part if native is None else Reasoning("", redacted=True, native=native)

    def _close(self, event: Close, out: list[Event]) -> None:
        thought = self._thoughts.pop(event.k, None)
        if thought is None:
            out.append(Close(event.k))
            return
        thought.native = event.native or thought.part.native
        if self._waits and event.k + 1 not in self._followers:
            self._waiting[event.k] = thought
        else:
            self._end(event.k, thought, out)

    def _end(self, k: int, thought: _Thought, out: list[Event]) -> None:
        native = self._sealed(thought, self._followers.get(k + 1))
        if thought.part.redacted:  # it opens as it closes
            out.append(Open(k, Reasoning("", redacted=True, native=native)))
        out.append(Close(k, native))

    def _sealed(self, thought: _Thought, led_to: list[str] | None) -> Extra | None:
        """The client's block."""
        text, native = "".join(thought.pieces), thought.native
        shown = "" if self._hides else text
        content = reasoning_content(native, text, shown, thought.part.field, self._model)
        if content is None:
            return None
        content |= place_of(thought.spot)
        if led_to is not None:
            content["f"] = led_to
        block = in_slot(self._sealed_all(content), native, shown, self._client, hidden=bool(text))
        return self._noted(block)

    def _sealed_all(self, content: Wire) -> str:
        """The envelope; where it takes several, the first one, and the others are kept for the end."""
        first, *rest = seal_all(content, self._scope)
        self._rest += rest
        return first

    def _carry_rest(self, out: list[Event]) -> None:
        for envelope in self._rest:
            native = self._noted(in_slot(envelope, None, "", self._client))
            out += [Open(self._next, Reasoning("", redacted=True, native=native)), Close(self._next, native)]
            self._next += 1
        self._rest = []

    def _noted(self, block: Extra | None) -> Extra | None:
        """The same; entries that a Chat client may fail to send back are noted beside it (mapping.md 8.9)."""
        entries = block.get("entries") if block is not None else None
        if isinstance(entries, list):
            self._remembered.entries += entries
        return block
