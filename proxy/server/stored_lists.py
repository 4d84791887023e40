"""Lists of what is kept: how a page is asked for, and how it is shown (responses.md 15.1)."""

from collections.abc import Sequence
from typing import NamedTuple

from proxy.canonical.jsontext import dumps
from proxy.protocols.fields import Wire, invalid
from proxy.server.exchange import Exchange

_MOST = 100
_DEFAULT = 20


class Page(NamedTuple):
    """`after`: the id that stands before the page."""

    after: str | None
    limit: int
    newest: bool


def page_of(exchange: Exchange, default: str = "desc") -> Page:
    """What the query asks for; `default` is the order that it need not name. Raises `Rejected`."""
    query = exchange.request.rel_url.query
    limit, order = query.get("limit", str(_DEFAULT)), query.get("order", default)
    if not (limit.isascii() and limit.isdigit() and 1 <= int(limit[:9]) <= _MOST):
        invalid(("limit",), f"expected a whole number from 1 to {_MOST}.")
    if order not in ("asc", "desc"):
        invalid(("order",), f"'{order[:20]}' is not one of 'asc', 'desc'.", code="invalid_value")
    return Page(query.get("after") or None, int(limit), order == "desc")


def listed(items: Sequence[Wire], *, more: bool) -> bytes:
    """A page of these."""
    ids = [item.get("id") for item in items]
    wire = {
        "object": "list",
        "data": list(items),
        "first_id": ids[0] if ids else None,
        "last_id": ids[-1] if ids else None,
        "has_more": more,
    }
    return dumps(wire)


def cut(items: Sequence[Wire], page: Page) -> bytes:
    """The page of these, which are all there are, in their order. Raises `Rejected` for an id that none of them has."""
    ordered = list(reversed(items)) if page.newest else list(items)
    if page.after is not None:
        ids = [item.get("id") for item in ordered]
        if page.after not in ids:
            invalid(("after",), f"no item has the id '{page.after[:128]}'.")
        ordered = ordered[ids.index(page.after) + 1 :]
    return listed(ordered[: page.limit], more=len(ordered) > page.limit)
