"""What a client's headers present: a key of ours, a backend's own key, or both (operations.md 8.1).

Each of the three headers may hold either. All lines of a header count, so that nobody is let in by the first and
known by the last. The query is never looked at.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from multidict import CIMultiDictProxy, istr

from proxy.canonical.errors import Reason
from proxy.tenancy.keys import PREFIX, AuthFailure

_AUTHORIZATION = istr("authorization")
_BARE = (istr("x-api-key"), istr("api-key"))
_KNOWN = frozenset({_AUTHORIZATION, *_BARE})


@dataclass(frozen=True, slots=True)
class Presented:
    """`key`: what claims to be a key of ours. `foreign`: a key of somebody else's, by all the headers that brought it,
    in lower case; whether the tenant may bring one is not known here."""

    key: str | None = field(repr=False)
    foreign: Mapping[str, str] = field(repr=False, default_factory=dict)


def presented(headers: CIMultiDictProxy[str], also: Iterable[str] = ()) -> Presented | AuthFailure:
    """The keys in `headers`. `also`: headers that may bring a backend's key, in lower case; none of ours comes in
    those that are not looked at anyway.

    One key of ours and one foreign, in another header, is the most; the same one may come several times.
    """
    ours: str | None = None
    foreign: dict[str, str] = {}
    for name, value in _values(headers):
        if not _is_ours(value):
            if foreign.setdefault(name, value) != value:
                return _disagreeing()
        elif ours not in (None, value):
            return _disagreeing()
        else:
            ours = value
    for name in also:
        if name in _KNOWN:
            continue
        for value in filter(None, map(str.strip, headers.getall(name, ()))):
            if _is_ours(value) or foreign.setdefault(name, value) != value:
                return _disagreeing()
    if not foreign:
        return AuthFailure(Reason.AUTH_MISSING) if ours is None else Presented(ours)
    if len(set(foreign.values())) > 1 or not all(map(str.isascii, foreign.values())):
        return _disagreeing()
    if ours is not None and any(name in foreign for name, value in _values(headers) if value == ours):
        return _disagreeing()
    return Presented(ours, foreign)


def _values(headers: CIMultiDictProxy[str]) -> Iterator[tuple[str, str]]:
    """Every key with its header's name."""
    for line in headers.getall(_AUTHORIZATION, ()):
        scheme, _, key = line.strip().partition(" ")
        if scheme.lower() == "bearer" and (key := key.strip()):
            yield "authorization", key
    for name in _BARE:
        for line in headers.getall(name, ()):
            if key := line.strip():
                yield name, key


def _is_ours(value: str) -> bool:
    """By its beginning, in whatever case: one with a mistake in it must not go to a backend as somebody else's."""
    return value[: len(PREFIX)].lower() == PREFIX


def _disagreeing() -> AuthFailure:
    return AuthFailure(Reason.AUTH_UNKNOWN)
