"""What clients are made to do: what directs the backend, and what the user must have seen in the end.

A scenario's prompt is data for `tests.harness.model_script`. What a driver reports is `Seen`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Literal

from tests.harness.model_backend import Visits
from tests.harness.model_script import digest_of_image
from tests.harness.wire import Json

IMAGE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
WEATHER = {"city": "Lima", "degrees": 21}
SCHEMA: dict[str, Json] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "degrees": {"type": "integer"}},
    "required": ["city", "degrees"],
    "additionalProperties": False,
}
LIMA, OSLO = "Lima has 21 degrees", "Oslo has 21 degrees"


@dataclass
class Seen:
    """What a driver reports of one scenario. pieces: into how many the text came; 0 where the client shows it whole.
    value: of structured output. left: the user cancelled. resources: whether each answered well."""

    text: str = ""
    pieces: int = 0
    value: Json = None
    error: str = ""
    left: bool = False
    resources: Mapping[str, Json] = field(default_factory=dict)

    @classmethod
    def read(cls, told: Json) -> "Seen":
        known = {each.name for each in fields(cls)}
        return cls(**{name: value for name, value in told.items() if name in known})


# What is wrong with what was seen; empty if nothing is.
Check = Callable[[Seen, Visits], str]


def _answers(*wanted: str, pieces: int = 0) -> Check:
    def check(seen: Seen, visits: Visits) -> str:
        if seen.error:
            return f"failed: {seen.error}"
        missing = [words for words in wanted if words not in seen.text]
        if missing:
            return f"{missing} not in {seen.text!r}"
        return f"came in {seen.pieces} pieces" if 0 < seen.pieces < pieces else ""

    return check


def _fails(*words: str) -> Check:
    """With a message of the client's own that says one of these."""

    def check(seen: Seen, visits: Visits) -> str:
        if not seen.error:
            return f"no error was shown, but {seen.text!r}"
        told = " ".join(seen.error.lower().split())
        found = any(word in told for word in words)
        return "" if found or not words else f"says none of {words}: {seen.error}"

    return check


def _breaks(seen: Seen, visits: Visits) -> str:
    """An error is shown, or the client asks again, without a stream, and shows all of the answer."""
    if seen.error or (visits.requests > 1 and "You said: This" in seen.text and "middle" in seen.text):
        return ""
    return f"no error was shown, but {seen.text!r}"


def _structured(seen: Seen, visits: Visits) -> str:
    if seen.error:
        return f"failed: {seen.error}"
    return "" if seen.value == WEATHER else f"got {seen.value!r}"


def _retries(seen: Seen, visits: Visits) -> str:
    problem = _answers("You said: Try again")(seen, visits)
    return problem or ("" if visits.requests > 1 else "asked once")


def _leaves(seen: Seen, visits: Visits) -> str:
    if not seen.left:
        return f"did not end: {seen.error or seen.text!r}"
    return "" if visits.left.is_set() else "the backend was not left"


def _resources(seen: Seen, visits: Visits) -> str:
    if seen.error:
        return f"failed: {seen.error}"
    wrong = {name: result for name, result in seen.resources.items() if result is not True}
    return f"{wrong}" if wrong or not seen.resources else ""


@dataclass(frozen=True)
class Scenario:
    """words and directives make the prompt, where {one} and {two} are calls of the client's tools. kind: what the
    driver has to do. model: another one to ask for. is_failure: what is shown then is told on the page."""

    name: str
    title: str
    kind: Literal["ask", "stream", "tools", "structured", "image", "cancel", "stored", "resources", "embeddings"]
    words: str
    check: Check
    directives: str = "[[plain]]"
    model: str | None = None
    key: Literal["good", "expired"] = "good"
    is_failure: bool = False


SCENARIOS: tuple[Scenario, ...] = (
    Scenario("text", "text", "ask", "Good morning!", _answers("You said: Good morning!")),
    Scenario("stream", "stream", "stream", "One two three four", _answers("You said: One two three four", pieces=2)),
    Scenario("tools", "tool loop", "tools", "How warm?", _answers(LIMA, OSLO), "[[call {one}]] [[call {two}]]"),
    Scenario("parallel", "parallel tools", "tools", "How warm?", _answers(LIMA, OSLO), "[[calls {one} ;; {two}]]"),
    Scenario("structured", "structured output", "structured", "How warm, as JSON?", _structured, "{structured}"),
    Scenario(
        "reasoning",
        "reasoning with tools",
        "tools",
        "How warm?",
        _answers(LIMA, OSLO),
        "[[think]] [[call {one}]] [[call {two}]]",
    ),
    Scenario("image", "image", "image", "What is this?", _answers(digest_of_image(IMAGE)), "{image}"),
    Scenario("stored", "stored history", "stored", "Remember this", _answers("You said: Remember this")),
    Scenario("retry", "rate limit, retry", "ask", "Try again", _retries, "[[plain]] [[status=429]] [[once]]"),
    Scenario("resources", "other resources", "resources", "Count this", _resources),
    Scenario("embeddings", "embeddings", "embeddings", "Count this", _resources),
    Scenario("cancel", "cancel", "cancel", "One two three four", _leaves, "[[plain]] [[stall]]"),
    Scenario(
        "context", "context too long", "ask", "Too long", _fails("context", "too long"), "[[context]]", is_failure=True
    ),
    Scenario(
        "broken",
        "failure in a stream",
        "stream",
        "This breaks in its middle",
        _breaks,
        "[[plain]] [[error]]",
        is_failure=True,
    ),
    Scenario(
        "cut", "stream cut off", "stream", "This ends in its middle", _breaks, "[[plain]] [[cut]]", is_failure=True
    ),
    Scenario(
        "failure",
        "backend fails",
        "ask",
        "Fail",
        _fails("500", "as you wished", "server error", "high demand"),
        "[[status=500]]",
        is_failure=True,
    ),
    Scenario(
        "key", "expired key", "ask", "Who am I?", _fails("key", "authentic", "401"), key="expired", is_failure=True
    ),
    Scenario(
        "model",
        "unknown model",
        "ask",
        "Hello",
        _fails("no-such-model", "not found", "404", "does not exist"),
        model="no-such-model",
        is_failure=True,
    ),
    Scenario(
        "unknown-tool",
        "tool that it lacks",
        "tools",
        "Call it",
        lambda seen, visits: "",
        "[[call no_such_tool {}]]",
        is_failure=True,
    ),
)
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
