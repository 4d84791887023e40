"""A real Prometheus scrapes a real proxy under load, and has an answer to all that dashboard and alerts ask.

The dashboard is drawn from the answers into the test's folder. `DRAGOMAN_DASHBOARD_S` makes the load longer, and
`DRAGOMAN_DASHBOARD_PNG` names a file to draw into, such as the picture in the README.
"""

import asyncio
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.dashboard.drawing import draw
from tests.dashboard.load import scene
from tests.dashboard.prometheus_server import PrometheusServer, Series
from tests.dashboard.sources import RULE_FILES, dashboard, operands, panels, rules

SERVER, CLIENT = 2, 3  # kinds of spans
SECONDS = float(os.environ.get("DRAGOMAN_DASHBOARD_S", "12"))
# What Grafana puts in place of the variables; with scrapes each second, its own choice of interval is 4 s.
VARIABLES = {"$__rate_interval": "4s", "$namespace": "llm", "$job": "dragoman", "$model": ".*", "$tenant": ".*"}

# What has no value although nothing is wrong with it, and why.
RIGHTLY_EMPTY = {
    "dragoman:requests_with_loss:ratio_rate1h > 2 * dragoman:requests_with_loss:ratio_rate1h offset 1d": (
        "there was no day before"
    ),
    "sum by (namespace, job, protocol, direction) (increase(dragoman_unknown_fields_total[1d] offset 1h))": (
        "there was no day before"
    ),
}
# What such a load has to raise, and what none should.
RAISED = {"DragomanErrorBudgetBurn", "DragomanUpstreamAuthFailing", "DragomanUnknownFields"}
NOT_RAISED = {
    "DragomanConfigReloadFailed",
    "DragomanLeaseLeak",
    "DragomanLimiterDown",
    "DragomanProxyErrors",
    "DragomanTelemetryDropped",
}


@dataclass
class Seen:
    """answers: by panel, the series of each query. empty: expressions without a value."""

    answers: dict[int, list[Series]] = field(default_factory=dict)
    empty: set[str] = field(default_factory=set)


def filled(expression: str) -> str:
    for variable, value in VARIABLES.items():
        expression = expression.replace(variable, value)
    return expression


async def look(prometheus: PrometheusServer, start: float, end: float) -> Seen:
    """Ask all that the dashboard and the alerts ask."""
    seen = Seen()
    for panel in panels():
        seen.answers[panel["id"]] = []
        for target in panel["targets"]:
            series = await prometheus.over(filled(target["expr"]), start, end)
            seen.answers[panel["id"]].append(series)
            if not series:
                seen.empty.add(target["expr"])
    for rule in rules("alert"):
        await prometheus.at(rule["expr"], end)
        for operand in operands(rule["expr"]):
            if not await prometheus.at(operand, end):
                seen.empty.add(operand)
    return seen


@pytest.mark.timeout(60 + 2 * SECONDS)
async def test_prometheus_has_an_answer_to_every_question(tmp_path: Path) -> None:
    async with scene() as stage:
        address = f"127.0.0.1:{stage.proxy.admin_port}"
        async with PrometheusServer([address], list(RULE_FILES)) as prometheus:
            start = time.time()
            await stage.play(SECONDS)
            await asyncio.sleep(1.5)  # the last scrape
            end = time.time()
            seen = await look(prometheus, start, end)
            evaluated = await prometheus.rules()
            scraped = await prometheus.targets()
            exemplars = await prometheus.exemplars("dragoman_request_duration_seconds_bucket", start, end)
        # What Grafana does with a click on a point: the slowest request there is one of, and its trace.
        slowest = max(exemplars, key=lambda exemplar: float(exemplar["value"]))
        trace = await stage.receiver.trace(slowest["labels"]["trace_id"])
    picture = Path(os.environ.get("DRAGOMAN_DASHBOARD_PNG", tmp_path / "dashboard.png"))
    size = draw(dashboard()["panels"], seen.answers, picture)

    assert [(target["health"], target["lastError"]) for target in scraped] == [("up", "")]
    assert {rule["name"]: rule.get("lastError", "") for rule in evaluated if rule["health"] != "ok"} == {}
    assert seen.empty == RIGHTLY_EMPTY.keys()
    raised = {rule["name"] for rule in evaluated if rule.get("state") in {"pending", "firing"}}
    assert raised >= RAISED
    assert not raised & NOT_RAISED
    assert size < 300_000
    (server,) = (span for span in trace if span.kind == SERVER)
    assert any(span.kind == CLIENT and span.parent == server.id for span in trace)
    assert server.lasted == pytest.approx(float(slowest["value"]), abs=0.05)
    assert float(slowest["value"]) <= float(slowest["le"])
