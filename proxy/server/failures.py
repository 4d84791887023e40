"""Whose fault it was that a request failed, and who said so: the words of metrics and records (operations.md 4.2)."""

from typing import Literal, NamedTuple

from proxy.canonical.errors import Error, ErrorClass, Reason

Outcome = Literal["ok", "client_error", "policy", "upstream_error", "proxy_error", "cancelled", "incomplete"]
Origin = Literal["client", "policy", "proxy", "upstream"]

# What a policy or a limit refuses, in difference to what is wrong with a request.
DENIALS = frozenset(
    {
        Reason.IP_DENIED,
        Reason.PROTOCOL_DENIED,
        Reason.ENDPOINT_DENIED,
        Reason.MODEL_DENIED,
        Reason.TOOL_DENIED,
        Reason.HOSTED_TOOL_DENIED,
        Reason.MCP_DENIED,
        Reason.BODY_TOO_LARGE,
        Reason.RPM,
        Reason.RPD,
        Reason.TPM,
        Reason.TPD,
        Reason.CONCURRENCY,
        Reason.BUDGET,
    }
)
_OF_PROXY = frozenset({Reason.DRAINING, Reason.OVERLOADED, Reason.INTERNAL})
_OF_UPSTREAM = frozenset(
    {Reason.UPSTREAM_AUTH, Reason.UPSTREAM_UNREACHABLE, Reason.UPSTREAM_TIMEOUT, Reason.UPSTREAM_ERROR}
)
# Classes that are about the request, whoever refuses it.
_OF_REQUEST = frozenset(
    {
        ErrorClass.INVALID,
        ErrorClass.UNSUPPORTED,
        ErrorClass.CONTEXT_LENGTH,
        ErrorClass.CONTENT_POLICY,
        ErrorClass.AUTHENTICATION,
        ErrorClass.PERMISSION,
        ErrorClass.NOT_FOUND,
        ErrorClass.MODEL_NOT_FOUND,
        ErrorClass.CONFLICT,
        ErrorClass.TOO_LARGE,
    }
)


class Failure(NamedTuple):
    """`origin` is who said no, `outcome` whose fault it is: a backend may rightly refuse what its client asks."""

    origin: Origin
    kind: str
    outcome: Outcome


def failure_of(error: Error, reason: Reason | None) -> Failure:
    """`reason`: the true one, where the client is told another."""
    kind = reason.value if reason is not None else error.kind.value
    if reason in DENIALS:
        return Failure("policy", kind, "policy")
    if reason in _OF_PROXY or error.kind is ErrorClass.INTERNAL:
        return Failure("proxy", kind, "proxy_error")
    if reason in _OF_UPSTREAM:
        return Failure("upstream", kind, "upstream_error")
    told = error.http is not None
    if error.kind in _OF_REQUEST:
        return Failure("upstream" if told else "client", kind, "client_error")
    return Failure("upstream", kind, "upstream_error")
