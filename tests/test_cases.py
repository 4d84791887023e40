"""Translation cases: faults that users of such proxies have met, each with what a correct one does.

The cases are the JSON files in `cases/`. Each runs against the proxy as a process of its own; those of one
backend protocol share it.
"""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio

from tests.harness.backend import ScriptedBackend
from tests.harness.case_runner import run_case
from tests.harness.proxy_process import ProxyProcess
from tests.harness.wire import Json, Protocol

# Cases that rest on features to come, each with the reason. One that passes must leave this list.
LATER: dict[str, str] = {}

CASES = [json.loads(path.read_text("utf-8")) for path in sorted(Path(__file__).parent.joinpath("cases").glob("*.json"))]


class Lanes:
    """A backend and a proxy in front of it for each protocol, started when first asked for."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self._lanes: dict[Protocol, tuple[ScriptedBackend, ProxyProcess]] = {}

    async def to(self, protocol: Protocol) -> tuple[ScriptedBackend, ProxyProcess]:
        if protocol not in self._lanes:
            backend = ScriptedBackend(protocol)
            await backend.listen()
            self._stack.callback(backend.close)
            proxy = ProxyProcess(protocol, backend.url)
            self._stack.push_async_callback(proxy.stop)
            self._lanes[protocol] = backend, proxy
        backend, proxy = self._lanes[protocol]
        if not proxy.alive:  # a case that ended it has failed; the next ones are to be judged by themselves
            await proxy.start()
        return backend, proxy


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def lanes() -> AsyncIterator[Lanes]:
    async with AsyncExitStack() as stack:
        yield Lanes(stack)


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
async def test_case(case: Json, lanes: Lanes) -> None:
    backend, proxy = await lanes.to(case["upstream_protocol"])
    failures = await run_case(case, backend, proxy)
    if case["id"] in LATER:
        assert failures, f"{case['id']} passes now; take it off the list of those to come"
    else:
        assert not failures, "\n".join([case["title"], *failures])


def test_cases_to_come_exist() -> None:
    assert LATER.keys() <= {case["id"] for case in CASES}
