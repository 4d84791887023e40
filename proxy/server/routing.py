"""To which of a model's targets one request goes, and where to next (operations.md 11).

The order is the request's own, by weights and by what its prompt begins with; how the backends do decides how far down
it goes. What only one backend knows pins a request to it.
"""

from collections.abc import Sequence

from proxy.canonical.loss import Path
from proxy.server.exchange import Exchange
from proxy.server.gateway import Way
from proxy.translation.affinity import affinity_of
from proxy.translation.pair import Peek
from proxy.translation.pins import pin_of
from proxy.upstream.ranking import ranked


class Routing:
    """`preferred`: where it would go if all were well. `pinned`: what in the request keeps it from going to another of
    them; None where nothing does, or where there is none."""

    __slots__ = ("_exchange", "_model", "_order", "_tried", "pinned", "preferred")

    def __init__(self, exchange: Exchange, ways: Sequence[Way], seen: Peek) -> None:
        """`ways`: those that the caller may go, at least one."""
        self._exchange = exchange
        self._model = seen.model
        self._tried: list[Way] = []
        targets = [way.target for way in ways]
        tenant = exchange.caller.tenant.name if exchange.caller is not None else ""
        shared = sum(target.weight is not None for target in targets) > 1
        key = affinity_of(seen.client, seen.wire, tenant) if shared else None
        order = [ways[place] for place in ranked(targets, key, exchange.gateway.runtime.random)]
        home = next((way for way in order if way.served.backend.protocol == seen.client), order[0])
        pin = pin_of(seen.wire, passed=home.served.backend.protocol == seen.client) if len(order) > 1 else None
        self.pinned: Path | None = None
        if pin is not None:
            within = [way for way in order if self._origin(way) == self._origin(home)]
            self.pinned = pin if len(within) < len(order) else None
            order = within
        self._order = order
        self.preferred = order[0]

    def first(self) -> Way:
        """Where it goes."""
        admitted = [way for way in self._order if way.served.health.admits]
        free = [way for way in admitted if not self._is_spared(way)]
        way = next((way for way in free if not _is_full(way)), None)
        if way is None:
            # All wait for something: for a place, for an end of the limits, or for a backend to come back. The one that
            # failed first has had the most time to.
            way = free[0] if free else admitted[0] if admitted else min(self._order, key=_opened)
        self._tried.append(way)
        return way

    def following(self) -> Way | None:
        """Where it goes when those until now could not answer; None: nowhere."""
        for way in self._order:
            if way not in self._tried and way.served.health.admits and not self._is_spared(way):
                self._tried.append(way)
                return way
        return None

    def _is_spared(self, way: Way) -> bool:
        backend, model = way.served.backend, way.target.model or self._model
        account = self._exchange.account(backend)
        accounts = backend.accounts if account in backend.accounts else (account,)
        return all(way.served.health.spares(each.digest, model) for each in accounts)

    def _origin(self, way: Way) -> str:
        backend = way.served.backend
        return backend.origin_of(self._exchange.account(backend))


def _opened(way: Way) -> float:
    return way.served.health.opened


def _is_full(way: Way) -> bool:
    slots = way.served.backend.slots
    return slots is not None and slots.locked()
