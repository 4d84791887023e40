"""What a backend ran itself, as far as the client's protocol can show it, with what must come back (mapping.md 5.5).

The backend's own blocks travel in carriers, in runs as they came; beside them a client of Responses sees its own kind
of item for a search, for code and for a call of an MCP server, and a client of Messages a search and its results.
Citations come back by carriers as well, since only the vendor's own ones may be sent to it (mapping.md 4.7).
"""

from collections.abc import Iterable

from proxy.canonical.events import Cite, Close, Delta, Event, Finish, Open
from proxy.canonical.jsontext import dumps
from proxy.canonical.parts import Extra, HostedCall, Opaque, Reasoning, ReplyPart, Text
from proxy.protocols.fields import Wire
from proxy.translation.carriers import in_slot, place_of
from proxy.translation.codecs import BACKENDS, CLIENTS, BackendProtocol, ClientProtocol
from proxy.translation.envelope import Scope, seal, seal_all
from proxy.translation.position import Position
from proxy.translation.recall import Remembered
from proxy.translation.restoring import CITATIONS, text_mark

LIMIT = 180 * 1024  # bytes of blocks in one carrier, so that it stays below 256 KiB as an envelope


class HostedCalls:
    """A stage of the reply, behind the one that seals reasoning."""

    __slots__ = (
        "_backend",
        "_cited",
        "_client",
        "_model",
        "_moved",
        "_next",
        "_open",
        "_position",
        "_remembered",
        "_run",
        "_scope",
        "_texts",
    )

    def __init__(
        self, client: ClientProtocol, backend: BackendProtocol, scope: Scope, model: str, remembered: Remembered
    ) -> None:
        self._client = client
        self._backend = backend
        self._scope = scope
        self._model = model
        self._remembered = remembered
        self._position = Position() if client == "chat" else None
        self._moved: dict[int, int | None] = {}  # numbers of parts by the backend's; None for those that are not shown
        self._next = 0
        self._run: list[Extra] = []  # blocks that no carrier has yet
        self._open: dict[str, tuple[int, Extra]] = {}  # calls that are shown and wait for their result, by their id
        self._texts: list[int] = []  # the texts that touch each other, up to now
        self._cited: dict[int, tuple[list[str], list[Extra]]] = {}  # what they say and cite

    def pass_on(self, events: Iterable[Event]) -> list[Event]:
        """The same events, with parts to show and parts to carry in place of the vendor's."""
        out: list[Event] = []
        for event in events:
            match event:
                case Delta():
                    k = self._moved.get(event.k)
                    if k is not None:
                        out.append(Delta(k, event.text, event.logprobs))
                        if self._position is not None:
                            self._position.grow(k, event.text)
                        if k in self._cited:
                            self._cited[k][0].append(event.text)
                case Open():
                    self._take(event.k, event.part, out)
                case Close():
                    k = self._moved.get(event.k)
                    if k is not None:
                        out.append(Close(k, event.native))
                case Cite():
                    k = self._moved.get(event.k)
                    if k is not None:
                        out.append(Cite(k, event.citation))
                        if k in self._cited and event.citation.native is not None:
                            self._cited[k][1].append(event.citation.native)
                case Finish():
                    self._end(out)
                    out.append(event)
                case _:
                    out.append(event)
        return out

    def _take(self, k: int, part: ReplyPart, out: list[Event]) -> None:
        if not isinstance(part, Text):
            self._end_texts(out)
        if not isinstance(part, HostedCall | Opaque):
            self._carry(out)
            self._moved[k] = new = self._add(part, out)
            if isinstance(part, Text) and self._backend == "messages":
                self._texts.append(new)
                self._cited[new] = ([part.text], [])
            return
        self._moved[k] = None
        if isinstance(part, HostedCall):
            self._show(part, out)
        else:
            self._run.append(part.native)
        if not self._open:
            self._carry(out)

    def _add(self, part: ReplyPart, out: list[Event]) -> int:
        k = self._next
        self._next += 1
        if self._position is not None:
            self._position.open(k, part)
        out.append(Open(k, part))
        return k

    # --- what is shown ---

    def _show(self, part: HostedCall, out: list[Event]) -> None:
        native = part.native
        read, show = BACKENDS[self._backend].read_deed, CLIENTS[self._client].show_deed
        if part.is_result:
            self._run.append(native)
            if (waiting := self._open.pop(part.id, None)) is not None:
                k, call = waiting
                deed = read(call, native)
                shown = show(deed, part.id, "") if deed is not None else []
                out.append(Close(k, shown[0] if shown else None))
            return
        deed = read(native, None)
        if self._client == "messages":
            shown = (
                show(deed, part.id, seal(self._content("hosted", [native]), self._scope)) if deed is not None else []
            )
            if deed is None or not deed.sources or deed.error is not None:
                self._run.append(native)  # nothing that is shown can hold it
            for block in shown:
                k = self._add(HostedCall(part.tool, block, shown=True), out)
                out.append(Close(k))
            return
        self._run.append(native)
        shown = show(deed, part.id, "") if deed is not None else []
        if shown:
            k = self._add(HostedCall(part.tool, shown[0], shown=True), out)
            self._open[part.id] = (k, native)

    # --- what is carried ---

    def _carry(self, out: list[Event]) -> None:
        """The blocks since the last carrier, in as few carriers as their size allows."""
        group: list[Extra] = []
        size = 0
        for block in self._run:
            more = len(dumps(block))
            if group and size + more > LIMIT:
                self._add_carrier("hosted", group, out)
                group, size = [], 0
            group.append(block)
            size += more
        if group:
            self._add_carrier("hosted", group, out)
        self._run = []

    def _add_carrier(self, kind: str, blocks: list[Extra], out: list[Event]) -> None:
        for envelope in seal_all(self._content(kind, blocks), self._scope):
            native = in_slot(envelope, None, "", self._client)
            entries = native.get("entries") if native is not None else None
            if isinstance(entries, list):
                self._remembered.entries += entries
            out.append(Close(self._add(Reasoning("", redacted=True, native=native), out), native))

    def _content(self, kind: str, blocks: list[Extra]) -> Wire:
        content: Wire = {"m": self._model, "k": [kind], "v": blocks}
        if self._position is not None:
            content |= place_of(self._position.spot)
        return content

    def _end_texts(self, out: list[Event]) -> None:
        """Behind texts that touch each other: how they were cut, and what each of them cites."""
        texts, self._texts = self._texts, []
        told = [self._cited.pop(k) for k in texts]
        if not any(natives for _, natives in told) or self._client not in ("chat", "responses"):
            return
        said = ["".join(pieces) for pieces, _ in told]
        blocks: list[Extra] = [{"h": text_mark("".join(said))}]
        for text, (_, natives) in zip(said, told, strict=True):
            blocks.append({"n": len(text), **({"c": natives} if natives else {})})
        self._add_carrier(CITATIONS, blocks, out)

    def _end(self, out: list[Event]) -> None:
        self._end_texts(out)
        for k, _ in self._open.values():
            out.append(Close(k))
        self._open = {}
        self._carry(out)
