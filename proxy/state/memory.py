"""Records in this process: nothing outlives it, and what is oldest goes when there is too much."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import assert_never

from proxy.state.store import Append, Clock, Conflict, Delete, Item, Key, Kind, Put, Record, Remove, Store, Write

MOST_RECORDS = 1000
MOST_BYTES = 256 * 2**20


@dataclass(slots=True)
class _Kept:
    value: bytes
    version: int
    expires: float
    lease: float | None
    items: dict[str, Item] = field(default_factory=dict)
    following: int = 0  # the position of the next item
    size: int = 0


class MemoryStore(Store):
    """At most `most` records, and `most_bytes` of values."""

    def __init__(self, clock: Clock = time.time, most: int = MOST_RECORDS, most_bytes: int = MOST_BYTES) -> None:
        super().__init__(clock)
        self._most = most
        self._most_bytes = most_bytes
        self._kept: dict[Key, _Kept] = {}  # the oldest first
        self._bytes = 0

    async def get(self, tenant: str, kind: Kind, ids: Sequence[str]) -> dict[str, Record]:
        found = ((one, self._live(Key(tenant, kind, one))) for one in ids)
        return {one: Record(kept.value, kept.version, kept.expires) for one, kept in found if kept is not None}

    async def page(self, tenant: str, kind: Kind, after: str | None, limit: int, *, newest: bool) -> list[str]:
        ids = sorted(
            (key.id for key in self._kept if key[:2] == (tenant, kind) and self._live(key) is not None), reverse=newest
        )
        if after is not None:
            ids = [one for one in ids if (one < after if newest else one > after)]
        return ids[:limit]

    async def commit(self, *writes: Write) -> None:
        made: set[Key] = set()
        for write in writes:
            self._check(write, made)
        for write in writes:
            self._apply(write)
        while self._kept and (len(self._kept) > self._most or self._bytes > self._most_bytes):
            self._forget(next(iter(self._kept)))

    async def items(self, owner: Key, after: int | None, limit: int, *, newest: bool = False) -> list[Item]:
        kept = self._live(owner)
        if kept is None:
            return []
        items = list(kept.items.values())
        if newest:
            items.reverse()
        if after is not None:
            items = [item for item in items if (item.position < after if newest else item.position > after)]
        return items[:limit]

    async def item(self, owner: Key, item_id: str) -> Item | None:
        kept = self._live(owner)
        return None if kept is None else kept.items.get(item_id)

    async def abandoned(self, limit: int) -> list[Key]:
        now = self._clock()
        leased = (key for key, kept in self._kept.items() if kept.lease is not None and kept.lease <= now)
        return [key for key in leased if self._kept[key].expires > now][:limit]

    async def sweep(self) -> None:
        now = self._clock()
        for key in [key for key, kept in self._kept.items() if kept.expires <= now]:
            self._forget(key)

    async def close(self) -> None:
        self._kept.clear()
        self._bytes = 0

    def _live(self, key: Key) -> _Kept | None:
        kept = self._kept.get(key)
        return kept if kept is not None and kept.expires > self._clock() else None

    def _check(self, write: Write, made: set[Key]) -> None:
        """`made`: what earlier writes of the same commit put there."""
        match write:
            case Put(key, _, _, version):
                kept = self._live(key)
                holds = version is None or version == (kept.version if kept is not None else 0)
                made.add(key)
            case Delete(key):
                holds = self._live(key) is not None
            case Append(owner, items):
                kept = self._live(owner)
                known = kept.items if kept is not None else ()
                holds = (kept is not None or owner in made) and not any(item_id in known for item_id, _ in items)
            case Remove(owner, item_id):
                kept = self._live(owner)
                holds = kept is not None and item_id in kept.items
            case _:
                assert_never(write)
        if not holds:
            raise Conflict(write)

    def _apply(self, write: Write) -> None:
        match write:
            case Put(key, value, expires, _, lease):
                kept = self._live(key)
                if kept is None:
                    self._forget(key)
                    kept = self._kept[key] = _Kept(b"", 0, expires, lease)
                kept.version += 1
                self._grow(kept, len(value) - len(kept.value))
                kept.value, kept.expires, kept.lease = value, expires, lease
            case Delete(key):
                self._forget(key)
            case Append(owner, items, expires):
                kept = self._kept[owner]
                kept.expires = max(kept.expires, expires)
                for item_id, value in items:
                    kept.items[item_id] = Item(item_id, kept.following, value)
                    kept.following += 1
                    self._grow(kept, len(value))
            case Remove(owner, item_id):
                kept = self._kept[owner]
                self._grow(kept, -len(kept.items.pop(item_id).value))

    def _grow(self, kept: _Kept, size: int) -> None:
        kept.size += size
        self._bytes += size

    def _forget(self, key: Key) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._bytes -= kept.size
