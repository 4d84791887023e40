"""The vendors' Node SDKs against the proxy, for all nine pairs of protocols.

They read streams with code of their own, and trip over other things than the Python SDKs do.
"""

import asyncio
import json
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.e2e.conftest import KEY
from tests.e2e.node.conftest import INSTALL_WITHIN_S
from tests.harness.model_replies import INPUT_TOKENS, OUTPUT_TOKENS
from tests.harness.proxy_process import ProxyProcess
from tests.harness.wire import PROTOCOLS, Json, Protocol

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


@pytest.mark.parametrize("backend_protocol", PROTOCOLS)
@pytest.mark.parametrize("client_protocol", PROTOCOLS)
async def test_node_sdk(
    client_protocol: Protocol,
    backend_protocol: Protocol,
    proxies: dict[Protocol, ProxyProcess],
    programs: Path,
) -> None:
    tasks = [task for task, _ in ANSWERS] + [task for task, *_ in ERRORS]
    expected: list[dict[str, Json]] = [answer for _, answer in ANSWERS]
    expected += [of_messages if client_protocol == "messages" else of_openai for _, of_openai, of_messages in ERRORS]
    runs = await _run(programs / "client.mjs", client_protocol, proxies[backend_protocol].url, tasks)
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
