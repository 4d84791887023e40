"""A backend that plays a model in one of the three protocols, as strict as the vendor's own API.

It says back what it was told, calls each declared tool before it answers, and then names the results. What
stands in double brackets in the prompt directs it (`model_script`).
"""

import asyncio
import itertools
import json
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from aiohttp import web

from tests.harness.model_replies import Answer, Call, render, write_stream, write_whole
from tests.harness.model_resources import add_resources
from tests.harness.model_rules import as_the_vendor_reads, check_request
from tests.harness.model_script import Conversation, Step, read_conversation
from tests.harness.request_types import Refused
from tests.harness.wire import ENDPOINTS, Json, Protocol

RETRY_AFTER_S = "3"
STALLS_FOR_S = 60
PROMPT_ID = re.compile(r"\[\[id=(\w+)\]\]")
BREAKS = frozenset({"error", "cut", "stall"})  # what happens in the middle of a stream
FAILURES = BREAKS | {"status", "overloaded", "context"}
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
class Visits:
    """Those with one prompt: how many requests came, how many were refused by the rules and why, and whether the
    backend fell silent, and the caller left it then."""

    requests: int = 0
    refused: str = ""
    stalled: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)


class ModelBackend:
    """Serves on a free port of loopback; `requests` are the bodies of those that keep the rules. `pause`: seconds
    before each event of a stream, asked for anew each time; by default none, and no waiting."""

    def __init__(self, protocol: Protocol, key: str, pause: Callable[[], float] | None = None) -> None:
        self.protocol, self.url = protocol, ""
        self.requests: list[Json] = []
        self._stored: dict[str, list[Json]] = {}  # of whole replies of Responses, by their id
        self.untouched = False  # whether what comes was written by clients of this very protocol
        self.visits: dict[str, Visits] = defaultdict(Visits)  # by the `id` of their prompt
        self._key, self._pause = key, pause
        self._numbers = itertools.count(1)
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        application = web.Application()
        application.router.add_post(ENDPOINTS[self.protocol], self._serve)
        add_resources(self.protocol, application.router, lambda request: self._key_of(request) == self._key)
        self._runner = web.AppRunner(application, handler_cancellation=True)
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
        text = await request.text()
        body = json.loads(text)
        found = PROMPT_ID.search(text)
        visits = self.visits[found[1] if found else ""]
        visits.requests += 1
        try:
            given = as_the_vendor_reads(self.protocol, body) if self.untouched else body
            check_request(self.protocol, given, beta="anthropic-beta" in request.headers)
        except Refused as refused:
            visits.refused = visits.refused or str(refused)
            return self._error(400, str(refused), param=refused.where)
        self.requests.append(body)
        try:
            return await self._reply(request, body, visits)
        except asyncio.CancelledError:
            visits.left.set()
            raise

    async def _reply(self, request: web.Request, body: Json, visits: Visits) -> web.StreamResponse:
        conversation = read_conversation(self.protocol, self._with_stored(body))
        directives = conversation.directives
        if "once" in directives and visits.requests > 1:
            directives = {name: value for name, value in directives.items() if name not in FAILURES}
        if "status" in directives:
            wait = "1" if "once" in directives else RETRY_AFTER_S
            return self._error(int(directives["status"] or 500), "As you wished.", retry_after=wait)
        if "overloaded" in directives:
            return self._error(OVERLOADED[self.protocol], "Overloaded")
        if "context" in directives:
            return self._error(400, CONTEXT_TOO_LONG[self.protocol], code="context_length_exceeded", param="messages")
        answer = self._answer(body, conversation)
        if body.get("stream"):
            return await self._stream(request, answer, directives, visits)
        if "stall" in directives:
            visits.stalled.set()
            await asyncio.sleep(STALLS_FOR_S)
        reply = write_whole(self.protocol, answer)
        self._stored[str(reply["id"])] = [*_items_of(self._with_stored(body)), *reply.get("output", ())]
        return web.json_response(reply)

    def _with_stored(self, body: Json) -> Json:
        """A Responses request with the history that it names."""
        if not (name := body.get("previous_response_id")):
            return body
        return {**body, "input": [*self._stored[name], *_items_of(body)]}

    def _key_of(self, request: web.Request) -> str | None:
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        return request.headers.get("x-api-key", bearer) if self.protocol == "messages" else bearer

    def _answer(self, body: Json, conversation: Conversation) -> Answer:
        directives = conversation.directives
        number, model = next(self._numbers), body["model"]
        reasoning = "Let me think." if "think" in directives else ""
        steps = conversation.due
        if "json" in directives and not conversation.results:
            if not (forced := forced_tool(body)):
                return Answer(model, directives["json"] or "", reasoning=reasoning, number=number)
            steps = [Step(forced, json.loads(directives["json"] or "{}"))]
        elif not steps and not conversation.plan and "plain" not in directives and body.get("tools"):
            cities = ["Lima", "Oslo"] if "parallel" in directives else ["Lima"]
            done = len(conversation.results) >= int(directives.get("rounds") or 1)
            steps = [] if done else [Step(tools_of(body)[0], {"city": city}) for city in cities]
        if steps:
            return Answer(model, "Let me look.", self._calls(body, steps, number), reasoning, number)
        told = "Results: " + "; ".join([*conversation.results, *conversation.images])
        said = f"You said: {conversation.words}"
        return Answer(model, told if conversation.results else said, reasoning=reasoning, number=number)

    def _calls(self, body: Json, steps: list[Step], number: int) -> tuple[Call, ...]:
        prefix = "toolu" if self.protocol == "messages" else "call"
        calls = []
        for place, step in enumerate(steps):
            # A proxy may have put what the tool's protocol groups by into its name.
            name = next((name for name in tools_of(body) if name == step.name or name.endswith(f"__{step.name}")), None)
            arguments, free_text = step.arguments, step.free_text
            if free_text and name not in free_text_tools(body):
                arguments, free_text = {"input": free_text}, ""
            calls.append(Call(f"{prefix}_{number}_{place}", name or step.name, arguments, free_text))
        return tuple(calls)

    async def _stream(
        self, request: web.Request, answer: Answer, directives: dict[str, str | None], visits: Visits
    ) -> web.StreamResponse:
        events = write_stream(self.protocol, answer)
        broken = not directives.keys().isdisjoint(BREAKS)
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for event in events[: len(events) // 2] if broken else events:
            if self._pause:
                await asyncio.sleep(self._pause())
            await response.write(render(self.protocol, [event]))
        if broken:
            await asyncio.sleep(BREAKS_AFTER_S)
        if "stall" in directives:
            visits.stalled.set()
            await asyncio.sleep(STALLS_FOR_S)
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
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        retry_after: str = RETRY_AFTER_S,
    ) -> web.StreamResponse:
        headers = {"retry-after": retry_after} if status == 429 else {}
        return web.json_response(self._error_body(status, message, code, param), status=status, headers=headers)

    def _error_body(self, status: int, message: str, code: str | None, param: str | None) -> Json:
        openai_type, usual_code, messages_type = ERROR_TYPES[status]
        if self.protocol == "messages":
            return {"type": "error", "error": {"type": messages_type, "message": message}, "request_id": "req_1"}
        return {"error": {"message": message, "type": openai_type, "param": param, "code": code or usual_code}}


def _items_of(body: Json) -> list[Json]:
    given = body.get("input") or []
    return [{"role": "user", "content": given}] if isinstance(given, str) else given


def tools_of(body: Json) -> list[str]:
    """The names of the tools that a request declares and its client runs."""
    tools = [tool.get(tool.get("type"), tool) for tool in body.get("tools") or ()]
    return [tool["name"] for tool in tools if "name" in tool]


def free_text_tools(body: Json) -> list[str]:
    custom = [tool for tool in body.get("tools") or () if tool.get("type") == "custom" and "input_schema" not in tool]
    return [tool.get("custom", tool)["name"] for tool in custom]


def forced_tool(body: Json) -> str | None:
    """The tool that the model has to call, if it has to call one: the one that is named, or the first."""
    choice = body.get("tool_choice")
    if choice == "required" or (isinstance(choice, dict) and choice["type"] == "any"):
        return tools_of(body)[0]
    if isinstance(choice, dict) and choice["type"] in ("function", "tool"):
        return str(choice.get("function", choice)["name"])
    return None
