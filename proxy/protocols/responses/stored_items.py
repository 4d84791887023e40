"""Items as a server keeps them and gives them out again (responses.md 4, 15.1, 15.4).

What was sent is kept as it was; what a list shows has an id and parts in place of a text. Whoever continues sends the
kept items as ordinary input.
"""

from collections.abc import Sequence

from proxy.protocols.fields import Wire, is_object
from proxy.protocols.responses.tables import ITEM_PREFIX

_INPUT = "i"  # in ids, so that no item of the input has one of the output's
# Their id is part of what the vendor checks, and must be there when they come back.
_NEEDS_ID = frozenset({"reasoning", "item_reference"})


def as_items(value: object) -> list[object]:
    """`input` as a list, whatever it is: what is wrong with it, a reader of requests finds."""
    if isinstance(value, str):
        return [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": value}]}]
    return list(value) if isinstance(value, list) else []


def listed_items(value: object, seed: str) -> list[Wire]:
    """`input` as lists show it. `seed` makes ids of items that have none; equal seeds give equal ids."""
    return [listed_item(item, f"{seed}{_INPUT}{at:04x}") for at, item in enumerate(as_items(value)) if is_object(item)]


def listed_item(item: Wire, unique: str) -> Wire:
    """One item, with an id, a type, and parts for its text. `unique` is the end of an id that no other item has."""
    item_type = item.get("type") if isinstance(item.get("type"), str) else "message"
    given = item.get("id")
    item_id = given if isinstance(given, str) and given else f"{ITEM_PREFIX.get(str(item_type), 'item')}_{unique}"
    shown: Wire = {**item, "id": item_id, "type": item_type}
    if item_type != "message":
        return shown
    if isinstance(text := item.get("content"), str):
        assistant = item.get("role") == "assistant"
        part: Wire = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        shown["content"] = [part if assistant else {"type": "input_text", "text": text}]
    shown.setdefault("status", "completed")
    return shown


def sent_items(items: Sequence[object], *, keep_ids: bool) -> list[object]:
    """Kept items as input. Not `keep_ids`: for a backend that would look up ids which it has never given out."""
    if keep_ids:
        return list(items)
    return [
        {name: value for name, value in item.items() if name != "id"}
        if is_object(item) and item.get("type") not in _NEEDS_ID
        else item
        for item in items
    ]
