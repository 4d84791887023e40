"""Who changed what, and who was refused: records that are only ever added, among the others on stdout, as `audit`
(operations.md 5)."""

from typing import Literal

from proxy.telemetry.logs import AccessLog, timestamp

Action = Literal[
    "config.load",
    "config.reload",
    "config.reject",
    "limits.restore",
    "drain.start",
    "admin.denied",
    "request.denied",
]


class AuditLog:
    """Writes through the same door as the access records, so that lines never mix; each at once."""

    __slots__ = ("_access",)

    def __init__(self, access: AccessLog) -> None:
        self._access = access

    def note(
        self,
        action: Action,
        *,
        actor: str,
        target: str,
        result: str,
        before: str | None = None,
        after: str | None = None,
        request_id: str | None = None,
        detail: str | None = None,
    ) -> None:
        """`actor`: a tenant, `admin`, or what in the process did it; `before`, `after`: digests of configurations."""
        self._access.record(
            {
                "ts": timestamp(),
                "level": "info",
                "log": "audit",
                "actor": actor,
                "action": action,
                "target": target,
                "before_hash": before,
                "after_hash": after,
                "result": result,
                "request_id": request_id,
                "detail": detail,
            }
        )
        self._access.flush()
