"""Whether a stream that left is legal in its protocol.

Each protocol has a module with its grammar as tables and a checker that applies them. Two strengths of rule are
told apart: what a stream of that protocol must always be, and what the streams that we write ourselves must
be on top of it, because some client breaks otherwise. A stream that was passed through owes only the former.
"""

from collections.abc import Callable
from typing import Literal

from tests.harness.grammar.chat import check_chat
from tests.harness.grammar.findings import End, Findings
from tests.harness.grammar.framing import check_framing
from tests.harness.grammar.messages import check_messages
from tests.harness.grammar.responses import check_responses
from tests.harness.wire import EventStream, Protocol, read_events

CHECKERS: dict[Protocol, Callable[[EventStream, End, Findings], None]] = {
    "responses": check_responses,
    "messages": check_messages,
}


def check_stream(
    protocol: Protocol,
    raw: bytes,
    *,
    expect_end: Literal["clean", "error"] = "clean",
    passed_through: bool = False,
    choices: int = 1,
) -> list[str]:
    """The problems of a whole stream, in the order in which they show; none if it is legal.

    expect_end: "clean" for a stream that must end as finished, "error" for one that must tell a failure.
    passed_through: the stream was forwarded from a backend of the same protocol, not written by us.
    choices: how many were asked for, of Chat.
    """
    findings = Findings(passed_through)
    check_framing(protocol, raw, findings)
    stream = read_events(raw.decode("utf-8", "replace"))
    for event in stream.events:
        findings.always(isinstance(event.data, dict), f"the data is not a JSON object: {event.text[:80]}")
    sound = tuple(event for event in stream.events if isinstance(event.data, dict))
    if protocol == "chat":
        check_chat(EventStream(sound, stream.done), expect_end, findings, choices)
    else:
        CHECKERS[protocol](EventStream(sound, stream.done), expect_end, findings)
    return findings.problems
