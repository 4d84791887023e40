"""Records in one file: what was committed is there after a crash of the process.

SQLite's own calls wait, so they run in one thread. What is asked while it works is done in one transaction then, so
that many commits share one wait. One thing is done at once: adding a record, which is what every turn ends with. In
the log that is 30 µs of memory being written, and a tenth of what it takes to hand it to a thread that needs the
interpreter, too; the log is folded into the file by the thread.
"""

import asyncio
import contextlib
import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, TypeVar

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

Result = TypeVar("Result")
Effect = Literal["reads", "writes", "erases"]
_Job = tuple[Callable[[sqlite3.Connection], object], "asyncio.Future[object]", Effect]

_BUSY_MS = 2000  # another process may be writing
_MOST_AT_ONCE = 64  # jobs in one transaction
_PER_SWEEP = 1000  # records; others wait meanwhile
_MOST_AT_ONCE_BYTES = 256 * 1024  # of a record that no thread is asked to add
_FOLD_EVERY = 300  # of such records
_SCHEMA = """
CREATE TABLE IF NOT EXISTS records (
    tenant TEXT NOT NULL, kind TEXT NOT NULL, id TEXT NOT NULL, value BLOB NOT NULL, version INTEGER NOT NULL,
    expires REAL NOT NULL, lease REAL, following INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (tenant, kind, id)
);
CREATE INDEX IF NOT EXISTS records_expire ON records (expires);
CREATE INDEX IF NOT EXISTS records_leased ON records (lease) WHERE lease IS NOT NULL;
CREATE TABLE IF NOT EXISTS items (
    tenant TEXT NOT NULL, kind TEXT NOT NULL, owner TEXT NOT NULL, position INTEGER NOT NULL, id TEXT NOT NULL,
    value BLOB NOT NULL, PRIMARY KEY (tenant, kind, owner, position), UNIQUE (tenant, kind, owner, id)
) WITHOUT ROWID;
"""

log = logging.getLogger("dragoman")


