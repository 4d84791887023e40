"""Records in Redis or Valkey, for replicas that share them. A commit is one script, which the server runs as a whole.

How much of it outlives the server is the server's own setting: see `appendonly`.
"""

import asyncio
import time
from collections.abc import Awaitable, Sequence
from typing import Any, cast

import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

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

_PREFIX = "dragoman:state:"
_LEASES = _PREFIX + "leases"
_TIMEOUT = 2.0  # seconds
_PAGED = frozenset({"chat"})  # kinds whose ids are listed
_BATCH = 500

# A record is a hash of its value, its version and the position of its next item; beside it are a hash of its items'
# values and a sorted set of their positions. First everything is checked, then everything is done.
# KEYS: for each write the record, its values, its positions and the list of its kind; last the leases.
# ARGV: for each write the name, its count of further arguments, and those.
_COMMIT = """
local function each(visit)
  local at = 1
  for number = 1, (#KEYS - 1) / 4 do
    local name, count = ARGV[at], tonumber(ARGV[at + 1])
    local given = {}
    for one = 1, count do given[one] = ARGV[at + 1 + one] end
    local first = (number - 1) * 4
    local failed = visit(name, given, KEYS[first + 1], KEYS[first + 2], KEYS[first + 3], KEYS[first + 4], number)
    if failed then return failed end
    at = at + 2 + count
  end
end
local function last(record, expires, values, places)
  redis.call('PEXPIREAT', record, expires)
  redis.call('PEXPIREAT', values, expires)
  redis.call('PEXPIREAT', places, expires)
end
local made = {}
local failed = each(function(name, given, record, values, places, list, number)
  local version = tonumber(redis.call('HGET', record, 'n') or '0')
  if name == 'put' then
    if given[3] ~= '' and tonumber(given[3]) ~= version then return number end
    made[record] = true
  elseif version == 0 and not made[record] then
    return number
  elseif name == 'append' then
    for at = 2, #given, 2 do
      if redis.call('HEXISTS', values, given[at]) == 1 then return number end
    end
  elseif name == 'remove' then
    if redis.call('HEXISTS', values, given[1]) == 0 then return number end
  end
end)
if failed then return failed end
each(function(name, given, record, values, places, list)
  if name == 'put' then
    redis.call('HSET', record, 'v', given[1])
    redis.call('HINCRBY', record, 'n', 1)
    last(record, given[2], values, places)
    if given[4] ~= '' then redis.call('ZADD', KEYS[#KEYS], given[4], given[5])
    else redis.call('ZREM', KEYS[#KEYS], given[5]) end
    if given[6] ~= '' then redis.call('ZADD', list, 0, given[6]) end
  elseif name == 'delete' then
    redis.call('DEL', record, values, places)
    redis.call('ZREM', list, given[1])
    redis.call('ZREM', KEYS[#KEYS], given[2])
  elseif name == 'append' then
    for at = 2, #given, 2 do
      local place = redis.call('HINCRBY', record, 'x', 1) - 1
      redis.call('HSET', values, given[at], given[at + 1])
      redis.call('ZADD', places, place, given[at])
    end
    last(record, math.max(redis.call('PEXPIRETIME', record), tonumber(given[1])), values, places)
  elseif name == 'remove' then
    redis.call('HDEL', values, given[1])
    redis.call('ZREM', places, given[1])
  end
end)
return 0
"""


