"""Run one translation case: a client posts, the backend answers as scripted, both directions are judged."""

import asyncio
import copy
import json
from typing import Literal

from tests.harness.assertions import problems
from tests.harness.backend import ScriptedBackend
from tests.harness.capture import Capture
from tests.harness.client import Reply, post
from tests.harness.grammar import check_stream
from tests.harness.paths import find
from tests.harness.proxy_process import ProxyFailed, ProxyProcess
from tests.harness.whole_assertions import error_event
from tests.harness.wire import ENDPOINTS, Json, Protocol

CASE_TIMEOUT_S = 10

CLIENT_CREDENTIALS: dict[Protocol, dict[str, str]] = {
    "chat": {"authorization": "Bearer client-key"},
    "responses": {"authorization": "Bearer client-key"},
    "messages": {"x-api-key": "client-key", "anthropic-version": "2023-06-01"},
}


async def run_case(case: Json, backend: ScriptedBackend, proxy: ProxyProcess) -> list[str]:
    """What does not hold, each with what was found instead; nothing if the case passes."""
    try:
        async with asyncio.timeout(CASE_TIMEOUT_S):
            return await _run_turns(case, backend, proxy)
    except TimeoutError:
        return [f"it takes more than {CASE_TIMEOUT_S} s"]
    except ProxyFailed as error:
        return [str(error)]


async def _run_turns(case: Json, backend: ScriptedBackend, proxy: ProxyProcess) -> list[str]:
    """Ends with the first turn that fails, since later ones are built on its reply."""
    replies: list[Capture] = []
    for number, turn in enumerate(case.get("turns", [case])):
        try:
            body = with_replies(turn["client_request"], replies)
        except LookupError as error:
            return [f"turn {number} can't be sent: {error}"]
        await backend.play(turn)
        reply = await _post(case["client_protocol"], turn, body, proxy.port)
        if reply.left_at is not None:
            await backend.settled()
        proxy.check_alive()
        sent, received = _captures(case, backend, reply)
        failures = [*backend.faults, *_judge(turn["expect"], sent, received)]
        if reply.left_at is None:
            failures += _illegal(received)
        if failures:
            got = f"the client got {reply.status} {received.text[:300]!r}"
            return [f"turn {number}: {failure}" for failure in [*failures, got]]
        replies.append(received)
    return []


async def _post(protocol: Protocol, turn: Json, body: Json, port: int) -> Reply:
    headers = {
        "content-type": "application/json",
        "accept": "text/event-stream" if body.get("stream") else "application/json",
        "accept-encoding": "identity",
        **CLIENT_CREDENTIALS[protocol],
        **turn.get("client_headers", {}),
    }
    text = turn.get("client_body_raw") or json.dumps(body, ensure_ascii=False)
    return await post(
        port,
        turn.get("client_path", ENDPOINTS[protocol]),
        headers,
        text.encode("utf-8", "surrogatepass"),
        leave_after_events=turn.get("client_abort_after_events"),
    )


def _captures(case: Json, backend: ScriptedBackend, reply: Reply) -> tuple[Capture | None, Capture]:
    received = Capture(
        case["client_protocol"],
        reply.body,
        reply.headers,
        status=reply.status,
        streamed=reply.streamed,
        broken=reply.broken,
        passed_through=case["client_protocol"] == case["upstream_protocol"],
    )
    if not backend.requests:
        return None, received
    request = backend.requests[0]
    sent = Capture(
        case["upstream_protocol"],
        request.body,
        request.head.headers,
        path=request.path,
        count=len(backend.requests),
        other=received,
    )
    if reply.left_at is not None and request.closed_at is not None:
        sent.cancelled_ms = max(0.0, (request.closed_at - reply.left_at) * 1000)
    received.other = sent
    return sent, received


def _judge(expect: Json, sent: Capture | None, received: Capture) -> list[str]:
    failures = [f"client reply: {problem}" for problem in problems(expect["client_reply"], received)]
    if expect["upstream_request"] and sent is None:
        return ["the backend was not asked", *failures]
    if sent is not None:
        failures += [f"upstream request: {problem}" for problem in problems(expect["upstream_request"], sent)]
    return failures


def _illegal(received: Capture) -> list[str]:
    """A stream that we wrote is legal, whatever the case is about; one that fails says so."""
    if not received.streamed or received.passed_through:
        return []
    expect_end: Literal["clean", "error"] = "clean" if error_event(received) is None else "error"
    return check_stream(received.protocol, received.body, expect_end=expect_end)


def with_replies(node: Json, replies: list[Capture]) -> Json:
    """A request in which each `{"$reply": …}` is replaced by what it names in an earlier reply.

    Raises LookupError if nothing is there.
    """
    if isinstance(node, list):
        whole: list[Json] = []
        for element in node:
            value = with_replies(element, replies)
            splice = isinstance(element, dict) and element.get("$splice") is True
            whole += value if splice else [value]
        return whole
    if not isinstance(node, dict):
        return node
    if "$reply" not in node:
        return {name: with_replies(value, replies) for name, value in node.items()}
    wanted = node["$reply"]
    found = find(replies[wanted["turn"]].final, wanted["path"])
    if not found:
        raise LookupError(f"the reply of turn {wanted['turn']} has no {wanted['path']}")
    return copy.deepcopy(found[0])