class SqliteStore(Store):
    """`path` is the database; beside it are its log and its index of that. Its folder has to exist."""

    def __init__(self, path: Path, clock: Clock = time.time) -> None:
        super().__init__(clock)
        self._path = path
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._connection: sqlite3.Connection | None = None
        self._adding: sqlite3.Connection | None = None  # not for the thread
        self._unfolded = 0
        self._closed = False

    async def get(self, tenant: str, kind: Kind, ids: Sequence[str]) -> dict[str, Record]:
        marks = ",".join("?" * len(ids))
        query = (
            "SELECT id, value, version, expires FROM records "  # noqa: S608  question marks alone
            f"WHERE tenant = ? AND kind = ? AND expires > ? AND id IN ({marks})"
        )
        now = self._clock()
        rows = await self._do(lambda db: db.execute(query, (tenant, kind, now, *ids)).fetchall())
        return {row[0]: Record(*row[1:]) for row in rows}

    async def page(self, tenant: str, kind: Kind, after: str | None, limit: int, *, newest: bool) -> list[str]:
        query = _paged("SELECT id FROM records WHERE tenant = ? AND kind = ? AND expires > ?", "id", newest)
        arguments = (tenant, kind, self._clock(), after, after, limit)
        rows = await self._do(lambda db: db.execute(query, arguments).fetchall())
        return [row[0] for row in rows]

    async def commit(self, *writes: Write) -> None:
        now = self._clock()
        if len(writes) == 1 and isinstance(put := writes[0], Put) and put.version == 0 and self._added(put):
            return
        erases = any(isinstance(write, Delete | Remove) for write in writes)
        await self._do(lambda db: _commit(db, writes, now), "erases" if erases else "writes")

    async def items(self, owner: Key, after: int | None, limit: int, *, newest: bool = False) -> list[Item]:
        query = _paged(
            "SELECT items.id, position, items.value FROM items JOIN records AS r ON "
            "r.tenant = items.tenant AND r.kind = items.kind AND r.id = items.owner "
            "WHERE items.tenant = ? AND items.kind = ? AND items.owner = ? AND r.expires > ?",
            "position",
            newest,
        )
        arguments = (*owner, self._clock(), after, after, limit)
        rows = await self._do(lambda db: db.execute(query, arguments).fetchall())
        return [Item(*row) for row in rows]

    async def item(self, owner: Key, item_id: str) -> Item | None:
        query = (
            "SELECT items.id, position, items.value FROM items JOIN records AS r ON "
            "r.tenant = items.tenant AND r.kind = items.kind AND r.id = items.owner "
            "WHERE items.tenant = ? AND items.kind = ? AND items.owner = ? AND items.id = ? AND r.expires > ?"
        )
        arguments = (*owner, item_id, self._clock())
        row = await self._do(lambda db: db.execute(query, arguments).fetchone())
        return None if row is None else Item(*row)

    async def abandoned(self, limit: int) -> list[Key]:
        now = self._clock()
        query = "SELECT tenant, kind, id FROM records WHERE lease <= ? AND expires > ? ORDER BY lease LIMIT ?"
        rows = await self._do(lambda db: db.execute(query, (now, now, limit)).fetchall())
        return [Key(*row) for row in rows]

    async def sweep(self) -> None:
        now = self._clock()
        swept = _PER_SWEEP
        while swept == _PER_SWEEP:
            swept = await self._do(lambda db: _sweep(db, now), "erases")

    async def close(self) -> None:
        thread, self._closed = self._thread, True
        if thread is not None:
            self._jobs.put(None)
            self._thread = None
            await asyncio.to_thread(thread.join)

    def _added(self, put: Put) -> bool:
        """Whether the record is there now; if not, it is for the thread to say why."""
        if self._adding is None or self._closed or len(put.value) > _MOST_AT_ONCE_BYTES:
            return False
        try:
            self._adding.execute(_INSERT, (*put.key, put.value, put.expires, put.lease))
        except sqlite3.Error:  # somebody else is writing, or it is there already, or the disk is full
            return False
        self._unfolded += 1
        if self._unfolded >= _FOLD_EVERY:
            self._unfolded = 0
            folded: asyncio.Future[object] = asyncio.get_running_loop().create_future()
            folded.add_done_callback(lambda done: done.cancelled() or done.exception())  # it is tried again later
            self._jobs.put((_fold, folded, "reads"))
        return True

    async def _do(self, job: Callable[[sqlite3.Connection], Result], effect: Effect = "reads") -> Result:
        if self._closed:
            raise StoreFailed("SQLite: closed")
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="dragoman-state", daemon=True)
            self._thread.start()
        done: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._jobs.put((job, done, effect))
        return await done  # type: ignore[return-value]

    # ---- in the thread

    def _work(self) -> None:
        ended = False
        while not ended:
            jobs: list[_Job] = []
            job = self._jobs.get()
            while job is not None:
                jobs.append(job)
                if len(jobs) == _MOST_AT_ONCE or self._jobs.empty():
                    break
                job = self._jobs.get()
            ended = job is None
            if jobs:
                self._do_together(jobs)
        for db in (self._adding, self._connection):
            if db is not None:
                db.close()
        self._adding = self._connection = None

    def _do_together(self, jobs: list[_Job]) -> None:
        """Do all of these in one transaction. Nobody is told before it is on the disk."""
        try:
            results = self._results(jobs)
        except Exception as error:  # noqa: BLE001  the thread must go on, and who asked is told
            failed = StoreFailed(f"SQLite at {self._path}: {error}") if isinstance(error, sqlite3.Error) else error
            results = [failed] * len(jobs)
            if self._connection is not None:
                with contextlib.suppress(sqlite3.Error):
                    self._connection.rollback()
        told: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[object], object]]] = {}
        for (_, done, _), result in zip(jobs, results, strict=True):
            told.setdefault(done.get_loop(), []).append((done, result))
        for loop, outcomes in told.items():
            with contextlib.suppress(RuntimeError):  # it has ended meanwhile
                loop.call_soon_threadsafe(_tell, outcomes)

    def _results(self, jobs: list[_Job]) -> list[object]:
        db = self._open()
        effects = {effect for _, _, effect in jobs}
        if effects == {"reads"}:
            return [job(db) for job, _, _ in jobs]
        results: list[object] = []
        db.execute("BEGIN IMMEDIATE")
        alone = len(jobs) == 1
        for job, _, _ in jobs:
            if not alone:
                db.execute("SAVEPOINT one")
            try:
                results.append(job(db))
            except Conflict as conflict:
                results.append(conflict)
                db.execute("ROLLBACK" if alone else "ROLLBACK TO one")
        if db.in_transaction:
            db.execute("COMMIT")
        if "erases" in effects:  # else what is gone would stand in the log for a while
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return results

    def _open(self) -> sqlite3.Connection:
        db = self._connection
        if db is None:
            # Every statement is its own transaction unless it says otherwise.
            db = sqlite3.connect(self._path, timeout=_BUSY_MS / 1000, isolation_level=None, check_same_thread=False)
            try:
                db.execute("PRAGMA journal_mode = WAL")
                # A machine without power may lose the last commits, whole ones; the disk is not waited for each time.
                db.execute("PRAGMA synchronous = NORMAL")
                db.execute("PRAGMA secure_delete = ON")
                db.execute("PRAGMA foreign_keys = OFF")
                db.executescript(_SCHEMA)
            except sqlite3.Error:
                db.close()
                raise
            self._connection = db
            self._adding = sqlite3.connect(self._path, timeout=0, isolation_level=None, check_same_thread=False)
            self._adding.execute("PRAGMA synchronous = NORMAL")
            self._adding.execute("PRAGMA wal_autocheckpoint = 0")
        return db


