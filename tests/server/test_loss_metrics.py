"""Losses are counted where Prometheus reads them, by labels from closed sets (operations.md 4.2)."""

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from tests.server.serving import PATHS, REQUESTS, Proxy, before, operated, says_hello

LOST = "dragoman_translation_loss_total"
PROTOCOLS = {"client": "chat", "backend": "messages"}
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


async def scraped(proxy: Proxy, accept: str) -> tuple[str, str]:
    async with operated(proxy) as url, proxy.session.get(f"{url}/metrics", headers={"accept": accept}) as response:
        return response.headers["content-type"], await response.text()


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
        samples = [sample for family in read(written) for sample in family.samples if "translation" in sample.name]
        assert [(sample.name, sample.labels, sample.value) for sample in samples] == [
            (LOST, {"rule": "seed", "level": "drop", **PROTOCOLS}, 3),
            (LOST, {"rule": "seed", "level": "refuse", **PROTOCOLS}, 1),
            ("dragoman_translation_requests_with_loss_total", PROTOCOLS, 4),
        ]
