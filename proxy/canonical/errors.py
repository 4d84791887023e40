"""What went wrong, in no one's wire format.

An `Error` is a value that travels (through a stream, into a header, to a log); `Rejected` is the
exception that carries one up to whoever answers the client. Statuses, types and codes of each
protocol are tables in that protocol's own folder (mapping.md 15.1).
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxy.canonical.loss import Loss


LONGEST_TEXT = 8 * 1024  # characters of a message


class ErrorClass(StrEnum):
    """The rows of mapping.md 15.1."""

    INVALID = "invalid"
    UNSUPPORTED = "unsupported"  # a translation was refused (mapping.md 0.2)
    CONTEXT_LENGTH = "context_length"
    CONTENT_POLICY = "content_policy"
    AUTHENTICATION = "authentication"
    PERMISSION = "permission"
    QUOTA = "quota"
    NOT_FOUND = "not_found"
    MODEL_NOT_FOUND = "model_not_found"
    CONFLICT = "conflict"
    TOO_LARGE = "too_large"
    RATE_LIMIT = "rate_limit"
    SERVER = "server"  # the backend's own 500
    INTERNAL = "internal"  # a bug of the proxy
    BAD_GATEWAY = "bad_gateway"
    UNREACHABLE = "unreachable"
    UPSTREAM_AUTH = "upstream_auth"  # the backend refused the proxy's own key
    OVERLOADED = "overloaded"
    TIMEOUT = "timeout"


class Reason(StrEnum):
    """Why the proxy itself refused or failed; shown in `dragoman-reason` (operations.md 1)."""

    AUTH_MISSING = "auth_missing"
    AUTH_UNKNOWN = "auth_unknown"
    AUTH_EXPIRED = "auth_expired"
    AUTH_DISABLED = "auth_disabled"
    IP_DENIED = "ip_denied"
    PROTOCOL_DENIED = "protocol_denied"
    ENDPOINT_DENIED = "endpoint_denied"
    MODEL_DENIED = "model_denied"
    TOOL_DENIED = "tool_denied"
    HOSTED_TOOL_DENIED = "hosted_tool_denied"
    MCP_DENIED = "mcp_denied"
    RPM = "rpm"
    RPD = "rpd"
    TPM = "tpm"
    TPD = "tpd"
    CONCURRENCY = "concurrency"
    BUDGET = "budget"
    BODY_TOO_LARGE = "body_too_large"
    LOSS_REFUSED = "loss_refused"
    MALFORMED = "malformed"
    STATE_NOT_PORTABLE = "state_not_portable"
    DRAINING = "draining"
    OVERLOADED = "overloaded"
    UPSTREAM_AUTH = "upstream_auth"
    UPSTREAM_UNREACHABLE = "upstream_unreachable"
    UPSTREAM_TIMEOUT = "upstream_timeout"
    UPSTREAM_ERROR = "upstream_error"
    INTERNAL = "internal"


@dataclass(slots=True)
class Error:
    """One failure, whoever caused it.

    `http` is the status that the backend answered with (None: no answer, or our own error);
    `code` and `param` are the backend's, or ours; `retry_after` is in seconds; `reason` is set
    only on errors that the proxy itself raises; `details` keeps `error.details` of Messages. `quoted`: what the model
    had said, where the error is about that; it is no part of the message, whose words are looked at.
    """

    kind: ErrorClass
    message: str
    code: str | None = None
    param: str | None = None
    http: int | None = None
    retry_after: float | None = None
    should_retry: bool | None = None
    type: str | None = None
    reason: Reason | None = None
    details: dict[str, object] | None = None
    quoted: str | None = None

    @property
    def told(self) -> str:
        """What a client reads."""
        return self.message if self.quoted is None else f"{self.message} The model said: {self.quoted}"

    def scrubbed(self, scrub: Callable[[str], str]) -> "Error":
        """This error, without what `scrub` takes out of a text, and without the rest of texts that are too long to be
        read: they quote what a client or a backend has written."""
        self.message = _readable(scrub(self.message))
        self.code, self.param, self.type, self.quoted = (
            None if text is None else _readable(scrub(text)) for text in (self.code, self.param, self.type, self.quoted)
        )
        return self


def _readable(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"


class Rejected(Exception):
    """The exchange can't go on; `error` is what the client is told, `losses` what was found until then."""

    def __init__(self, error: Error) -> None:
        super().__init__(error.message)
        self.error = error
        self.losses: list[Loss] = []


class InexactNumber(Exception):
    """The body holds an integer beyond 64 bit, which the fast JSON decoder rounded.

    Readers raise it when they meet such a number in tool arguments; the caller decodes the body
    again with exact integers (mapping.md 0.3).
    """
