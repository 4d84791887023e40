"""The items of a Responses stream: announced, grown part by part, finished, and listed once more at the end."""

from dataclasses import dataclass, field

from tests.harness.grammar.findings import Findings
from tests.harness.grammar.responses_tables import (
    ANNOUNCED,
    EMPTY_PARTS,
    FAILS,
    KEPT_FIELDS,
    MUST_STATE_WHOLE,
    PART_EVENTS,
    PartList,
    Piece,
)
from tests.harness.wire import Json


@dataclass
class Part:
    type: str
    text: str = ""
    stated: bool = False
    done: Json = None


@dataclass
class Item:
    """announced, done: the item as its two events had it. text: its own deltas, those of no part."""

    announced: Json
    parts: dict[str, list[Part]] = field(default_factory=dict)
    text: str | None = None
    stated: bool = False
    done: Json = None

    @property
    def type(self) -> str:
        return str(self.announced.get("type"))


class Items:
    """The items so far, in order of their output_index."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._items: list[Item] = []

    def announce(self, wire: Json) -> None:
        findings, announced = self._findings, wire["item"]
        expected = len(self._items)
        findings.always(wire["output_index"] == expected, f"output_index {wire['output_index']}, expected {expected}")
        ids = [item.announced.get("id") for item in self._items]
        findings.always(bool(announced.get("id")) and announced["id"] not in ids, "an item has no id of its own")
        kind = announced.get("type")
        if kind == "message":
            findings.always(announced.get("content") == [], "a message is announced with content")
        findings.has_shape(announced, ANNOUNCED.get(str(kind), {}), f"the announced {kind}")
        self._items.append(Item(announced))

    def of(self, wire: Json, *, type_wanted: str | None = None) -> Item | None:
        """The open item that an event is about."""
        findings, index = self._findings, wire.get("output_index")
        found = self._items[index : index + 1] if isinstance(index, int) and index >= 0 else []
        item_id = wire.get("item_id", wire.get("item", {}).get("id"))
        if not found or found[0].announced.get("id") != item_id:
            findings.always(False, f"{wire['type']} for an item that was not announced")
            return None
        item = found[0]
        findings.ours(item.done is None, f"{wire['type']} for a finished item")
        if type_wanted:
            findings.ours(item.type == type_wanted, f"{wire['type']} for a {item.type}")
        return item

    def part(self, wire: Json, place: PartList, stage: str) -> None:
        findings, item = self._findings, self.of(wire)
        if item is None:
            return
        parts = item.parts.setdefault(place.field, [])
        index, kind = wire.get(place.index), wire["part"].get("type", "")
        if stage == "added":
            findings.always(index == len(parts), f"{place.index} {index}, expected {len(parts)}")
            findings.ours(all(part.done for part in parts), "a part starts before the one before it is done")
            findings.has_shape(wire["part"], EMPTY_PARTS.get(kind, {}), f"the announced {kind}")
            parts.append(Part(kind))
            return
        part = self._part_at(wire, parts, index)
        if part is None:
            return
        findings.ours(part.stated, f"the {kind} part is done before its text is")
        findings.ours(kind == part.type, f"a {part.type} part ends as {kind}")
        findings.always(_text(wire["part"]) == part.text, f"the done {kind} part differs from its deltas")
        part.done = wire["part"]

    def piece(self, wire: Json, stem: str, piece: Piece, stage: str) -> None:
        """A delta, or the statement of the whole that the deltas made."""
        item = self.of(wire, type_wanted=piece.item)
        if item is None:
            return
        holder: Item | Part | None = item
        if piece.parts:
            holder = self._part_at(wire, item.parts.get(piece.parts.field, []), wire.get(piece.parts.index))
        if holder is None or stage not in ("delta", "done"):
            return
        if isinstance(holder, Part):
            self._findings.ours(holder.type == piece.part, f"{stem} in a {holder.type} part")
        self._findings.ours(not holder.stated, f"{wire['type']} after {stem}.done")
        if stage == "delta":
            holder.text = (holder.text or "") + wire["delta"]
            return
        whole = wire[piece.whole]
        if isinstance(holder, Item) and holder.text is None:  # short arguments may come without any delta
            holder.text = whole
        self._findings.always(whole == holder.text, f"{wire['type']} differs from its deltas")
        holder.stated = True

    def _part_at(self, wire: Json, parts: list[Part], index: Json) -> Part | None:
        if not isinstance(index, int) or not 0 <= index < len(parts):
            self._findings.always(False, f"{wire['type']} for a part that was not announced")
            return None
        self._findings.ours(parts[index].done is None, f"{wire['type']} for a finished part")
        return parts[index]

    def finish(self, wire: Json) -> None:
        findings, item, done = self._findings, self.of(wire), wire["item"]
        if item is None:
            return
        for name in KEPT_FIELDS:
            findings.ours(done.get(name) == item.announced.get(name), f"the {name} of a {item.type} changes")
        findings.ours(
            done.get("status") in ("completed", "incomplete", None, *FAILS.get(item.type, ())),
            f"{item.type} done as {done.get('status')}",
        )
        for place in PART_EVENTS.values():
            self._compare_parts(item, done, place.field)
        if whole := MUST_STATE_WHOLE.get(item.type):
            findings.ours(item.stated, f"a {item.type} is done before its {whole} are")
            findings.always(item.text in (None, done.get(whole)), f"the done {item.type} differs from its deltas")
        item.done = done

    def _compare_parts(self, item: Item, done: Json, name: str) -> None:
        parts = item.parts.get(name, [])
        listed = done.get(name) or []
        if item.type not in ("message", "reasoning"):
            return
        told = [_text(part) for part in listed]
        self._findings.always(
            not parts or told == [part.text for part in parts],
            f"the {name} of the done {item.type} differs from its deltas",
        )
        self._findings.ours(all(part.done for part in parts), f"a {item.type} is done before its parts are")
        done_parts = [part.done for part in parts]
        self._findings.ours(listed == done_parts, f"the {name} of the done {item.type} is not its done parts")

    def all_finished(self, *, always: bool) -> None:
        open_items = [item.type for item in self._items if item.done is None]
        judge = self._findings.always if always else self._findings.ours
        judge(not open_items, f"left open: {', '.join(open_items)}")

    def compare_output(self, output: Json) -> None:
        """The last event lists the finished items once more."""
        findings = self._findings
        self.all_finished(always=True)
        listed = output if isinstance(output, list) else []
        ids = [item.announced.get("id") for item in self._items]
        findings.always([item.get("id") for item in listed] == ids, "the final output lists other items")
        done = {item.announced.get("id"): item.done or item.announced for item in self._items}
        for item in listed:
            if item.get("id") in done:
                same_text = _texts(item) == _texts(done[item["id"]])
                findings.always(
                    same_text, f"the final output tells a {item.get('type')} differently than its done event"
                )
        findings.ours(listed == [item.done for item in self._items], "the final output is not the done items")


def _text(part: Json) -> str:
    return str(part.get("text", part.get("refusal", "")))


def _texts(item: Json) -> list[Json]:
    """What an item says, whatever else servers put around it."""
    if item.get("type") == "message":
        return [_text(part) for part in item.get("content") or ()]
    return [item.get(name) for name in ("type", "call_id", "name", "arguments", "input")]
