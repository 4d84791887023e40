"""Records in PostgreSQL, for replicas that share them. What must hold between replicas is left to its transactions."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import asyncpg

from proxy.state.store import (
    Append,
    Clock,
    Conflict,
    Delete,
    Item,
    Key,
    Kind,
    Put,
    Record,
    Remove,
    Store,
    StoreFailed,
    Write,
)

_CONNECT_S = 3.0
_ANSWER_S = 5.0
_MOST_CONNECTIONS = 8
_PER_SWEEP = 1000
_LOCK = 0x647261676F6D616E  # `dragoman`: replicas that start together make the tables one after the other
_SCHEMA = """
CREATE TABLE IF NOT EXISTS dragoman_records (
    tenant text NOT NULL, kind text NOT NULL, id text COLLATE "C" NOT NULL, value bytea NOT NULL,
    version bigint NOT NULL DEFAULT 1, expires double precision NOT NULL, lease double precision,
    following bigint NOT NULL DEFAULT 0, PRIMARY KEY (tenant, kind, id)
);
CREATE INDEX IF NOT EXISTS dragoman_records_expire ON dragoman_records (expires);
CREATE INDEX IF NOT EXISTS dragoman_records_leased ON dragoman_records (lease) WHERE lease IS NOT NULL;
CREATE TABLE IF NOT EXISTS dragoman_items (
    tenant text NOT NULL, kind text NOT NULL, owner text COLLATE "C" NOT NULL, position bigint NOT NULL,
    id text COLLATE "C" NOT NULL, value bytea NOT NULL, PRIMARY KEY (tenant, kind, owner, position),
    UNIQUE (tenant, kind, owner, id),
    FOREIGN KEY (tenant, kind, owner) REFERENCES dragoman_records (tenant, kind, id) ON DELETE CASCADE
);
"""
_OF_ITEMS = (
    "SELECT i.id, i.position, i.value FROM dragoman_items i JOIN dragoman_records r "
    "ON (r.tenant, r.kind, r.id) = (i.tenant, i.kind, i.owner) "
    "WHERE i.tenant = $1 AND i.kind = $2 AND i.owner = $3 AND r.expires > $4"
)

Connection = Any  # asyncpg has no types


class PostgresStore(Store):
    """`url`: as libpq has it. The tables are made on the first use."""

    def __init__(self, url: str, clock: Clock = time.time) -> None:
        super().__init__(clock)
        self._url = url
        self._pool: Any = None
        self._opening = asyncio.Lock()
        self._closed = False

    async def get(self, tenant: str, kind: Kind, ids: Sequence[str]) -> dict[str, Record]:
        query = (
            "SELECT id, value, version, expires FROM dragoman_records "
            "WHERE tenant = $1 AND kind = $2 AND expires > $3 AND id = ANY($4)"
        )
        async with self._connected() as db:
            rows = await db.fetch(query, tenant, kind, self._clock(), list(ids))
        return {row[0]: Record(row[1], row[2], row[3]) for row in rows}

    async def page(self, tenant: str, kind: Kind, after: str | None, limit: int, *, newest: bool) -> list[str]:
        beyond, order = ("<", "DESC") if newest else (">", "ASC")
        query = (
            "SELECT id FROM dragoman_records WHERE tenant = $1 AND kind = $2 AND expires > $3 "  # noqa: S608  constants
            f"AND ($4::text IS NULL OR id {beyond} $4) ORDER BY id {order} LIMIT $5"
        )
        async with self._connected() as db:
            rows = await db.fetch(query, tenant, kind, self._clock(), after, limit)
        return [row[0] for row in rows]

    async def commit(self, *writes: Write) -> None:
        now = self._clock()
        async with self._connected() as db, db.transaction():
            for write in writes:
                if not await _write(db, write, now):
                    raise Conflict(write)

    async def items(self, owner: Key, after: int | None, limit: int, *, newest: bool = False) -> list[Item]:
        beyond, order = ("<", "DESC") if newest else (">", "ASC")
        query = f"{_OF_ITEMS} AND ($5::bigint IS NULL OR i.position {beyond} $5) ORDER BY i.position {order} LIMIT $6"
        async with self._connected() as db:
            rows = await db.fetch(query, *owner, self._clock(), after, limit)
        return [Item(row[0], row[1], row[2]) for row in rows]

    async def item(self, owner: Key, item_id: str) -> Item | None:
        async with self._connected() as db:
            row = await db.fetchrow(f"{_OF_ITEMS} AND i.id = $5", *owner, self._clock(), item_id)
        return None if row is None else Item(row[0], row[1], row[2])

    async def abandoned(self, limit: int) -> list[Key]:
        query = (
            "SELECT tenant, kind, id FROM dragoman_records WHERE lease <= $1 AND expires > $1 ORDER BY lease LIMIT $2"
        )
        async with self._connected() as db:
            rows = await db.fetch(query, self._clock(), limit)
        return [Key(row[0], row[1], row[2]) for row in rows]

    async def sweep(self) -> None:
        query = (
            "DELETE FROM dragoman_records WHERE ctid IN "
            "(SELECT ctid FROM dragoman_records WHERE expires <= $1 LIMIT $2 FOR UPDATE SKIP LOCKED)"
        )
        now, swept = self._clock(), _PER_SWEEP
        while swept == _PER_SWEEP:
            async with self._connected() as db:
                swept = _count(await db.execute(query, now, _PER_SWEEP))

    async def close(self) -> None:
        pool, self._pool, self._closed = self._pool, None, True
        if pool is not None:
            pool.terminate()

    def _connected(self) -> AbstractAsyncContextManager[Connection]:
        return _connection(self)

    async def pool(self) -> Any:
        """Connections, made when they are first needed."""
        if self._closed:
            raise StoreFailed("PostgreSQL: closed")
        if self._pool is None:
            async with self._opening:
                if self._pool is None:
                    self._pool = await self._open()
        return self._pool

    async def _open(self) -> Any:
        pool = await asyncpg.create_pool(
            self._url,
            min_size=1,
            max_size=_MOST_CONNECTIONS,
            timeout=_CONNECT_S,
            command_timeout=_ANSWER_S,
        )
        try:
            async with pool.acquire(timeout=_CONNECT_S) as db, db.transaction():
                await db.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
                await db.execute(_SCHEMA)
        except BaseException:
            pool.terminate()
            raise
        return pool


@asynccontextmanager
async def _connection(store: PostgresStore) -> AsyncIterator[Connection]:
    """A connection. What goes wrong with it is told in the store's own word."""
    try:
        pool = await store.pool()
        async with pool.acquire(timeout=_CONNECT_S) as db:
            yield db
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise StoreFailed(f"PostgreSQL: {type(error).__name__}: {error}") from error


