"""What a client asks and what the backend is to make of it, as words in the request's own text.

The words go through the proxy like any other text, whatever the protocols, so that the backend needs no other way to be
told.
"""

import re
from dataclasses import dataclass
from typing import Literal

import orjson

Client = Literal["chat", "responses", "messages", "embeddings"]
# ok: answers. slow: answers in pieces with pauses. untold: answers and never says what it used. 400, 429, 500: refuses.
# reset: drops the connection instead of an answer. cut: in the middle of its answer. late-cut: after it has told its
# usage, before the end. silent: takes the request and says nothing. stalls: stops in the middle, and stays open.
Conduct = Literal["ok", "slow", "untold", "400", "429", "500", "reset", "cut", "late-cut", "silent", "stalls"]

PATHS: dict[Client, str] = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
    "embeddings": "/v1/embeddings",
}
_WORDS = re.compile(rb"of=([a-z]+) do=([a-z0-9-]+) prompt=(\d+) cached=(\d+) output=(\d+)")


@dataclass(frozen=True)
class Ask:
    """`prompt`: tokens that the backend will say it read, `cached` among them from a cache; `output`: wrote."""

    tenant: str
    conduct: Conduct = "ok"
    prompt: int = 40
    cached: int = 0
    output: int = 10

    @property
    def words(self) -> str:
        return f"of={self.tenant} do={self.conduct} prompt={self.prompt} cached={self.cached} output={self.output} ."


def asked(body: bytes) -> Ask:
    """What a request's text says. Raises ValueError for one that says nothing."""
    found = _WORDS.search(body)
    if found is None:
        raise ValueError(f"the proxy has lost the text of the request: {body[:500]!r}")
    tenant, conduct, *numbers = (text.decode() for text in found.groups())
    return Ask(tenant, conduct, *map(int, numbers))  # type: ignore[arg-type]


def body_of(ask: Ask, client: Client, model: str, *, stream: bool, most: int, told_usage: bool = True) -> bytes:
    """A request. `most`: tokens of its answer. `told_usage`: Chat clients may ask for it in streams."""
    turns = [{"role": "user", "content": ask.words}]
    wire: dict[str, object]
    match client:
        case "embeddings":
            wire = {"model": model, "input": ask.words}
        case "responses":
            wire = {"model": model, "input": ask.words, "max_output_tokens": most, "stream": stream, "store": False}
        case "messages":
            wire = {"model": model, "messages": turns, "max_tokens": most, "stream": stream}
        case "chat":
            wire = {"model": model, "messages": turns, "max_tokens": most, "stream": stream}
            if stream and told_usage:
                wire["stream_options"] = {"include_usage": True}
    return orjson.dumps(wire)
