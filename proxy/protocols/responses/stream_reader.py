"""Read a stream of Responses events (responses.md 12 and 13, mapping.md 13.2).

Items may be open side by side, and servers leave out what they please: events find their item by `item_id`, else by
`output_index`, and one that was never announced is made up. The done events have the last word on what the deltas said.
"""

from collections.abc import Callable

from proxy.canonical.events import Delta, End, Event, Fail, Finish, Ping, UsageUpdate
from proxy.canonical.fold import broken_stream
from proxy.canonical.loss import LossReport, Rule
from proxy.canonical.spelling import Spelling
from proxy.canonical.stop import Stop
from proxy.canonical.target import Dialect
from proxy.canonical.usage import Usage
from proxy.protocols.fields import Wire, is_object
from proxy.protocols.responses.errors import read_failure
from proxy.protocols.responses.item_reader import Growing, Item, ItemReader, item_of, need_exact
from proxy.protocols.responses.stream_events import ON, number
from proxy.protocols.responses.tables import STOP_OF_REASON
from proxy.protocols.responses.usage import read_usage

TERMINAL = frozenset({"completed", "incomplete", "failed", "cancelled"})


class StreamReader:
    """Wire events in, canonical events out. Whatever the backend sent, `feed` raises nothing but `InexactNumber`: then
    the same event is to be fed again, decoded exactly.
    """

    __slots__ = (
        "_by_id",
        "_by_index",
        "_dialect",
        "_emit",
        "_grows",
        "_items",
        "_over",
        "_told",
        "exact",
        "items",
        "usage",
    )

    def __init__(
        self,
        emit: Callable[[Event], None],
        spelling: Spelling,
        dialect: Dialect,
        losses: LossReport,
    ) -> None:
        self.items = ItemReader(emit, spelling, losses)
        self._emit = emit
        self._dialect = dialect
        self._items: list[Item] = []
        self._by_id: dict[str, Item] = {}
        self._by_index: dict[int, Item] = {}
        self._over = False
        self._told: set[Rule] = set()
        self.exact = False  # whether long integers were decoded as they are
        self.usage: Usage | None = None  # what has been told by now
        # The text that grew last, by its item's id and its content index: most events are its next delta.
        self._grows: tuple[str, object, Growing] | None = None

    text_key = b'"delta":'
    text_mark = b"output_text"  # other things grow by deltas too

    def grows(self, k: int) -> bool:
        """Whether `k` is the text part that grows now."""
        if self._grows is None or self._over:
            return False
        growing = self._grows[2]
        return growing.k == k and not growing.closed

    def grown(self, texts: list[str]) -> None:
        """Take note of deltas of it that were told elsewhere."""
        if self._grows is not None:
            self._grows[2].pieces += texts

    def feed(self, wire: Wire, event_name: str) -> None:
        """Take one event. Its type stands in the JSON; the SSE event's name is only the fallback."""
        event_type = wire.get("type")
        if event_type == "response.output_text.delta" and self._grow_again(wire):
            return
        if type(event_type) is not str:
            event_type = "error" if wire.get("error") is not None else event_name
        if self._over:
            return
        handle = ON.get(event_type)
        if handle is not None:
            handle(self, wire)
            if self.items.failed:
                self._end()
        elif event_type:
            self.lose(Rule.UNKNOWN_FIELD, event_type)

    def done(self) -> None:
        """`[DONE]` came: OpenAI sends none, and nothing follows it."""
        self.end()

    def end(self) -> None:
        """End of input: without a terminal event the answer counts as cut (mapping.md 13.6)."""
        if self._over:
            return
        if self._dialect.lax_terminal and self._items and all(item.done for item in self._items):
            self._reconcile(None)
            self._finish("completed", {})
        else:
            self._emit(Fail(broken_stream()))
            self._end()

    @property
    def stopped(self) -> bool:
        """Never: only the terminal event tells that an answer is whole."""
        return False

    def ping(self, response: Wire) -> None:
        """The backend is alive; what it says before it was created counts as its creation."""
        if self.items.started:
            self._emit(Ping())
        else:
            self.items.start(response)

    def lose(self, rule: Rule, what: str) -> None:
        """Record what no client can be given, once, however many events bring it."""
        if rule not in self._told:
            self._told.add(rule)
            self.items.losses.drop(rule, ("stream", what))

    # --- items ---

    def find(self, wire: Wire, item_type: str) -> Item:
        """The item that an event is about; a new one when the server did not announce it."""
        item_id, index = wire.get("item_id"), wire.get("output_index")
        item = self._by_id.get(item_id) if type(item_id) is str else None
        if item is None and type(index) is int:
            item = self._by_index.get(index)
        if item is None or item.type != item_type:
            known = type(item_id) is str and type(index) is int
            return self._add(Item(item_type, str(item_id) if known else None), item_id, index)
        return item

    def announce(self, wire: Wire, index: object) -> None:
        """An item begins."""
        item_id = wire.get("id")
        if type(item_id) is not str or item_id not in self._by_id:
            self.items.begin(self._add(item_of(wire), item_id, index), wire)

    def complete(self, whole: Wire, index: object) -> None:
        """An item is done, announced or not."""
        if not self.exact:
            need_exact(whole)
        item = self._known(whole, index)
        if item is None:
            item = self._add(item_of(whole), whole.get("id"), index)
        self._settle(item, whole)

    def grow_text(self, wire: Wire, text: str, logprobs: list[object] | None) -> None:
        """A delta of a text."""
        item_id, index = wire.get("item_id"), wire.get("content_index")
        growing = self.items.text_part(self.find(wire, "message"), number(index))
        self._grows = (item_id, index, growing) if type(item_id) is str else None
        self.items.grow(growing, text, logprobs)

    def _grow_again(self, wire: Wire) -> bool:
        """Take the next delta of the text that grew last, by far the most frequent event; False where it is another."""
        if self._grows is None or self._over:
            return False
        item_id, index, growing = self._grows
        text = wire.get("delta")
        if wire.get("item_id") != item_id or wire.get("content_index") != index or growing.closed:
            return False
        if type(text) is not str or not text or wire.get("logprobs"):
            return False
        growing.pieces.append(text)
        self._emit(Delta(growing.k, text))
        return True

    def _add(self, item: Item, item_id: object, index: object) -> Item:
        self._grows = None
        self._items.append(item)
        if type(item_id) is str:
            self._by_id[item_id] = item
        if type(index) is int:
            self._by_index[index] = item
        return item

    def _known(self, whole: Wire, index: object) -> Item | None:
        """The item that `whole` completes. Servers that give one index to several items give them ids of their own."""
        item_id = whole.get("id")
        item = self._by_id.get(item_id) if type(item_id) is str else None
        if item is None and type(index) is int:
            item = self._by_index.get(index)
            if item is not None and item.done:
                return None
        return item if item is not None and item.type == whole.get("type") else None

    def _reconcile(self, output: object) -> None:
        """Hold the whole output against what was sent: complete what is open, send what never came.

        `output: []` after items is normal for some servers, and some change their ids between the events and the end:
        then the next item of the same type is meant.
        """
        wholes = [wire for wire in output if is_object(wire)] if type(output) is list else []
        waiting = list(self._items)
        unmatched: list[Wire] = []
        for whole in wholes:
            item_id = whole.get("id")
            item = self._by_id.get(item_id) if type(item_id) is str else None
            if item is not None and item in waiting:
                waiting.remove(item)
                self._settle(item, whole)
            else:
                unmatched.append(whole)
        for whole in unmatched:
            item = next((one for one in waiting if one.type == whole.get("type")), None)
            if item is not None:
                waiting.remove(item)
                self._settle(item, whole)
            else:
                self._settle(self._add(item_of(whole), None, None), whole)
        for item in waiting:
            self._settle(item, {})
        for item in self._items:  # also those that grew after their end
            self.items.close_open(item)

    def _settle(self, item: Item, whole: Wire) -> None:
        if not item.done and not self.items.failed:
            self.items.finish(item, whole)

    # --- the end ---

    def terminate(self, response: Wire, status: str) -> None:
        """Take the terminal response object. Its own status wins over the event's name."""
        self.usage = read_usage(response)
        told = response.get("status")
        status = told if type(told) is str and told in TERMINAL else status
        if response.get("error") is not None and status != "cancelled":
            status = "failed"
        if status in ("failed", "cancelled"):
            self.fail(response.get("error"), f"The backend's response was {status}.")
            return
        output = response.get("output")
        if not self.exact and type(output) is list:
            for whole in output:
                if is_object(whole):
                    need_exact(whole)
        self.items.start(response)
        self._reconcile(output)
        if not self.items.failed:
            self._finish(status, response)

    def fail_with(self, response: Wire, otherwise: str) -> None:
        """Fail with the error of a response that tells what it has used all the same."""
        self.usage = read_usage(response)
        self.fail(response.get("error"), otherwise)

    def fail(self, error: object, otherwise: str) -> None:
        """Fail with the error that an event tells; `otherwise` is the message of one that tells nothing."""
        self._emit(Fail(read_failure(error, otherwise)))
        self._end()

    def _finish(self, status: str, response: Wire) -> None:
        tier = response.get("service_tier")
        if self.usage is not None:
            self._emit(UsageUpdate(self.usage))
        self._emit(Finish(self._stop(status, response), tier if type(tier) is str else None))
        self._end()

    def _stop(self, status: str, response: Wire) -> Stop:
        """There is no finish reason: the status and the items tell (responses.md 9.4)."""
        items = self.items
        if status == "incomplete":
            details = response.get("incomplete_details")
            reason = details.get("reason") if is_object(details) else None
            if type(reason) is str:
                kind = STOP_OF_REASON.get(reason, "length")
                return Stop(kind, native=reason, unknown=reason not in STOP_OF_REASON)
            return Stop("length", native=status)
        if items.called:
            return Stop("tool", native=status)
        return Stop("refusal" if items.refused and not items.spoke else "end", native=status)

    def _end(self) -> None:
        self._over = True
        self._emit(End())
