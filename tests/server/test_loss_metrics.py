"""Losses are counted where Prometheus reads them, by labels from closed sets (operations.md 4.2)."""

import pytest
from aiohttp import web
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from proxy.server.app import Server
from proxy.server.probes import Admin
from tests.server.serving import PATHS, REQUESTS, Proxy, before, says_hello

LOST = "dragoman_translation_loss_total"
PROTOCOLS = {"client": "chat", "backend": "messages"}
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


async def scraped(proxy: Proxy, accept: str) -> tuple[str, str]:
    runner = web.ServerRunner(Server(proxy.gateway, Admin(proxy.gateway, lambda: None)))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/metrics"
    async with proxy.session.get(url, headers={"accept": accept}) as response:
        seen = response.headers["content-type"], await response.text()
    await runner.cleanup()
    return seen


@pytest.mark.parametrize("stream", [True, False])
async def test_what_was_lost_is_counted(stream: bool) -> None:
    hello = says_hello("messages", streamed=stream)
    asked = {**REQUESTS["chat"], "seed": 1, "stream": stream}
    async with before("messages", hello) as (proxy, _):
        for model in ("one", "two", "three"):
            await proxy.post(PATHS["chat"], {**asked, "model": model})
        await proxy.post(PATHS["chat"], asked, {"dragoman-strict": "1"})
        await proxy.post(PATHS["chat"], REQUESTS["chat"])
        content_type, text = await scraped(proxy, "text/plain")
        open_type, open_text = await scraped(proxy, OPENMETRICS)
    assert content_type.startswith("text/plain")
    assert open_type.startswith("application/openmetrics-text")
    assert "_created" not in text + open_text
    for read, written in ((read_text, text), (read_openmetrics, open_text)):
        samples = [sample for family in read(written) for sample in family.samples if sample.name.endswith("_total")]
        assert [(sample.name, sample.labels, sample.value) for sample in samples] == [
            (LOST, {"rule": "seed", "level": "drop", **PROTOCOLS}, 3),
            (LOST, {"rule": "seed", "level": "refuse", **PROTOCOLS}, 1),
            ("dragoman_translation_requests_with_loss_total", PROTOCOLS, 4),
        ]
