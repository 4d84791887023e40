"""Globs against globs, held against what `fnmatch` says of names."""

from fnmatch import fnmatchcase
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.settings.globs import covers, name_between

LETTERS = "ab"
NAMES = ["".join(letters) for length in range(5) for letters in product(LETTERS, repeat=length)]
globs = st.lists(st.sampled_from(["a", "b", "*", "?", "[ab]", "[!a]", "[a-b]"]), max_size=4).map("".join)


@pytest.mark.parametrize(
    ("wide", "narrow", "expected"),
    [
        ("*", "gpt-*", True),
        ("gpt-*", "*", False),
        ("gpt-*", "gpt-5-*", True),
        ("gpt-?", "gpt-*", False),
        ("gpt-*", "gpt-?", True),
        ("gpt-[!5]*", "gpt-?", False),
        ("gpt-[45]*", "gpt-4", True),
        ("*-pro", "gpt-*", False),
        ("*a*", "*aa*", True),
        ("claude", "claude", True),
        ("**", "*", True),
        ("[]]", "]", True),
        ("a[", "a[", True),
    ],
)
def test_one_covers_another(wide: str, narrow: str, expected: bool) -> None:
    assert covers(wide, narrow) is expected


@pytest.mark.parametrize(
    ("within", "without", "expected"),
    [
        (["claude-*", "*"], ["claude-opus-*"], "claude-"),
        (["claude-*", "*-fast"], [], "claude-fast"),
        (["claude-*", "gpt-*"], [], None),
        (["*"], ["?*"], ""),
        (["gpt-5", "gpt-*"], ["*-pro"], "gpt-5"),
        (["gpt-?"], ["gpt-[0-9]", "gpt-o"], "gpt-a"),
    ],
)
def test_the_shortest_name_between(within: list[str], without: list[str], expected: str | None) -> None:
    assert name_between(within, without) == expected


@given(st.lists(globs, min_size=1, max_size=2), st.lists(globs, max_size=3))
def test_as_the_names_themselves_say(within: list[str], without: list[str]) -> None:
    def between(name: str) -> bool:
        return all(fnmatchcase(name, g) for g in within) and not any(fnmatchcase(name, g) for g in without)

    found = name_between(within, without)
    if found is not None:
        assert between(found)
    else:
        assert not any(map(between, NAMES))


def test_many_patterns_are_no_trouble() -> None:
    prices = [f"vendor-{number}-*" for number in range(500)]
    assert name_between(["vendor-499-*"], prices) is None
    assert name_between(["*"], prices) == ""
    assert name_between(["vendor-?*-x"], prices) == "vendor-a-x"
