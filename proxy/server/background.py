"""Responses in the background (`background: true`): made by a task of this process, whoever waits for them.

While it works, the record's lease says so, which another replica ends when it runs out. What the client may read of a
stream is in the store first, so what was read before a crash is there after it, under the same numbers.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from aiohttp.web import StreamResponse
from multidict import CIMultiDict
from yarl import URL

from proxy.canonical.errors import Error, ErrorClass, Reason, Rejected
from proxy.canonical.fold import broken_stream
from proxy.canonical.jsontext import NotJson, dumps, loads
from proxy.protocols.fields import Wire, flag, is_object
from proxy.server.admission import Admission, Admitted, admit
from proxy.server.exchange import JSON, Exchange
from proxy.server.keeping import Keeping, now, unavailable
from proxy.server.recalling import Recalled, no_conversation, vendor_of
from proxy.server.reply import Reply
from proxy.server.response_turns import ResponseTurn
from proxy.server.telling import tell
from proxy.settings.snapshot import StateSettings
from proxy.state import Append, Conflict, Put, StoreFailed, Write
from proxy.translation.codecs import echo_of, queued_response
from proxy.translation.kept_turns import (
    Job,
    ending_of,
    events_of,
    failure_events,
    last_event,
    number_of,
    response_event,
    shifted,
    without_created,
    write_turn,
)
from proxy.translation.pair import Peek
from proxy.translation.prepared import Prepared
from proxy.upstream.backend import Backend
from proxy.upstream.pool import Answer, Body

Answering = Callable[[Exchange, Admitted], Awaitable[StreamResponse]]

LEASE = 10.0  # seconds
_RENEW_EVERY = LEASE / 4
_UNKEPT_FOR = 600.0  # seconds, with `store: false` (responses.md 20)

log = logging.getLogger("dragoman")


def wants_background(exchange: Exchange, raw: bytes, recalled: Recalled | None) -> Wire | None:
    """The request, if the proxy is to answer it in the background."""
    if b'"background"' not in raw or exchange.gateway.runtime.keeping is None:
        return None
    try:
        wire = loads(raw)
    except (NotJson, RecursionError):
        return None
    if not is_object(wire) or not flag(wire, "background", ()):
        return None
    return wire if recalled is not None or vendor_of(exchange, wire) is None else None


async def begin_job(exchange: Exchange, wire: Wire, recalled: Recalled | None, answering: Answering) -> "JobTurn":
    """The job, which has been accepted and written down when this returns. Raises `Rejected`."""
    keeping, settings = exchange.gateway.runtime.keeping, exchange.gateway.settings.state
    if keeping is None or settings is None:
        raise RuntimeError("A job where nothing is kept")
    turn = JobTurn(exchange, keeping, settings, wire, recalled)
    task = asyncio.create_task(_work(exchange, turn, answering))
    keeping.jobs[turn.key] = task
    task.add_done_callback(lambda _: keeping.jobs.pop(turn.key, None))
    ready = asyncio.ensure_future(turn.ready.wait())
    try:
        await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        if not turn.ready.is_set():
            task.cancel()  # nobody knows of it yet
        raise
    finally:
        ready.cancel()
    if turn.refused is not None:
        raise Rejected(turn.refused)
    exchange.served, exchange.model = turn.served, turn.model
    return turn


async def _work(client: Exchange, turn: "JobTurn", answering: Answering) -> None:
    exchange = _JobExchange(client, turn)
    runtime = exchange.gateway.runtime
    runtime.open.add(exchange)
    renewing = asyncio.create_task(turn.renew(asyncio.current_task()))
    try:
        with Admission(exchange):
            admitted = await admit(exchange, turn.raw)
            exchange.turn = turn
            await answering(exchange, admitted)
            await turn.fail(turn.failed or broken_stream())  # unless it has ended
    except Rejected as rejected:
        exchange.note_error(rejected.error)
        await turn.fail(rejected.error)
    except (asyncio.CancelledError, ConnectionError):
        exchange.outcome = "cancelled"
        await turn.fail(exchange.watch.overdue() or _STOPPED)
    except Exception:
        log.exception("A response in the background failed")
        error = Error(ErrorClass.INTERNAL, "The proxy failed to handle this request.", reason=Reason.INTERNAL)
        exchange.note_error(error)
        await turn.fail(error)
    finally:
        renewing.cancel()
        exchange.watch.stop()
        runtime.open.discard(exchange)
        tell(exchange)


_STOPPED = Error(ErrorClass.OVERLOADED, "The proxy stopped before the response was complete.", reason=Reason.DRAINING)


class JobTurn(ResponseTurn):
    """A response that nobody waits for. `ready`: it has been written down; `refused`: it never will be."""

    def __init__(
        self, exchange: Exchange, keeping: Keeping, settings: StateSettings, wire: Wire, recalled: Recalled | None
    ) -> None:
        raw = dumps({**{name: value for name, value in wire.items() if name != "background"}, "stream": True})
        super().__init__(exchange, keeping, settings, Peek("responses", raw, wire, "", stream=True), recalled)
        self.key = self._key
        self.raw = raw
        self.streams = flag(wire, "stream", ()) is True
        self.ready = asyncio.Event()
        self.refused: Error | None = None
        self.served = exchange.served
        self.model: str | None = None
        self.response: Wire = {}
        self._echo = {name: value for name, value in wire.items() if name != "background"}
        self._job: Job = "streamed" if self.streams else "whole"
        self._version = 0
        self._number = 0  # of the next event
        self._begun = False
        self._over = False
        self._writing = asyncio.Lock()
        self._ttl = settings.ttl if self._stores else min(settings.ttl, _UNKEPT_FOR)
        self._told["background"] = True

    def adorn(self, prepared: Prepared) -> None:
        super().adorn(prepared)
        context = prepared.context
        if self._passes:
            context.echo = {
                **echo_of(self._echo),
                **{name: value for name, value in self._told.items() if name != "id"},
            }
        context.now = int(now())
        self.response = queued_response(context)
        context.sequence = 1  # `response.created` takes it, and has been told as 0; `response.queued` is 1

    async def queue(self, exchange: Exchange) -> None:
        """Write down that there is such a response. Raises `Rejected`."""
        if self.ready.is_set():
            return
        self.served, self.model = exchange.served, exchange.model
        events = response_event("response.created", 0, self.response) + response_event(
            "response.queued", 1, self.response
        )
        self._number = 2
        await self._write(self.response, [("000000000", events)])
        self.ready.set()

    def told(self, out: bytes) -> bytes:
        out = super().told(out)
        if self._passes:
            out = shifted(out, 1)
        if not self._begun:
            out = without_created(out)
        return out

    async def hear(self, out: bytes) -> None:
        """Whole events, as they are told. Raises `Rejected`."""
        events = events_of(out)
        if not events or self._over:
            return
        numbers = [number for event in events if (number := number_of(event)) is not None]
        item = self._item(out)
        self._number = max(numbers, default=self._number) + 1
        if not self._begun:
            self._begun = True
            self.response = {**self.response, "status": "in_progress"}
            await self._write(self.response, [item])
        elif self.streams:
            await self._write(None, [item])

    def parted(self, out: bytes) -> tuple[bytes, bytes]:
        return b"", out

    async def end_stream(self, out: bytes) -> bytes:
        out = self.told(out)
        at = last_event(out)
        ending = ending_of(out[at:]) if at >= 0 else None
        if ending is None:
            raise Rejected(broken_stream())
        response = _object(ending.response)
        try:
            await self._write(response, [self._item(out)], self._also(ending.response), ends=True)
        except Rejected as rejected:
            self.failed = rejected.error
        return b""

    async def end_badly(self, out: bytes) -> None:
        """The last events of a stream that failed."""
        for event in events_of(out):
            response = _object(event.partition(b"data:")[2]).get("response")
            if is_object(response) and response.get("status") == "failed":
                await self._write(response, [self._item(out)], ends=True)
                return
        raise Rejected(broken_stream())

    def _item(self, out: bytes) -> tuple[str, bytes]:
        """Some events as they are kept."""
        return f"{self._number:09d}", b"".join(events_of(out))

    async def fail(self, error: Error) -> None:
        """It ends in this error, unless it has ended."""
        if not self.ready.is_set():
            self.refused = error
            return
        if self._over:
            return
        events, failed = failure_events(self._number, self.response, error)
        with suppress(Rejected):  # whoever reads it later is told by another replica
            await self._write(failed, [(f"{self._number:09d}", events)], ends=True)

    async def renew(self, task: asyncio.Task[None] | None) -> None:
        """Say again and again that somebody works on it, and stop that when somebody else has ended it."""
        while True:
            await asyncio.sleep(_RENEW_EVERY)
            if not self.ready.is_set() or self._over:
                continue
            try:
                await self._write(None, [], renews=True)
            except Rejected:
                if self._over and task is not None:
                    task.cancel()

    def _also(self, response: bytes) -> list[Write]:
        """What the conversation gets."""
        return [write for write in self._writes(response) if isinstance(write, Append)]

    async def _write(
        self,
        response: Wire | None,
        events: list[tuple[str, bytes]],
        also: list[Write] | None = None,
        *,
        ends: bool = False,
        renews: bool = False,
    ) -> None:
        """Events, and where the response stands now; nothing once it has ended. `renews`: that somebody works on it is
        all that there is to say. Raises `Rejected` when somebody else has ended it, or it can't be written."""
        async with self._writing:
            if self._over:
                return
            if renews:
                response = self.response
            expires = now() + self._ttl
            writes: list[Write] = list(also or ())
            if response is not None:
                recalled = self._recalled
                value = write_turn(dumps(response), self._sent, recalled.chain, recalled.base, self._job)
                lease = None if ends else now() + LEASE
                writes.append(Put(self.key, value, expires, version=self._version, lease=lease))
            if events and self.streams:
                writes.append(Append(self.key, events, expires))
            try:
                self._check_size(writes)
                await self._keeping.store.commit(*writes)
            except Conflict as conflict:
                owner = conflict.write.owner if isinstance(conflict.write, Append) else self.key
                if owner != self.key:
                    raise no_conversation(owner.id) from None
                self._over = True
                raise Rejected(_ENDED) from None
            except StoreFailed as error:
                self._keeping.failed(error)
                raise unavailable(error) from error
            if response is not None:
                self._version += 1
                self.response = response
            self._over = ends
            self._keeping.changed(self.key)


