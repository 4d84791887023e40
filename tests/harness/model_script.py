"""What a prompt directs the model of `model_backend` to do, and what the conversation has told it since.

Directives stand in double brackets anywhere in the user's words:

    [[think]]        reasons first
    [[parallel]]     makes two calls at once
    [[rounds=3]]     makes so many calls, one after another
    [[call NAME ARGUMENTS]]  makes this call; several are made one after the other
    [[calls NAME ARGUMENTS ;; NAME ARGUMENTS]]  makes these at once
    [[json VALUE]]   answers with this JSON: as the arguments of a tool where one is forced, else as text
    [[plain]]        calls nothing, whatever tools there are
    [[status=429]]   refuses with this status; [[overloaded]] with the vendor's own one
    [[context]]      refuses the prompt as too long
    [[error]]        begins a stream and tells an error in its middle
    [[cut]]          begins a stream and drops the connection in its middle
    [[stall]]        begins a stream and says nothing more
    [[once]]         does what is said of failures the first time only that the prompt is heard
    [[id=NAME]]      tells prompts apart
"""

import base64
import contextlib
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.harness.wire import Json, Protocol

DIRECTIVE = re.compile(r"\[\[(?P<name>\w+)(?:=(?P<value>\w+)|\s(?P<rest>.*?))?\]\]", re.DOTALL)

ADDED = re.compile(r"<([\w-]+)>.*?</\1>", re.DOTALL)  # such as <system-reminder> and <current_datetime>


@dataclass(frozen=True)
class Step:
    """One call that the model is to make; free_text where what follows the name is no JSON."""

    name: str
    arguments: Json = None
    free_text: str = ""


@dataclass
class Conversation:
    """prompt: what the user said last, or last directed. results: those of the calls that followed it."""

    prompt: str = ""
    results: list[str] = field(default_factory=list)
    calls: int = 0
    images: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        """Agents say things of their own between the user's words; what directs stays in force."""
        if DIRECTIVE.search(text) or not DIRECTIVE.search(self.prompt):
            self.prompt, self.results, self.calls = text, [], 0

    @property
    def directives(self) -> dict[str, str | None]:
        return {match["name"]: match["value"] or match["rest"] for match in DIRECTIVE.finditer(self.prompt)}

    @property
    def plan(self) -> list[list[Step]]:
        """The rounds of calls that the prompt asks for."""
        found = DIRECTIVE.finditer(self.prompt)
        rounds = [match["rest"].split(";;") for match in found if match["name"] in ("call", "calls")]
        return [[_step(text) for text in texts] for texts in rounds]

    @property
    def due(self) -> list[Step]:
        """The round that comes next; none once all calls were made."""
        made = 0
        for steps in self.plan:
            if made >= self.calls:
                return steps
            made += len(steps)
        return []

    @property
    def words(self) -> str:
        """The prompt without what directs or an agent added, and what was shown."""
        said = DIRECTIVE.sub("", ADDED.sub("", self.prompt)).strip('" \n')
        return " ".join([*said.split(), *self.images])


def _step(text: str) -> Step:
    """Some programs quote their user's words, and so what is in quotes there."""
    name, _, rest = text.strip().partition(" ")
    for said in (rest or "{}", rest.replace('\\"', '"')):
        with contextlib.suppress(ValueError):
            return Step(name, json.loads(said))
    return Step(name, free_text=rest)


def read_conversation(protocol: Protocol, body: Json) -> Conversation:
    return READERS[protocol](body)


def _text_of(content: Json) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or ())


def _digest_of_data_url(url: str) -> str:
    _, _, data = url.partition("base64,")
    return digest_of_image(data) if data else f"(image at {url})"


def digest_of_image(data: str) -> str:
    """How the model tells that it saw an image, given in base64."""
    return f"(image {hashlib.sha256(base64.b64decode(data)).hexdigest()[:8]})"


def _images_of(content: Json) -> Iterator[str]:
    for part in content if isinstance(content, list) else ():
        if part["type"] == "image_url":
            yield _digest_of_data_url(part["image_url"]["url"])
        elif part["type"] == "input_image" and part.get("image_url"):
            yield _digest_of_data_url(part["image_url"])
        elif part["type"] == "image" and part["source"]["type"] == "base64":
            yield digest_of_image(part["source"]["data"])


def _read_chat(body: Json) -> Conversation:
    conversation = Conversation()
    for message in body["messages"]:
        if message["role"] == "user":
            conversation.say(_text_of(message["content"]))
            conversation.images += _images_of(message["content"])
        elif message["role"] == "assistant":
            conversation.calls += len(message.get("tool_calls") or ())
        elif message["role"] == "tool":
            conversation.results.append(_text_of(message["content"]))
    return conversation


def _read_responses(body: Json) -> Conversation:
    conversation = Conversation()
    items = [{"role": "user", "content": body["input"]}] if isinstance(body["input"], str) else body["input"]
    for item in items:
        if item.get("role") == "user":
            conversation.say(_text_of(item["content"]))
            conversation.images += _images_of(item["content"])
        elif item.get("type") in ("function_call", "custom_tool_call"):
            conversation.calls += 1
        elif item.get("type") in ("function_call_output", "custom_tool_call_output"):
            conversation.results.append(_text_of(item["output"]))
            conversation.images += _images_of(item["output"])
    return conversation


def _read_messages(body: Json) -> Conversation:
    conversation = Conversation()
    for message in body["messages"]:
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if block["type"] == "tool_result":
                conversation.results.append(_text_of(block.get("content")))
                conversation.images += _images_of(block.get("content"))
            elif block["type"] == "tool_use":
                conversation.calls += 1
            elif message["role"] == "user" and block["type"] == "text":
                conversation.say(block["text"])
        conversation.images += _images_of(content)
    return conversation


READERS: dict[Protocol, Callable[[Json], Conversation]] = {
    "chat": _read_chat,
    "responses": _read_responses,
    "messages": _read_messages,
}
