"""Tell thinking from the answer where a server leaves the tags of its model in the text (mapping.md 8.5).

Only a tag at the very start counts: a model that writes about `<think>` later on is not thinking.
"""

from typing import Literal

OPENING = "<think>"
CLOSING = "</think>"


class ThinkTags:
    """`feed` text as it comes, cut anywhere; get pieces as (is thinking, text)."""

    __slots__ = ("_buffer", "_state")

    def __init__(self) -> None:
        self._state: Literal["start", "inside", "outside"] = "start"
        self._buffer = ""

    def feed(self, text: str) -> list[tuple[bool, str]]:
        """The pieces that are certain by now."""
        if self._state == "outside":
            return [(False, text)]
        self._buffer += text
        if self._state == "start":
            begun = self._buffer.lstrip()
            if OPENING.startswith(begun):
                return []  # it may still become the tag
            if not begun.startswith(OPENING):
                return self._leave(False, self._buffer)
            self._state = "inside"
            self._buffer = begun.removeprefix(OPENING)
        thought, closing, answer = self._buffer.partition(CLOSING)
        if closing:
            return [*self._pieces(True, thought), *self._leave(False, answer)]
        kept = _tail_of_tag(self._buffer)
        thought = self._buffer[: len(self._buffer) - kept]
        self._buffer = self._buffer[len(self._buffer) - kept :]
        return self._pieces(True, thought)

    def end(self) -> list[tuple[bool, str]]:
        """What was held back."""
        return self._leave(self._state == "inside", self._buffer)

    def _leave(self, thinking: bool, text: str) -> list[tuple[bool, str]]:
        self._state = "outside"
        self._buffer = ""
        return self._pieces(thinking, text)

    def _pieces(self, thinking: bool, text: str) -> list[tuple[bool, str]]:
        return [(thinking, text)] if text else []


def _tail_of_tag(text: str) -> int:
    """How many characters at the end of `text` may be the begin of the closing tag."""
    for length in range(min(len(CLOSING) - 1, len(text)), 0, -1):
        if text.endswith(CLOSING[:length]):
            return length
    return 0
