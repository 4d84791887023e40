"""Where a request comes from, as far as that can be believed (operations.md 8.2).

Whoever connects is who asks, unless it is one of our own proxies. `X-Forwarded-For` is written from left to right, so
it can be believed from the right only, as long as each entry was written by a proxy that is trusted.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address

from multidict import CIMultiDictProxy, istr

from proxy.settings.tenants import Network

_FORWARDED_FOR = istr("X-Forwarded-For")
_MOST_HOPS = 16
_LONGEST = 64  # characters of an address with its port
# IPv4, IPv6 in brackets, which a port needs, and IPv6 alone.
_FORMS = re.compile(
    r"""(?P<v4>[0-9.]+)(?::[0-9]{1,5})?
    | \[(?P<bracketed>[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*)(?:%[\w.-]{1,16})?](?::[0-9]{1,5})?
    | (?P<v6>[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*)(?:%[\w.-]{1,16})?""",
    re.ASCII | re.VERBOSE,
)


def client_ip(peer: str | None, headers: CIMultiDictProxy[str], trusted_proxies: tuple[Network, ...]) -> str | None:
    """The address of the client, in its shortest form. `peer`: the other end of the connection, None where that has no
    address; then there is none to tell either."""
    address = _parse(peer or "")
    if address is None or not trusted_proxies or not _within(address, trusted_proxies):
        return None if address is None else str(address)
    # What is left beyond the most hops is one entry, and no address.
    for entry in reversed(",".join(headers.getall(_FORWARDED_FOR, ())).rsplit(",", _MOST_HOPS)):
        hop = _parse(entry.strip()) if len(entry) <= _LONGEST else None
        if hop is None:
            break
        address = hop
        if not _within(hop, trusted_proxies):
            break
    return str(address)


def in_networks(ip: str | None, networks: Iterable[Network]) -> bool:
    """Whether an address is in one of the networks. One that is not known is in none."""
    address = _parse(ip or "")
    return address is not None and _within(address, networks)


def _within(address: IPv4Address | IPv6Address, networks: Iterable[Network]) -> bool:
    return any(address in network for network in networks)


@lru_cache(4096)
def _parse(text: str) -> IPv4Address | IPv6Address | None:
    """An address, also with a port or in brackets. IPv4 that is written as IPv6 is IPv4; a zone is left out."""
    form = _FORMS.fullmatch(text)
    try:
        address = ip_address(form["v4"] or form["bracketed"] or form["v6"] if form else "")
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
