"""How many tokens a prompt has: asked of the backend where it has an endpoint for it, else estimated (mapping.md 16.2).

Agents ask often and with the same body, so answers are kept for a minute. An estimate says that it is one. How servers
that speak Chat are asked is in `chat_counting.py`.
"""

import hashlib
from typing import NamedTuple

from aiohttp.web import StreamResponse

from proxy.canonical.errors import ErrorClass, Rejected
from proxy.canonical.jsontext import NotJson, dumps, loads
from proxy.canonical.target import Target
from proxy.protocols.fields import as_object
from proxy.server.admission import admit
from proxy.server.answers import Passed, refuse_errors
from proxy.server.bodies import read_json
from proxy.server.chat_counting import count_chat
from proxy.server.exchange import Exchange
from proxy.server.gateway import Served
from proxy.server.local_tokenizers import LONGEST
from proxy.server.recalling import recall
from proxy.translation import estimate, pair
from proxy.translation.pair import Options, Peek
from proxy.translation.platforms import adapted
from proxy.translation.prepared import Prepared
from proxy.upstream.dialects import Protocol
from proxy.upstream.headers import request_headers

# Where backends count, and the fields that shape a prompt there (messages.md 4.1; the SDK's InputTokenCountParams).
_PATHS: dict[Protocol, str] = {"messages": "/messages/count_tokens", "responses": "/responses/input_tokens"}
_FIELDS: dict[Protocol, frozenset[str]] = {
    "messages": frozenset(
        {
            "model",
            "messages",
            "system",
            "tools",
            "tool_choice",
            "mcp_servers",
            "thinking",
            "output_config",
            "cache_control",
            "speed",
        }
    ),
    "responses": frozenset(
        {
            "model",
            "input",
            "instructions",
            "tools",
            "tool_choice",
            "parallel_tool_calls",
            "reasoning",
            "text",
            "truncation",
        }
    ),
}

# What servers say that don't count.
_NO_SUCH_ENDPOINT = frozenset({404, 405, 501})

# Profiles of the models with the newer tokenizer; an unknown Claude is likely one of them.
_NEW_CLAUDE = frozenset({"claude", "claude-5", "claude-opus-4-7", "claude-opus-4-8"})

# A count has no output limit, which the reader of whole requests wants; high enough for any thinking budget.
_ANY_LIMIT = b'{"max_tokens":10000000,'


class Count(NamedTuple):
    """`body` is the reply to the client."""

    body: bytes
    estimated: bool


async def count_tokens(exchange: Exchange) -> StreamResponse:
    """Both protocols' endpoints for counting. Raises `Rejected`."""
    raw = await read_json(exchange)
    if exchange.client == "responses" and (recalled := await recall(exchange, raw)) is not None:
        raw = recalled.raw
    admitted = await admit(exchange, raw)
    seen, route, served = admitted.seen, admitted.route, admitted.served
    gateway = exchange.gateway
    target = gateway.target(route, admitted.way.target.model or seen.model, served)
    exchange.model = target.model
    key = _key(exchange, served, seen.raw)
    count = gateway.counts.get(key)
    if count is None:
        try:
            body = await _ask(exchange, served, target, seen)
        except Passed as passed:
            return exchange.refuse_as_told(passed.error, passed.status, passed.body)
        count = Count(body, False) if body is not None else Count(await _estimate(exchange, seen), True)
        gateway.counts.put(key, count)
    if count.estimated:
        exchange.add_header("dragoman-usage", "estimated")
    return exchange.respond(200, count.body)


def _key(exchange: Exchange, served: Served, raw: bytes) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    betas = exchange.request.headers.get("anthropic-beta", "")
    for part in (exchange.client, served.backend.name, betas):
        digest.update(part.encode(errors="surrogateescape") + b"\0")
    digest.update(exchange.account(served.backend).digest)
    digest.update(raw)
    return digest.digest()


async def _ask(exchange: Exchange, served: Served, target: Target, seen: Peek) -> bytes | None:
    """The client's reply from the backend's count; None if it does not count, or not this."""
    backend = served.backend
    same_protocol = exchange.client == backend.protocol
    prepared = _prepared(exchange, target, seen, same_protocol=same_protocol)
    if prepared is None:
        return None
    path = _PATHS.get(backend.protocol)
    if path is None:
        counted = await count_chat(exchange, served, prepared)
        return None if counted is None else _reply(exchange, counted)
    body = prepared.body if same_protocol else _counted(prepared, backend.protocol)
    headers = request_headers(
        backend,
        exchange.request.headers,
        exchange.id,
        account=exchange.account(backend),
        same_protocol=same_protocol,
        betas=prepared.betas,
    )
    exchange.watch.wait(served.limits.first_event_whole)
    body = adapted(body, backend.dialect, counting=True)
    answer = await exchange.ask(backend, backend.counting_url(path), headers, body)
    try:
        if answer.status in _NO_SUCH_ENDPOINT:
            return None
        try:
            await refuse_errors(exchange, served, answer, same_protocol=same_protocol)
        except Rejected as rejected:
            prepared.reword(rejected.error)
            raise
        told = await answer.read()
        answer.finish()
    finally:
        answer.close()
    tokens = _read_count(told)
    if tokens is None:
        return None
    return told if same_protocol else _reply(exchange, tokens)


def _prepared(exchange: Exchange, target: Target, seen: Peek, *, same_protocol: bool) -> Prepared | None:
    """The request for the backend; None if it could not be asked the question itself either."""
    try:
        return pair.prepare(seen if same_protocol else _completed(seen), target, Options(exchange.id))
    except Rejected as rejected:
        if rejected.error.kind is ErrorClass.UNSUPPORTED:
            return None
        raise


def _counted(prepared: Prepared, protocol: Protocol) -> bytes:
    """What of a request shapes its prompt."""
    counted = _FIELDS[protocol]
    return dumps({name: value for name, value in as_object(loads(prepared.body), ()).items() if name in counted})


def _completed(seen: Peek) -> Peek:
    """The request as one that asks for an answer."""
    if seen.client != "messages" or seen.wire.get("max_tokens") is not None:
        return seen
    rest = seen.raw.lstrip(b"\xef\xbb\xbf \t\r\n").removeprefix(b"{")
    return pair.peek("messages", _ANY_LIMIT + rest)


async def _estimate(exchange: Exchange, seen: Peek) -> bytes:
    gateway, model = exchange.gateway, exchange.model or ""
    new_claude = gateway.settings.profile(model).name in _NEW_CLAUDE
    tally = estimate.Tally(pair.read_request(_completed(seen)), new_claude=new_claude)
    tokenizer = gateway.settings.tokenizer(model) if len(seen.raw) <= LONGEST else None
    counted = tally.tokens() if tokenizer is None else await gateway.runtime.tokenizers.count(tokenizer, tally.tokens)
    return _reply(exchange, counted)


def _read_count(body: bytes) -> int | None:
    try:
        wire = loads(body)
    except NotJson:
        return None
    tokens = wire.get("input_tokens") if type(wire) is dict else None
    return tokens if type(tokens) is int and tokens >= 0 else None


def _reply(exchange: Exchange, tokens: int) -> bytes:
    if exchange.client == "messages":
        return dumps({"input_tokens": tokens})
    return dumps({"object": "response.input_tokens", "input_tokens": tokens})
