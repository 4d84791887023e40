"""What follows from a failed request to a backend: the table of operations.md 11, row by row."""

from typing import Literal, NamedTuple

from proxy.canonical.errors import Error, ErrorClass, Reason

# As `dragoman_retries_total` and the spans tell it.
Cause = Literal[
    "connection", "timeout", "server_error", "overloaded", "rate_limit", "credential", "broken", "unfit", "final"
]


class Verdict(NamedTuple):
    """`again`: whether the same target may be asked once more, at once, after a pause, or only if the backend wants a
    short one. `elsewhere`: whether another target may be asked. `key`: the credential is of no use for now, another one
    may be. `cools`: the target is to be spared for as long as it says. `counts`: the backend is to blame."""

    cause: Cause
    again: Literal["no", "at_once", "paused", "if_soon"] = "no"
    elsewhere: bool = True
    key: bool = False
    cools: bool = False
    counts: bool = False


CONNECTION = Verdict("connection", again="at_once", counts=True)
TIMEOUT = Verdict("timeout", counts=True)  # the call may still be billed
SERVER_ERROR = Verdict("server_error", again="paused", counts=True)
OVERLOADED = Verdict("overloaded", counts=True)
RATE_LIMIT = Verdict("rate_limit", again="if_soon", cools=True)
CREDENTIAL = Verdict("credential", key=True)
BROKEN = Verdict("broken", counts=True)  # what came is no answer, or not all of it
UNFIT = Verdict("unfit")  # the target was not even asked: it can't do what the request wants
FINAL = Verdict("final", elsewhere=False)  # it is an answer, or the request's own fault

_OF_KEYS = frozenset({ErrorClass.UPSTREAM_AUTH, ErrorClass.QUOTA})
# 401 and 403 are when the client brought the key; else they are of the class above.
_ABOUT_REQUEST = frozenset({400, 401, 403, 404, 409, 413, 422})
_OWN = frozenset({Reason.DRAINING, Reason.OVERLOADED, Reason.INTERNAL})  # no backend has anything to do with it
_UNFIT = frozenset({Reason.LOSS_REFUSED, Reason.STATE_NOT_PORTABLE})
_SAYS_OVERLOADED = frozenset({"server_is_overloaded", "overloaded_error"})


def verdict_of(error: Error) -> Verdict:
    """The row of the table that the error belongs to."""
    kind, status = error.kind, error.http
    if error.reason in _OWN:
        return FINAL
    if kind in _OF_KEYS or status == 402:
        return CREDENTIAL
    if status in _ABOUT_REQUEST:
        return FINAL
    if status == 429:
        return RATE_LIMIT
    if status is None and (kind is ErrorClass.UNSUPPORTED or error.reason in _UNFIT):
        return UNFIT
    match kind:
        case ErrorClass.UNREACHABLE:
            return CONNECTION
        case ErrorClass.RATE_LIMIT:
            return RATE_LIMIT
        case ErrorClass.TIMEOUT:
            if status == 408:  # it counts among the client's own errors
                return SERVER_ERROR._replace(counts=False)
            return TIMEOUT if status is None else SERVER_ERROR
        case ErrorClass.OVERLOADED:
            says = status != 503 or error.code in _SAYS_OVERLOADED or error.type in _SAYS_OVERLOADED
            return OVERLOADED if says else SERVER_ERROR
        case ErrorClass.SERVER:
            return SERVER_ERROR
        case ErrorClass.BAD_GATEWAY:
            return BROKEN if status is None else SERVER_ERROR
        case _:
            return FINAL
