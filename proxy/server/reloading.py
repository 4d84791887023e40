"""A new configuration in the place of the old one, while requests go on (operations.md 13).

It is read and checked whole, in a thread of its own; then one reference changes. What is wrong with it is told, and the
last good one stays.
"""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable, Iterator

from proxy.server.runtime import Runtime
from proxy.settings import Loaded, SettingsError, needs_restart
from proxy.settings.watching import Watcher
from proxy.telemetry.logs import timestamp
from proxy.upstream.dialects import UnknownDialect

LOOK_EVERY = 5.0  # seconds between looks at the configuration's files
_SECRETS_EVERY = 12  # looks between those at the files that it names: a minute

log = logging.getLogger("dragoman")


class Reloading:
    """`read`: reads the configuration once more; None where it did not come from files."""

    def __init__(self, runtime: Runtime, loaded: Loaded, read: Callable[[], Loaded] | None) -> None:
        self._runtime = runtime
        self._loaded = loaded
        self._read = read
        self._running = loaded.settings  # what the listeners were made from
        self._watcher = Watcher(loaded.sources)
        self._turn = asyncio.Lock()
        self._asked: set[asyncio.Task[bool]] = set()
        self._since = timestamp()
        self._last: dict[str, object] = {"result": "ok", "at": self._since, "mistakes": []}
        self._restart_for: list[str] = []
        runtime.metrics.note_config(loaded.digest)

    def status(self) -> dict[str, object]:
        """For the operator: what is in force, and what came of the last attempt to change it."""
        return {
            "digest": self._loaded.digest,
            "since": self._since,
            "files": [str(path) for path in self._loaded.sources.configuration],
            "last_reload": self._last,
            "needs_restart": self._restart_for,
        }

    @contextlib.contextmanager
    def begun(self) -> Iterator[None]:
        """While it is entered, files are watched, and SIGHUP is heard."""
        watching = asyncio.create_task(self._watch()) if self._read is not None else None
        loop = asyncio.get_running_loop()
        with contextlib.suppress(NotImplementedError, AttributeError):  # Windows
            loop.add_signal_handler(signal.SIGHUP, self._on_hang_up)
        try:
            yield
        finally:
            with contextlib.suppress(NotImplementedError, AttributeError):
                loop.remove_signal_handler(signal.SIGHUP)
            for task in (watching, *self._asked):
                if task is not None:
                    task.cancel()

    def _on_hang_up(self) -> None:
        task = asyncio.create_task(self.reload("SIGHUP"))
        self._asked.add(task)
        task.add_done_callback(self._asked.discard)

    async def _watch(self) -> None:
        """Look at the files for ever, and reload when they change."""
        looks = 0
        while True:
            await asyncio.sleep(LOOK_EVERY)
            looks += 1
            changed = await asyncio.to_thread(self._watcher.changed)
            if not changed and looks % _SECRETS_EVERY == 0:
                changed = await asyncio.to_thread(self._watcher.secrets_changed)
            if changed:
                await self.reload("file")

    async def reload(self, actor: str) -> bool:
        """Read the configuration again and put it in force. False: it can't be, and nothing has changed."""
        async with self._turn:
            if self._read is None:
                self._reject(actor, ["The configuration did not come from a file."])
                return False
            try:
                loaded = await asyncio.to_thread(self._read)
                self._watcher = Watcher(loaded.sources)
                restart_for = needs_restart(self._running, loaded.settings)
                gateway = await asyncio.to_thread(self._runtime.make_ready, loaded.settings, loaded.digest)
            except SettingsError as error:
                if error.sources.configuration:
                    self._watcher = Watcher(error.sources)
                self._reject(actor, [str(mistake) for mistake in error.mistakes])
                return False
            except (UnknownDialect, OSError) as error:
                self._reject(actor, [str(error)])
                return False
            self._runtime.take(gateway)
            self._accept(actor, loaded, restart_for)
            return True

    def _accept(self, actor: str, loaded: Loaded, restart_for: list[str]) -> None:
        before, self._loaded = self._loaded, loaded
        self._since = timestamp()
        self._last = {"result": "ok", "at": self._since, "mistakes": []}
        self._restart_for = restart_for
        self._runtime.metrics.count_reload(ok=True)
        self._runtime.metrics.note_config(loaded.digest)
        self._runtime.audit.note(
            "config.reload", actor=actor, target="config", result="ok", before=before.digest, after=loaded.digest
        )
        log.info("The configuration was read again and is in force")
        for name in restart_for:
            log.warning("%s has changed, but holds only after a restart", name)

    def _reject(self, actor: str, mistakes: list[str]) -> None:
        self._last = {"result": "rejected", "at": timestamp(), "mistakes": mistakes}
        self._runtime.metrics.count_reload(ok=False)
        digest = self._loaded.digest
        self._runtime.audit.note(
            "config.reject", actor=actor, target="config", result="rejected", before=digest, after=digest
        )
        for mistake in mistakes[:20]:
            log.error("The configuration was not taken, the last good one stays: %s", mistake)
