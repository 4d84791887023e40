"""Limits as limiters reckon with them, and how they stand (operations.md 9.1).

Both limiters use the same numbers in the same order, so that they decide alike to the last bit.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

from proxy.settings.tenants import TenantLimits
from proxy.tenancy.limits import Standing, Window
from proxy.tenancy.windows import Calendar, days, periods

MINUTE = 60.0
BURSTS = 6  # a burst is this part of a minute's requests
ROUNDING = 1e-6  # seconds; what sums of Unix seconds are off by must not cost a request of a burst
BUSY_RETRY_AFTER = 1.0  # seconds; nobody knows when another request will be over


@dataclass(frozen=True, slots=True)
class Terms:
    """One tenant's limits. What is not limited is 0, or has no calendar.

    Requests a minute (GCRA): `interval` seconds apart, up to `burst` at once; a request may come if the pace is `slack`
    seconds ahead of even or less, after which it is `most_ahead` at most. Tokens a minute: what is used fills a bucket
    of `capacity` tokens, from which `rate` a second drain. No request may overfill it, but one that is larger than all
    of it may when it finds it empty; beside that only a settlement for more than was reserved does. `counted`: whether
    there is any limit.
    """

    limits: TenantLimits
    counted: bool
    interval: float
    burst: int
    slack: float
    most_ahead: float
    capacity: int
    rate: float
    days: Calendar
    periods: Calendar | None

    def ahead(self, turn: float, now: float) -> float:
        """Seconds that requests are ahead of the even pace. `turn`: when the next would be due by it."""
        return max(turn - now, 0.0)

    def used(self, used: float, at: float, now: float) -> float:
        """Tokens in the bucket, of which there were `used` at `at`."""
        return max(used - max(now - at, 0.0) * self.rate, 0.0)

    def token_wait(self, used: float, tokens: int) -> float:
        """Seconds until there is room for so many tokens; 0: there is. What is larger than the bucket needs all."""
        if used <= 0:
            return 0.0
        excess = used + tokens - self.capacity if tokens <= self.capacity else used
        return excess / self.rate if excess > 0 else 0.0


def terms_of(limits: TenantLimits) -> Terms:
    """Reckon once what each request would need."""
    rpm, tpm = limits.rpm or 0, limits.tpm or 0
    burst = max(1, rpm // BURSTS)
    interval = MINUTE / rpm if rpm else 0.0
    counting = (limits.rpm, limits.rpd, limits.tpm, limits.tpd, limits.concurrency, limits.streams, limits.budget)
    return Terms(
        limits=limits,
        counted=any(limit is not None for limit in counting),
        interval=interval,
        burst=burst,
        slack=(burst - 1) * interval + ROUNDING,
        most_ahead=burst * interval,
        capacity=tpm,
        rate=tpm / MINUTE,
        days=days(limits.timezone),
        periods=None if limits.budget is None else periods(limits.budget),
    )


class Reading(NamedTuple):
    """What has been used of each limit. `ahead` and `tokens` as in `Terms`; the resets are seconds from now."""

    ahead: float = 0.0
    tokens: float = 0.0
    rpd: int = 0
    rpd_reset: float = 0.0
    tpd: int = 0
    tpd_reset: float = 0.0
    budget: int = 0
    budget_reset: float = 0.0
    open: int = 0
    streams: int = 0


def windows(
    terms: Terms, ahead: float, tokens: float, rpd_used: int, rpd_reset: float, tpd_used: int, tpd_reset: float
) -> tuple[Window, ...]:
    """For the client, one of requests and one of tokens: the minute's, or the day's where it is the only one, or has
    less left. What remains of the minute's requests are those that may be sent at once. The rest as in `Reading`, of
    which each request would have to make one."""
    limits = terms.limits
    found: list[Window] = []
    rpm, rpd, tpm, tpd = limits.rpm, limits.rpd, limits.tpm, limits.tpd
    share = 2.0
    if rpm is not None:
        left = int((terms.slack + terms.interval - ahead) / terms.interval)
        left = max(0, left)
        share = left / terms.burst
        found.append(Window("requests", rpm, left, ahead))
    if rpd is not None and (left := max(0, rpd - rpd_used)) / rpd < share:
        found[:] = (Window("requests", rpd, left, rpd_reset),)
    if tpm is not None:
        left = int(tpm - tokens)
        found.append(Window("tokens", tpm, max(0, left), tokens / terms.rate))
    elif tpd is not None:
        found.append(Window("tokens", tpd, max(0, tpd - tpd_used), tpd_reset))
    return tuple(found)


def standings(terms: Terms, reading: Reading) -> Iterator[Standing]:
    """For the operator, all that are limited. Requests a minute are told as the pace that they come at now: where a
    burst is used up it is the limit."""
    limits = terms.limits
    if limits.rpm is not None:
        pace = ceil(limits.rpm * min(1.0, reading.ahead / (terms.burst * terms.interval)))
        yield Standing("rpm", limits.rpm, pace, reading.ahead)
    if limits.rpd is not None:
        yield Standing("rpd", limits.rpd, reading.rpd, reading.rpd_reset)
    if limits.tpm is not None:
        yield Standing("tpm", limits.tpm, ceil(reading.tokens), reading.tokens / terms.rate)
    if limits.tpd is not None:
        yield Standing("tpd", limits.tpd, reading.tpd, reading.tpd_reset)
    if limits.concurrency is not None:
        yield Standing("concurrency", limits.concurrency, reading.open, 0.0)
    if limits.streams is not None:
        yield Standing("streams", limits.streams, reading.streams, 0.0)
    if limits.budget is not None:
        yield Standing("budget", limits.budget.limit, reading.budget, reading.budget_reset)
