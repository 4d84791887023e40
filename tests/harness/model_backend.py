"""A backend that plays a model in one of the three protocols, as strict as the vendor's own API.

It says back what it was told, calls each declared tool before it answers, and then names the results. What
stands in double brackets in the prompt directs it:

    [[think]]        reasons first
    [[parallel]]     makes two calls at once
    [[rounds=3]]     makes so many calls, one after another
    [[status=429]]   refuses with this status; [[overloaded]] with the vendor's own one
    [[context]]      refuses the prompt as too long
    [[error]]        begins a stream and tells an error in its middle
    [[cut]]          begins a stream and drops the connection in its middle
"""

import asyncio
import itertools
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from aiohttp import web

from tests.harness.model_replies import Answer, Call, render, write_stream, write_whole
from tests.harness.model_rules import check_request
from tests.harness.request_types import Refused
from tests.harness.wire import ENDPOINTS, Json, Protocol

DIRECTIVE = re.compile(r"\[\[(?P<name>\w+)(?:=(?P<value>\w+))?\]\]")
RETRY_AFTER_S = "3"
# What comes before a break is to reach the client by itself, as it does from a model that fails while it speaks.
BREAKS_AFTER_S = 0.05
CONTEXT_TOO_LONG = {
    "chat": "This model's maximum context length is 200000 tokens. However, your messages resulted in 250000 tokens.",
    "responses": "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "messages": "prompt is too long: 250000 tokens > 200000 maximum",
}
OVERLOADED: dict[Protocol, int] = {"chat": 503, "responses": 503, "messages": 529}

# (type and code in the OpenAI protocols, type in Messages)
ERROR_TYPES: dict[int, tuple[str, str | None, str]] = {
    400: ("invalid_request_error", None, "invalid_request_error"),
    401: ("invalid_request_error", "invalid_api_key", "authentication_error"),
    429: ("requests", "rate_limit_exceeded", "rate_limit_error"),
    500: ("server_error", None, "api_error"),
    503: ("service_unavailable_error", "server_is_overloaded", "overloaded_error"),
    529: ("service_unavailable_error", "server_is_overloaded", "overloaded_error"),
}


@dataclass
class Conversation:
    """prompt: what the user said last. results: those of the calls that followed it."""

    prompt: str = ""
    results: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        self.prompt, self.results = text, []

    @property
    def directives(self) -> dict[str, str | None]:
        return {match["name"]: match["value"] for match in DIRECTIVE.finditer(self.prompt)}


