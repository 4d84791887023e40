"""What the page of clients and the README tell is what was run, of the versions that are pinned."""

from tests.e2e.matrix.catalogue import CLIENTS
from tests.e2e.matrix.page import PAGE, README, page, with_guide
from tests.e2e.matrix.results import read_results
from tests.e2e.matrix.scenarios import SCENARIOS
from tests.harness.wire import PROTOCOLS


def test_every_cell_was_run_and_none_is_red() -> None:
    results = read_results()
    verdicts = {
        (client.row, scenario.name, backend): results[client.row]["cells"][scenario.name][backend]["verdict"]
        for client in CLIENTS
        for scenario in SCENARIOS
        for backend in PROTOCOLS
    }
    assert {cell for cell, verdict in verdicts.items() if verdict == "failed"} == set()
    lacking = {(client.row, name) for client in CLIENTS for name in client.lacks}
    assert {(row, name) for (row, name, _), verdict in verdicts.items() if verdict == "lacking"} == lacking
    refused = {(client.row, *place) for client in CLIENTS for place in client.refused}
    assert {cell for cell, verdict in verdicts.items() if verdict == "refused"} == refused


def test_what_was_run_is_what_is_pinned() -> None:
    ran = {row: result["version"] for row, result in read_results().items()}
    assert ran == {client.row: client.version for client in CLIENTS}


def test_the_page_is_written_from_the_results() -> None:
    assert PAGE.read_text("utf-8") == page(CLIENTS, read_results())


def test_the_guide_is_written_from_the_catalogue() -> None:
    readme = README.read_text("utf-8")
    assert with_guide(readme, CLIENTS) == readme
