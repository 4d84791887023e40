"""What the whole harness shares: names of the protocols, JSON values, and reading an event stream.

Reading is tolerant, as clients are; whether a stream was written as it must be is the business of
`grammar`.
"""

import json
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias, get_args

Protocol: TypeAlias = Literal["chat", "responses", "messages"]
PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)

# A decoded JSON value. Tests walk values of any shape; a wrong guess about one is a failed assertion.
Json: TypeAlias = Any

ENDPOINTS: dict[Protocol, str] = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
}

LINE_END = re.compile(r"\r\n|\n|\r")
DONE = "[DONE]"


@dataclass(frozen=True)
class WireEvent:
    """One server-sent event. `named` is its `event:` line, `text` the joined `data:` lines."""

    named: str | None
    text: str

    @cached_property
    def data(self) -> Json:
        """The decoded data; None if it is not JSON."""
        try:
            return json.loads(self.text)
        except ValueError:
            return None

    @property
    def name(self) -> str | None:
        """The event's name, by its line or else by the type that its data states."""
        return self.named or (self.data.get("type") if isinstance(self.data, dict) else None)


@dataclass(frozen=True)
class EventStream:
    """The events of a stream without comments; `done` if `[DONE]` came after the last of them."""

    events: tuple[WireEvent, ...]
    done: bool


def read_events(text: str) -> EventStream:
    """Reads by the rules of the HTML standard: what no blank line ends was never sent."""
    events: list[WireEvent] = []
    done, named = False, None
    data: list[str] = []
    for line in LINE_END.split(text.removeprefix("\ufeff"))[:-1]:
        if line:
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if field == "data":
                data.append(value)
            elif field == "event":
                named = value
            continue
        joined = "\n".join(data)
        if joined == DONE:
            done = True
        elif joined:
            done = False
            events.append(WireEvent(named, joined))
        named, data = None, []
    return EventStream(tuple(events), done)


def chat_event(data: Json) -> str:
    """A chunk as Chat Completions writes it."""
    return f"data: {data if data == DONE else json.dumps(data, ensure_ascii=False)}\n\n"


def typed_event(data: Json) -> str:
    """An event as Responses and Messages write it."""
    return f"event: {data['type']}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"
