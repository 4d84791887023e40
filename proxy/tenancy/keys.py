"""Keys of tenants: what they look like, how one is made, and whose it is (operations.md 8.1).

`drg_<kid>_<secret>_<crc>`, read by position, since the secret may hold `_` itself. The configuration has digests of
secrets only. A look-up takes the same steps and digests as much whatever is presented, so that its time tells nothing.
"""

import hmac
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from math import inf
from typing import Literal, NamedTuple
from zlib import crc32

from proxy.canonical.errors import Reason
from proxy.settings.tenants import Tenant, TenantKey
from proxy.settings.values import KEY_ID

Method = Literal["hmac-sha256", "sha256"]
State = Literal["active", "not yet valid", "expired", "tenant disabled"]

PREFIX = "drg_"
CLOCK_SKEW = 30.0  # seconds, by which the clock may be wrong when a date is looked at

_SHAPE = re.compile(rf"{PREFIX}({KEY_ID.pattern})_([A-Za-z0-9_-]{{43}})_([0-9A-Za-z]{{6}})")
_CRC_AT = 60  # where the `_` before the checksum stands
# Without a digit in front, no YAML reader takes one for a number.
_KID_FIRST = "abcdefghjkmnpqrstvwxyz"
_KID_REST = "0123456789" + _KID_FIRST
_BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_REFUSED: Mapping[State, Reason | None] = {
    "active": None,
    "not yet valid": Reason.AUTH_EXPIRED,
    "expired": Reason.AUTH_EXPIRED,
    "tenant disabled": Reason.AUTH_DISABLED,
}


@dataclass(frozen=True, slots=True)
class Parsed:
    """A key of the right form. Nothing is known yet of whose it is."""

    kid: str
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class NewKey:
    """`text` is for the client and is kept nowhere; `kid` and `hash` are for the configuration."""

    text: str = field(repr=False)
    kid: str
    hash: str


class Found(NamedTuple):
    """Who asks. `key` is None for one who brings but a backend's own key."""

    tenant: Tenant
    key: TenantKey | None


class AuthFailure(NamedTuple):
    """Why nobody was found. `kid` is what the presented key says, for the log: no one may have such a key."""

    reason: Reason
    kid: str | None = None


def new_key(pepper: bytes | None) -> NewKey:
    """A key that nobody has had before. `pepper` as in `digest`; with one, its hash is of no use without it."""
    kid = secrets.choice(_KID_FIRST) + "".join(secrets.choice(_KID_REST) for _ in range(11))
    secret = secrets.token_urlsafe(32)
    head = f"{PREFIX}{kid}_{secret}"
    method: Method = "sha256" if pepper is None else "hmac-sha256"
    return NewKey(f"{head}_{_checksum(head)}", kid, f"{method}:{digest(method, secret, pepper).hex()}")


def parse(text: str) -> Parsed | None:
    """None for what can't be a key; `flaw` says why."""
    shape = _SHAPE.fullmatch(text)
    if shape is None or _checksum(text[:_CRC_AT]) != shape[3]:
        return None
    return Parsed(shape[1], shape[2])


def flaw(text: str) -> Literal["malformed", "mistyped"] | None:
    """Why a text is no key: its form, or a checksum that tells of a wrong character. None for one of the right form."""
    if parse(text) is not None:
        return None
    return "malformed" if _SHAPE.fullmatch(text) is None else "mistyped"


def digest(method: Method, secret: str, pepper: bytes | None) -> bytes:
    """What the configuration keeps of a secret. `pepper` is needed for hmac-sha256, and ignored otherwise."""
    if method == "sha256":
        return sha256(secret.encode()).digest()
    if pepper is None:
        raise ValueError("hmac-sha256 needs a pepper")
    return hmac.digest(pepper, secret.encode(), "sha256")


def state_of(found: Found, now: float) -> State:
    """What can be said of a key at `now`, in Unix seconds: it is as good as its tenant at best."""
    if found.tenant.disabled:
        return "tenant disabled"
    for dated in found:
        if dated is None:
            continue
        if dated.not_before is not None and now < dated.not_before - CLOCK_SKEW:
            return "not yet valid"
        if dated.expires_at is not None and now >= dated.expires_at + CLOCK_SKEW:
            return "expired"
    return "active"


