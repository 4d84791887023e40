"""What a running server can't take over from a new configuration."""

from proxy.settings.mistakes import Mistake, SettingsError
from proxy.settings.snapshot import Settings


def needs_restart(running: Settings, new: Settings) -> list[str]:
    """The keys of `new` that hold only after a restart; until then those of `running` do.

    Raises SettingsError where that would do harm: without tenants no key is asked for, at an address that others
    can reach.
    """
    if new.tenants is None and not running.listen.is_loopback:
        message = (
            f"can't be taken away without a restart while {running.listen} is bound: nobody would be asked for a key"
        )
        raise SettingsError([Mistake("configuration", None, "tenants", message)])
    changed = {
        "listen": running.listen != new.listen,
        "admin_listen": running.admin_listen != new.admin_listen,
        "capacity.backlog": running.capacity.backlog != new.capacity.backlog,
        "workers": running.workers != new.workers,
        "state.url": _store(running) != _store(new),
        "state.content_keys": _content_keys(running) != _content_keys(new),
        "state.limits_file": running.limits_file != new.limits_file,
        "telemetry.logs.format": running.log_format != new.log_format,
        "state.on_failure": _store(running) == _store(new) and _on_failure(running) != _on_failure(new),
        "telemetry.traces": new.traces is not None and _receiver(running) != _receiver(new),
    }
    return [key for key, differs in changed.items() if differs]


def _receiver(settings: Settings) -> tuple[str, dict[str, str]] | None:
    """Where spans go. Which requests have some, and whether any do, may change at any time."""
    traces = settings.traces
    if traces is None:
        return None
    return traces.endpoint, {name: value.get_secret_value() for name, value in traces.headers.items()}


def _store(settings: Settings) -> str | None:
    shared = settings.state or settings.shared_limits
    return None if shared is None else shared.url.get_secret_value()


def _on_failure(settings: Settings) -> str | None:
    return None if settings.shared_limits is None else settings.shared_limits.on_failure


def _content_keys(settings: Settings) -> list[bytes]:
    return [] if settings.state is None else [key.get_secret_value() for key in settings.state.keys]
