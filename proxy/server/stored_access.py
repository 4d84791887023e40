"""Where what a client names by id is: in the proxy's own store, or at a backend that keeps what it answers."""

from urllib.parse import unquote

from aiohttp.web import BaseRequest

from proxy.canonical.errors import Error, ErrorClass, Reason, Rejected
from proxy.canonical.jsontext import NotJson, loads
from proxy.protocols.fields import Wire, as_object, invalid, mapping
from proxy.server.bodies import read_json
from proxy.server.exchange import Exchange
from proxy.server.gateway import Gateway, Served
from proxy.server.keeping import Keeping
from proxy.server.passthrough import raw_path
from proxy.server.recalling import keeps_own
from proxy.upstream.dialects import Protocol

_MOST_PAIRS, _LONGEST_NAME, _LONGEST_VALUE = 16, 64, 512


def kept_by(exchange: Exchange) -> Keeping:
    """The store, which there is where these endpoints are."""
    keeping = exchange.gateway.runtime.keeping
    if keeping is None:
        raise RuntimeError("An endpoint of what is kept, where nothing is")
    return keeping


def vendor_for(exchange: Exchange, upstream: str | None, protocol: Protocol = "responses") -> Served | None:
    """The backend that may have what the store does not: the one that is known to, or the only one that there is."""
    vendors = vendors_of(exchange.gateway, protocol)
    if upstream is not None:
        vendors = [one for one in vendors if one.backend.name == upstream]
    if len(vendors) != 1:
        return None
    caller = exchange.caller
    if caller is not None:
        try:
            caller.policy.check_endpoint("stored", own_key=exchange.account(vendors[0].backend).key is not None)
        except Rejected:
            return None  # it has no such thing, for this caller
    return vendors[0]


def vendors_of(gateway: Gateway, protocol: Protocol) -> list[Served]:
    """The backends of this protocol that keep what they answer."""
    return [one for one in gateway.served.values() if one.backend.protocol == protocol and keeps_own(one)]


def all_keep(gateway: Gateway, protocol: Protocol) -> bool:
    """Whether there is no other backend, so that nothing of this protocol is ever kept here."""
    return len(vendors_of(gateway, protocol)) == len(gateway.served)


def steps_of(request: BaseRequest) -> list[str]:
    """The steps of the path, without the version."""
    return [unquote(step) for step in raw_path(request).rstrip("/").split("/")[1:]]


async def json_body(exchange: Exchange) -> Wire:
    """The object that a request brings; an empty one where it brings nothing. Raises `Rejected`."""
    raw = await read_json(exchange)
    if not raw.strip():
        return {}
    try:
        return as_object(loads(raw), ())
    except (NotJson, RecursionError) as error:
        message = f"The request body is not valid JSON: {error}"
        raise Rejected(Error(ErrorClass.INVALID, message, reason=Reason.MALFORMED)) from error


def metadata_of(body: Wire) -> Wire | None:
    """The metadata that something is to be kept with. Raises `Rejected`."""
    metadata = mapping(body, "metadata", ())
    if metadata is None:
        return None
    if len(metadata) > _MOST_PAIRS:
        invalid(("metadata",), f"has {len(metadata)} pairs; at most {_MOST_PAIRS} are kept.")
    for name, value in metadata.items():
        if len(name) > _LONGEST_NAME:
            invalid(("metadata",), f"has a key of more than {_LONGEST_NAME} characters.")
        if not isinstance(value, str) or len(value) > _LONGEST_VALUE:
            invalid(("metadata", name), f"expected a string of at most {_LONGEST_VALUE} characters.")
    return metadata
