"""Conversations as each protocol's clients send them, for properties of request translation."""

import json
from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import strategies as st

from tests.harness.wire import Json, Protocol
from tests.properties.scripts import ARGUMENTS, WORDS

CALL_IDS = st.sampled_from(["call_a", "call_b", "toolu_1", "functions.get:0", "x|y", "i" * 70, "call_a"])


@dataclass(frozen=True)
class CallMade:
    id: str
    name: str
    arguments: str
    answer: str
    failed: bool


@dataclass(frozen=True)
class Round:
    """A user speaks, the assistant answers, its calls are answered in the order of `answered`, and more may be said."""

    said: str
    reply: str
    calls: tuple[CallMade, ...]
    answered: tuple[int, ...]
    more: str

    def __post_init__(self) -> None:
        assert sorted(self.answered) == list(range(len(self.calls)))


@st.composite
def rounds(draw: st.DrawFn) -> Round:
    calls = tuple(
        CallMade(f"{draw(CALL_IDS)}{number}", f"tool_{number}", draw(ARGUMENTS), draw(WORDS), draw(st.booleans()))
        for number in range(draw(st.integers(0, 3)))
    )
    order = draw(st.permutations(range(len(calls))))
    more = draw(st.one_of(st.just(""), WORDS))
    reply = draw(st.one_of(st.just(""), WORDS)) if calls else draw(WORDS)
    return Round(draw(WORDS), reply, calls, tuple(order), more)


HISTORIES = st.lists(rounds(), max_size=4)


def _chat_turns(history: list[Round]) -> list[Json]:
    messages: list[Json] = []
    for turn in history:
        messages.append({"role": "user", "content": turn.said})
        assistant: dict[str, Json] = {"role": "assistant", "content": turn.reply or None}
        if turn.calls:
            assistant["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in turn.calls
            ]
        messages.append(assistant)
        for index in turn.answered:
            call = turn.calls[index]
            messages.append({"role": "tool", "tool_call_id": call.id, "content": call.answer})
        if turn.more:
            messages.append({"role": "user", "content": turn.more})
    return messages


def _messages_turns(history: list[Round]) -> list[Json]:
    messages: list[Json] = []
    for turn in history:
        messages.append({"role": "user", "content": turn.said})
        content: list[Json] = [{"type": "text", "text": turn.reply}] if turn.reply else []
        content += [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": json.loads(call.arguments)}
            for call in turn.calls
        ]
        messages.append({"role": "assistant", "content": content})
        answers: list[Json] = []
        for index in turn.answered:
            call = turn.calls[index]
            answers.append({"type": "tool_result", "tool_use_id": call.id, "content": call.answer})
            if call.failed:
                answers[-1]["is_error"] = True
        if turn.more:
            answers.append({"type": "text", "text": turn.more})
        if answers:
            messages.append({"role": "user", "content": answers})
    return messages


def _responses_turns(history: list[Round]) -> list[Json]:
    items: list[Json] = []
    for turn in history:
        items.append({"role": "user", "content": turn.said})
        if turn.reply:
            items.append({"role": "assistant", "content": turn.reply})
        items += [
            {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}
            for call in turn.calls
        ]
        for index in turn.answered:
            call = turn.calls[index]
            items.append({"type": "function_call_output", "call_id": call.id, "output": call.answer})
        if turn.more:
            items.append({"role": "user", "content": [{"type": "input_text", "text": turn.more}]})
    return items


PARAMETERS = {"type": "object", "properties": {"a": {"type": "string"}}}


def _chat(history: list[Round], last: str) -> Json:
    tools = [
        {"type": "function", "function": {"name": f"tool_{number}", "parameters": PARAMETERS}} for number in range(3)
    ]
    messages = [{"role": "system", "content": "Be brief."}, *_chat_turns(history), {"role": "user", "content": last}]
    return {"model": "m", "messages": messages, "tools": tools}


def _messages(history: list[Round], last: str) -> Json:
    tools = [{"name": f"tool_{number}", "input_schema": PARAMETERS} for number in range(3)]
    messages = [*_messages_turns(history), {"role": "user", "content": last}]
    return {"model": "m", "max_tokens": 500, "system": "Be brief.", "messages": messages, "tools": tools}


def _responses(history: list[Round], last: str) -> Json:
    tools = [
        {"type": "function", "name": f"tool_{number}", "parameters": PARAMETERS, "strict": False} for number in range(3)
    ]
    items = [*_responses_turns(history), {"role": "user", "content": last}]
    return {"model": "m", "instructions": "Be brief.", "input": items, "tools": tools}


REQUEST: dict[Protocol, Callable[[list[Round], str], Json]] = {
    "chat": _chat,
    "responses": _responses,
    "messages": _messages,
}
