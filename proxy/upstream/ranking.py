"""In which order the targets of a model are asked, before it is known how they do (operations.md 11).

Those with a weight share the load. By rendezvous hashing each key has its own order of them: what goes to one target
does so again and finds its prompt cache there, the weights hold over many keys, and a target that is gone moves no key
but its own. The others follow in the order in which they are written.
"""

from collections.abc import Callable, Sequence
from hashlib import blake2b
from math import log

from proxy.settings import RouteTarget


def ranked(targets: Sequence[RouteTarget], key: bytes | None, random: Callable[[], float]) -> list[int]:
    """Places in `targets`. `key`: what has a prompt cache of its own; None, and chance decides. `random`: from 0 to
    below 1."""
    scores: list[tuple[float, int]] = []
    others: list[int] = []
    for place, target in enumerate(targets):
        if target.weight is None:
            others.append(place)
        else:
            share = random() if key is None else _share(key, target.upstream.name, target.model or "")
            # The larger of two such scores belongs to either with a chance of its weight in the sum of both.
            scores.append((target.weight / -log(max(share, 1e-300)) if share < 1 else float("inf"), place))
    scores.sort(reverse=True)
    return [place for _, place in scores] + others


def _share(key: bytes, upstream: str, model: str) -> float:
    """From 0 to 1, the same each time."""
    digest = blake2b(f"{upstream}\0{model}".encode(errors="surrogateescape"), digest_size=8, key=key[:64]).digest()
    return int.from_bytes(digest) / 2.0**64
