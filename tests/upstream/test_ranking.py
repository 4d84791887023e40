"""In which order targets are asked: shares by weight, the same one for the same prompt, fallbacks as written."""

import random
from collections import Counter

from proxy.settings import RouteTarget, Upstream
from proxy.upstream.ranking import ranked


def target(name: str, weight: float | None = None) -> RouteTarget:
    return RouteTarget(Upstream(name, "chat", f"http://{name}/v1"), weight=weight)


def keys(count: int) -> list[bytes]:
    return [f"key-{number}".encode() for number in range(count)]


def test_without_weights_the_order_is_the_written_one() -> None:
    assert ranked([target("a"), target("b"), target("c")], b"key", random.random) == [0, 1, 2]


def test_fallbacks_stand_behind_what_has_a_weight() -> None:
    order = ranked([target("a"), target("b", 1), target("c")], b"key", random.random)
    assert order == [1, 0, 2]


def test_keys_are_shared_by_weight() -> None:
    those = [target("a", 3), target("b", 1)]
    first = Counter(ranked(those, key, random.random)[0] for key in keys(4000))
    assert 0.72 < first[0] / 4000 < 0.78


def test_what_has_no_key_is_shared_by_weight_as_well() -> None:
    chance = random.Random(7)
    those = [target("a", 3), target("b", 1)]
    first = Counter(ranked(those, None, chance.random)[0] for _ in range(4000))
    assert 0.72 < first[0] / 4000 < 0.78


def test_a_key_has_the_same_order_each_time() -> None:
    those = [target(name, 1) for name in "abcd"]
    assert len({tuple(ranked(those, b"key", random.random)) for _ in range(10)}) == 1


def test_a_target_that_goes_moves_no_key_but_its_own() -> None:
    those = [target(name, 1) for name in "abcd"]
    moved = 0
    for key in keys(500):
        before, after = ranked(those, key, random.random), ranked(those[:3], key, random.random)
        assert after == [place for place in before if place != 3]
        moved += before[0] == 3
    assert 80 < moved < 170
