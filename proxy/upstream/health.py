"""How one backend does, by what became of requests to it, and what it may be asked because of that (operations.md 11).

It outlives the requests and, as long as the backend stays the same, the configuration.
"""

from collections.abc import Callable

from proxy.settings import Upstream
from proxy.upstream.circuit import Circuit, State
from proxy.upstream.retry_budget import RetryBudget

DEAD_FOR = 600.0  # seconds that a credential which was refused is not used, or until the configuration is read again
FIRST_PAUSE = 0.25  # seconds; clients retry as well, so that ours are few and fast
_JITTER = 0.25  # at most this part of a longer pause comes on top
_COOL = 1.0  # seconds that a target is spared which does not say for how long
_LONGEST_COOL = 600.0  # seconds; what a backend says is bounded
_MOST_KEPT = 1024  # models and keys, which callers may choose


class Health:
    """Of one upstream. A credential goes by the digest of its account, and a target by that and the model's name."""

    __slots__ = ("_budget", "_circuit", "_clock", "_cool", "_dead", "_max_wait", "_random")

    def __init__(self, upstream: Upstream, clock: Callable[[], float], random: Callable[[], float]) -> None:
        """`clock`: seconds that do not go back. `random`: from 0 to below 1."""
        self._clock = clock
        self._random = random
        self._circuit = Circuit(upstream.breaker, random) if upstream.breaker is not None else None
        self._cool: dict[tuple[bytes, str], float] = {}
        self._dead: dict[bytes, float] = {}
        self._budget = RetryBudget(upstream.retries)
        self._max_wait = upstream.retries.max_wait

    # ---- whether to ask

    @property
    def admits(self) -> bool:
        """Whether the circuit breaker lets a request through."""
        return self._circuit is None or self._circuit.admits(self._clock())

    def spares(self, key: bytes, model: str) -> bool:
        """Whether this credential is of no use now, or this target wants to be left alone with it."""
        if not self._dead and not self._cool:
            return False
        now = self._clock()
        return self._dead.get(key, 0.0) > now or self._cool.get((key, model), 0.0) > now

    @property
    def state(self) -> State:
        """Of the circuit breaker."""
        return State.CLOSED if self._circuit is None else self._circuit.state(self._clock())

    @property
    def opened(self) -> float:
        """Since when the circuit breaker has not been closed; 0 if it is."""
        return (self._circuit.opened or 0.0) if self._circuit is not None else 0.0

    def take_retry(self) -> bool:
        """Whether it may be asked once more; then that is counted."""
        return self.admits and self._budget.take(self._clock())

    def pause(self, asked: float | None) -> float | None:
        """Seconds to wait before it is asked once more: what it `asked` for, or a moment, and some jitter on top. None:
        it wants to be left alone for longer than anybody waits."""
        if asked is None:
            return FIRST_PAUSE * (1 + self._random())
        if asked > self._max_wait:
            return None
        return asked + max(asked, FIRST_PAUSE) * _JITTER * self._random()

    # ---- what came of it

    def begin(self, *, retry: bool = False) -> None:
        """A request is sent. `retry`: that was taken from the budget."""
        now = self._clock()
        if not retry:
            self._budget.count(now)
        if self._circuit is not None:
            self._circuit.begin(now)

    def succeeded(self) -> None:
        """The backend answers."""
        if self._circuit is not None:
            self._circuit.succeeded(self._clock())

    def failed(self) -> None:
        """It did not, and is to blame."""
        if self._circuit is not None:
            self._circuit.failed(self._clock())

    def abandoned(self) -> None:
        """What came of it says nothing of the backend."""
        if self._circuit is not None:
            self._circuit.abandoned()

    def cool(self, key: bytes, model: str, seconds: float | None) -> None:
        """Spare the target for so long; None: it did not say."""
        now = self._clock()
        if len(self._cool) >= _MOST_KEPT:
            self._cool = {kept: until for kept, until in self._cool.items() if until > now}
            if len(self._cool) >= _MOST_KEPT:
                self._cool.clear()
        self._cool[key, model] = now + min(_COOL if seconds is None else seconds, _LONGEST_COOL)

    def give_up(self, key: bytes) -> None:
        """Leave a credential alone that was refused."""
        if len(self._dead) >= _MOST_KEPT:
            self._dead.clear()
        self._dead[key] = self._clock() + DEAD_FOR

    def revive(self) -> None:
        """Try all credentials again."""
        self._dead.clear()
