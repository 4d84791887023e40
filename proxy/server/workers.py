"""Several processes that serve on one port, for one machine with many cores (operations.md 4.1).

They share nothing but the port, between which the system divides connections. Worker `i` has its own admin listener, at
`admin_listen` + `i`. The parent serves nobody: it starts them, starts one again that crashed, and passes signals on.
"""

import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf

from proxy.settings import Address, Settings
from proxy.settings.tenants import Tenant

_SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGCHLD")
_BY_SIGNAL = 128  # and its number, as shells tell of a process that a signal has ended
_RAISED = 70  # the exit code of a worker that an exception has ended
_STARTUP_FAILED = frozenset({1, 2, _RAISED})  # exit codes of a configuration, or an address, that can't be used
_FIRST_WAIT, _LONGEST_WAIT = 0.1, 30.0  # seconds before a worker that crashed is started again
_LIVED_LONG = 60.0  # seconds after which a crash is no longer the last one's fault


@dataclass(frozen=True, slots=True)
class Worker:
    """Which of `count` this process is, from 0. `parent`: readable once the parent has gone. `again`: another one was
    it before, and what was configured when that began may hold no more."""

    number: int
    count: int
    parent: int = -1
    again: bool = False


ALONE = Worker(0, 1)

Serve = Callable[[Worker], int]


def supported() -> bool:
    """Whether this system can share a port between processes."""
    return hasattr(os, "fork") and hasattr(socket, "SO_REUSEPORT")


def share_of(settings: Settings, worker: Worker) -> Settings:
    """The settings as they hold for one worker: its own admin listener, and its part of limits that are counted in the
    process alone."""
    if worker.count == 1:
        return settings
    admin = settings.admin_listen
    own = Address(admin.host, admin.port + worker.number if admin.port else 0)
    tenants = settings.tenants
    if tenants is not None and settings.shared_limits is None:
        tenants = {name: _divided(tenant, worker.count) for name, tenant in tenants.items()}
    return replace(settings, admin_listen=own, tenants=tenants)


def _divided(tenant: Tenant, count: int) -> Tenant:
    """At least 1 of each: a worker that admits nobody would refuse what another one would take."""
    limits = tenant.limits
    budget = limits.budget
    if budget is not None:
        budget = replace(budget, limit=max(1, budget.limit // count))
    return replace(
        tenant,
        limits=replace(
            limits,
            budget=budget,
            **{name: max(1, limit // count) for name in _COUNTED if (limit := getattr(limits, name)) is not None},
        ),
    )


_COUNTED = ("rpm", "rpd", "tpm", "tpd", "concurrency", "streams")


class Supervisor:
    """Runs `serve` in `count` processes. Its result is their exit code."""

    def __init__(self, count: int, serve: Serve) -> None:
        self._count = count
        self._serve = serve
        self._running: dict[int, tuple[int, float]] = {}  # by process id: number, start
        self._due: dict[int, float] = {}  # by number: when it is to be started
        self._wait: dict[int, float] = {}  # by number: how long after the next crash
        self._ending = False
        self._code = 0
        self._parent_end, self._own_end = os.pipe()  # nobody writes: its other end closes with this process
        self._watched = {getattr(signal, name) for name in _SIGNALS}

    def run(self) -> int:
        """Until all have ended. The result is the exit code: that of a worker that could not start, or the greatest of
        those that were told to end."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, self._watched)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where it is ignored, nobody hears of a worker that ends
        try:
            for number in range(self._count):
                self._start(number)
            while self._running or (self._due and not self._ending):
                self._wait_for_signal()
                self._reap()
                self._start_due()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            os.close(self._parent_end)
            os.close(self._own_end)
        return self._code

    def _start(self, number: int) -> None:
        self._due.pop(number, None)
        process = os.fork()
        if process:
            self._running[process] = number, time.monotonic()
            return
        code = _RAISED
        try:
            os.setpgid(0, 0)  # what a terminal sends comes from the parent, once
            os.close(self._own_end)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until it is handled; the files are looked at anyway
            signal.pthread_sigmask(signal.SIG_UNBLOCK, self._watched)
            code = self._serve(Worker(number, self._count, self._parent_end, number in self._wait))
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def _wait_for_signal(self) -> None:
        due = min(self._due.values(), default=inf) - time.monotonic()
        if due == inf:
            got = signal.sigwait(self._watched)
        else:
            told = signal.sigtimedwait(self._watched, max(0.0, due))
            got = signal.Signals(told.si_signo) if told is not None else signal.SIGCHLD
        if got is not signal.SIGCHLD:
            self._pass_on(signal.Signals(got))

    def _pass_on(self, number: signal.Signals) -> None:
        if number is not signal.SIGHUP:
            self._ending = True
            self._due.clear()
        for process in self._running:
            with suppress(ProcessLookupError):
                os.kill(process, number)

    def _reap(self) -> None:
        while self._running:
            process, status = os.waitpid(-1, os.WNOHANG)
            if not process:
                return
            number, since = self._running.pop(process)
            code = os.waitstatus_to_exitcode(status)
            self._ended(number, _BY_SIGNAL - code if code < 0 else code, time.monotonic() - since)

    def _ended(self, number: int, code: int, lived: float) -> None:
        if self._ending:
            if code == _BY_SIGNAL + signal.SIGTERM:  # it was told before it could listen
                code = 0
            if self._code not in _STARTUP_FAILED:  # else the others were ended for it, however far they were
                self._code = max(self._code, code)
            return
        first = number not in self._wait
        if code == 0 or (first and code in _STARTUP_FAILED):  # 0: it was told to drain, which is meant for all
            self._code = code
            self._pass_on(signal.SIGTERM)
            return
        wait = _FIRST_WAIT if lived > _LIVED_LONG else self._wait.get(number, _FIRST_WAIT)
        self._wait[number] = min(2 * wait, _LONGEST_WAIT)
        self._due[number] = time.monotonic() + wait
        sys.stderr.write(f"dragoman: worker {number} ended with code {code}; it is started again\n")
        sys.stderr.flush()

    def _start_due(self) -> None:
        now = time.monotonic()
        for number in [number for number, due in self._due.items() if due <= now]:
            self._start(number)


def reserved(address: Address) -> tuple[Address, list[socket.socket]]:
    """The address that workers can share, with a port if it had none, and sockets that keep it for them: bound, but
    nobody listens there. Raises OSError when it is in use or not ours."""
    hosts = ("127.0.0.1", "::1") if address.host == "localhost" else (address.host,)
    port = address.port
    kept: list[socket.socket] = []
    for host in hosts:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            if port:  # without sharing, it can't be had where another server has it
                with socket.socket(family, socket.SOCK_STREAM) as alone:
                    alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    alone.bind((host, port))
            each = socket.socket(family, socket.SOCK_STREAM)
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            each.bind((host, port))
        except OSError:
            if not kept:
                raise
            continue
        kept.append(each)
        port = each.getsockname()[1]
    return Address(address.host, port), kept
