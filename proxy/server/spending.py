"""What a request is expected to use, and what it has used in the end (operations.md 9.2, 9.3).

What the backend tells counts. Where it never told: nothing, if it refused or could not be asked; else the estimate of
the prompt, and of the answer by the text that was passed on.
"""

from functools import reduce

from proxy.canonical.errors import Error, ErrorClass, Reason, Rejected
from proxy.canonical.usage import Usage
from proxy.server.exchange import Exchange
from proxy.server.gateway import Served
from proxy.settings import ModelRoute
from proxy.settings.tenants import Price
from proxy.tenancy.estimates import Expected, input_tokens
from proxy.tenancy.limits import Demand
from proxy.tenancy.model_places import other_models
from proxy.tenancy.prices import PriceTable, cost, dearest, estimated_cost
from proxy.tenancy.refusals import denied
from proxy.tenancy.tenants import Caller
from proxy.translation.pair import Peek
from proxy.translation.spent import used

NOTHING = Demand(0, 0, False, 0.0)
_SPARE = 60.0  # seconds that a request may take beside its backend's time
_MOST_CHOICES = 128  # that OpenAI gives
_OUTPUT_LIMITS = ("max_completion_tokens", "max_output_tokens", "max_tokens")


def plain_demand(served: Served, *, stream: bool = False) -> Demand:
    """Of a request whose tokens are known only from its answer, if at all."""
    return Demand(0, 0, stream, served.limits.total.seconds + _SPARE)


def demand(exchange: Exchange, caller: Caller, seen: Peek, route: ModelRoute) -> Demand:
    """What to reserve for a request, whichever of its targets may answer it. Raises `Rejected` for what can't be
    counted, or has no price for a budget."""
    limits = caller.tenant.limits
    seconds = max(target.upstream.timeouts.total_stream for target in route.all_targets) + _SPARE
    if not limits.counts_tokens or exchange.endpoint == "count_tokens":
        return Demand(0, 0, seen.stream, seconds)
    if exchange.client == "responses" and seen.wire.get("background"):
        message = "what is answered in the background can't be counted, and this key's tokens are."
        raise Rejected(denied(Reason.ENDPOINT_DENIED, message, ("background",)))
    exchange.counting = True
    exchange.prompt_estimate = prompt = input_tokens(seen.raw, seen.wire)
    exchange.learnt = exchange.gateway.runtime.estimates.of(caller.tenant.name, seen.model)
    requests = _requests(seen, route)
    expected = exchange.learnt.expect(prompt, _most_output(seen, 1 if requests > 1 else _choices(seen)))
    expected = Expected(expected.input * requests, expected.output * requests)
    if exchange.endpoint == "other":  # vectors and verdicts are no tokens
        expected = expected._replace(output=0)
    micro_usd = 0
    if limits.budget is not None:
        exchange.price = _price(exchange, exchange.gateway.prices, seen, route)
        if exchange.price is not None:
            micro_usd = estimated_cost(exchange.price, expected.input, expected.output)
        elif limits.budget.hard:
            message = "No price is set for this model, and this key's team has a budget."
            raise Rejected(Error(ErrorClass.QUOTA, message, reason=Reason.BUDGET))
    return Demand(expected.tokens, micro_usd, seen.stream, seconds)


def _price(exchange: Exchange, prices: PriceTable, seen: Peek, route: ModelRoute) -> Price | None:
    """The dearest of what may answer, since there may be several targets, and a request may name models to fall back
    to; None where one has no price."""
    beside = [prices.find(name, None) if type(name) is str else None for _, name in other_models(seen.wire)]
    names = dict.fromkeys(target.model or seen.model for target in route.all_targets)
    found = [*beside, *(prices.find(seen.model, name) for name in names)]
    priced = [price for price in found if price is not None]
    if len(priced) < len(found):
        return None
    exchange.price_beside = reduce(dearest, priced[: len(beside)]) if beside else None
    return reduce(dearest, priced)


