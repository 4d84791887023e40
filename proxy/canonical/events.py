"""An answer that is still being written: the events of a stream (mapping.md 1.3).

Readers guarantee, and writers rely on it: `Start` comes first; `k` counts parts densely in the order of
their `Open`; every `Delta` and `Close` names an open part; every part is closed before `Finish`; there is
exactly one `Finish` or `Fail`; `End` comes last, after `Fail` too. Several parts may be open at once.
`Ping` may stand anywhere. A `Fail` may come without a `Start` and with parts still open.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from proxy.canonical.errors import Error
from proxy.canonical.parts import Citation, Extra, ReplyPart
from proxy.canonical.stop import Stop
from proxy.canonical.usage import Usage


@dataclass(slots=True)
class Start:
    """The backend has begun. `usage` is what it told of the prompt by now, if anything."""

    id: str
    model: str
    created: int | None = None
    usage: Usage | None = None
    service_tier: str | None = None
    fingerprint: str | None = None


@dataclass(slots=True)
class Open:
    """Part `k` begins. `part` is its first state: usually empty text, a call with its id and name, …

    Parts that come whole (`HostedCall`, `Opaque`, redacted `Reasoning`) open complete and close at once.
    """

    k: int
    part: ReplyPart


@dataclass(slots=True)
class Delta:
    """Part `k` grows: its text, arguments, thinking or refusal text."""

    k: int
    text: str
    logprobs: list[object] | None = None


@dataclass(slots=True)
class Cite:
    """A citation for text part `k`; it may come after the part has closed (mapping.md 13.2)."""

    k: int
    citation: Citation


@dataclass(slots=True)
class Close:
    """Part `k` is complete. `native` is the vendor's whole block or item, for parts that must come back."""

    k: int
    native: Extra | None = None


@dataclass(slots=True)
class UsageUpdate:
    """What has been used so far; the last one holds."""

    usage: Usage


@dataclass(slots=True)
class Finish:
    """The answer is complete."""

    stop: Stop
    service_tier: str | None = None


@dataclass(slots=True)
class Fail:
    """The answer broke off."""

    error: Error


@dataclass(slots=True)
class Ping:
    """The backend is alive and has nothing to say."""


@dataclass(slots=True)
class End:
    """Nothing more will come."""


Event = Start | Open | Delta | Cite | Close | UsageUpdate | Finish | Fail | Ping | End

_GROWTH = {Delta}


def only_deltas(events: Iterable[Event]) -> bool:
    """Whether parts grow and nothing else happens, as in most reads of a stream."""
    return _GROWTH.issuperset(map(type, events))
