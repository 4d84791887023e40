"""A real Prometheus for tests, which scrapes every second and evaluates the rules."""

import asyncio
import contextlib
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import aiohttp
import yaml

READY_WITHIN_S = 20.0
POLL_S = 0.05

Series = list[dict[str, Any]]


class PrometheusFailed(Exception):
    """It did not start, or an answer was an error; the message says which."""


class PrometheusServer:
    """`targets`: admin addresses of proxies. To be used as a context."""

    def __init__(self, targets: list[str], rule_files: list[Path]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="dragoman-prometheus-")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._address = f"127.0.0.1:{free.getsockname()[1]}"
        configuration = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(file) for file in rule_files],
            "scrape_configs": [
                {"job_name": "dragoman", "static_configs": [{"targets": targets, "labels": {"namespace": "llm"}}]}
            ],
        }
        self._file = Path(self._folder.name, "prometheus.yml")
        self._file.write_text(yaml.safe_dump(configuration), "utf-8")
        self._process: subprocess.Popen[bytes] | None = None
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> "PrometheusServer":
        self._begin()
        self._session = aiohttp.ClientSession(f"http://{self._address}")
        try:
            async with asyncio.timeout(READY_WITHIN_S):
                while not await self._ready():
                    self._check_alive()
                    await asyncio.sleep(POLL_S)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()
        self._end()

    def _begin(self) -> None:
        found = shutil.which("prometheus")
        if found is None:
            raise PrometheusFailed(
                "Tests of the dashboard need prometheus on PATH: `apt-get install prometheus` on Debian, "
                "`brew install prometheus` on a Mac."
            )
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                (
                    found,
                    f"--config.file={self._file}",
                    f"--storage.tsdb.path={self._folder.name}/data",
                    f"--web.listen-address={self._address}",
                    "--enable-feature=exemplar-storage",
                ),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def _end(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
        self._folder.cleanup()

    def _check_alive(self) -> None:
        if self._process is None or self._process.poll() is not None:
            raise PrometheusFailed(self._output.read_text("utf-8", "replace"))

    @property
    def _output(self) -> Path:
        return Path(self._folder.name, "output")

    async def over(self, expression: str, start: float, end: float) -> Series:
        """Its values for each second, none of which is NaN."""
        asked = {"query": expression, "start": str(start), "end": str(end), "step": "1"}
        return _numbers((await self._ask("query_range", asked))["result"], "values")

    async def at(self, expression: str, moment: float) -> Series:
        """Its values at one moment."""
        told = await self._ask("query", {"query": expression, "time": str(moment)})
        if told["resultType"] == "scalar":
            return [{"metric": {}, "values": [told["result"]]}]
        series = [{"metric": each["metric"], "values": [each["value"]]} for each in told["result"]]
        return _numbers(series, "values")

    async def exemplars(self, name: str, start: float, end: float) -> list[dict[str, Any]]:
        """Those of a metric, with their bucket in `le`."""
        asked = {"query": name, "start": str(start), "end": str(end)}
        return [
            {**exemplar, "le": each["seriesLabels"]["le"]}
            for each in await self._ask("query_exemplars", asked)
            for exemplar in each["exemplars"]
        ]

    async def rules(self) -> list[dict[str, Any]]:
        """All rules with how their evaluation went."""
        return [rule for group in (await self._ask("rules", {}))["groups"] for rule in group["rules"]]

    async def targets(self) -> list[dict[str, Any]]:
        """What is scraped, and how that went."""
        found: list[dict[str, Any]] = (await self._ask("targets", {}))["activeTargets"]
        return found

    async def _ready(self) -> bool:
        assert self._session is not None
        with contextlib.suppress(aiohttp.ClientConnectionError):
            async with self._session.get("/-/ready") as response:
                return response.status == 200
        return False

    async def _ask(self, what: str, asked: dict[str, str]) -> Any:
        assert self._session is not None
        async with self._session.get(f"/api/v1/{what}", params=asked) as response:
            told = await response.json()
        if told["status"] != "success":
            raise PrometheusFailed(f"{asked}: {told['error']}")
        return told["data"]


def _numbers(series: Series, name: str) -> Series:
    """What has a value at least once; a quantile of nothing is NaN."""
    kept = [{**each, name: [(at, float(value)) for at, value in each[name] if value != "NaN"]} for each in series]
    return [each for each in kept if each[name]]