def note_price(exchange: Exchange, requested: str, model: str) -> None:
    """What is counted has the price of the one target that is asked: `model` is the backend's name for it."""
    if exchange.price is None or (price := exchange.gateway.prices.find(requested, model)) is None:
        return
    exchange.price = price if exchange.price_beside is None else dearest(price, exchange.price_beside)


def _choices(seen: Peek) -> int:
    choices = seen.wire.get("n")
    return max(1, min(choices, _MOST_CHOICES)) if type(choices) is int else 1


def _requests(seen: Peek, route: ModelRoute) -> int:
    """How many of the backend's it becomes, each with the prompt."""
    translated = any(target.upstream.protocol != seen.client for target in route.all_targets)
    fanned = seen.client in ("chat", "completions") and translated
    return min(_choices(seen), route.fan_out) if fanned else 1


def _most_output(seen: Peek, choices: int) -> int | None:
    """The most tokens that the client wants of one request, over all its choices."""
    for name in _OUTPUT_LIMITS:
        if type(most := seen.wire.get(name)) is int and most > 0:
            return most * choices
    return None


def settle(exchange: Exchange) -> None:
    """Give back what was not used, and say what it cost. Called once for each exchange, at its end."""
    try:
        _settle_lease(exchange)
    finally:
        _price_for_records(exchange)


def _price_for_records(exchange: Exchange) -> None:
    """What an answer cost that no budget has paid for."""
    usage, asked = exchange.usage, exchange.model_requested
    if usage is None or asked is None or exchange.cost is not None:
        return
    price = exchange.gateway.prices.find(asked, exchange.model)
    if price is not None:
        exchange.cost = _cost(exchange, price, usage)


def _settle_lease(exchange: Exchange) -> None:
    lease, caller = exchange.lease, exchange.caller
    if lease is None or caller is None:
        return
    spent = lease.tokens, lease.cost  # as reserved, should a bug of ours keep the rest from being known
    try:
        spent = _spent(exchange)
    finally:
        exchange.gateway.runtime.limiter.settle(lease, *spent)


def _spent(exchange: Exchange) -> tuple[int, int]:
    """Tokens and micro-dollars."""
    usage = _used(exchange) if exchange.counting else None
    if usage is None:
        return 0, 0
    exchange.usage = usage
    if lease_tokens := exchange.lease.tokens if exchange.lease is not None else 0:
        error = (usage.billed - lease_tokens) / lease_tokens
        exchange.gateway.runtime.metrics.traffic.settlement_error.of().observe(error)
    if exchange.price is not None:
        exchange.cost = _cost(exchange, exchange.price, usage)
    if not usage.estimated and exchange.learnt is not None and _of_one_answer(exchange):
        exchange.learnt.learn(exchange.prompt_estimate, usage.prompt, usage.output)
    return usage.billed, exchange.cost or 0


def _of_one_answer(exchange: Exchange) -> bool:
    """Whether the prompt was read once, so that the sum tells of this model, and not of how often it was asked."""
    prepared = exchange.prepared
    return prepared is None or (prepared.choices == 1 and len(prepared.rounds()) == 1)


def _cost(exchange: Exchange, price: Price, usage: Usage) -> int:
    """Micro-dollars. A model beside the one that was asked has its own price, if there is one."""
    prices = exchange.gateway.prices
    spent = cost(price, usage)
    for each in usage.beside:
        own = None if each.model is None else prices.find(each.model, None)
        spent += _cost(exchange, own or price, each.usage)
    return spent


def _used(exchange: Exchange) -> Usage | None:
    """None: the backend was not asked, or gave no answer."""
    usage = exchange.spent
    if usage is None and exchange.prepared is not None:
        usage = used(exchange.prepared, exchange.prompt_estimate)
    return usage if usage is not None and (usage.prompt or usage.output) else None
