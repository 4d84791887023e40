"""The dashboard is what its code builds, and has what a newcomer and an operator need."""

from itertools import pairwise

from tests.dashboard.sources import builder, dashboard, panels

DURATIONS = ("dragoman_request_duration_seconds", "dragoman_time_to_first_token_seconds")


def test_the_file_is_what_the_code_builds() -> None:
    build = builder()
    assert build.TARGET.read_text("utf-8") == build.text(), "run `python config/grafana/build.py`"


def test_every_panel_explains_itself_and_has_a_unit() -> None:
    assert len(panels()) <= 25
    for panel in panels():
        assert len(panel["description"].split()) >= 10, panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert all(target["legendFormat"] for target in panel["targets"]), panel["title"]
    titles = [panel["title"] for panel in panels()]
    assert len(set(titles)) == len(titles)


def test_panels_fill_the_width_and_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard()["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
    height = max(y for _, y in taken) + 1
    assert taken == {(x, y) for x in range(24) for y in range(height)}


def test_rows_and_variables_are_those_of_the_design() -> None:
    built = dashboard()
    rows = [panel["title"] for panel in built["panels"] if panel["type"] == "row"]
    assert rows == ["Requests", "Latency", "Translation", "Tenants", "Runtime"]
    variables = [variable["name"] for variable in built["templating"]["list"]]
    assert variables == ["datasource", "namespace", "job", "model", "tenant"]
    ids = [panel["id"] for panel in built["panels"]]
    assert all(one < other for one, other in pairwise(ids))


def test_every_query_goes_by_the_variables_and_fits_any_interval() -> None:
    for panel in panels():
        assert panel["datasource"]["uid"] == "${datasource}"
        for target in panel["targets"]:
            expression = target["expr"]
            assert 'namespace=~"$namespace", job=~"$job"' in expression
            assert expression.count("[") == expression.count("[$__rate_interval]")
            assert target["exemplar"] == any(f"{metric}_bucket" in expression for metric in DURATIONS)
