"""What rules say of MCP servers: globs over their addresses, of which every part is compared alone.

A `*` in a host never reaches into the path or behind it: `https://*.example.org/*` does not match
`https://evil.net/x.example.org/`, nor does `https://mcp.example.org*` match `https://mcp.example.org.evil.net/`, and
what can be read in two ways is no address. Servers without one are `connector:ID`, `tunnel:ID` and `label:NAME`.
"""

import fnmatch
import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from urllib.parse import unquote, urlsplit

from proxy.settings.tenants import NameRules

_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"(?!.*\.\.)[a-z0-9_]([a-z0-9._-]*[a-z0-9_])?")
_NUMBERS = re.compile(r"(?:0x[0-9a-f]*|\d+)(?:\.(?:0x[0-9a-f]*|\d+))*")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})?")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_TWO_WAYS = frozenset("/\\?#%\0\t\r\n ")  # of which servers disagree what they mean when they are escaped
_UNADDRESSED = ("connector:", "tunnel:", "label:")


@dataclass(frozen=True, slots=True)
class Address:
    """A server's address, in the one spelling that is compared. `port`: None is the scheme's own."""

    scheme: str
    host: str
    port: int | None
    path: str
    query: str

    def __str__(self) -> str:
        port = "" if self.port is None else f":{self.port}"
        return f"{self.scheme}://{self.host}{port}{self.path}" + (f"?{self.query}" if self.query else "")


def read_address(text: str) -> Address | None:
    """The address; None for one that can't be read in one way only."""
    if not text.isascii() or not text.isprintable() or " " in text or "\\" in text or "#" in text:
        return None
    try:
        parts = urlsplit(text)
        host, port = _host(parts.hostname or ""), parts.port
    except ValueError:
        return None
    path = _path(parts.path)
    if parts.scheme not in _PORTS or host is None or path is None or "@" in parts.netloc or parts.netloc.endswith(":"):
        return None
    return Address(parts.scheme, host, None if port == _PORTS[parts.scheme] else port, path, parts.query)


def _host(given: str) -> str | None:
    host = given.lower().removesuffix(".")
    if ":" in host:
        return f"[{IPv6Address(host)}]"
    if _NUMBERS.fullmatch(host):
        return str(IPv4Address(host))  # any other spelling of an IPv4 address raises ValueError
    return host if _HOST.fullmatch(host) else None


def _path(given: str) -> str | None:
    """The path with every escape that is not needed undone."""
    escapes = _ESCAPE.findall(given)
    if "" in escapes or any(chr(int(digits, 16)) in _TWO_WAYS for digits in escapes):
        return None
    plain = _ESCAPE.sub(lambda found: _unescaped(found[1]), given)
    *steps, last = plain.split("/")
    # Some servers pass over empty steps, and over what a `;` begins.
    if ";" in plain or "" in steps[1:] or not {".", ".."}.isdisjoint((*steps, last)):
        return None
    return plain or "/"


def _unescaped(digits: str) -> str:
    character = unquote(f"%{digits}")
    return character if character in _UNRESERVED else f"%{digits.upper()}"


@dataclass(frozen=True, slots=True)
class _Glob:
    """`scheme` and `host` None: any. `port` None: the scheme's own."""

    scheme: str | None
    host: re.Pattern[str] | None
    port: str | None
    path: re.Pattern[str] | None

    def allows(self, address: Address) -> bool:
        """Whether the glob means just this address."""
        behind = f"{address.path}?{address.query}" if address.query else address.path
        return (
            self.scheme in (None, address.scheme)
            and (self.host is None or self.host.match(address.host) is not None)
            and (self.host is None or (self.port or "") in ("*", str(address.port or "")))
            and (self.path is None or self.path.match(behind) is not None)
        )

    def denies(self, address: Address) -> bool:
        """Whether the glob means what stands at this address, by any scheme, any port unless it names one, and with any
        query."""
        return (
            (self.host is None or self.host.match(address.host) is not None)
            and self.port in (None, "*", str(address.port or _PORTS[address.scheme]))
            and (
                self.path is None
                or self.path.match(address.path) is not None
                or self.path.match(f"{address.path}?{address.query}") is not None
            )
        )


def _read_glob(text: str, *, deny: bool) -> _Glob:
    if text == "*":
        return _Glob(None, None, None, None)
    scheme, separator, rest = text.partition("://")
    if not separator:
        scheme, rest = "*", text
    place, slash, path = rest.partition("/")
    if not slash and place.endswith("*") and place.strip("*"):
        # Else it would reach other hosts, that begin with the name of this one.
        place, slash, path = place.rstrip("*"), "/", "*"
    host, colon, port = place.rpartition(":") if not place.endswith("]") else (place, "", "")
    if not colon:
        host, port = place, ""
    behind = f"/{path}" if slash else "/*" if deny else "/"
    own = port == str(_PORTS.get(scheme.lower(), ""))
    return _Glob(
        None if scheme == "*" else scheme.lower(),
        _compiled(_brackets(host.removesuffix(".").lower())),
        port if port and not own else None,
        _compiled(behind, fold=deny),
    )


def _brackets(host: str) -> str:
    """An IPv6 address in a glob: its brackets are no set of characters."""
    return f"[[]{host[1:]}" if host.startswith("[") and ":" in host else host


def _compiled(glob: str, *, fold: bool = False) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(glob), re.IGNORECASE if fold else 0)


class McpServers:
    """The rules on MCP servers, compiled."""

    __slots__ = ("_allow", "_deny", "named", "open")

    def __init__(self, rules: NameRules) -> None:
        self.open = rules.open
        self.named = rules.allow is not None
        self._allow = None if rules.allow is None else [(glob, _read_glob(glob, deny=False)) for glob in rules.allow]
        self._deny = [(glob, _read_glob(glob, deny=True)) for glob in rules.deny]

    def allow(self, name: str) -> bool:
        """Whether a server is allowed, by its address or as `connector:ID` and the like."""
        if self.open:
            return True
        if name.startswith(_UNADDRESSED):
            listed = self._allow is None or any(fnmatch.fnmatchcase(name, glob) for glob, _ in self._allow)
            return listed and not any(fnmatch.fnmatchcase(name.lower(), glob.lower()) for glob, _ in self._deny)
        address = read_address(name)
        if address is None:
            return False
        listed = self._allow is None or any(glob.allows(address) for _, glob in self._allow)
        return listed and not any(glob.denies(address) for _, glob in self._deny)
