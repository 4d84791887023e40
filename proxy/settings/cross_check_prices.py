"""Prices: none in vain, and one for all that a hard budget must count."""

import fnmatch
from dataclasses import dataclass

from proxy.settings.document import Document, Value
from proxy.settings.globs import covers, name_between
from proxy.settings.policies import Policy, holds, policies, texts
from proxy.settings.targets import targets_of

_SOME_NAME = "?*"


def cross_check_prices(document: Document) -> None:
    check_reached(document, "prices")
    routes: list[_Route] | None = None
    found: dict[tuple[tuple[str, ...], tuple[str, ...]], str | None] = {}
    for policy in policies(document):
        if not _has_hard_budget(policy):
            continue
        if routes is None:
            routes = _unpriced_routes(document)
        models = policy.section("models")
        allow = ("*",) if models.get("allow") is None else tuple(texts(models["allow"]))
        rules = allow, tuple(texts(models.get("deny")))
        if rules not in found:
            found[rules] = _unpriced_model(routes, *rules)
        if name := found[rules]:
            message = f"is hard, so it needs a price for every model: none of prices matches such as {name!r}"
            document.note((*policy.at, "limits", "budget"), message)


def check_reached(document: Document, listed: str) -> None:
    """Of entries with a pattern the first that matches counts: none may stand behind one that matches all of it."""
    earlier: dict[str, int] = {}
    wide: list[tuple[str, int]] = []
    for index, entry in document.entries(listed):
        match = entry.get("match")
        if not isinstance(match, str):
            continue
        known = earlier.setdefault(match, index)
        if known == index:
            known = next((first for pattern, first in wide if _plainly_covers(pattern, match)), index)
        if known != index:
            other = document.refer_to((listed, known))
            document.note((listed, index, "match"), f"is never reached: {other} matches all of it before")
        elif any(character in match for character in "*?["):
            wide.append((match, index))


def _plainly_covers(wide: str, narrow: str) -> bool:
    """A look at one name first, since most pairs have nothing in common."""
    return fnmatch.fnmatchcase(narrow.replace("*", ""), wide) and covers(wide, narrow)


def _has_hard_budget(policy: Policy) -> bool:
    """Of a tenant that is not disabled."""
    budget = policy.section("limits").get("budget")
    hard = isinstance(budget, dict) and holds(budget.get("hard", True))
    return policy.of_tenant and hard and not holds(policy.own.get("disabled"))


@dataclass(frozen=True, slots=True)
class _Route:
    """`within`: what its names match. `without`: what they don't, since that goes elsewhere or has a price."""

    within: str
    without: tuple[str, ...]


def _unpriced_routes(document: Document) -> list[_Route]:
    """The routes through which a model without a price may be reached."""
    prices = texts([entry.get("match") for _, entry in document.entries("prices")])
    entries: list[dict[str, Value]] = [dict(entry) for _, entry in document.entries("models")] or [{"match": "*"}]
    routes: list[_Route] = []
    before: list[str] = []
    for entry in entries:
        match = entry.get("match")
        if not isinstance(match, str):
            continue
        models = [model for _, _, model in targets_of(entry)]
        priced = bool(models) and all(
            isinstance(model, str) and any(fnmatch.fnmatchcase(model, price) for price in prices) for model in models
        )
        route = _Route(match, (*before, *prices))
        if not priced and name_between([match, _SOME_NAME], route.without) is not None:
            routes.append(route)
        before.append(match)
    return routes


def _unpriced_model(routes: list[_Route], allow: tuple[str, ...], deny: tuple[str, ...]) -> str | None:
    """A model that the rules allow and no price matches."""
    for route in routes:
        for pattern in allow:
            name = name_between([pattern, route.within, _SOME_NAME], (*route.without, *deny))
            if name is not None:
                return name
    return None
