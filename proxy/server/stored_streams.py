"""The stream of a response in the background, from any event on: at whichever replica, and after it has ended."""

from time import monotonic

from aiohttp.web import StreamResponse

from proxy.server.exchange import Exchange
from proxy.server.keeping import reaching
from proxy.server.stored_access import kept_by
from proxy.state import Key
from proxy.translation.kept_turns import RUNNING, events_of, number_of, read_turn

_LOOK_EVERY = 0.25  # seconds between looks at what another replica writes
_AT_ONCE = 50  # items, each of which holds some events
_PING = b": ping\n\n"


async def resume(exchange: Exchange, key: Key, after: int) -> StreamResponse:
    """The events behind the one of this number, and those that are still to come. Raises `Rejected`."""
    keeping = kept_by(exchange)
    heartbeat = exchange.gateway.settings.timeouts.heartbeat
    response = await exchange.begin()
    position: int | None = None
    ended = False
    wrote = monotonic()
    while True:
        with reaching(keeping) as store:
            items = await store.items(key, position, _AT_ONCE)
            if not items and ended:
                break
            if not items:
                record = (await store.get(key.tenant, key.kind, [key.id])).get(key.id)
                # What it wrote before it ended may have come between the two looks.
                ended = record is None or read_turn(record.value).status not in RUNNING
        out = b"".join(event for item in items for event in events_of(item.value) if (number_of(event) or 0) > after)
        if not out and not items and not ended:
            await keeping.change(key, _LOOK_EVERY)
            if heartbeat and monotonic() - wrote > heartbeat:
                out = _PING
        if items:
            position = items[-1].position
        if out:
            exchange.watch.wait(exchange.gateway.client_write_limit)
            await response.write(out)
            exchange.watch.rest()
            exchange.bytes_out += len(out)
            wrote = monotonic()
    exchange.outcome = "ok"
    await response.write_eof()
    return response
