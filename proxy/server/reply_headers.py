"""Headers of replies that take some thought: errors, losses, and what a backend says of its limits."""

import time
from collections.abc import Callable, Iterator, Mapping

from proxy.canonical.errors import Error, ErrorClass
from proxy.canonical.loss import Loss
from proxy.server import rate_limits
from proxy.translation.codecs import ClientProtocol
from proxy.upstream.dialects import Protocol

Header = tuple[str, str]

_LOSSES_SHOWN = 20
_VALUE_LIMIT = 1000  # characters of one header: aiohttp's clients stop at 8190, so keep far below
_PRECEDENCE = {"approx": 0, "drop": 1, "refuse": 2}

# Headers of a backend that a client of the same protocol gets as they are, beside the rate limits (mapping.md 15.3).
_SAME_PROTOCOL = frozenset({"openai-processing-ms", "openai-version"})
_LIMIT_PREFIXES = ("x-ratelimit-", "anthropic-ratelimit-", "anthropic-priority-", "anthropic-fast-")
# What is left of a backend's limits, by its protocol.
_OPENAI_REMAINING = (("requests", "x-ratelimit-remaining-requests"), ("tokens", "x-ratelimit-remaining-tokens"))
_REMAINING: Mapping[str, tuple[tuple[str, str], ...]] = {
    "chat": _OPENAI_REMAINING,
    "responses": _OPENAI_REMAINING,
    "messages": (
        ("requests", "anthropic-ratelimit-requests-remaining"),
        ("tokens", "anthropic-ratelimit-tokens-remaining"),
    ),
}


def limits_told(
    headers: Mapping[str, str], client: ClientProtocol, backend: Protocol, scrub: Callable[[str], str]
) -> list[Header]:
    """What a backend's answer says of its limits, in the client's family of names, without secrets: a backend may put
    what it was told where it likes."""
    client_is_messages = client == "messages"
    if client_is_messages == (backend == "messages"):
        same = _SAME_PROTOCOL if client == backend else frozenset()
        told = [
            (name, value)
            for name, value in headers.items()
            if (lower := name.lower()).startswith(_LIMIT_PREFIXES) or lower in same
            if value.isascii() and len(value) <= _VALUE_LIMIT
        ]
    elif client_is_messages:
        told = rate_limits.translate(headers, "openai", "anthropic", time.time())
    else:
        told = rate_limits.translate(headers, "anthropic", "openai", time.time())
    values = "\n".join(value for _, value in told)
    return told if not told or scrub(values) == values else [(name, scrub(value)) for name, value in told]


def tells_limits(headers: Mapping[str, str]) -> bool:
    """Whether there may be anything for `limits_told` and `remaining`; in most answers there is not."""
    names = " ".join(headers).lower()
    return "ratelimit-" in names or "anthropic-" in names or "openai-" in names


def remaining(headers: Mapping[str, str], backend: Protocol) -> Iterator[tuple[str, int]]:
    """What is left of a backend's limits, by kind."""
    for kind, name in _REMAINING[backend]:
        value = headers.get(name)
        if value is not None and value.isascii() and value.isdigit() and len(value) < 16:
            yield kind, int(value)


def error_headers(error: Error) -> list[Header]:
    """What an error's reply says beside its body."""
    headers: list[Header] = []
    if error.reason is not None:
        headers.append(("dragoman-reason", error.reason.value))
    if error.retry_after is not None:
        headers += rate_limits.write_retry_after(error.retry_after)
    if error.kind is ErrorClass.QUOTA:
        headers.append(("x-should-retry", "false"))
    elif error.should_retry is not None:
        headers.append(("x-should-retry", "true" if error.should_retry else "false"))
    return headers


def loss_header(losses: list[Loss]) -> str:
    """`<rule>;<level>, …`: each rule once, with its gravest level, at most 20 (mapping.md 0.2)."""
    gravest: dict[str, str] = {}
    for loss in losses:
        rule, level = loss.rule.value, loss.level
        if rule not in gravest or _PRECEDENCE[gravest[rule]] < _PRECEDENCE[level]:
            gravest[rule] = level
    return ", ".join(f"{rule};{level}" for rule, level in list(gravest.items())[:_LOSSES_SHOWN])


def header_text(text: str) -> str:
    """`text` as a header can hold it: visible ASCII, bounded."""
    if not (text.isascii() and text.isprintable()):
        text = "".join(character if " " <= character <= "~" else "?" for character in text)
    return text[:_VALUE_LIMIT]