class RedisStore(Store):
    """`url`: as for the limits that replicas share. Expiry is the server's own work, by its own clock."""

    def __init__(self, url: str, clock: Clock = time.time) -> None:
        """Raises ValueError for an address that can't be one."""
        super().__init__(clock)
        self._redis = redis.asyncio.Redis.from_url(
            url, socket_timeout=_TIMEOUT, socket_connect_timeout=_TIMEOUT, retry=Retry(NoBackoff(), 1)
        )
        self._script = self._redis.register_script(_COMMIT)
        self._closed = False
        self._asking: set[asyncio.Future[Any]] = set()

    async def get(self, tenant: str, kind: Kind, ids: Sequence[str]) -> dict[str, Record]:
        pipe = self._redis.pipeline(transaction=False)
        for one in ids:
            name = _name(Key(tenant, kind, one))
            pipe.hmget(name, "v", "n")
            pipe.pexpiretime(name)
        answers = await self._told(pipe.execute())
        found: dict[str, Record] = {}
        for one, (value, version), expires in zip(ids, answers[::2], answers[1::2], strict=True):
            if value is not None:
                found[one] = Record(value, int(version), expires / 1000)
        return found

    async def page(self, tenant: str, kind: Kind, after: str | None, limit: int, *, newest: bool) -> list[str]:
        name, found = _list(tenant, kind), list[str]()
        while len(found) < limit:
            begins = f"({after}" if after is not None else ("+" if newest else "-")
            scanned: list[bytes] = await self._told(
                self._redis.zrevrangebylex(name, begins, "-", 0, _BATCH)
                if newest
                else self._redis.zrangebylex(name, begins, "+", 0, _BATCH)
            )
            ids = [one.decode() for one in scanned]
            there = await self.get(tenant, kind, ids) if ids else {}
            found += [one for one in ids if one in there]
            if gone := [one for one in ids if one not in there]:
                await self._told(self._redis.zrem(name, *gone))
            if len(ids) < _BATCH:
                break
            after = ids[-1]
        return found[:limit]

    async def commit(self, *writes: Write) -> None:
        names: list[str] = []
        arguments: list[str | bytes | int | float] = []
        for write in writes:
            key = write.key if isinstance(write, Put | Delete) else write.owner
            name, given = _spelled(write)
            names += (_name(key), _values(key), _places(key), _list(key.tenant, key.kind))
            arguments += (name, len(given), *given)
        answered = cast("Awaitable[Any]", self._script([*names, _LEASES], arguments))
        if number := await self._told(answered):
            raise Conflict(writes[int(number) - 1])

    async def items(self, owner: Key, after: int | None, limit: int, *, newest: bool = False) -> list[Item]:
        first, last = ("+inf", "-inf") if newest else ("-inf", "+inf")
        begins = first if after is None else f"({after}"
        pairs: list[tuple[bytes, float]] = await self._told(
            self._redis.zrevrangebyscore(_places(owner), begins, last, 0, limit, withscores=True)
            if newest
            else self._redis.zrangebyscore(_places(owner), begins, last, 0, limit, withscores=True)
        )
        if not pairs:
            return []
        values = await self._told(self._redis.hmget(_values(owner), [one for one, _ in pairs]))
        return [
            Item(one.decode(), int(place), value)
            for (one, place), value in zip(pairs, values, strict=True)
            if value is not None
        ]

    async def item(self, owner: Key, item_id: str) -> Item | None:
        pipe = self._redis.pipeline(transaction=False)
        pipe.hget(_values(owner), item_id)
        pipe.zscore(_places(owner), item_id)
        value, place = await self._told(pipe.execute())
        return None if value is None or place is None else Item(item_id, int(place), value)

    async def abandoned(self, limit: int) -> list[Key]:
        members: list[bytes] = await self._told(self._redis.zrangebyscore(_LEASES, "-inf", self._clock(), 0, limit))
        keys = [Key(*member.decode().split(":", 2)) for member in members]  # type: ignore[arg-type]
        there = [key for key in keys if await self.get(key.tenant, key.kind, [key.id])]
        if gone := [_member(key) for key in keys if key not in there]:
            await self._told(self._redis.zrem(_LEASES, *gone))
        return there

    async def sweep(self) -> None:
        """The server does."""

    async def close(self) -> None:
        self._closed = True
        if self._asking:
            await asyncio.wait(self._asking)
        await self._redis.aclose()

    def _answered(self, asking: asyncio.Future[Any]) -> None:
        self._asking.discard(asking)
        if not asking.cancelled():
            asking.exception()  # of one that nobody waits for any more

    async def _told(self, answer: Any) -> Any:
        """What the server says. Its failures are told in the store's own word."""
        if self._closed:
            answer.close()
            raise StoreFailed("Redis: closed")
        asking = asyncio.ensure_future(answer)
        self._asking.add(asking)
        asking.add_done_callback(self._answered)
        try:
            # Cut off in the middle, the client would lose track of the connection.
            return await asyncio.shield(asking)
        except (RedisError, OSError, TimeoutError) as error:
            raise StoreFailed(f"Redis: {type(error).__name__}: {error}") from error


def _member(key: Key) -> str:
    return f"{key.tenant}:{key.kind}:{key.id}"


def _name(key: Key) -> str:
    return f"{_PREFIX}{{{key.tenant}}}:{key.kind}:{key.id}"


def _values(key: Key) -> str:
    return _name(key) + ":items"


def _places(key: Key) -> str:
    return _name(key) + ":places"


def _list(tenant: str, kind: Kind) -> str:
    return f"{_PREFIX}{{{tenant}}}:all:{kind}"


def _spelled(write: Write) -> tuple[str, list[str | bytes | int | float]]:
    """A write as the script has it."""
    match write:
        case Put(key, value, expires, version, lease):
            listed = key.id if key.kind in _PAGED else ""
            given = "" if version is None else version
            until = "" if lease is None else lease
            return "put", [value, _ms(expires), given, until, _member(key), listed]
        case Delete(key):
            return "delete", [key.id, _member(key)]
        case Append(_, items, expires):
            return "append", [_ms(expires), *(part for item in items for part in item)]
        case Remove(_, item_id):
            return "remove", [item_id]


def _ms(seconds: float) -> int:
    return int(seconds * 1000)