class ModelBackend:
    """Serves on a free port of loopback; `requests` are the bodies of those that keep the rules. `pause`: seconds
    before each event of a stream, asked for anew each time; by default none, and no waiting."""

    def __init__(self, protocol: Protocol, key: str, pause: Callable[[], float] | None = None) -> None:
        self.protocol, self.url = protocol, ""
        self.requests: list[Json] = []
        self._key, self._pause = key, pause
        self._numbers = itertools.count(1)
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        application = web.Application()
        application.router.add_post(ENDPOINTS[self.protocol], self._serve)
        self._runner = web.AppRunner(application)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        if self._runner:
            await self._runner.cleanup()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        if self._key_of(request) != self._key:
            return self._error(401, "Incorrect API key provided.")
        if self.protocol == "messages" and "anthropic-version" not in request.headers:
            return self._error(400, "anthropic-version: header is required")
        body = json.loads(await request.read())
        try:
            check_request(self.protocol, body)
        except Refused as refused:
            return self._error(400, str(refused), param=refused.where)
        self.requests.append(body)
        conversation = READERS[self.protocol](body)
        directives = conversation.directives
        if "status" in directives:
            return self._error(int(directives["status"] or 500), "As you wished.")
        if "overloaded" in directives:
            return self._error(OVERLOADED[self.protocol], "Overloaded")
        if "context" in directives:
            return self._error(400, CONTEXT_TOO_LONG[self.protocol], code="context_length_exceeded", param="messages")
        answer = self._answer(body, conversation)
        if body.get("stream"):
            return await self._stream(request, answer, directives)
        return web.json_response(write_whole(self.protocol, answer))

    def _key_of(self, request: web.Request) -> str | None:
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        return request.headers.get("x-api-key", bearer) if self.protocol == "messages" else bearer

    def _answer(self, body: Json, conversation: Conversation) -> Answer:
        number = next(self._numbers)
        directives = conversation.directives
        reasoning = "Let me think." if "think" in directives else ""
        model = body["model"]
        if len(conversation.results) >= int(directives.get("rounds") or 1):
            return Answer(model, "Results: " + "; ".join(conversation.results), reasoning=reasoning, number=number)
        if not body.get("tools"):
            prompt = DIRECTIVE.sub("", conversation.prompt).strip()
            return Answer(model, f"You said: {prompt}", reasoning=reasoning, number=number)
        prefix = "toolu" if self.protocol == "messages" else "call"
        tool = body["tools"][0]
        name = tool["function"]["name"] if self.protocol == "chat" else tool["name"]
        cities = ["Lima", "Oslo"] if "parallel" in directives else ["Lima"]
        calls = tuple(Call(f"{prefix}_{number}_{city}", name, {"city": city}) for city in cities)
        return Answer(model, "Let me look.", calls, reasoning, number)

    async def _stream(
        self, request: web.Request, answer: Answer, directives: dict[str, str | None]
    ) -> web.StreamResponse:
        events = write_stream(self.protocol, answer)
        broken = "cut" in directives or "error" in directives
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for event in events[: len(events) // 2] if broken else events:
            if self._pause:
                await asyncio.sleep(self._pause())
            await response.write(render(self.protocol, [event]))
        if broken:
            await asyncio.sleep(BREAKS_AFTER_S)
        if "error" in directives:
            await response.write(render(self.protocol, self._error_events(len(events) // 2)))
        if "cut" in directives and request.transport:
            request.transport.abort()
        return response

    def _error_events(self, sequence_number: int) -> list[Json]:
        error = self._error_body(500, "It broke.", None, None)
        if self.protocol == "responses":
            return [{"type": "error", "sequence_number": sequence_number, **error}]
        return [error]

    def _error(
        self, status: int, message: str, *, code: str | None = None, param: str | None = None
    ) -> web.StreamResponse:
        headers = {"retry-after": RETRY_AFTER_S} if status == 429 else {}
        return web.json_response(self._error_body(status, message, code, param), status=status, headers=headers)

    def _error_body(self, status: int, message: str, code: str | None, param: str | None) -> Json:
        openai_type, usual_code, messages_type = ERROR_TYPES[status]
        if self.protocol == "messages":
            return {"type": "error", "error": {"type": messages_type, "message": message}, "request_id": "req_1"}
        return {"error": {"message": message, "type": openai_type, "param": param, "code": code or usual_code}}


def _text_of(content: Json) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or ())


def _read_chat(body: Json) -> Conversation:
    conversation = Conversation()
    for message in body["messages"]:
        if message["role"] == "user":
            conversation.say(_text_of(message["content"]))
        elif message["role"] == "tool":
            conversation.results.append(_text_of(message["content"]))
    return conversation


def _read_responses(body: Json) -> Conversation:
    conversation = Conversation()
    items = [{"role": "user", "content": body["input"]}] if isinstance(body["input"], str) else body["input"]
    for item in items:
        if item.get("role") == "user":
            conversation.say(_text_of(item["content"]))
        elif item.get("type") in ("function_call_output", "custom_tool_call_output"):
            conversation.results.append(_text_of(item["output"]))
    return conversation


def _read_messages(body: Json) -> Conversation:
    conversation = Conversation()
    for message in body["messages"]:
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if block["type"] == "tool_result":
                conversation.results.append(_text_of(block.get("content")))
            elif block["type"] == "text" and message["role"] == "user":
                conversation.say(block["text"])
    return conversation


READERS: dict[Protocol, Callable[[Json], Conversation]] = {
    "chat": _read_chat,
    "responses": _read_responses,
    "messages": _read_messages,
}
