"""A backend made ready for use: its addresses, headers and TLS settings are built once, not for each request."""

import asyncio
import re
import ssl
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from aiohttp import ClientRequest, ClientTimeout
from multidict import CIMultiDict, CIMultiDictProxy
from pydantic import SecretStr
from yarl import URL

from proxy import __version__
from proxy.canonical.target import Dialect
from proxy.settings import Upstream
from proxy.settings.watching import stamps
from proxy.translation.envelope import origin_of
from proxy.upstream.account import SHARED, Account
from proxy.upstream.dialects import Protocol, dialect_for

_VERSION = re.compile(r"/v\d\w*$")
MESSAGES_VERSION = "2023-06-01"  # unless a Messages client says another (mapping.md 15.3)

ENDPOINTS: Mapping[Protocol, str] = {
    "chat": "/chat/completions",
    "responses": "/responses",
    "messages": "/messages",
}


# Google Cloud's ways of answering (messages.md 4.5); a model's name stands before them.
_WHOLE, _STREAMED = ":rawPredict", ":streamRawPredict"
_COUNTING = "/models/count-tokens:rawPredict"


class OlderKey(NamedTuple):
    """A key that has been replaced, and `until` when it may still be tried where the new one is refused: the vendor may
    take a while to know it. Seconds of the monotonic clock."""

    key: SecretStr
    until: float


class Backend:
    """`holds_key`: the proxy has a key of its own for it. `accounts`: with whose key it is asked where nobody brings
    one: the first that is of use."""

    __slots__ = (
        "_files",
        "_query",
        "_root",
        "_shared_origin",
        "_url",
        "accounts",
        "destination",
        "dialect",
        "headers",
        "holds_key",
        "key_header",
        "name",
        "older",
        "protocol",
        "proxy",
        "settings",
        "slots",
        "timeout",
        "tls",
    )

    def __init__(self, upstream: Upstream, older: OlderKey | None = None) -> None:
        """`older`: the key that the upstream had before.

        Raises `UnknownDialect`, and OSError (`ssl.SSLError` is one) for a certificate that can't be read."""
        self.settings = upstream
        self.older = older
        self.name = upstream.name
        self.protocol: Protocol = upstream.protocol
        self.dialect: Dialect = dialect_for(
            upstream.protocol, upstream.base_url, upstream.dialect, upstream.dialect_flags
        )
        self.holds_key = upstream.api_key is not None
        self.accounts = (SHARED, *(Account(key.get_secret_value()) for key in upstream.spare_keys))
        self._shared_origin = self._origin_with(
            upstream.api_key.get_secret_value() if upstream.api_key is not None else ""
        )
        self.key_header = _key_header(self.protocol, self.dialect)
        self.headers = _fixed_headers(upstream, self.protocol, self.key_header)
        self._root, _, self._query = upstream.base_url.partition("?")
        self._url = self.address(ENDPOINTS[self.protocol])
        self._files = stamps(file for file in (upstream.ca_file, upstream.client_cert) if file is not None)
        self.timeout = ClientTimeout(total=None, sock_connect=upstream.timeouts.connect)
        self.tls: ssl.SSLContext | bool = _tls(upstream)
        self.proxy = URL(upstream.proxy.get_secret_value()) if upstream.proxy is not None else None
        self.slots = asyncio.Semaphore(upstream.max_connections) if upstream.max_connections else None
        self.destination: ClientRequest | None = None  # made when it is first asked, inside a loop: see `request.py`

    def origin_of(self, account: Account) -> str:
        """What names this backend, asked with the account's key, in envelopes (mapping.md 8.6)."""
        if account.key is None:
            return self._shared_origin
        return self._origin_with(account.key)

    def _origin_with(self, key: str) -> str:
        host = urlsplit(self.settings.base_url).netloc
        return origin_of(self.protocol, self.dialect.family, host, key)

    def still_is(self, upstream: Upstream) -> bool:
        """Whether these settings would make the same one; its certificates may have changed under the same name."""
        return self.settings == upstream and stamps(self._files) == self._files

    def take_slots_of(self, before: "Backend") -> None:
        """Share with the one that this replaces what is left of the most connections that there may be."""
        if before.settings.max_connections == self.settings.max_connections:
            self.slots = before.slots

    @property
    def offers_responses(self) -> bool:
        """Whether this Chat backend has a Responses endpoint beside (mapping.md 8.4, "Endpoint choice"). Azure has it
        only at its addresses without a date."""
        return self.protocol == "chat" and self.dialect.responses_too and not self._query

    def url(self, model: str, *, stream: bool) -> URL:
        """Where a generation is asked for."""
        if not self.dialect.model_in_path:
            return self._url
        return self.address(f"/models/{quote(model, safe='@')}{_STREAMED if stream else _WHOLE}")

    def counting_url(self, path: str) -> URL:
        """Where tokens are counted; `path` as at the vendor itself."""
        return self.address(_COUNTING if self.dialect.model_in_path else path)

    def address(self, path: str) -> URL:
        """The address of another endpoint; `path` starts behind the version and is already encoded."""
        if self._query:
            path += ("&" if "?" in path else "?") + self._query
        return URL(self._root + path, encoded=True)

    def unversioned_address(self, path: str) -> URL:
        """The address of a server's own endpoint, which is of no version."""
        return URL(_VERSION.sub("", self._root) + path, encoded=True)


def write_key(key_header: str, key: str) -> str:
    """The value of the header that carries a key."""
    return f"Bearer {key}" if key_header == "Authorization" else key


def _key_header(protocol: Protocol, dialect: Dialect) -> str:
    match dialect.key:
        case "bearer":
            return "Authorization"
        case "api_key":
            return "Api-Key"
        case "vendor":
            return "X-Api-Key" if protocol == "messages" else "Authorization"


def _fixed_headers(upstream: Upstream, protocol: Protocol, key_header: str) -> CIMultiDictProxy[str]:
    headers: CIMultiDict[str] = CIMultiDict(
        {
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "User-Agent": f"dragoman/{__version__}",
            "Content-Type": "application/json",
        }
    )
    if protocol == "messages":
        headers["Anthropic-Version"] = MESSAGES_VERSION
    if upstream.api_key is not None:
        headers[key_header] = write_key(key_header, upstream.api_key.get_secret_value())
    for name, value in upstream.headers.items():
        headers[name] = value.get_secret_value()
    return CIMultiDictProxy(headers)


def _tls(upstream: Upstream) -> ssl.SSLContext | bool:
    """True is the system's own idea of whom to trust."""
    if upstream.ca_file is None and upstream.client_cert is None:
        return True
    context = ssl.create_default_context(cafile=upstream.ca_file)
    if upstream.client_cert is not None:
        context.load_cert_chain(upstream.client_cert)
    return context
