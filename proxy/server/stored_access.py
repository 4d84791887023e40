"""Where what a client names by id is: in the proxy's own store, or at a backend that keeps what it answers."""

from urllib.parse import unquote

from aiohttp.web import BaseRequest

from proxy.canonical.errors import Rejected
from proxy.server.exchange import Exchange
from proxy.server.gateway import Gateway, Served
from proxy.server.keeping import Keeping
from proxy.server.passthrough import raw_path
from proxy.server.recalling import keeps_own


def kept_by(exchange: Exchange) -> Keeping:
    """The store, which there is where these endpoints are."""
    keeping = exchange.gateway.runtime.keeping
    if keeping is None:
        raise RuntimeError("An endpoint of what is kept, where nothing is")
    return keeping


def vendor_for(exchange: Exchange, upstream: str | None) -> Served | None:
    """The backend that may have what the store does not: the one that is known to, or the only one that there is."""
    vendors = vendors_of(exchange.gateway)
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


def vendors_of(gateway: Gateway) -> list[Served]:
    """The backends of Responses that keep what they answer."""
    return [one for one in gateway.served.values() if one.backend.protocol == "responses" and keeps_own(one)]


def steps_of(request: BaseRequest) -> list[str]:
    """The steps of the path, without the version."""
    return [unquote(step) for step in raw_path(request).rstrip("/").split("/")[1:]]
