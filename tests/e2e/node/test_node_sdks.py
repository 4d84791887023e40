"""The vendors' Node SDKs against the proxy, for all nine pairs of protocols.

They read streams with code of their own, and trip over other things than the Python SDKs do. They are installed
from npm into the project's cache once.
"""

import asyncio
import json
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
import pytest_asyncio

from tests.e2e.conftest import KEY
from tests.harness.model_replies import INPUT_TOKENS, OUTPUT_TOKENS
from tests.harness.proxy_process import ProxyProcess
from tests.harness.wire import PROTOCOLS, Json, Protocol

HERE = Path(__file__).parent
CACHE = HERE.parents[2] / ".cache" / "node-sdks"
INSTALL_WITHIN_S = 300
RUN_WITHIN_S = 60

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(INSTALL_WITHIN_S + RUN_WITHIN_S)]


class Task(NamedTuple):
    prompt: str
    tools: bool = False
    stream: bool = False
    key: str = KEY


LIMA, OSLO = {"city": "Lima"}, {"city": "Oslo"}
PIECES = ["You ", "said: ", "Good ", "morning!"]

TOOL_PROMPTS: dict[str, dict[str, Json]] = {
    "How warm is it?": {"calls": [LIMA], "text": "Results: Lima has 21 degrees"},
    "How warm is it? [[think]]": {"reasoning": "Let me think." * 2, "text": "Results: Lima has 21 degrees"},
    "How warm is it? [[parallel]]": {
        "calls": [LIMA, OSLO],
        "text": "Results: Lima has 21 degrees; Oslo has 21 degrees",
    },
}
# What a run must show, by field.
ANSWERS: list[tuple[Task, dict[str, Json]]] = [
    (Task("Good morning!"), {"text": "".join(PIECES), "usage": [INPUT_TOKENS, OUTPUT_TOKENS]}),
    (Task("Good morning!", stream=True), {"text": "".join(PIECES), "pieces": PIECES}),
    *((Task(prompt, tools=True), wanted) for prompt, wanted in TOOL_PROMPTS.items()),
    *((Task(prompt, tools=True, stream=True), wanted) for prompt, wanted in TOOL_PROMPTS.items()),
]
# What the SDK must raise: fields of its error, for the OpenAI protocols and for Messages.
ERRORS: list[tuple[Task, dict[str, Json], dict[str, Json]]] = [
    (Task("Hi", key="wrong"), {"name": "AuthenticationError"}, {"name": "AuthenticationError"}),
    (
        Task("Hi [[context]]"),
        {"name": "BadRequestError", "code": "context_length_exceeded"},
        {"name": "BadRequestError"},
    ),
    (
        Task("Hi [[status=429]]", stream=True),
        {"name": "RateLimitError", "retry_after": "3"},
        {"name": "RateLimitError", "retry_after": "3"},
    ),
    (Task("Hi [[overloaded]]"), {"status": 503}, {"status": 529}),
    (Task("Hi [[status=500]]"), {"name": "InternalServerError"}, {"name": "InternalServerError"}),
    (Task("It breaks in its middle [[error]]", stream=True), {"of_api": True}, {"of_api": True}),
    (Task("It breaks in its middle [[cut]]", stream=True), {"of_api": True}, {"of_api": True}),
]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def program() -> Path:
    """The client beside its installed SDKs."""
    program = _copy_into_cache()
    if not (CACHE / "node_modules").exists():
        arguments = ("install", "--no-package-lock", "--no-audit", "--no-fund")
        npm = await asyncio.create_subprocess_exec("npm", *arguments, cwd=CACHE)
        assert await asyncio.wait_for(npm.wait(), INSTALL_WITHIN_S) == 0
    return program


def _copy_into_cache() -> Path:
    """Modules are looked for from where the program lies. A changed list of SDKs makes the installed ones stale."""
    CACHE.mkdir(parents=True, exist_ok=True)
    (CACHE.parent / ".gitignore").write_text("*\n", "utf-8")
    wanted, installed = HERE / "package.json", CACHE / "package.json"
    if installed.exists() and installed.read_bytes() != wanted.read_bytes():
        shutil.rmtree(CACHE / "node_modules", ignore_errors=True)
    shutil.copy(wanted, installed)
    return Path(shutil.copy(HERE / "client.mjs", CACHE))


@pytest.mark.parametrize("backend_protocol", PROTOCOLS)
@pytest.mark.parametrize("client_protocol", PROTOCOLS)
async def test_node_sdk(
    client_protocol: Protocol,
    backend_protocol: Protocol,
    proxies: dict[Protocol, ProxyProcess],
    program: Path,
) -> None:
    tasks = [task for task, _ in ANSWERS] + [task for task, *_ in ERRORS]
    expected: list[dict[str, Json]] = [answer for _, answer in ANSWERS]
    expected += [of_messages if client_protocol == "messages" else of_openai for _, of_openai, of_messages in ERRORS]
    runs = await _run(program, client_protocol, proxies[backend_protocol].url, tasks)
    problems = []
    for task, wanted, run in zip(tasks, expected, runs, strict=True):
        found = run.get("error", run)
        if {field: found.get(field, "missing") for field in wanted} != wanted:
            problems.append(f"{task}: wanted {wanted}, found {run}")
    assert not problems, "\n".join(problems)


async def _run(program: Path, protocol: Protocol, url: str, tasks: list[Task]) -> list[Json]:
    node = await asyncio.create_subprocess_exec(
        "node", str(program), protocol, url, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    text = json.dumps([task._asdict() for task in tasks]).encode()
    output, _ = await asyncio.wait_for(node.communicate(text), RUN_WITHIN_S)
    assert node.returncode == 0
    runs: list[Json] = json.loads(output)
    return runs
