"""Ask a backend for an answer, and once more without the one thing that it refused (mapping.md 8.7, 17.3)."""

import logging

from multidict import CIMultiDict

from proxy.canonical.errors import Rejected
from proxy.server.answers import Passed, refuse_errors
from proxy.server.exchange import Exchange
from proxy.server.gateway import Served
from proxy.translation.platforms import adapted
from proxy.translation.prepared import Prepared
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
    answer = await _ask_once(exchange, served, prepared, headers, body, resends=1)
    if field is not None:
        backend, model = served.backend.name, exchange.model or ""
        exchange.gateway.refused_fields.note(backend, exchange.scope(served.backend).origin, model, field)
        log.info("Upstream %s takes no %s with model %s: it is left out for an hour", backend, field, model[:128])
    return answer


async def _ask_once(
    exchange: Exchange,
    served: Served,
    prepared: Prepared,
    headers: CIMultiDict[str],
    body: bytes,
    *,
    resends: int = 0,
) -> Answer:
    backend = served.backend
    url = backend.url(exchange.model or "", stream=prepared.upstream_stream)
    asked = adapted(body, backend.dialect)
    answer = await exchange.ask(backend, url, headers, asked, prepared=prepared, resends=resends)
    if not prepared.same_protocol:
        headers.pop("Idempotency-Key", None)  # whatever is asked next for this client is another request
    try:
        await refuse_errors(exchange, served, answer, same_protocol=prepared.same_protocol)
    except BaseException:
        answer.close()
        raise
    return answer
