"""The headers of a request to a backend (operations.md 2.3, mapping.md 15.3).

Little of what a client sent goes on: headers of a vendor, and only to the same protocol. Its credential does where the
account is its own. Everything else describes the client or the hop, and stays here.
"""

from collections.abc import Mapping
from typing import NamedTuple

from multidict import CIMultiDict, CIMultiDictProxy

from proxy.canonical.errors import Error, ErrorClass, Reason, Rejected
from proxy.upstream.account import SHARED, Account
from proxy.upstream.backend import Backend, write_key
from proxy.upstream.dialects import Protocol

# Headers of the client that a backend of the same protocol gets as they came; those of the other vendor it does not.
_IDEMPOTENCY = "Idempotency-Key"
_OPENAI = (_IDEMPOTENCY, "OpenAI-Beta")
_ANTHROPIC = (_IDEMPOTENCY, "Anthropic-Beta", "Anthropic-Version")
_SAME_PROTOCOL: Mapping[Protocol, tuple[str, ...]] = {"chat": _OPENAI, "responses": _OPENAI, "messages": _ANTHROPIC}
# Who knows OpenAI's headers, whichever of its protocols is spoken.
_OPENAI_FAMILIES = frozenset({"openai", "azure"})
# Whom to bill and for whom: they mean something only together with the client's own key.
_OPENAI_OWN = ("OpenAI-Organization", "OpenAI-Project")
_ANTHROPIC_OWN = ("Anthropic-Workspace-Id", "Anthropic-User-Profile-Id")
_WITH_OWN_KEY: Mapping[Protocol, tuple[str, ...]] = {
    "chat": _OPENAI_OWN,
    "responses": _OPENAI_OWN,
    "messages": _ANTHROPIC_OWN,
}
# Messages has two kinds of keys, of which the header tells; another that a tenant's keys come in says nothing.
_AS_IT_CAME = {name.lower(): name for name in ("Authorization", "X-Api-Key", "Api-Key")}


class Credential(NamedTuple):
    """A client's key and the header that it came in."""

    header: str
    key: str


def read_credential(headers: CIMultiDictProxy[str]) -> Credential | None:
    """The client's key. Clients of each protocol may use any of the three headers; no key holds other than ASCII."""
    for name in ("X-Api-Key", "Api-Key"):
        if (key := headers.get(name, "").strip()) and key.isascii():
            return Credential(name, key)
    scheme, _, key = headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer" and (key := key.strip()) and key.isascii():
        return Credential("Authorization", key)
    return None


def client_account(backend: Backend, headers: CIMultiDictProxy[str]) -> Account:
    """The account where nobody is asked for a key: the upstream's own, and a client's where it has none."""
    if backend.holds_key or (credential := read_credential(headers)) is None:
        return SHARED
    return Account(credential.key, credential.header)


def request_headers(
    backend: Backend,
    client: CIMultiDictProxy[str],
    request_id: str,
    *,
    account: Account,
    same_protocol: bool,
    openai_client: bool = False,
    betas: tuple[str, ...] = (),
) -> CIMultiDict[str]:
    """All headers for one request to `backend` in the name of a client that sent the headers `client`.

    `openai_client`: it speaks one of OpenAI's protocols. `betas`: features that a translated request uses.

    Raises `Rejected`, class INVALID.
    """
    headers = CIMultiDict(backend.headers)
    headers["X-Client-Request-Id"] = request_id
    if same_protocol:
        for name in _SAME_PROTOCOL[backend.protocol]:
            if name in client:
                headers[name] = _plain(name, ",".join(client.getall(name)))
    elif openai_client and backend.dialect.family in _OPENAI_FAMILIES and _IDEMPOTENCY in client:
        headers[_IDEMPOTENCY] = _plain(_IDEMPOTENCY, client[_IDEMPOTENCY])
    if betas:
        told = [name for value in headers.getall("Anthropic-Beta", ()) for name in value.split(",")]
        names = dict.fromkeys(name.strip() for name in (*told, *betas) if name.strip())
        headers["Anthropic-Beta"] = ",".join(names)
    if account.key is not None:
        header = backend.key_header
        if account.header is not None and same_protocol and backend.protocol == "messages":
            header = _AS_IT_CAME.get(account.header.lower(), header)
        headers.pop(backend.key_header, None)
        headers[header] = write_key(header, account.key)
        if same_protocol and account.of_client:
            for name in _WITH_OWN_KEY[backend.protocol]:
                if name in client:
                    headers[name] = _plain(name, client[name])
    return headers


def _plain(name: str, value: str) -> str:
    if value.isascii():
        return value
    message = f"{name.lower()}: this header may hold ASCII characters only."
    raise Rejected(Error(ErrorClass.INVALID, message, reason=Reason.MALFORMED))
