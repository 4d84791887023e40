"""A new configuration in the place of the old one, while requests go on (operations.md 13).

It is read and checked whole, in a thread of its own; then one reference changes. What is wrong with it is told, and the
last good one stays.
"""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from typing import TypeVar

from proxy.server.gateway import Gateway
from proxy.server.runtime import Runtime
from proxy.settings import Loaded, SettingsError, needs_restart
from proxy.settings.letting_go import let_go
from proxy.settings.watching import Watcher
from proxy.telemetry.logs import timestamp
from proxy.upstream.dialects import UnknownDialect

LOOK_EVERY = 5.0  # seconds between looks at the configuration's files
_SECRETS_EVERY = 12  # looks between those at the files that it names: a minute
_RETIRED_EVERY = 1.0  # seconds between looks at whether an old configuration is still used

log = logging.getLogger("dragoman")

_T = TypeVar("_T")


class Reloading:
    """`read`: reads the configuration once more; None where it did not come from files."""

    def __init__(
        self,
        runtime: Runtime,
        loaded: Loaded,
        read: Callable[[], Loaded] | None,
        *,
        look_every: float = LOOK_EVERY,
    ) -> None:
        self._runtime = runtime
        self._loaded = loaded
        self._read = read
        self._look_every = look_every
        # What the listeners were made from. Tenants need no restart, and may be many.
        self._running = replace(loaded.settings, tenants=None)
        self._watcher = Watcher(loaded.sources)
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[object]] = set()
        self._since = timestamp()
        self._last: dict[str, object] = {"result": "ok", "at": self._since, "mistakes": []}
        self._restart_for: list[str] = []
        runtime.metrics.note_config(loaded.digest)
        runtime.audit.note("config.load", actor="process", target="config", result="ok", after=loaded.digest)

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
        if self._read is not None:
            self._start(self._watch())
        loop = asyncio.get_running_loop()
        with contextlib.suppress(NotImplementedError, AttributeError):  # Windows
            loop.add_signal_handler(signal.SIGHUP, self._on_hang_up)
        try:
            yield
        finally:
            with contextlib.suppress(NotImplementedError, AttributeError):
                loop.remove_signal_handler(signal.SIGHUP)
            for task in self._tasks:
                task.cancel()

    def _start(self, work: Coroutine[object, object, _T]) -> asyncio.Task[_T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _on_hang_up(self) -> None:
        self._start(self._reload("SIGHUP", None))

    async def _watch(self) -> None:
        """Look at the files for ever, and reload when they change."""
        looks = 0
        while True:
            await asyncio.sleep(self._look_every)
            looks += 1
            changed = await asyncio.to_thread(self._watcher.changed)
            if not changed and looks % _SECRETS_EVERY == 0:
                changed = await asyncio.to_thread(self._watcher.secrets_changed)
            if changed:
                await self._reload("file", None)

    async def reload(self, actor: str, request_id: str | None = None) -> bool:
        """Read the configuration again and put it in force, even if who asked for it does not wait for the end. False:
        it can't be, and nothing has changed."""
        return await asyncio.shield(self._start(self._reload(actor, request_id)))

    async def _reload(self, actor: str, request_id: str | None) -> bool:
        """One at a time."""
        async with self._turn:
            if self._read is None:
                self._reject(actor, request_id, ["The configuration did not come from a file."])
                return False
            try:
                loaded = await asyncio.to_thread(self._read)
                self._watcher = Watcher(loaded.sources)
                restart_for = needs_restart(self._running, loaded.settings)
                gateway = await asyncio.to_thread(self._runtime.make_ready, loaded.settings, loaded.digest)
            except SettingsError as error:
                if error.sources.configuration:
                    self._watcher = Watcher(error.sources)
                self._reject(actor, request_id, [str(mistake) for mistake in error.mistakes])
                return False
            except (UnknownDialect, OSError) as error:
                self._reject(actor, request_id, [str(error)])
                return False
            except Exception as error:
                log.exception("Reading the configuration failed")
                self._reject(actor, request_id, [f"It can't be read: {type(error).__name__}"])
                return False
            self._start(self._retire(self._runtime.gateway))
            self._runtime.take(gateway)
            self._accept(actor, request_id, loaded, restart_for)
            return True

    async def _retire(self, gateway: Gateway) -> None:
        """Let go of an old configuration once nobody uses it: piece by piece, in a thread, since it may be large."""
        used = True
        while used:
            await asyncio.sleep(_RETIRED_EVERY)
            used = any(exchange.gateway is gateway for exchange in self._runtime.open)
        pieces = gateway.pieces()
        del gateway
        await asyncio.to_thread(let_go, pieces)

    def _accept(self, actor: str, request_id: str | None, loaded: Loaded, restart_for: list[str]) -> None:
        before, self._loaded = self._loaded, loaded
        self._since = timestamp()
        self._last = {"result": "ok", "at": self._since, "mistakes": []}
        self._restart_for = restart_for
        self._runtime.metrics.count_reload(ok=True)
        self._runtime.metrics.note_config(loaded.digest)
        self._runtime.audit.note(
            "config.reload",
            actor=actor,
            target="config",
            result="ok",
            before=before.digest,
            after=loaded.digest,
            request_id=request_id,
        )
        log.info("The configuration was read again and is in force")
        for name in restart_for:
            log.warning("%s has changed, but holds only after a restart", name)

    def _reject(self, actor: str, request_id: str | None, mistakes: list[str]) -> None:
        mistakes = [self._runtime.scrub(mistake) for mistake in mistakes]
        self._last = {"result": "rejected", "at": timestamp(), "mistakes": mistakes}
        self._runtime.metrics.count_reload(ok=False)
        digest = self._loaded.digest
        self._runtime.audit.note(
            "config.reject",
            actor=actor,
            target="config",
            result="rejected",
            before=digest,
            after=digest,
            request_id=request_id,
        )
        for mistake in mistakes[:20]:
            log.error("The configuration was not taken, the last good one stays: %s", mistake)
