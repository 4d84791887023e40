"""Chat completions that a client has asked to be kept (`store: true`)."""

import re

from proxy.canonical.errors import Rejected
from proxy.server import ids
from proxy.server.exchange import Exchange
from proxy.server.gateway import Served
from proxy.server.keeping import Keeping, now, unavailable
from proxy.server.recalling import keeps_own
from proxy.server.turns import Turn
from proxy.settings.snapshot import StateSettings
from proxy.state import Key, Put, StoreFailed
from proxy.translation import pair
from proxy.translation.kept_completions import streamed_completion, write_completion
from proxy.translation.pair import Peek
from proxy.translation.passed_body import with_members
from proxy.translation.prepared import Prepared

_ID = re.compile(rb'"id"\s*:\s*"[^"\\]*"')  # of a reply or a chunk, its first


def begin_completion(exchange: Exchange, served: Served, seen: Peek) -> Turn | None:
    """None for a request of which nothing is to be kept here: most say nothing of it, and several choices at once are
    answered apart."""
    keeping, settings = exchange.gateway.runtime.keeping, exchange.gateway.settings.state
    if keeping is None or settings is None or seen.wire.get("store") is not True or seen.wire.get("n") not in (None, 1):
        return None
    if served.backend.protocol == "chat" and keeps_own(served):
        return None
    return ChatTurn(exchange.tenant_name, keeping, settings, seen)


class ChatTurn(Turn):
    """A completion in the store, which its client has asked for: where it can't be kept, there is none."""

    def __init__(self, tenant: str, keeping: Keeping, settings: StateSettings, seen: Peek) -> None:
        self._keeping = keeping
        self._settings = settings
        self._messages = seen.wire.get("messages")
        self._metadata = seen.wire.get("metadata")
        self._key = Key(tenant, "chat", ids.kept_id("chatcmpl-"))
        self._passes = False
        self._theirs: bytes | None = None
        self._heard: list[bytes] = []

    def bind(self, seen: Peek, *, same_protocol: bool) -> None:
        self._passes = same_protocol
        if same_protocol:
            seen.raw = with_members(seen.raw, {"store": False})
        else:
            seen.wire.pop("store", None)  # it is not the backend's to do, so nothing is lost

    def adorn(self, prepared: Prepared) -> None:
        prepared.context.reply_id = self._key.id

    def told(self, out: bytes) -> bytes:
        if self._passes:
            out = self._renamed(out)
        self._heard.append(out)
        return out

    async def end_stream(self, out: bytes) -> bytes:
        out = self.told(out)
        completion = streamed_completion(b"".join(self._heard))
        try:
            if completion is not None:
                await self._keep(completion)
        except Rejected as rejected:
            self.failed = rejected.error
            _, told = pair.write_client_error("chat", rejected.error, "")
            return b"data: %b\n\n" % told
        return out

    async def end_whole(self, body: bytes) -> bytes:
        if self._passes:
            body = self._renamed(body)
        await self._keep(body)
        return body

    def _renamed(self, out: bytes) -> bytes:
        """With an id that no other completion has."""
        if self._theirs is None and (found := _ID.search(out)):
            self._theirs = found[0]
        return out if self._theirs is None else out.replace(self._theirs, b'"id":"%b"' % self._key.id.encode())

    async def _keep(self, completion: bytes) -> None:
        value = write_completion(completion, self._messages, self._metadata)
        if len(value) > self._settings.most:
            raise unavailable(StoreFailed("a completion is larger than state.max_stored"))
        try:
            await self._keeping.store.commit(Put(self._key, value, now() + self._settings.ttl, version=0))
        except StoreFailed as error:
            self._keeping.failed(error)
            raise unavailable(error) from error