async def _write(db: Connection, write: Write, now: float) -> bool:
    match write:
        case Put():
            return await _put(db, write, now)
        case Delete(key):
            query = "DELETE FROM dragoman_records WHERE tenant = $1 AND kind = $2 AND id = $3 AND expires > $4"
            return _count(await db.execute(query, *key, now)) == 1
        case Append():
            return await _append(db, write, now)
        case Remove(owner, item_id):
            query = "DELETE FROM dragoman_items WHERE tenant = $1 AND kind = $2 AND owner = $3 AND id = $4"
            return _count(await db.execute(query, *owner, item_id)) == 1


async def _put(db: Connection, put: Put, now: float) -> bool:
    given: tuple[object, ...] = (*put.key, put.value, put.expires, put.lease)
    if put.version:
        update = (
            "UPDATE dragoman_records SET value = $4, expires = $5, lease = $6, version = version + 1 "
            "WHERE tenant = $1 AND kind = $2 AND id = $3 AND expires > $7 AND version = $8"
        )
        return _count(await db.execute(update, *given, now, put.version)) == 1
    insert = "INSERT INTO dragoman_records (tenant, kind, id, value, expires, lease) VALUES ($1, $2, $3, $4, $5, $6)"
    if put.version == 0:
        insert += " ON CONFLICT DO NOTHING"
    else:
        insert += (
            " ON CONFLICT (tenant, kind, id) DO UPDATE SET value = $4, expires = $5, lease = $6, "
            "version = dragoman_records.version + 1 WHERE dragoman_records.expires > $7"
        )
        given = (*given, now)
    if _count(await db.execute(insert, *given)) == 1:
        return True
    # What stands there may be one whose time is over, and that nobody has swept.
    expired = "DELETE FROM dragoman_records WHERE tenant = $1 AND kind = $2 AND id = $3 AND expires <= $4"
    if _count(await db.execute(expired, *put.key, now)) == 0:
        return False
    return _count(await db.execute(insert, *given)) == 1


async def _append(db: Connection, append: Append, now: float) -> bool:
    query = (
        "UPDATE dragoman_records SET following = following + $4, expires = greatest(expires, $5) "
        "WHERE tenant = $1 AND kind = $2 AND id = $3 AND expires > $6 RETURNING following"
    )
    count = len(append.items)
    following = await db.fetchval(query, *append.owner, count, append.expires, now)
    if following is None:
        return False
    rows = [(*append.owner, following - count + at, *item) for at, item in enumerate(append.items)]
    try:
        await db.executemany(
            "INSERT INTO dragoman_items (tenant, kind, owner, position, id, value) VALUES ($1, $2, $3, $4, $5, $6)",
            rows,
        )
    except asyncpg.UniqueViolationError:
        return False
    return True


def _count(tag: str) -> int:
    """Of rows, from what PostgreSQL says of a command, such as `DELETE 3`."""
    return int(tag.rpartition(" ")[2])
