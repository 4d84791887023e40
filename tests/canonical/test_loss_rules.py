"""The table of losses is closed: it is total, and says what the code does."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import proxy
from proxy.canonical.loss import Rule
from proxy.canonical.loss_rules import ABOUT

LEVELS = ("approx", "drop", "refuse")
SOURCES = sorted(Path(proxy.__file__).parent.rglob("*.py"))
LONGEST = 120


def rules_in(node: ast.AST) -> Iterator[Rule]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name) and inner.value.id == "Rule":
            yield Rule[inner.attr]


def recorded() -> Iterator[tuple[Rule, str]]:
    """(rule, level) of every `losses.drop(Rule.X, …)` and the like."""
    for source in SOURCES:
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LEVELS:
                yield from ((rule, node.func.attr) for argument in node.args[:1] for rule in rules_in(argument))


def test_every_rule_has_a_meaning() -> None:
    assert set(ABOUT) == set(Rule)


def test_every_rule_is_used() -> None:
    used = {
        rule
        for source in SOURCES
        if source.stem not in ("loss", "loss_rules")
        for rule in rules_in(ast.parse(source.read_text()))
    }
    assert set(Rule) - used == set()


def test_rules_are_recorded_at_their_levels() -> None:
    assert {(rule, level) for rule, level in recorded() if level not in ABOUT[rule].levels} == set()


@pytest.mark.parametrize("rule", Rule)
def test_the_form_of_a_row(rule: Rule) -> None:
    about = ABOUT[rule]
    assert list(about.levels) == [level for level in LEVELS if level in about.levels] != []
    assert re.fullmatch(r"[A-Z][^\n]*[^.]\.", about.text)
    assert len(about.text) <= LONGEST
    assert all(re.fullmatch(r"\d+\.\d+", section) for section in about.sections)
    assert about.sections
