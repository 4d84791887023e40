"""Requests to send, drawn by chance from a seed: every conduct, every pair of protocols, clients that leave."""

from collections.abc import Iterator, Mapping
from random import Random
from typing import TypeVar, get_args

from tests.limits.asks import Ask, Client, Conduct, body_of
from tests.limits.clients import Call, Leaves

MOST_PROMPT, MOST_OUTPUT = 400, 300  # tokens

# In a thousand requests. What hangs until a time limit costs the test most of its time.
_CONDUCTS: dict[Conduct, int] = {
    "ok": 780,
    "slow": 60,
    "untold": 30,
    "400": 25,
    "429": 25,
    "500": 25,
    "reset": 20,
    "cut": 15,
    "late-cut": 10,
    "silent": 5,
    "stalls": 5,
}
_CLIENTS: dict[Client, int] = {"chat": 35, "messages": 35, "responses": 20, "embeddings": 10}
_LEAVING = 0.15  # of all requests
_SLOW_WHEN_LEFT = 0.8  # of these: else the answer has come before its client leaves
_SOON_S = 0.08

Choice = TypeVar("Choice")


def calls(seed: int, count: int, keys: Mapping[str, str], shares: Mapping[str, int]) -> Iterator[Call]:
    """`keys`: by tenant; `shares`: how often each of them asks."""
    chance = Random(seed)
    for _ in range(count):
        tenant = _draw(chance, shares)
        client, conduct = _draw(chance, _CLIENTS), _draw(chance, _CONDUCTS)
        leaves: Leaves | None = chance.choice(get_args(Leaves)) if chance.random() < _LEAVING else None
        if leaves is not None and chance.random() < _SLOW_WHEN_LEFT:
            conduct = "slow"
        prompt = chance.randint(5, MOST_PROMPT)
        ask = Ask(
            tenant, conduct, prompt, cached=chance.choice((0, 0, prompt // 3)), output=chance.randint(2, MOST_OUTPUT)
        )
        body = body_of(
            ask,
            client,
            "chat-m" if client == "embeddings" or chance.random() < 0.5 else "messages-m",
            stream=client != "embeddings" and chance.random() < 0.5,
            most=chance.choice((64, 512, 8000)),
            told_usage=chance.random() < 0.5,
        )
        yield Call(ask, client, keys[tenant], body, leaves, chance.uniform(0, _SOON_S))


def _draw(chance: Random, weights: Mapping[Choice, int]) -> Choice:
    return chance.choices(list(weights), list(weights.values()))[0]
