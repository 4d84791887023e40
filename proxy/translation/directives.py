"""Words that the proxy adds to a prompt, and that must stand there on later turns too (mapping.md 6.2, 8.6).

Models that can't be forced to call a tool are asked in words; their thinking is bound to all that came before it,
these words included. So the words travel with the client, as the backend's own reasoning does.
"""

from collections.abc import Iterable

from proxy.canonical.events import Close, Event, Finish, Open
from proxy.canonical.parts import HostedCall, Opaque, Text, Turn
from proxy.canonical.request import Request

DIRECTIVE = "directive"


class Directing:
    """A stage of the reply: behind its parts come the words that it was asked for with, to be sealed."""

    __slots__ = ("_next", "_words")

    def __init__(self, words: str) -> None:
        self._words = words
        self._next = 0

    def pass_on(self, events: Iterable[Event]) -> list[Event]:
        """The same events, and one part more."""
        out: list[Event] = []
        for event in events:
            if isinstance(event, Open):
                self._next = event.k + 1
            elif isinstance(event, Finish):
                native: dict[str, object] = {"type": DIRECTIVE, "text": self._words}
                out += [Open(self._next, Opaque(DIRECTIVE, native)), Close(self._next)]
            out.append(event)
        return out


def put_back(request: Request) -> None:
    """Restore the words of earlier turns where they stood, in place: last before the answer that brought them."""
    turns: list[Turn] = []
    for turn in request.turns:
        if turn.role == "assistant" and any(_is_directive(part) for part in turn.parts):
            for part in turn.parts:
                words = part.native.get("text") if isinstance(part, HostedCall) and _is_directive(part) else None
                if isinstance(words, str) and words:
                    say(turns, words)
            turn.parts = [part for part in turn.parts if not _is_directive(part)]
        turns.append(turn)
    request.turns = turns


def _is_directive(part: object) -> bool:
    return isinstance(part, HostedCall) and part.tool == DIRECTIVE


def say(turns: list[Turn], words: str) -> None:
    """Add words of the user at the end."""
    if not turns or turns[-1].role != "user":
        turns.append(Turn("user", at=turns[-1].at if turns else ()))
    turns[-1].parts.append(Text(words))
