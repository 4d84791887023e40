"""The list of models: one shape that the SDKs of both vendors read (mapping.md 16.1).

It holds the names that the settings define and what the backends list, as far as their names are routed to them.
A backend that can't be asked is left out: a list with gaps is better than none.
"""

import asyncio
import logging
import re
from collections.abc import Iterable, Mapping
from urllib.parse import quote

from aiohttp.web import StreamResponse

from proxy.canonical.errors import Error, ErrorClass, Reason, Rejected
from proxy.canonical.jsontext import NotJson, dumps, loads
from proxy.server.admission import admit_request, route_of
from proxy.server.exchange import Exchange
from proxy.server.gateway import Served
from proxy.server.rate_limits import parse_moment, write_moment
from proxy.settings import ModelRoute, RouteTarget
from proxy.tenancy.refusals import unknown_model
from proxy.upstream.headers import request_headers

log = logging.getLogger("dragoman")

Model = dict[str, object]

_WITHIN = 10.0  # seconds for a backend to list its models
_PAGES = 20  # of a backend that lists in pages
_PAGE = 1000
_MAX_LIST = 16 * 2**20  # bytes
_DEFAULT_PAGE = 20  # what Anthropic's API gives when no limit is asked for
_GLOB = re.compile(r"[*?\[]")
_EPOCH = "1970-01-01T00:00:00Z"
_LATEST = 253402300799  # the last second of the calendar


async def list_models(exchange: Exchange) -> StreamResponse:
    """`GET /v1/models`. Raises `Rejected`."""
    await admit_request(exchange)
    models = await _all_models(exchange)
    if "anthropic-version" in exchange.request.headers:
        return exchange.respond(200, dumps(_page(exchange, models)))
    return exchange.respond(200, dumps(_list(models, has_more=False)))


async def one_model(exchange: Exchange) -> StreamResponse:
    """`GET /v1/models/{id}`. Raises `Rejected`, MODEL_NOT_FOUND."""
    name = exchange.request.path.partition("/models/")[2].rstrip("/")
    if name in (".", ".."):  # as a path, these would lead elsewhere
        raise Rejected(unknown_model(name))
    route = route_of(exchange, name)
    await admit_request(exchange)
    for model in await _all_models(exchange):
        if model["id"] == name:
            return exchange.respond(200, dumps(model))
    # Backends know names that they don't list, such as `…-latest`.
    way = exchange.gateway.ways[route.match][0]
    found = await _ask_for_one(exchange, way.served, way.target.model or name)
    if found is None:
        raise Rejected(unknown_model(name))
    return exchange.respond(200, dumps({**found, "id": name}))


async def _all_models(exchange: Exchange) -> list[Model]:
    """The configured names first, then what the backends list, each id once."""
    gateway, caller = exchange.gateway, exchange.caller
    routes = [route for route in gateway.settings.models if caller is None or any(map(caller.may_use, _names(route)))]
    names = dict.fromkeys(name for route in routes for name in _names(route) if caller is None or caller.may_use(name))
    asked = [gateway.served[name] for name in names if caller is None or caller.may_ask(name)]
    answers = await asyncio.gather(*(_listed_by(exchange, served) for served in asked), return_exceptions=True)
    listed: dict[str, dict[str, Model]] = {}
    failures: list[Error] = []
    for served, answer in zip(asked, answers, strict=True):
        if isinstance(answer, Rejected):
            failures.append(answer.error)
            log.warning("Upstream %s did not list its models: %s", served.backend.name, answer.error.message)
        elif isinstance(answer, BaseException):
            raise answer
        else:
            listed[served.backend.name] = {str(model["id"]): model for model in answer}
    models = dict(_configured(routes, listed))
    for upstream, known in listed.items():
        for name, model in known.items():
            route = gateway.settings.route(name)
            if route is not None and any(_is_at(target, upstream, name) for target in route.targets):
                models.setdefault(name, model)
    if not models and failures:
        raise Rejected(failures[0])
    return [model for name, model in models.items() if caller is None or caller.policy.allows_model(name)]


def _configured(routes: Iterable[ModelRoute], listed: Mapping[str, Mapping[str, Model]]) -> Iterable[tuple[str, Model]]:
    """The names that entries of the settings spell out, with what their backend tells of the model behind."""
    for route in routes:
        if _GLOB.search(route.match):
            continue
        first = route.targets[0]
        told = (listed.get(to.upstream.name, {}).get(to.model or route.match) for to in route.targets)
        known = next((model for model in told if model is not None), None)
        behind = known or shown({"id": route.match}, first.upstream.name) or {}
        yield route.match, {**behind, "id": route.match}


def _names(route: ModelRoute) -> list[str]:
    return [target.upstream.name for target in route.targets]


def _is_at(target: RouteTarget, upstream: str, name: str) -> bool:
    return target.upstream.name == upstream and target.model in (None, name)


async def _listed_by(exchange: Exchange, served: Served) -> list[Model]:
    """What a backend lists, at most a minute old. Raises `Rejected`."""
    gateway = exchange.gateway
    key = (served.backend.name, _whose(exchange, served))
    models = gateway.listings.get(key)
    return models if models is not None else gateway.listings.put(key, await _ask_for_all(exchange, served))


