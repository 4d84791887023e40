"""Connections to backends, which are kept, and not for ever: the name of a backend may come to mean other machines, and
who balances load by name wants new connections now and then."""

from time import monotonic
from weakref import WeakKeyDictionary

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ClientRequest, ConnectionKey
from aiohttp.tracing import Trace

from proxy.upstream.handler import Connector

IDLE = 60.0  # seconds that one is kept without use
MOST_AGE = 300.0  # seconds after which one is closed when its answer is over
DNS_KEPT = 30  # seconds that the addresses of a name are believed


class AgeingConnector(Connector):
    """`kept`: connections are used again, until they are too old."""

    def __init__(self, *, kept: bool) -> None:
        if kept:
            super().__init__(limit=0, keepalive_timeout=IDLE, ttl_dns_cache=DNS_KEPT)
        else:
            super().__init__(limit=0, force_close=True, ttl_dns_cache=DNS_KEPT)
        self._made: WeakKeyDictionary[ResponseHandler, float] = WeakKeyDictionary()

    async def _create_connection(
        self,
        req: ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109  the parent's name for it
    ) -> ResponseHandler:
        made = await super()._create_connection(req, traces, timeout)
        self._made[made] = monotonic()
        return made

    def _release(self, key: ConnectionKey, protocol: ResponseHandler, *, should_close: bool = False) -> None:
        too_old = monotonic() - self._made.get(protocol, 0.0) > MOST_AGE
        super()._release(key, protocol, should_close=should_close or too_old)
