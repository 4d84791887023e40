"""From the start of the process to its end.

The end has an order (operations.md 6.3): refuse probes but serve on, so that load balancers turn away; stop
listening; let streams finish; tell those that don't; leave. A second signal ends at once.
"""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace

from proxy import __version__
from proxy.canonical.errors import Error, ErrorClass, Reason
from proxy.server.admin import Admin
from proxy.server.app import App
from proxy.server.connections import Server
from proxy.server.demo import start_demo
from proxy.server.listening import LAST_BYTES, Listener, listen
from proxy.server.reloading import Reloading
from proxy.server.runtime import Runtime
from proxy.server.self_test import failed_translations
from proxy.server.workers import ALONE, Supervisor, Worker, reserved, share_of, supported
from proxy.settings import Address, Loaded, Settings, SettingsError
from proxy.telemetry.logs import AccessLog, configure_messages, json_line, write_stdout, write_stdout_among_others
from proxy.telemetry.text_lines import text_line
from proxy.upstream.dialects import UnknownDialect

_OK = 0
_MISTAKES = 1
_UNUSABLE = 2
_WAITS = 75  # until the configuration is mended, which is tried again

_OTHER_FILES = 256  # beside connections of clients and those to backends
_POLL = 0.05  # seconds between looks at what is still open
_ENDED_AT_ONCE = 130

log = logging.getLogger("dragoman")


def run(loaded: Loaded, read: Callable[[], Loaded] | None = None, *, demo: bool = False) -> int:
    """Serve until a signal says otherwise, in as many processes as the settings say. `read`: reads the same
    configuration once more. The result is the exit code: 0, 1 for settings that can't be used, 2 when the addresses
    can't be listened on.
    """
    settings = loaded.settings
    if settings.workers == 1:
        return _run(loaded, read, ALONE, demo=demo)
    if not supported():
        _say("dragoman: several workers need a system on which processes can share a port")
        return _MISTAKES
    try:
        address, kept = reserved(settings.listen)
    except OSError as error:
        _say(f"dragoman: can't listen: {error.strerror or error}")
        return _UNUSABLE

    def share(worker: Worker, loaded: Loaded) -> Loaded:
        new = loaded.settings
        if new.listen == settings.listen:
            new = replace(new, listen=address)
        return replace(loaded, settings=share_of(new, worker))

    def serve_as(worker: Worker) -> int:
        for each in kept:
            each.close()
        current = loaded
        if worker.again and read is not None:
            try:
                current = read()
            except SettingsError as error:
                _say(f"dragoman: worker {worker.number} waits for a configuration without mistakes\n{error}")
                return _WAITS
        again = None if read is None else lambda: share(worker, read())
        return _run(share(worker, current), again, worker, demo=demo)

    return Supervisor(settings.workers, serve_as).run()


def _run(loaded: Loaded, read: Callable[[], Loaded] | None, worker: Worker, *, demo: bool) -> int:
    try:
        import uvloop

        new_loop: Callable[[], asyncio.AbstractEventLoop] | None = uvloop.new_event_loop
    except ImportError:
        new_loop = None
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(serve(loaded, read, worker, demo=demo))


async def serve(
    loaded: Loaded, read: Callable[[], Loaded] | None = None, worker: Worker = ALONE, *, demo: bool = False
) -> int:
    """As `run`, inside a loop: one process."""
    settings = loaded.settings
    async with AsyncExitStack() as stack:
        if demo:
            backend = await start_demo()
            stack.push_async_callback(backend.close)
            settings = settings.with_demo_at(backend.base_url)
        try:
            line = text_line if settings.log_format == "text" else json_line
            write = write_stdout if worker is ALONE else write_stdout_among_others
            runtime = Runtime(settings, AccessLog(write, line), loaded.digest)
        except (UnknownDialect, OSError, ValueError) as error:  # the last: an address of the shared store
            _say(f"dragoman: {error}")
            return _MISTAKES
        stack.push_async_callback(runtime.close)
        configure_messages(runtime.scrub, line=line)
        ending = Ending(runtime)
        reloading = Reloading(runtime, loaded, read)
        try:
            shared = worker is not ALONE
            served, backlog = Server(runtime, App(runtime)), settings.capacity.backlog
            clients = await listen(stack, served, settings.listen, backlog=backlog, shared=shared)
            operated = Server(runtime, Admin(runtime, reloading, ending.begin))
            admin = await listen(stack, operated, settings.admin_listen, backlog=backlog)
        except OSError as error:
            _say(f"dragoman: can't listen: {error.strerror or error}")
            return _UNUSABLE
        allow_files(2 * settings.capacity.max_connections + _OTHER_FILES)
        runtime.failed_checks = failed_translations()
        settle_memory()
        ending.watch_signals()
        ending.watch_parent(worker)
        stack.enter_context(reloading.begun())
        if worker.number == 0:
            _announce(settings, clients, admin)
        await ending.carry_out(clients)
    return _OK


