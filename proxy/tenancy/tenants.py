"""All tenants of one configuration, ready to be asked who a caller is and what it may do."""

import hmac
import os
from dataclasses import dataclass, field

from multidict import CIMultiDictProxy

from proxy.canonical.errors import Error, ErrorClass, Reason, Rejected
from proxy.settings import Settings
from proxy.settings.tenants import Tenant
from proxy.telemetry.scrubber import MASK
from proxy.tenancy.credentials import presented
from proxy.tenancy.keys import AuthFailure, KeyRing, check, own_key
from proxy.tenancy.policy import Policy
from proxy.tenancy.prices import PriceTable
from proxy.upstream.account import SHARED, Account

_PROCESS_KEY = os.urandom(32)  # so that what is logged of a foreign key can't be looked up by its hash


@dataclass(slots=True)
class Caller:
    """Who calls. `kid`: the public part of its key; of one who brings a backend's key alone, a word that tells such
    callers apart while the process lives. `own`: that key, and the header that it came in."""

    tenant: Tenant
    policy: Policy
    kid: str
    own: tuple[str, str] | None = field(default=None, repr=False)

    def may_ask(self, upstream: str) -> bool:
        """Whether there is a key to ask this upstream with."""
        keys = self.tenant.upstream
        return keys.mode != "byok" or (upstream in keys.byok_upstreams and self.own is not None)

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
        for key in self.tenant.upstream.keys.values():
            text = text.replace(key.get_secret_value(), MASK)
        return text


def _denied(message: str) -> Error:
    return Error(ErrorClass.PERMISSION, message, "dragoman_model_denied", "model", reason=Reason.MODEL_DENIED)


class Tenants:
    """Made once for a configuration that has tenants."""

    def __init__(self, settings: Settings) -> None:
        tenants = settings.tenants or {}
        pepper = settings.key_pepper.get_secret_value() if settings.key_pepper is not None else None
        self._ring = KeyRing(tenants.values(), pepper)
        self.policies = {name: Policy(tenant) for name, tenant in tenants.items()}
        self.prices = PriceTable(settings.prices)

    def identify(self, headers: CIMultiDictProxy[str], now: float) -> Caller | AuthFailure:
        """Who sent these headers at `now`, in Unix seconds."""
        given = presented(headers, self._ring.own_key_headers)
        if isinstance(given, AuthFailure):
            return given
        found = self._ring.find(given.key) if given.key is not None else self._ring.find_keyless(given.foreign)
        if isinstance(found, AuthFailure):
            return found
        tenant, key = found
        own = own_key(tenant, given.foreign)
        if isinstance(own, AuthFailure):
            return own
        kid = key.kid if key is not None else _word_for(own or "")
        if (reason := check(found, now)) is not None:
            return AuthFailure(reason, kid)
        return Caller(
            tenant, self.policies[tenant.name], kid, None if own is None else (tenant.upstream.byok_header, own)
        )


def _word_for(key: str) -> str:
    return "own-" + hmac.digest(_PROCESS_KEY, key.encode(), "sha256").hex()[:12]
