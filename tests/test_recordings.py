"""What real clients ask becomes, in every protocol, a request that the strict rules accept, or is refused clearly.

`recordings/` holds requests of many clients as they were sent, one a file: method, path, headers, body, and a note on
what the vendor's own protocol answered. A refusal must be one of `LATER`; how many there are is part of the test, so
that a change shows.
"""

import json
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from openai.types.responses.input_token_count_params import InputTokenCountParams

from proxy.canonical.errors import Error, Reason, Rejected
from proxy.canonical.loss import Rule
from proxy.canonical.target import Target
from proxy.settings import LossPolicy
from proxy.translation.pair import Options, peek, prepare
from proxy.translation.profiles import profile_of
from proxy.upstream.dialects import PROFILES
from tests.harness.model_rules import check_request
from tests.harness.request_types import Refused, check_of, check_types
from tests.harness.wire import ENDPOINTS, PROTOCOLS, Json, Protocol
from tests.server.serving import before
from tests.upstream.scripted import reply

# What is refused today, and what will bring it.
LATER: dict[Rule, str] = {
    Rule.PREVIOUS_RESPONSE_ID: "stored state",
    Rule.THREAD: "stored state",
}
# Refused for good, as the vendor refuses it.
FOREVER: dict[Rule, str] = {
    Rule.REASONING: "OpenAI's newer models take no tools on Chat while they reason",
    Rule.WEB_SEARCH: "the request is about nothing but a search, which the backend does not run",
}

THREADS = {Rule.THREAD: 8}
SEARCH = {Rule.WEB_SEARCH: 1}
STORED = {Rule.PREVIOUS_RESPONSE_ID: 5}
# The refusals for (protocol, dialect, model) of each backend, by the protocol of the client.
REFUSED: dict[tuple[Protocol, str, str], dict[Protocol, dict[Rule, int]]] = {
    ("chat", "openai", "gpt-4.1"): {"messages": THREADS | SEARCH, "responses": STORED},
    ("chat", "openai", "gpt-5.4"): {
        "messages": THREADS | SEARCH | {Rule.REASONING: 61},
        "responses": STORED | {Rule.REASONING: 59},
    },
    ("chat", "generic", "some-model"): {"messages": THREADS | SEARCH, "responses": STORED},
    ("responses", "openai", "gpt-5.4"): {"messages": THREADS},
    ("responses", "openai", "gpt-6.2-sol"): {"messages": THREADS},
    ("responses", "openai", "gpt-4.1"): {"messages": THREADS},
    ("responses", "generic", "some-model"): {"messages": THREADS},
    ("messages", "anthropic", "claude-sonnet-4-6"): {"responses": STORED},
    ("messages", "anthropic", "claude-opus-5-5"): {"responses": STORED},
    ("messages", "anthropic", "claude-sonnet-5-5"): {"responses": STORED},
    ("messages", "anthropic", "claude-haiku-4-5"): {"responses": STORED},
    ("messages", "anthropic", "claude-3-5-haiku"): {"responses": STORED},
    ("messages", "generic", "some-model"): {"responses": STORED},
}
ASKED = {"chat": 164, "responses": 138, "messages": 205}
COUNTED = 17
COUNTING = "/v1/messages/count_tokens"

FOLDER = Path(__file__).parent / "recordings"
RULE_OF_MESSAGE = re.compile(r"\(([a-z-]+)\)")


@cache
def recordings(endpoint: str) -> list[tuple[str, Json]]:
    """(name, recording) of all requests to an endpoint."""
    found = []
    for path in sorted(FOLDER.glob("*/*.json")):
        recording = json.loads(path.read_text())
        if recording["method"] == "POST" and recording["path"].partition("?")[0] == endpoint:
            found.append((f"{path.parent.name}/{path.name}", recording))
    return found


def rule_of(error: Error) -> Rule | None:
    """The rule by which the proxy refuses; None for a request that it calls malformed."""
    if error.reason is Reason.STATE_NOT_PORTABLE and error.code == "previous_response_not_found":
        return Rule.PREVIOUS_RESPONSE_ID
    named = RULE_OF_MESSAGE.search(error.message)
    return Rule(named[1]) if error.reason is Reason.LOSS_REFUSED and named else None


def target(protocol: Protocol, dialect: str, model: str) -> Target:
    return Target(protocol, model, PROFILES[protocol][dialect], profile_of(model))


def asked(body: Json) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("client", "backend"),
    [(client, backend) for backend in REFUSED for client in PROTOCOLS if client != backend[0]],
    ids=lambda side: side if isinstance(side, str) else "-".join(side),
)
def test_a_backend_accepts_what_clients_ask(client: Protocol, backend: tuple[Protocol, str, str]) -> None:
    goal = target(*backend)
    refused: Counter[Rule] = Counter()
    mistakes: list[str] = []
    for name, recording in recordings(ENDPOINTS[client]):
        try:
            body = prepare(peek(client, asked(recording["body"])), goal, Options()).body
            check_request(backend[0], json.loads(body))
        except Rejected as rejected:
            rule = rule_of(rejected.error)
            if rule in LATER or rule in FOREVER:
                refused[rule] += 1
            else:
                mistakes.append(f"{name}: {rejected.error}")
        except Refused as mistake:
            mistakes.append(f"{name}: {mistake}")
    assert (mistakes, refused) == ([], REFUSED[backend].get(client, {}))


@pytest.mark.parametrize("client", PROTOCOLS)
def test_within_a_protocol_only_the_model_changes(client: Protocol) -> None:
    goal = Target(client, "another-model", PROFILES[client]["anthropic" if client == "messages" else "openai"])
    for name, recording in recordings(ENDPOINTS[client]):
        body = prepare(peek(client, asked(recording["body"])), goal, Options()).body
        assert json.loads(body) == {**recording["body"], "model": "another-model"}, name


@pytest.mark.parametrize(("backend", "counts"), [("chat", False), ("responses", True), ("messages", True)])
async def test_a_prompt_is_counted_for_every_backend(backend: Protocol, counts: bool) -> None:
    said = json.dumps({"object": "response.input_tokens", "input_tokens": 7})
    models = [("*", "gpt-5.4" if backend == "responses" else "claude-sonnet-4-6", LossPolicy())]
    async with before(backend, reply(200, said), models=models, dialect="openai") as (proxy, scripted):
        for name, recording in recordings(COUNTING):
            status, headers, body = await proxy.post(recording["path"], recording["body"])
            told = json.loads(body)["input_tokens"]
            assert (status, told == 7, "dragoman-usage" in headers) == (200, counts, not counts), name
    bodies = [json.loads(request.body) for request in scripted.asked]
    # Equal questions are asked once.
    assert len(bodies) == (len({asked(recording["body"]) for _, recording in recordings(COUNTING)}) if counts else 0)
    for counted in bodies:
        if backend == "responses":
            check_of(InputTokenCountParams)(counted, "")
        else:
            check_types("messages", {**counted, "max_tokens": 1}, beta=True)


def test_every_recording_is_asked() -> None:
    assert {client: len(recordings(ENDPOINTS[client])) for client in PROTOCOLS} == ASKED
    assert len(recordings(COUNTING)) == COUNTED
    # One client also asks which models there are.
    assert len(list(FOLDER.glob("*/*.json"))) == sum(ASKED.values()) + COUNTED + 1
