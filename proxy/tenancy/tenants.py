"""All tenants of one configuration, ready to be asked who a caller is and what it may do."""

import hmac
import os
from dataclasses import dataclass, field
from hashlib import blake2b

from multidict import CIMultiDictProxy, istr

from proxy.canonical.errors import Error, ErrorClass, Reason, Rejected
from proxy.settings import Settings
from proxy.settings.tenants import Tenant
from proxy.telemetry.scrubber import ManySecrets
from proxy.tenancy.credentials import presented
from proxy.tenancy.keys import AuthFailure, Found, KeyRing, check, own_key, times_of
from proxy.tenancy.policy import Policy
from proxy.upstream.account import SHARED, Account

_MOST_KNOWN = 10_000
_OWN = "own-"
_AUTHORIZATION, _X_API_KEY, _API_KEY = istr("authorization"), istr("x-api-key"), istr("api-key")
_NONE: tuple[str, ...] = ()
_PROCESS_KEY = os.urandom(32)  # so that what is kept or logged of a key can't be looked up by its hash


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls. `kid`: the public part of its key; of one who brings a backend's key alone, a word that tells such
    callers apart while the process lives. `found`: whose dates hold, which is from `since` to `until`, in Unix seconds.
    `own`: the key that it brings for backends,
    behind the header that it came in."""

    tenant: Tenant
    policy: Policy
    kid: str
    found: Found
    since: float
    until: float
    own: tuple[str, str] | None = field(default=None, repr=False)

    @property
    def keyed(self) -> bool:
        """Whether it came with a key of ours."""
        return not self.kid.startswith(_OWN)

    def may_use(self, upstream: str) -> bool:
        """Whether this upstream may be asked at all, by whoever brings the right keys."""
        keys = self.tenant.upstream
        return keys.mode != "byok" or upstream in keys.byok_upstreams

    def may_ask(self, upstream: str) -> bool:
        """Whether there is a key to ask this upstream with."""
        return self.may_use(upstream) and (self.tenant.upstream.mode != "byok" or self.own is not None)

    def account(self, upstream: str) -> Account:
        """With whose key an upstream is asked. Raises `Rejected`: a caller's own key goes only where the configuration
        says, and nothing else takes its place."""
        keys = self.tenant.upstream
        match keys.mode:
            case "shared":
                return SHARED
            case "map":
                key = keys.keys.get(upstream)
                return SHARED if key is None else Account(key.get_secret_value())
            case "byok":
                if upstream not in keys.byok_upstreams:
                    message = "This key works with keys that callers bring, and this model's backend takes none."
                    raise Rejected(_denied(message))
                if self.own is None:
                    message = f"Send your own key of the backend in the header {keys.byok_header}."
                    raise Rejected(Error(ErrorClass.AUTHENTICATION, message, reason=Reason.AUTH_MISSING))
                return Account(self.own[1], self.own[0])

    def scrub(self, text: str) -> str:
        """`text` without the keys that are the tenant's own; the caller knows the one that it brought."""
        return ManySecrets(key.get_secret_value() for key in self.tenant.upstream.keys.values())(text)


def _denied(message: str) -> Error:
    return Error(ErrorClass.PERMISSION, message, "dragoman_model_denied", "model", reason=Reason.MODEL_DENIED)


class Tenants:
    """Made once for a configuration that has tenants."""

    def __init__(self, settings: Settings) -> None:
        tenants = settings.tenants or {}
        pepper = settings.key_pepper.get_secret_value() if settings.key_pepper is not None else None
        self._ring = KeyRing(tenants.values(), pepper)
        self.policies = {name: Policy(tenant) for name, tenant in tenants.items()}
        self._known: dict[bytes, Caller] = {}  # by the digest of the header that brought a key

    def identify(self, headers: CIMultiDictProxy[str], now: float) -> Caller | AuthFailure:
        """Who sent these headers at `now`, in Unix seconds."""
        lines = headers.getall(_AUTHORIZATION, _NONE)
        if len(lines) != 1 or self._ring.own_key_headers or _X_API_KEY in headers or _API_KEY in headers:
            return self._read(headers, now)
        # One that was good before need not be taken apart again. It is not kept itself, only its digest.
        digest = blake2b(lines[0].encode(errors="surrogateescape"), digest_size=32, key=_PROCESS_KEY).digest()
        known = self._known.get(digest)
        if known is None:
            found = self._read(headers, now)
            if isinstance(found, Caller):
                if len(self._known) >= _MOST_KNOWN:
                    self._known.clear()
                self._known[digest] = found
            return found
        if known.since <= now < known.until:
            return known
        reason = check(known.found, now)
        return known if reason is None else AuthFailure(reason, known.kid)

    def _read(self, headers: CIMultiDictProxy[str], now: float) -> Caller | AuthFailure:
        """The same, from the keys that the headers hold."""
        given = presented(headers, self._ring.own_key_headers)
        if isinstance(given, AuthFailure):
            return given
        found = self._ring.find(given.key) if given.key is not None else self._ring.find_keyless(given.foreign)
        if isinstance(found, AuthFailure):
            return found
        tenant = found.tenant
        own = own_key(tenant, given.foreign)
        if isinstance(own, AuthFailure):
            return own
        kid = found.key.kid if found.key is not None else _word_for(own or "")
        if (reason := check(found, now)) is not None:
            return AuthFailure(reason, kid)
        brought = None if own is None else (tenant.upstream.byok_header, own)
        since, until = times_of(found)
        return Caller(tenant, self.policies[tenant.name], kid, found, since, until, brought)


def _word_for(key: str) -> str:
    return _OWN + hmac.digest(_PROCESS_KEY, key.encode(), "sha256").hex()[:12]
