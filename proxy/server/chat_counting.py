"""How servers that speak Chat count a conversation: by endpoints of their own, beside the protocol (mapping.md 16.2).

A server that can't, for whatever reason, leaves it to an estimate: nobody's request fails for want of a count.
"""

import asyncio

from proxy.canonical.errors import Rejected
from proxy.canonical.jsontext import NotJson, dumps, loads
from proxy.protocols.fields import Wire, as_object
from proxy.server.exchange import Exchange
from proxy.server.gateway import Served
from proxy.translation.prepared import Prepared
from proxy.upstream.headers import request_headers

_WITHIN = 5.0  # seconds; a client that counts does not wait for long

# What of a request shapes the prompt that a template makes of it.
_FIELDS = ("model", "messages", "tools", "chat_template_kwargs")


async def count_chat(exchange: Exchange, served: Served, prepared: Prepared) -> int | None:
    """Tokens of the translated request by its backend's own tokenizer; None where it has no such endpoint."""
    counts = served.backend.dialect.counts
    if counts == "none":
        return None
    request = as_object(loads(prepared.body), ())
    body: Wire = {name: request[name] for name in _FIELDS if name in request}
    if counts == "tokenize":
        told = await _ask(exchange, served, "/tokenize", {**body, "add_generation_prompt": True})
        count = told.get("count")
        return count if type(count) is int and count >= 0 else None
    prompt = (await _ask(exchange, served, "/apply-template", body)).get("prompt")
    if not isinstance(prompt, str):
        return None
    told = await _ask(exchange, served, "/tokenize", {"content": prompt, "parse_special": True})
    tokens = told.get("tokens")
    return len(tokens) if isinstance(tokens, list) else None


async def _ask(exchange: Exchange, served: Served, path: str, body: Wire) -> Wire:
    """The object that the server answers; empty when it answers anything else, or not soon."""
    backend = served.backend
    headers = request_headers(
        backend, exchange.request.headers, exchange.id, account=exchange.account(backend), same_protocol=False
    )
    try:
        async with asyncio.timeout(_WITHIN):
            answer = await exchange.ask(backend, backend.unversioned_address(path), headers, dumps(body))
            try:
                told = await answer.read()
                answer.finish()
            finally:
                answer.close()
        wire = loads(told) if 200 <= answer.status < 300 else None
    except (Rejected, NotJson, TimeoutError):
        return {}
    return wire if type(wire) is dict else {}
