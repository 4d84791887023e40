"""Rate-limit headers of a backend in the client's family (mapping.md 15.2).

OpenAI tells when a limit is whole again as a duration (`6m0s`), Anthropic as a moment (RFC 3339). What one family
has and the other lacks is left out, never invented.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from math import ceil
from typing import Literal, NamedTuple

from proxy.tenancy import limits

Family = Literal["openai", "anthropic"]

MAX_RETRY_AFTER = 120.0  # seconds; OpenAI's SDKs don't retry at all when told to wait longer

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
# Numbers are bounded: a backend's headers are as little to be trusted as anything else it sends.
_DURATION_STEP = re.compile(r"(\d{1,12}(?:\.\d{1,12})?)(ns|us|µs|ms|s|m|h|d)")
_SECONDS = re.compile(r"\d{1,12}(?:\.\d{1,12})?")
_COUNT = re.compile(r"\d{1,18}")

_KINDS = ("limit", "remaining", "reset")
_UNITS_OF_LIMITS = ("requests", "tokens")
_OPENAI_NAMES = {unit: tuple(f"x-ratelimit-{kind}-{unit}" for kind in _KINDS) for unit in _UNITS_OF_LIMITS}
_ANTHROPIC_NAMES = {unit: tuple(f"anthropic-ratelimit-{unit}-{kind}" for kind in _KINDS) for unit in _UNITS_OF_LIMITS}


class Window(NamedTuple):
    """One limit: texts of numbers as the backend wrote them; `reset` is in seconds from now."""

    limit: str | None
    remaining: str | None
    reset: float | None


def translate(headers: Mapping[str, str], source: Family, target: Family, now: float) -> list[tuple[str, str]]:
    """The limits in `headers` in the spelling of the other family. `now`: Unix seconds."""
    if source == "openai":
        found = [(unit, _from_openai(headers, unit)) for unit in ("requests", "tokens")]
    else:
        found = [("requests", _from_anthropic(headers, "requests", now)), ("tokens", _anthropic_tokens(headers, now))]
    write = _to_openai if target == "openai" else _to_anthropic
    return [header for unit, window in found if window is not None for header in write(unit, window, now)]


def write_windows(windows: Iterable[limits.Window], target: Family, now: float) -> list[tuple[str, str]]:
    """Limits of our own, in the spelling of a family."""
    headers: list[tuple[str, str]] = []
    if target == "openai":
        for unit, limit, remaining, reset in windows:
            limit_name, remaining_name, reset_name = _OPENAI_NAMES[unit]
            headers += (
                (limit_name, str(limit)),
                (remaining_name, str(remaining)),
                (reset_name, write_duration(reset)),
            )
    else:
        for unit, limit, remaining, reset in windows:
            limit_name, remaining_name, reset_name = _ANTHROPIC_NAMES[unit]
            headers += ((limit_name, str(limit)), (remaining_name, str(remaining)))
            if (moment := write_moment(now + reset)) is not None:
                headers.append((reset_name, moment))
    return headers


def reset_of(headers: Mapping[str, str], source: Family, now: float) -> float | None:
    """Seconds until the tightest limit that is used up is whole again; None when none is told."""
    names = ("requests", "tokens") if source == "openai" else ("requests", "tokens", "input-tokens", "output-tokens")
    windows = (
        _from_openai(headers, name) if source == "openai" else _from_anthropic(headers, name, now) for name in names
    )
    waits = [w.reset for w in windows if w is not None and w.reset is not None and w.remaining in ("0", None)]
    return max(waits, default=None)


def _from_openai(headers: Mapping[str, str], unit: str) -> Window | None:
    limit, remaining, reset = (headers.get(f"x-ratelimit-{kind}-{unit}") for kind in _KINDS)
    return _window(limit, remaining, parse_duration(reset) if reset else None)


def _from_anthropic(headers: Mapping[str, str], unit: str, now: float) -> Window | None:
    limit, remaining, reset = (headers.get(f"anthropic-ratelimit-{unit}-{kind}") for kind in _KINDS)
    moment = parse_moment(reset) if reset else None
    return _window(limit, remaining, None if moment is None else max(0.0, moment - now))


def _window(limit: str | None, remaining: str | None, reset: float | None) -> Window | None:
    limit = limit if limit is not None and _COUNT.fullmatch(limit) else None
    remaining = remaining if remaining is not None and _COUNT.fullmatch(remaining) else None
    if limit is None and remaining is None and reset is None:
        return None
    return Window(limit, remaining, reset)


def _anthropic_tokens(headers: Mapping[str, str], now: float) -> Window | None:
    """`tokens` is the tightest one already; without it the tighter of input and output stands for it."""
    if whole := _from_anthropic(headers, "tokens", now):
        return whole
    windows = [_from_anthropic(headers, unit, now) for unit in ("input-tokens", "output-tokens")]
    return min((window for window in windows if window is not None), key=_share_left, default=None)


def _share_left(window: Window) -> float:
    if window.limit is None or window.remaining is None:
        return 1.0
    return int(window.remaining) / max(1, int(window.limit))


def _to_openai(unit: str, window: Window, _now: float) -> Iterator[tuple[str, str]]:
    if window.limit is not None:
        yield f"x-ratelimit-limit-{unit}", window.limit
    if window.remaining is not None:
        yield f"x-ratelimit-remaining-{unit}", window.remaining
    if window.reset is not None:
        yield f"x-ratelimit-reset-{unit}", write_duration(window.reset)


def _to_anthropic(unit: str, window: Window, now: float) -> Iterator[tuple[str, str]]:
    if window.limit is not None:
        yield f"anthropic-ratelimit-{unit}-limit", window.limit
    if window.remaining is not None:
        yield f"anthropic-ratelimit-{unit}-remaining", window.remaining
    if window.reset is not None and (moment := write_moment(now + window.reset)):
        yield f"anthropic-ratelimit-{unit}-reset", moment


def parse_duration(text: str) -> float | None:
    """`6m0s`, `120ms`, `1h2m3.5s` or bare seconds, as seconds."""
    text = text.strip()
    if _SECONDS.fullmatch(text):
        return float(text)
    total, end = 0.0, 0
    for step in _DURATION_STEP.finditer(text):
        if step.start() != end:
            return None
        total += float(step[1]) * _UNITS[step[2]]
        end = step.end()
    return total if end and end == len(text) else None


def write_duration(seconds: float) -> str:
    """Seconds as Go writes a duration: `6m0s`, `1.5s`, `120ms`, `0s`."""
    milliseconds = round(max(0.0, seconds) * 1000)
    if 0 < milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, rest = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    text = f"{rest / 1000:g}s"
    if hours:
        return f"{hours}h{minutes}m{text}"
    return f"{minutes}m{text}" if minutes else text


def parse_moment(text: str) -> float | None:
    """An RFC 3339 time as Unix seconds."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def write_moment(seconds: float) -> str | None:
    """Unix seconds as an RFC 3339 time in UTC, whole seconds; None beyond the calendar."""
    try:
        return _moment(ceil(seconds))
    except (ValueError, OverflowError, OSError):
        return None


@lru_cache(256)
def _moment(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """How long the backend asks to wait, in seconds, from either header; an HTTP date counts from `now`."""
    if (text := headers.get("retry-after-ms")) and _SECONDS.fullmatch(text.strip()):
        return float(text) / 1000
    text = headers.get("retry-after", "").strip()
    if not text:
        return None
    if _SECONDS.fullmatch(text):
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - now)


def write_retry_after(seconds: float) -> Iterator[tuple[str, str]]:
    """Both headers that SDKs read. A longer wait than they accept is cut, and told whole in a header of our own."""
    told = min(max(seconds, 0.0), MAX_RETRY_AFTER)
    yield "retry-after", str(ceil(told))
    yield "retry-after-ms", str(ceil(told * 1000))
    if seconds > told:
        yield "dragoman-retry-after", str(ceil(seconds))