def allow_files(wanted: int) -> None:
    """Let the process open so many files and sockets, as far as the system does: shells commonly start with 1024."""
    try:
        import resource
    except ImportError:  # Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    if most < wanted:
        log.warning("The system lets the process open %d files; its capacity would need %d", most, wanted)


def settle_memory() -> None:
    """What exists now lives as long as the process: the collector need not look at it again (performance.md 9)."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 50)


def _announce(settings: Settings, clients: Listener, admin: Listener) -> None:
    listen = Address(settings.listen.host, clients.port)
    tenants = settings.tenants
    who = "without keys: whoever reaches it may use it." if tenants is None else f"for {len(tenants)} tenants, by key."
    _say(f"Dragoman {__version__} listens on http://{listen}, {who}")
    for name, upstream in settings.upstreams.items():
        if upstream.api_key is not None:
            whose = "its own key"
        else:
            whose = "the client's key" if tenants is None else "no key of its own"
        _say(f"  upstream {name}: {upstream.protocol} at {upstream.base_url}, with {whose}")
    for route in settings.models:
        _say(f"  models {route.match}: {', '.join(map(str, route.targets))}")
    probes = Address(settings.admin_listen.host, admin.port)
    more = f", and on the next {settings.workers - 1} ports" if settings.workers > 1 else ""
    _say(f"  probes on http://{probes}: /healthz /readyz /metrics{more}")


def _say(line: str) -> None:
    """Tell whoever started the process; stdout is for records."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


class Ending:
    """The order in which serving ends."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._begun = asyncio.Event()
        self._signalled = False
        self._at_once = False

    def watch_signals(self) -> None:
        """End on SIGTERM, and on SIGINT: that comes from a terminal, where no load balancer needs time to turn away."""
        loop = asyncio.get_running_loop()
        with contextlib.suppress(NotImplementedError):  # Windows
            loop.add_signal_handler(signal.SIGTERM, self._on_signal, signal.SIGTERM)
            loop.add_signal_handler(signal.SIGINT, self._on_signal, signal.SIGINT)

    def watch_parent(self, worker: Worker) -> None:
        """End when the process has gone that would pass signals on."""
        if worker.parent >= 0:
            asyncio.get_running_loop().add_reader(worker.parent, self._on_orphaned, worker.parent)

    def begin(self) -> None:
        """Refuse probes from now on, and let `carry_out` do the rest."""
        self._runtime.draining = True
        self._begun.set()

    async def carry_out(self, clients: Listener) -> None:
        """Wait for `begin`; return when nothing is open any more, or nothing can be waited for."""
        await self._begun.wait()
        log.info("Draining: %d requests are open", len(self._runtime.open))
        if not self._at_once:
            await asyncio.sleep(self._runtime.gateway.settings.drain.lame_duck)
        await clients.stop()
        if not await self._idle_within(self._runtime.gateway.settings.drain.max_stream):
            for exchange in list(self._runtime.open):
                exchange.watch.end(_going_down())
            await self._idle_within(LAST_BYTES)

    async def _idle_within(self, seconds: float) -> bool:
        deadline = asyncio.get_running_loop().time() + seconds
        while self._runtime.open:
            if asyncio.get_running_loop().time() >= deadline:
                return False
            await asyncio.sleep(_POLL)
        return True

    def _on_orphaned(self, parent: int) -> None:
        asyncio.get_running_loop().remove_reader(parent)
        log.warning("The process that started this one has gone")
        self.begin()

    def _on_signal(self, number: signal.Signals) -> None:
        """The second signal ends at once; the first one does not, even if draining was begun by a request."""
        if self._signalled:
            self._runtime.access.flush()
            os._exit(_ENDED_AT_ONCE)
        self._signalled = True
        if not self._begun.is_set():
            self._at_once = number is signal.SIGINT
            self._runtime.audit.note("drain.start", actor=number.name, target="process", result="ok")
        self.begin()


def _going_down() -> Error:
    return Error(
        ErrorClass.OVERLOADED,
        "The proxy is shutting down; try again.",
        reason=Reason.DRAINING,
        retry_after=1,
    )
