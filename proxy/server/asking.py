"""Ask a backend for an answer, and once more without the one thing that it refused (mapping.md 8.7, 17.3)."""

import logging
import time

from multidict import CIMultiDict

from proxy.canonical.errors import Rejected
from proxy.server.answers import Passed, refuse_errors
from proxy.server.exchange import Exchange
from proxy.server.gateway import Served
from proxy.translation.pair import Prepared
from proxy.translation.platforms import adapted
from proxy.upstream.account import SHARED
from proxy.upstream.backend import Backend, write_key
from proxy.upstream.pool import Answer

log = logging.getLogger("dragoman")


async def ask(exchange: Exchange, served: Served, prepared: Prepared, headers: CIMultiDict[str], body: bytes) -> Answer:
    """The backend's answer, which is no error. Raises `Rejected` and `Passed`."""
    prepared.asked += 1
    try:
        return await _ask_and_mend(exchange, served, prepared, headers, body)
    except Passed:
        prepared.asked -= 1
        raise
    except Rejected as rejected:
        prepared.asked -= 1
        prepared.reword(rejected.error)
        raise


async def _ask_and_mend(
    exchange: Exchange, served: Served, prepared: Prepared, headers: CIMultiDict[str], body: bytes
) -> Answer:
    try:
        return await _ask_once(exchange, served, prepared, headers, body)
    except (Rejected, Passed) as refusal:
        mended = prepared.mended(body, refusal.error)
        if mended is None:
            raise
    field, body = mended
    headers.pop("Idempotency-Key", None)  # the backend would answer as it did
    answer = await _ask_once(exchange, served, prepared, headers, body)
    if field is not None:
        backend, model = served.backend.name, exchange.model or ""
        exchange.gateway.refused_fields.note(backend, model, field)
        log.info("Upstream %s takes no %s with model %s: it is left out for an hour", backend, field, model[:128])
    return answer


def _older_key(exchange: Exchange, backend: Backend) -> str | None:
    """The key that the upstream had before its present one, where that may still be good."""
    older = backend.older
    if older is None or time.monotonic() > older.until or exchange.account(backend) is not SHARED:
        return None
    return older.key.get_secret_value()


async def _ask_once(
    exchange: Exchange, served: Served, prepared: Prepared, headers: CIMultiDict[str], body: bytes
) -> Answer:
    backend = served.backend
    url = backend.url(exchange.model or "", stream=prepared.upstream_stream)
    told = adapted(body, backend.dialect)
    answer = await exchange.ask(backend, url, headers, told)
    if answer.status == 401 and (older := _older_key(exchange, backend)) is not None:
        answer.close()
        headers[backend.key_header] = write_key(backend.key_header, older)
        answer = await exchange.ask(backend, url, headers, told)
    if not prepared.same_protocol:
        headers.pop("Idempotency-Key", None)  # whatever is asked next for this client is another request
    try:
        await refuse_errors(exchange, served, answer, same_protocol=prepared.same_protocol)
    except BaseException:
        answer.close()
        raise
    return answer
