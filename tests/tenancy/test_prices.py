"""What answers cost."""

from proxy.canonical.usage import Usage
from proxy.settings.tenants import Price
from proxy.tenancy.prices import MOST_KEPT, PriceTable, cost, estimated_cost

MILLION = 10**6
SONNET = Price("claude-*", 3_000_000, 15_000_000, 300_000, 3_750_000, 6_000_000, 15_000_000, {"web_search": 10_000})
CHEAP = Price("*-mini", 1, 2, 1, 1, 1, 7)


def test_the_first_match_holds() -> None:
    any_other = Price("*", 5, 5, 5, 5, 5, 5)
    table = PriceTable([SONNET, CHEAP, any_other])
    assert table.find("claude-mini", None) is SONNET
    assert table.find("gpt-mini", None) is CHEAP
    assert table.find("gpt", "claude-x") is any_other


def test_the_clients_name_is_tried_before_the_backends() -> None:
    table = PriceTable([SONNET, CHEAP])
    assert table.find("fast", "claude-x") is SONNET
    assert table.find("fast-mini", "claude-x") is CHEAP
    assert table.find("fast", "llama") is None
    assert table.find("fast", None) is None
    assert table.find("Claude-x", None) is None


def test_names_that_callers_make_up_do_not_pile_up() -> None:
    table = PriceTable([SONNET])
    for number in range(MOST_KEPT + 10):
        assert table.find(f"claude-{number}", None) is SONNET
    assert len(table._kept) <= MOST_KEPT


def test_each_token_is_charged_once() -> None:
    usage = Usage(
        input_fresh=MILLION,
        cache_read=MILLION,
        cache_write=3 * MILLION,
        cache_write_long=MILLION,
        output=2 * MILLION,
        reasoning=MILLION,
        hosted={"web_search": 2, "code_execution": 9},
    )
    expected = 3_000_000 + 300_000 + 2 * 3_750_000 + 6_000_000 + 15_000_000 + 15_000_000 + 20_000
    assert cost(SONNET, usage) == expected


def test_sums_are_rounded_up_once() -> None:
    assert cost(CHEAP, Usage(input_fresh=1, output=1, cache_read=1)) == 1
    assert cost(CHEAP, Usage(input_fresh=MILLION, output=1)) == 2
    assert cost(CHEAP, Usage()) == 0


def test_parts_larger_than_the_whole_count_as_all_of_it() -> None:
    odd = Usage(output=MILLION, reasoning=5 * MILLION, cache_write=MILLION, cache_write_long=9 * MILLION)
    assert cost(CHEAP, odd) == 7 + 1


def test_estimates_take_the_dearer_output() -> None:
    assert estimated_cost(SONNET, 1000, 100) == 3000 + 1500
    assert estimated_cost(CHEAP, 0, MILLION) == 7
    assert estimated_cost(CHEAP, 1, 0) == 1
