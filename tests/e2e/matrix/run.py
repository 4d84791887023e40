"""Make a client do all scenarios on a backend, and judge what its user saw."""

import asyncio
import base64
import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal

from tests.e2e.matrix.client import DRIVERS, Client
from tests.e2e.matrix.install import NODE_ENVIRONMENT, cache
from tests.e2e.matrix.scenarios import IMAGE, SCENARIOS, SCHEMA, WEATHER, Scenario, Seen
from tests.e2e.matrix.scene import Stage
from tests.harness.model_backend import Visits
from tests.harness.wire import Json, Protocol

TASK_WITHIN_S = 120.0
LEFT_WITHIN_S = 5.0
RECORDED_WITHIN_S = 1.0  # the proxy writes its log a little later
SHOWN = 800  # characters of what a driver wrote
LINE_LIMIT = 16 * 2**20
KEPT_VARIABLES = ("PATH", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH")
QUIET = {"DO_NOT_TRACK": "1", "DISABLE_TELEMETRY": "1", "CI": "1", "TERM": "dumb", "NO_COLOR": "1"}
NO_WAY_OUT = {"NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost"}

REQUEST_ID = re.compile(r"req_\w+")
Verdict = Literal["passed", "refused", "lacking", "failed"]


@dataclass(frozen=True)
class Cell:
    """note: the rule of a refusal, why the client does not offer it, or what is wrong. shown: a failure's message, as
    its user saw it."""

    client: str
    protocol: str
    backend: Protocol
    scenario: str
    verdict: Verdict
    note: str = ""
    shown: str = ""
    losses: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Outcome:
    """What came of a scenario, and when it was run (Unix seconds)."""

    scenario: Scenario
    seen: Seen
    visits: Visits
    began: float
    ended: float


class Run:
    """One client on one stage: a driver process that is given a scenario at a time, and a new one after it hung."""

    _numbers = itertools.count(1)

    def __init__(self, client: Client, stage: Stage, only: frozenset[str] = frozenset()) -> None:
        self._client, self._stage = client, stage
        self._scenarios = [each for each in SCENARIOS if not only or each.name in only]
        self._folder = Path(tempfile.mkdtemp(prefix="dragoman-e2e-"))
        self._process: asyncio.subprocess.Process | None = None

    async def cells(self) -> list[Cell]:
        since = len(self._stage.proxy.output)
        self._stage.backend.untouched = self._stage.backend.protocol == self._client.protocol
        try:
            outcomes = [await self._outcome(scenario) for scenario in self._scenarios]
            if self._process is not None:
                await asyncio.sleep(RECORDED_WITHIN_S)
            records = self._stage.records(since)
            return [self._judge(outcome, records) for outcome in outcomes]
        finally:
            await self._end()
            shutil.rmtree(self._folder, ignore_errors=True)

    async def _outcome(self, scenario: Scenario) -> Outcome:
        began = time.time()
        if scenario.name in self._client.lacks:
            return Outcome(scenario, Seen(), Visits(), began, began)
        number = f"{next(self._numbers)}"
        stalled = self._folder / f"stalled-{number}"
        watch = asyncio.create_task(self._tell_of_stall(number, stalled))
        seen = await self._do(self._task(scenario, number, stalled))
        visits = self._stage.backend.visits[number]
        if scenario.kind == "cancel":
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(visits.left.wait(), LEFT_WITHIN_S)
        watch.cancel()
        return Outcome(scenario, seen, visits, began, time.time())

    def _judge(self, outcome: Outcome, records: list[Json]) -> Cell:
        client, scenario, seen = self._client, outcome.scenario, outcome.seen
        backend = self._stage.backend.protocol
        place = (client.name, client.protocol, backend, scenario.name)
        if scenario.name in client.lacks:
            return Cell(*place, "lacking", client.lacks[scenario.name])
        mine = [record for record in records if outcome.began <= _second(record) <= outcome.ended]
        losses = sorted({loss for record in mine for loss in record.get("losses") or ()})
        problem = scenario.check(seen, outcome.visits)
        if rule := client.refused.get((scenario.name, backend)):
            told = {*losses, *(record["reason"] for record in mine), *(str(record["status"]) for record in mine)}
            if problem and rule in told:
                return Cell(*place, "refused", rule, self._shown(seen.error), losses)
            problem = problem or f"is no longer refused by {rule}"
        if outcome.visits.refused:
            problem = f"the backend refused: {outcome.visits.refused}"
        shown = self._shown(seen.error or seen.text) if scenario.is_failure else ""
        return Cell(*place, "failed" if problem else "passed", problem, shown, losses)

    def _shown(self, text: str) -> str:
        """Without what is another one in each run, or on each machine."""
        for own in (self._stage.proxy.url, f"127.0.0.1:{self._stage.proxy.port}"):
            text = text.replace(own, "(proxy)")
        text = text.replace(str(cache()), "(cache)")
        text = re.sub(rf"{re.escape(str(self._folder))}/\d+", "~", text)
        return REQUEST_ID.sub("req_...", _one_line(text))

    def _task(self, scenario: Scenario, number: str, stalled: Path) -> dict[str, Json]:
        """A home and a work folder of its own: what a program keeps of one scenario must not bear on the next."""
        client, home = self._client, self._folder / number
        work = home / "work"
        work.mkdir(parents=True)
        (work / "picture.png").write_bytes(base64.b64decode(IMAGE))
        (work / "schema.json").write_text(json.dumps(SCHEMA), "utf-8")
        calls = {name: fill(client.calls, {"city": city}) for name, city in (("one", "Lima"), ("two", "Oslo"))}
        structured = fill(client.structured, {"value": json.dumps(WEATHER)})
        image = fill(client.image, {"picture": str(work / "picture.png")})
        directives = fill(scenario.directives, {**calls, "structured": structured, "image": image})
        model = scenario.model or client.model
        prompt = f"{scenario.words} [[id={number}]] {directives}"
        filled = {
            "url": self._stage.proxy.url,
            "key": self._stage.keys[scenario.key],
            "model": model,
            "home": str(home),
        }
        for path, text in {**client.settings.files, **client.quiet_files}.items():
            file = home / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(fill(text, filled), "utf-8")
        environment = {name: fill(text, filled) for name, text in client.settings.environment.items()}
        return {
            "kind": scenario.kind,
            "protocol": client.protocol,
            "prompt": prompt,
            "model": model,
            "image": IMAGE,
            "environment": {"HOME": str(home), **environment},
            "command": self._program(prompt, filled),
            "folder": str(work),
            "stalled": str(stalled),
        }

    def _program(self, prompt: str, filled: Mapping[str, str]) -> list[str]:
        name, *arguments = self._client.settings.command or ("",)
        program = str(self._client.environment.program(name)) if name else ""
        return [program, *(fill(argument, {**filled, "prompt": prompt}) for argument in arguments)]

    async def _do(self, task: dict[str, Json]) -> Seen:
        """What the driver tells; one that hangs is ended."""
        process = self._process or await self._begin()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(task).encode() + b"\n")
        try:
            line = await asyncio.wait_for(process.stdout.readline(), TASK_WITHIN_S)
        except TimeoutError:
            return Seen(error=f"(hung for {TASK_WITHIN_S:.0f} s) {await self._end()}")
        if not line:
            return Seen(error=f"(the driver ended) {await self._end()}")
        return Seen.read(json.loads(line))

    async def _begin(self) -> asyncio.subprocess.Process:
        kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
        path = f"{NODE_ENVIRONMENT.folder / 'bin'}{os.pathsep}{kept['PATH']}"
        with self._log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *_driver(self._client),
                self._client.protocol,
                *self._client.arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env={**kept, **QUIET, **NO_WAY_OUT, **self._client.quiet, "PATH": path, "HOME": str(self._folder)},
                cwd=self._folder,
                start_new_session=True,
                limit=LINE_LIMIT,
            )
        return self._process

    @property
    def _log(self) -> Path:
        return self._folder / "errors"

    async def _end(self) -> str:
        """End the driver and all that it started; the end of what it wrote."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        return _one_line(self._log.read_text("utf-8", "replace"))[-SHOWN:] if self._log.exists() else ""

    async def _tell_of_stall(self, number: str, file: Path) -> None:
        """Makes the file once the backend has begun to be silent, so that a driver knows when to cancel."""
        visits = self._stage.backend.visits[number]
        await visits.stalled.wait()
        await asyncio.to_thread(file.touch)


def fill(text: str, values: Mapping[str, str]) -> str:
    """Braces that stand for none of the values stay as they are."""
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def _driver(client: Client) -> list[str]:
    """Where the driver runs: a library's in the environment of its client, a program's in our own."""
    if client.driver.endswith(".mjs"):
        # Modules are looked for from where the program lies.
        copied = client.environment.folder / client.driver
        for file in ("driver.mjs", client.driver):
            shutil.copy(DRIVERS / file, client.environment.folder)
        return [str(NODE_ENVIRONMENT.program("node")), str(copied)]
    is_program = bool(client.settings.command)
    python = sys.executable if is_program else str(client.environment.program("python"))
    return [python, str(DRIVERS / client.driver)]


def _second(record: Json) -> float:
    return datetime.fromisoformat(record["ts"]).timestamp()


def _one_line(text: str) -> str:
    return " ".join(text.split())
