"""The envelope: opaque state of a backend, in a string that a client carries for us (mapping.md 8.6).

With a key it is sealed and bound to backend and tenant; without one it only tells damage from wholeness, so what comes
out of it is a client's word. Equal content gives equal bytes, on every replica: prompt caches depend on it.
"""

import binascii
import hashlib
import hmac
import re
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from proxy.canonical.jsontext import NotJson, dumps, loads
from proxy.protocols.fields import Wire, is_object

SEALED = "drg1."
OPEN = "drg0."
PREFIXES = (SEALED, OPEN)
# Those of all versions: what an older or a newer proxy has made must not reach a backend either.
ANY_PREFIX = r"drg\d{1,3}\."
KEY_BYTES = 32
LONGEST = 256 * 1024  # characters of an envelope
NO_ORIGIN = "0" * 12

_ANY_PREFIX = re.compile(ANY_PREFIX)
_NONCE = 12
_CHECKSUM = 16
_PIECE = 180 * 1024  # bytes, so that their envelope is short enough even where nothing can be compressed
_MAX_PLAIN = 8 * 1024 * 1024  # bytes of an opened envelope; a client could send one that inflates without end
_NONCE_LABEL = b"drg1 nonce"


@dataclass(slots=True, unsafe_hash=True)  # one is made for each request, and frozen ones cost four times as much
class Scope:
    """Whose envelopes these are. `origin`: the backend, see `origin_of`; `keys`: the first seals, all open."""

    origin: str = NO_ORIGIN
    keys: tuple[bytes, ...] = field(default=(), repr=False)
    tenant: str = ""


NO_SCOPE = Scope()


def origin_of(protocol: str, family: str, host: str, credential: str) -> str:
    """12 hex digits for a backend and the account that it is used with."""
    account = hashlib.sha256(f"{host}\n{credential}".encode()).hexdigest()
    return hashlib.sha256(f"{protocol}\n{family}\n{account}".encode()).hexdigest()[:12]


def is_envelope(text: object) -> bool:
    """Whether a value claims to be one of ours, of whatever version."""
    return type(text) is str and _ANY_PREFIX.match(text) is not None


def origin_in(envelope: str) -> str:
    """The origin that an envelope names in clear."""
    return envelope.split(".", 2)[1] if envelope.count(".") >= 2 else ""


def seal(content: Wire, scope: Scope) -> str:
    """The content as an envelope of this scope."""
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    packed = packer.compress(dumps(content)) + packer.flush()
    if not scope.keys:
        text = f"{OPEN}{scope.origin}.{_encoded(packed)}."
        return text + _checksum(text)
    key = scope.keys[0]
    bound = _bound(scope)
    sub_key = hmac.digest(key, _NONCE_LABEL, "sha256")
    nonce = hmac.digest(sub_key, bound + packed, "sha256")[:_NONCE]
    return f"{SEALED}{scope.origin}.{_encoded(nonce + AESGCM(key).encrypt(nonce, packed, bound))}"


def seal_all(content: Wire, scope: Scope) -> list[str]:
    """The content as one envelope, or in pieces as several where it would be too long for one."""
    envelope = seal(content, scope)
    if len(envelope) <= LONGEST:
        return [envelope]
    raw = dumps(content)
    mark = hashlib.sha256(raw).hexdigest()[:_CHECKSUM]
    pieces = _pieces(raw)
    return [seal({"w": mark, "i": i, "of": len(pieces), "t": piece}, scope) for i, piece in enumerate(pieces)]


def _pieces(raw: bytes) -> list[str]:
    """JSON in pieces of some `_PIECE` bytes, cut between characters."""
    pieces: list[str] = []
    start = 0
    while start < len(raw):
        end = min(start + _PIECE, len(raw))
        while end < len(raw) and raw[end] & 0xC0 == 0x80:
            end -= 1
        pieces.append(raw[start:end].decode())
        start = end
    return pieces


def piece_of(content: Wire) -> tuple[str, int] | None:
    """Which whole an opened envelope is a piece of, and which one; None when it is one itself."""
    mark, number = content.get("w"), content.get("i")
    return (mark, number) if isinstance(mark, str) and type(number) is int else None


def join(pieces: Mapping[int, Wire]) -> Wire | None:
    """The whole, of its pieces by their number; None when one is missing or they are of no whole."""
    texts = [pieces[number].get("t") for number in range(len(pieces)) if number in pieces]
    if not pieces or len(texts) < len(pieces) or any(piece.get("of") != len(pieces) for piece in pieces.values()):
        return None
    raw = "".join([text for text in texts if isinstance(text, str)]).encode(errors="replace")
    if len(raw) > _MAX_PLAIN or pieces[0].get("w") != hashlib.sha256(raw).hexdigest()[:_CHECKSUM]:
        return None
    try:
        whole = loads(raw)
    except NotJson:
        return None
    return whole if is_object(whole) else None


def open_envelope(envelope: str, scope: Scope) -> Wire | None:
    """The content; None when it is damaged, forged, of another tenant or sealed by an unknown key.

    The origin must be this scope's: see `origin_in`. With keys, envelopes without a seal are refused, since anyone
    can write one.
    """
    if not envelope.startswith(PREFIXES):
        return None  # of another version
    packed = _open_sealed(envelope, scope) if envelope.startswith(SEALED) else _open_plain(envelope, scope)
    if packed is None:
        return None
    unpacker = zlib.decompressobj(-15)
    try:
        plain = unpacker.decompress(packed, _MAX_PLAIN)
        content = loads(plain) if unpacker.eof else None
    except (zlib.error, NotJson):
        return None
    return content if is_object(content) else None


def _open_sealed(envelope: str, scope: Scope) -> bytes | None:
    body = _decoded(envelope.rpartition(".")[2])
    if body is None or len(body) <= _NONCE or envelope.count(".") != 2:
        return None
    nonce, sealed = body[:_NONCE], body[_NONCE:]
    for key in scope.keys:
        try:
            return AESGCM(key).decrypt(nonce, sealed, _bound(scope))
        except InvalidTag:
            continue
    return None


def _open_plain(envelope: str, scope: Scope) -> bytes | None:
    if scope.keys or envelope.count(".") != 3:
        return None
    text, _, checksum = envelope.rpartition(".")
    if not hmac.compare_digest(_checksum(text + ".").encode(), checksum.encode(errors="replace")):
        return None
    return _decoded(text.rpartition(".")[2])


def _bound(scope: Scope) -> bytes:
    """What a seal also vouches for: version, tenant, backend."""
    return f"drg1\n{scope.tenant}\n{scope.origin}".encode()


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:_CHECKSUM]


def _encoded(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def _decoded(text: str) -> bytes | None:
    try:
        return urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        return None
