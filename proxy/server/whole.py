"""A whole answer: the backend is asked, and what it says becomes the client's reply when all of it is there."""

import asyncio
from time import perf_counter

from multidict import CIMultiDict

from proxy.canonical.errors import Rejected
from proxy.server.answers import beginning, begins_events, begins_whole
from proxy.server.asking import ask
from proxy.server.exchange import Exchange
from proxy.server.gateway import Served
from proxy.server.times import Times
from proxy.server.watch import Watch
from proxy.translation.prepared import Prepared
from proxy.upstream.pool import Answer


async def ask_whole(
    exchange: Exchange, served: Served, prepared: Prepared, headers: CIMultiDict[str], watch: Watch
) -> bytes | None:
    """The client's reply; None when the backend has to be asked again for the rest of it. Raises `Rejected`.

    `watch` is that of the task which asks.
    """
    watch.wait(served.limits.first_event_whole)
    times, asked = exchange.times, perf_counter()
    try:
        answer = await ask(exchange, served, prepared, headers, prepared.body)
    except BaseException:
        times.upstream += perf_counter() - asked
        raise
    try:
        try:
            first = await beginning(answer)
            folds = begins_events(first) or (prepared.upstream_stream and not begins_whole(first))
            raw = b"" if folds else first + await answer.read()
        finally:
            times.upstream += (now := perf_counter()) - asked
        if folds:
            body = await _fold(served, prepared, answer, first, watch, times)
        else:
            body = prepared.take(raw)
            times.reply += perf_counter() - now
        answer.finish()
    finally:
        answer.close()
    return body


async def _fold(
    served: Served, prepared: Prepared, answer: Answer, chunk: bytes, watch: Watch, times: Times
) -> bytes | None:
    """The backend streams, the client does not (mapping.md 14.1)."""
    folding = prepared.folding()
    while chunk:
        folding.feed(chunk)
        if folding.closed:
            break
        watch.wait(served.limits.end_mark if folding.stopped else served.limits.idle)
        asked = perf_counter()
        try:
            chunk = await answer.readany()
        except Rejected:
            if not folding.stopped:
                raise
            break
        except asyncio.CancelledError:
            if not folding.stopped or watch.overdue() is None:
                raise
            break
        finally:
            times.upstream += perf_counter() - asked
    return prepared.take_folded(folding)