def _whose(exchange: Exchange, served: Served) -> bytes:
    """Two clients that bring keys of their own may see different models."""
    return exchange.account(served.backend).digest


async def _ask_for_all(exchange: Exchange, served: Served) -> list[Model]:
    pages = served.backend.protocol == "messages"
    query = f"?limit={_PAGE}" if pages else ""
    models: list[Model] = []
    for _ in range(_PAGES):
        wire = await _get(exchange, served, f"/models{query}")
        entries = wire.get("data") if wire is not None else None
        if wire is None or type(entries) is not list:
            raise Rejected(_unreadable(served))
        found = (shown(entry, served.backend.name) for entry in entries)
        models += [model for model in found if model is not None]
        exchange.gateway.learn_models(served.backend, models)
        last = wire.get("last_id")
        if not pages or wire.get("has_more") is not True or type(last) is not str:
            break
        query = f"?limit={_PAGE}&after_id={quote(last, safe='')}"
    return models


async def _ask_for_one(exchange: Exchange, served: Served, name: str) -> Model | None:
    wire = await _get(exchange, served, f"/models/{quote(name, safe='')}")
    found = None if wire is None else shown(wire, served.backend.name)
    if found is not None:
        exchange.gateway.learn_models(served.backend, [found])
    return found


async def _get(exchange: Exchange, served: Served, path: str) -> Model | None:
    """The JSON object at `path`; None when the backend has no such thing. Raises `Rejected`."""
    backend = served.backend
    same_protocol = (backend.protocol == "messages") == (exchange.client == "messages")
    account = exchange.account(backend)
    headers = request_headers(
        backend, exchange.request.headers, exchange.id, account=account, same_protocol=same_protocol
    )
    headers.pop("Content-Type", None)
    try:
        async with asyncio.timeout(_WITHIN):
            answer = await exchange.ask(backend, backend.address(path), headers, None, "GET")
            try:
                body = await answer.read(_MAX_LIST)
                answer.finish()
            finally:
                answer.close()
    except TimeoutError as error:
        raise Rejected(_unreadable(served)) from error
    if answer.status == 404:
        return None
    try:
        wire = loads(_without_secrets(exchange, body))
    except NotJson:
        wire = None
    if answer.status != 200 or type(wire) is not dict:
        raise Rejected(_unreadable(served))
    return wire


def _without_secrets(exchange: Exchange, body: bytes) -> bytes:
    """A backend may put what it was told where it likes."""
    text, caller = body.decode("utf-8", "surrogateescape"), exchange.caller
    text = exchange.gateway.scrub_known(text if caller is None else caller.scrub(text))
    return text.encode("utf-8", "surrogateescape")


def _unreadable(served: Served) -> Error:
    message = f"The backend '{served.backend.name}' did not list its models."
    return Error(ErrorClass.BAD_GATEWAY, message, reason=Reason.UPSTREAM_ERROR)


def shown(entry: object, upstream: str) -> Model | None:
    """A backend's entry with the fields of both vendors; what else it says stays. None if it has no id."""
    if type(entry) is not dict or type(name := entry.get("id")) is not str or not name:
        return None
    created = _created(entry)
    display_name = entry.get("display_name")
    owner = entry.get("owned_by")
    return {
        "max_input_tokens": None,
        "max_tokens": None,
        "capabilities": None,
        "lifecycle": "active",
        **entry,
        "id": name,
        "object": "model",
        "type": "model",
        "created": created,
        "created_at": write_moment(created) or _EPOCH,
        "owned_by": owner if type(owner) is str else upstream,
        "display_name": display_name if type(display_name) is str else name,
    }


def _created(entry: Model) -> int:
    """Unix seconds; the epoch when unknown. Some servers give milliseconds."""
    created = entry.get("created")
    if type(created) in (int, float) and isinstance(created, int | float) and created > 0:
        seconds = created / 1000 if created > 1e11 else created
        return min(int(min(seconds, _LATEST)), _LATEST)
    moment = entry.get("created_at")
    parsed = parse_moment(moment) if type(moment) is str else None
    return max(0, int(parsed)) if parsed is not None else 0


def _page(exchange: Exchange, models: list[Model]) -> Model:
    """The part of the list that a Messages client asks for (messages.md 4.2)."""
    query = exchange.request.rel_url.query
    wanted = query.get("limit", str(_DEFAULT_PAGE))
    if not (wanted.isascii() and wanted.isdigit() and len(wanted) < 5 and 1 <= int(wanted) <= _PAGE):
        message = f"limit: expected a number from 1 to {_PAGE}."
        raise Rejected(Error(ErrorClass.INVALID, message, param="limit", reason=Reason.MALFORMED))
    limit = int(wanted)
    places = {model["id"]: place for place, model in enumerate(models)}
    if (before := query.get("before_id")) is not None:
        end = places.get(before, 0)
        start = max(0, end - limit)
        return _list(models[start:end], has_more=start > 0)
    after = query.get("after_id")
    start = 0 if after is None else places.get(after, len(models)) + 1
    return _list(models[start : start + limit], has_more=start + limit < len(models))


def _list(models: list[Model], *, has_more: bool) -> Model:
    return {
        "object": "list",
        "data": models,
        "has_more": has_more,
        "first_id": models[0]["id"] if models else None,
        "last_id": models[-1]["id"] if models else None,
    }