def times_of(found: Found) -> tuple[float, float]:
    """From when to when a key is good for certain, in Unix seconds; around that, and while its tenant is disabled,
    `check` tells."""
    dated = [each for each in found if each is not None]
    since = max((each.not_before for each in dated if each.not_before is not None), default=-inf)
    until = min((each.expires_at for each in dated if each.expires_at is not None), default=inf)
    return (inf, -inf) if found.tenant.disabled else (since, until)


def check(found: Found, now: float) -> Reason | None:
    """Why a key is not good at `now`, in Unix seconds; None if it is. To be asked for each request."""
    return _REFUSED[state_of(found, now)]


class KeyRing:
    """All keys of one configuration. What a look-up costs does not depend on how many there are."""

    __slots__ = ("_by_kid", "_keyless", "_methods", "_nobody", "_pepper", "own_key_headers")

    def __init__(self, tenants: Iterable[Tenant], pepper: bytes | None) -> None:
        tenants = tuple(tenants)
        by_kid: dict[str, tuple[Found, ...]] = {}
        methods: set[Method] = set()
        for tenant in tenants:
            for key in tenant.keys:
                # Without the pepper nothing can match such a hash, so nobody has it.
                if pepper is not None or key.method == "sha256":
                    by_kid[key.kid] = (*by_kid.get(key.kid, ()), Found(tenant, key))
                    methods.add(key.method)
        byok = [tenant for tenant in tenants if tenant.upstream.mode == "byok"]
        keyless = [tenant for tenant in byok if not tenant.keys]
        #: Where keys of backends may come, in lower case.
        self.own_key_headers = tuple(dict.fromkeys(tenant.upstream.byok_header for tenant in byok))
        self._by_kid = by_kid
        self._keyless = keyless[0] if len(keyless) == 1 else None
        self._methods = tuple(sorted(methods)) or ("sha256",)
        # What is compared where there is no such key: nothing has this digest.
        nobody = TenantKey("", self._methods[0], secrets.token_bytes(32))
        self._nobody = (Found(Tenant(""), nobody),)
        self._pepper = pepper

    def find(self, presented: str) -> Found | AuthFailure:
        """Whose key it is. Dates and the tenant's state are not looked at: `check` does."""
        parsed = parse(presented)
        kid, secret = ("", "") if parsed is None else (parsed.kid, parsed.secret)
        digests = {method: digest(method, secret, self._pepper) for method in self._methods}
        found: Found | None = None
        # All are compared, also behind the one that is right.
        for holder in self._by_kid.get(kid, self._nobody):
            key = holder.key
            if key is not None and hmac.compare_digest(digests[key.method], key.digest):
                found = holder
        return found or AuthFailure(Reason.AUTH_UNKNOWN, kid or None)

    def find_keyless(self, foreign: Mapping[str, str]) -> Found | AuthFailure:
        """Who brings no key of ours but a backend's own, as in `own_key`: the one tenant that needs no other."""
        if self._keyless is None or not foreign or isinstance(own_key(self._keyless, foreign), AuthFailure):
            return AuthFailure(Reason.AUTH_UNKNOWN)
        return Found(self._keyless, None)


def own_key(tenant: Tenant, foreign: Mapping[str, str]) -> str | AuthFailure | None:
    """The caller's key of a backend, for a tenant that may bring one. `foreign`: all keys that are none of ours, by
    header, in lower case. None if there is none; whoever may not bring it, or not so, is refused."""
    if not foreign:
        return None
    if tenant.upstream.mode != "byok" or len(set(foreign.values())) > 1:
        return AuthFailure(Reason.AUTH_UNKNOWN)
    return foreign.get(tenant.upstream.byok_header, AuthFailure(Reason.AUTH_UNKNOWN))


def _checksum(text: str) -> str:
    """CRC-32 in base62, of 6 digits."""
    number = crc32(text.encode())
    digits = ""
    for _ in range(6):
        number, digit = divmod(number, 62)
        digits = _BASE62[digit] + digits
    return digits