_ENDED = Error(ErrorClass.CONFLICT, "The response was cancelled or deleted.", reason=Reason.MALFORMED)


class _JobExchange(Exchange):
    """The exchange of a job: what its client would read goes into the store."""

    __slots__ = ("_job",)

    def __init__(self, client: Exchange, job: JobTurn) -> None:
        super().__init__(client.gateway, client.request, client.client, client.route, client.endpoint)
        self._job = job
        self.caller, self.key_id, self.client_ip = client.caller, client.key_id, client.client_ip
        self.body_limit = client.body_limit
        self.bytes_in = client.bytes_in
        self.admitted = client.admitted

    async def ask(
        self,
        backend: Backend,
        url: URL,
        headers: CIMultiDict[str],
        body: Body,
        method: str = "POST",
        *,
        prepared: Prepared | None = None,
        resends: int = 0,
    ) -> Answer:
        await self._job.queue(self)
        return await super().ask(backend, url, headers, body, method, prepared=prepared, resends=resends)

    async def _begin(self, status: int, headers: CIMultiDict[str]) -> StreamResponse:  # noqa: ARG002  nobody reads them
        self.status = status
        return _Told(self._job)

    def respond(self, status: int, body: bytes, content_type: str = JSON) -> Reply:  # noqa: ARG002
        """A reply that was made without asking a backend."""
        message = "background: a request that only warms a cache has nothing to be waited for."
        raise Rejected(Error(ErrorClass.INVALID, message, param="background", reason=Reason.MALFORMED))

    def refuse_as_told(self, error: Error, status: int, body: bytes) -> Reply:  # noqa: ARG002
        """The backend's refusal, which the response then has failed with."""
        raise Rejected(error)


class _Told(StreamResponse):
    """What is told of a job."""

    def __init__(self, job: JobTurn) -> None:
        super().__init__()
        self._job = job

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        """Keep it."""
        await self._job.hear(bytes(data))

    async def write_eof(self, data: bytes = b"") -> None:
        """The end, which is kept already where all went well."""
        if data:
            await self._job.end_badly(data)


def _object(text: bytes) -> Wire:
    wire = loads(text)
    return wire if is_object(wire) else {}
