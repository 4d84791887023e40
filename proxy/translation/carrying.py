"""A stage of the reply: vendor blocks in events become the client's blocks with envelopes (mapping.md 8.6).

Whole replies go through it as events too, so that a stream and a whole answer can't come to differ.
"""

from typing import cast

from proxy.canonical.events import Close, Delta, Event, Open, only_deltas
from proxy.canonical.parts import Call, Extra, HostedCall, Opaque, Reasoning
from proxy.canonical.reply import Reply
from proxy.protocols.fields import Wire
from proxy.translation.carriers import in_slot, place_of, reasoning_content
from proxy.translation.codecs import ClientProtocol
from proxy.translation.directives import DIRECTIVE
from proxy.translation.emulation import staged
from proxy.translation.envelope import Scope, seal
from proxy.translation.position import START, Position, Spot
from proxy.translation.recall import Remembered


class _Thought:
    """Reasoning that is still open: what was said of it, and where it began."""

    __slots__ = ("part", "pieces", "spot")

    def __init__(self, part: Reasoning, spot: Spot) -> None:
        self.part = part
        self.pieces = [part.text]
        self.spot = spot


class Carrying:
    """`counts`: reasoning may come behind other parts, in an order that the messages of a Chat client do not show."""

    __slots__ = (
        "_client",
        "_counts",
        "_hides",
        "_leaves_hosted",
        "_model",
        "_position",
        "_remembered",
        "_scope",
        "_thoughts",
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

    def whole(self, reply: Reply) -> Reply:
        """A reply that came whole."""
        if any(isinstance(part, Reasoning | HostedCall | Opaque) for part in reply.parts):
            return staged(reply, [self])
        self._remembered.calls += [part.id for part in reply.parts if isinstance(part, Call)]
        return reply

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
                case _:
                    out.append(event)
        return out

    def _open(self, event: Open, out: list[Event]) -> None:
        part = event.part
        if event.k == 0 and self._client == "chat" and (self._counts or isinstance(part, Reasoning)):
            self._position = Position()
        if isinstance(part, Reasoning):
            self._thoughts[event.k] = _Thought(part, self._position.spot if self._position is not None else START)
            if not part.redacted:
                out.append(event)
        elif isinstance(part, HostedCall | Opaque):
            out.append(Open(event.k, self._hosted(part)))
        else:
            if isinstance(part, Call):
                self._remembered.calls.append(part.id)
            out.append(event)

    def _hosted(self, part: HostedCall | Opaque) -> HostedCall | Opaque | Reasoning:
        kind = DIRECTIVE if isinstance(part, Opaque) and part.type == DIRECTIVE else "hosted"
        if self._leaves_hosted and kind == "hosted":
            return part
        content: Wire = {"m": self._model, "k": [kind], "v": [part.native]}
        native = in_slot(seal(content, self._scope), None, "", self._client)
        return part if native is None else Reasoning("", redacted=True, native=native)

    def _close(self, event: Close, out: list[Event]) -> None:
        thought = self._thoughts.pop(event.k, None)
        if thought is None:
            out.append(Close(event.k))
            return
        native = self._sealed(thought, event.native or thought.part.native)
        if thought.part.redacted:  # it opens as it closes
            out.append(Open(event.k, Reasoning("", redacted=True, native=native)))
        out.append(Close(event.k, native))

    def _sealed(self, thought: _Thought, native: Extra | None) -> Extra | None:
        """The client's block; entries that a Chat client may fail to send back are noted beside it (mapping.md 8.9)."""
        text = "".join(thought.pieces)
        shown = "" if self._hides else text
        content = reasoning_content(native, text, shown, thought.part.field, self._model)
        if content is None:
            return None
        content |= place_of(thought.spot)
        block = in_slot(seal(content, self._scope), native, shown, self._client, hidden=bool(text))
        entries = block.get("entries") if block is not None else None
        if isinstance(entries, list):
            self._remembered.entries += entries
        return block
