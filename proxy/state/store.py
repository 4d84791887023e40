"""The interface of a store: records by key, each with a list of items, and commits that take place as a whole.

A store knows nothing of what it keeps. It never shows a record whose time is over, whether or not it is still there.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

Kind = Literal["response", "conversation", "thread", "chat"]
Clock = Callable[[], float]


class Key(NamedTuple):
    """Whose it is, what it is, and its id. `tenant` is empty where there are no tenants."""

    tenant: str
    kind: Kind
    id: str


class Record(NamedTuple):
    """`version` is 1 for a new record and grows with each change of its value. `expires`: Unix seconds."""

    value: bytes
    version: int
    expires: float


class Item(NamedTuple):
    """One of a record's items. Positions grow with each item that is appended; they may have gaps."""

    id: str
    position: int
    value: bytes


class Put(NamedTuple):
    """Write a record. `version`: the one that must be there, 0 for none, None for any or none. `lease`: until when its
    owner vouches for it (Unix seconds); None for a record that needs nobody."""

    key: Key
    value: bytes
    expires: float
    version: int | None = None
    lease: float | None = None


class Delete(NamedTuple):
    """Take away a record, which must be there, with all its items."""

    key: Key


class Append(NamedTuple):
    """Add items to a record, which must be there, and let it live until `expires` at least. An id that one of its items
    has already is a conflict."""

    owner: Key
    items: Sequence[tuple[str, bytes]]
    expires: float


class Remove(NamedTuple):
    """Take away an item, which must be there."""

    owner: Key
    id: str


Write = Put | Delete | Append | Remove


class Conflict(Exception):
    """What a write takes for granted does not hold, so none of its commit took place."""

    def __init__(self, write: Write) -> None:
        super().__init__("a stored record is not as it must be")
        self.write = write


class StoreFailed(Exception):
    """The store can't be reached, is full, or refuses. The message is for records, not for clients."""


class Store(ABC):
    """Every method raises `StoreFailed`, and may then have done what it was asked to or not.

    `clock` gives Unix seconds.
    """

    def __init__(self, clock: Clock = time.time) -> None:
        self._clock = clock

    @abstractmethod
    async def get(self, tenant: str, kind: Kind, ids: Sequence[str]) -> dict[str, Record]:
        """The records that are there, by id."""

    @abstractmethod
    async def page(self, tenant: str, kind: Kind, after: str | None, limit: int, *, newest: bool) -> list[str]:
        """Ids in their order as texts, behind `after`; `newest`: from the last one down."""

    @abstractmethod
    async def commit(self, *writes: Write) -> None:
        """All of it or nothing, and for good. Raises `Conflict`."""

    @abstractmethod
    async def items(self, owner: Key, after: int | None, limit: int, *, newest: bool = False) -> list[Item]:
        """Items of a record behind a position, in their order; `newest`: from the last one down."""

    @abstractmethod
    async def item(self, owner: Key, item_id: str) -> Item | None:
        """One of a record's items."""

    @abstractmethod
    async def abandoned(self, limit: int) -> list[Key]:
        """Records whose lease is over."""

    @abstractmethod
    async def sweep(self) -> None:
        """Forget for good what has expired."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of files and connections, having written what was committed."""
