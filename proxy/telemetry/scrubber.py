"""Takes secrets out of whatever is about to be shown: log lines, tracebacks, error texts of backends.

Known secrets are found wherever they stand; others by the shape of the vendors' keys.
"""

import json
import re
from collections.abc import Iterable, Iterator

MASK = "[secret]"
# Shorter values are in ordinary text too often.
_SHORTEST = 8

_SHAPES = (
    r"(?<![A-Za-z0-9])(?:sk|pk|rk|gsk|xai|r8|hf)[-_][A-Za-z0-9_\-.*…]{8,}",
    # Our own, also behind a letter, such as the n of a written line break. What all may see is the first part alone.
    r"(?i:drg)[-_](?![0-9a-z]{12}(?![A-Za-z0-9_\-*…]))[A-Za-z0-9_\-.*…]{8,}",
    r"(?i:bearer)\s{1,8}[A-Za-z0-9._~+/\-]{8,}=*",
    r"(?<![A-Z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Z0-9])",
    r"AIza[A-Za-z0-9_\-]{30,}",
    # Whose account it is: OpenAI's errors name the organisation and the project, Anthropic's the organisation.
    r"(?<![A-Za-z0-9])(?:org-|proj_)[A-Za-z0-9]{16,}",
    r"(?i:organi[sz]ation)(?:'s)?[\s:(]{1,3}[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\)?",
    # Not in the midst of other letters, or each of many beginnings would look through all that follows.
    r"(?<![A-Za-z0-9_\-])eyJ[A-Za-z0-9_\-]{8,}+\.[A-Za-z0-9_\-]{8,}+\.[A-Za-z0-9_\-]+",
)
_SHAPE = re.compile("|".join(_SHAPES))
_NEVER = r"(?!)"


class Scrubber:
    """Call it with a text. `secrets` are the values that the settings hold. `shapes`: also what looks like a key."""

    __slots__ = ("_pattern",)

    def __init__(self, secrets: Iterable[str] = (), *, shapes: bool = True) -> None:
        # Longest first, so that a secret that begins with another one goes whole.
        known = sorted(_forms(secrets), key=len, reverse=True)
        patterns = [*map(re.escape, known), *(_SHAPES if shapes else ())]
        self._pattern = re.compile("|".join(patterns) or _NEVER) if known or not shapes else _SHAPE

    def __call__(self, text: str) -> str:
        return self._pattern.sub(MASK, text)


class ManySecrets:
    """The same for thousands of values and no shapes: what it takes grows with the text, not with their number."""

    __slots__ = ("_beginnings", "_known", "_lengths")

    def __init__(self, secrets: Iterable[str]) -> None:
        self._known = _forms(secrets)
        self._beginnings = {secret[:_SHORTEST] for secret in self._known}
        self._lengths = sorted({len(secret) for secret in self._known}, reverse=True)

    def __call__(self, text: str) -> str:
        if not self._known:
            return text
        shown: list[str] = []
        behind = 0  # the last one that was found
        for start in range(len(text) - _SHORTEST + 1):
            if start < behind or text[start : start + _SHORTEST] not in self._beginnings:
                continue
            if (length := self._length_at(text, start)) is not None:
                shown += (text[behind:start], MASK)
                behind = start + length
        return "".join((*shown, text[behind:]))

    def _length_at(self, text: str, start: int) -> int | None:
        return next((length for length in self._lengths if text[start : start + length] in self._known), None)


def _forms(secrets: Iterable[str]) -> set[str]:
    """The values that are long enough, as they are and as JSON writes them."""
    return {form for secret in secrets if len(secret) >= _SHORTEST for form in _written(secret)}


def _written(secret: str) -> Iterator[str]:
    yield secret
    if '"' in secret or "\\" in secret:
        yield json.dumps(secret)[1:-1]
