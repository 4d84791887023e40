"""The headers of a request to a backend (operations.md 2.3, mapping.md 15.3).

Little of what a client sent goes on: its credential only when the proxy holds none for this backend, and headers of
a vendor only to the same protocol. Everything else describes the client or the hop, and stays here.
"""

from collections.abc import Mapping
from typing import NamedTuple

from multidict import CIMultiDict, CIMultiDictProxy

from proxy.canonical.errors import Error, ErrorClass, Reason, Rejected
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


def request_headers(
    backend: Backend,
    client: CIMultiDictProxy[str],
    request_id: str,
    *,
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
    if not backend.holds_key and (credential := read_credential(client)):
        as_it_came = same_protocol and backend.protocol == "messages"
        header = credential.header if as_it_came else backend.key_header
        headers[header] = write_key(header, credential.key)
        if same_protocol:
            for name in _WITH_OWN_KEY[backend.protocol]:
                if name in client:
                    headers[name] = _plain(name, client[name])
    return headers


def _plain(name: str, value: str) -> str:
    if value.isascii():
        return value
    message = f"{name.lower()}: this header may hold ASCII characters only."
    raise Rejected(Error(ErrorClass.INVALID, message, reason=Reason.MALFORMED))