def _fold(db: sqlite3.Connection) -> None:
    """The log into the file, as far as nobody reads it."""
    db.execute("PRAGMA wal_checkpoint(PASSIVE)")


def _tell(outcomes: list[tuple["asyncio.Future[object]", object]]) -> None:
    for done, outcome in outcomes:
        if done.cancelled():
            continue
        if isinstance(outcome, Exception):
            done.set_exception(outcome)
        else:
            done.set_result(outcome)


def _paged(query: str, column: str, newest: bool) -> str:
    """With two arguments for what it begins behind, and one for how many."""
    beyond, order = ("<", "DESC") if newest else (">", "ASC")
    return f"{query} AND (? IS NULL OR {column} {beyond} ?) ORDER BY {column} {order} LIMIT ?"


def _commit(db: sqlite3.Connection, writes: Sequence[Write], now: float) -> None:
    for write in writes:
        match write:
            case Put():
                _put(db, write, now)
            case Delete(key):
                if not _delete(db, key, now):
                    raise Conflict(write)
            case Append():
                _append(db, write, now)
            case Remove(owner, item_id):
                query = "DELETE FROM items WHERE tenant = ? AND kind = ? AND owner = ? AND id = ?"
                if _version(db, owner, now) == 0 or db.execute(query, (*owner, item_id)).rowcount == 0:
                    raise Conflict(write)


def _version(db: sqlite3.Connection, key: Key, now: float) -> int:
    query = "SELECT version FROM records WHERE tenant = ? AND kind = ? AND id = ? AND expires > ?"
    row = db.execute(query, (*key, now)).fetchone()
    return 0 if row is None else int(row[0])


_INSERT = "INSERT INTO records (tenant, kind, id, value, version, expires, lease) VALUES (?, ?, ?, ?, 1, ?, ?)"


def _add(db: sqlite3.Connection, put: Put, now: float) -> None:
    """A record in a place where nothing is."""
    given = (*put.key, put.value, put.expires, put.lease)
    try:
        db.execute(_INSERT, given)
    except sqlite3.IntegrityError:
        if _version(db, put.key, now):
            raise Conflict(put) from None
        _delete(db, put.key, 0.0)  # one whose time is over, and that nobody has swept
        db.execute(_INSERT, given)


def _put(db: sqlite3.Connection, put: Put, now: float) -> None:
    version = _version(db, put.key, now)
    if put.version not in (None, version):
        raise Conflict(put)
    if version:
        query = (
            "UPDATE records SET value = ?, version = version + 1, expires = ?, lease = ? "
            "WHERE tenant = ? AND kind = ? AND id = ?"
        )
        db.execute(query, (put.value, put.expires, put.lease, *put.key))
        return
    _add(db, put, now)


def _delete(db: sqlite3.Connection, key: Key, now: float) -> bool:
    query = "DELETE FROM records WHERE tenant = ? AND kind = ? AND id = ? AND expires > ?"
    if db.execute(query, (*key, now)).rowcount == 0:
        return False
    db.execute("DELETE FROM items WHERE tenant = ? AND kind = ? AND owner = ?", key)
    return True


def _append(db: sqlite3.Connection, append: Append, now: float) -> None:
    query = (
        "UPDATE records SET following = following + ?, expires = max(expires, ?) "
        "WHERE tenant = ? AND kind = ? AND id = ? AND expires > ? RETURNING following"
    )
    count = len(append.items)
    row = db.execute(query, (count, append.expires, *append.owner, now)).fetchone()
    if row is None:
        raise Conflict(append)
    rows = [(*append.owner, row[0] - count + at, *item) for at, item in enumerate(append.items)]
    try:
        db.executemany("INSERT INTO items (tenant, kind, owner, position, id, value) VALUES (?, ?, ?, ?, ?, ?)", rows)
    except sqlite3.IntegrityError:
        raise Conflict(append) from None


def _sweep(db: sqlite3.Connection, now: float) -> int:
    query = "SELECT tenant, kind, id FROM records WHERE expires <= ? LIMIT ?"
    rows = db.execute(query, (now, _PER_SWEEP)).fetchall()
    for row in rows:
        _delete(db, Key(*row), 0.0)
    return len(rows)
