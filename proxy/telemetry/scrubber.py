"""Takes secrets out of whatever is about to be shown: log lines, tracebacks, error texts of backends.

Known secrets are found wherever they stand; others by the shape of the vendors' keys.
"""

import re
from collections.abc import Iterable

MASK = "[secret]"
# Shorter values are in ordinary text too often.
_SHORTEST = 8

_SHAPES = (
    r"(?<![A-Za-z0-9])(?:sk|pk|rk|gsk|xai|r8|hf)[-_][A-Za-z0-9_\-.*…]{8,}",
    # Our own, also behind a letter, such as the n of a written line break. What all may see is the first part alone.
    r"(?i:drg)[-_](?![0-9a-z]{12}(?![A-Za-z0-9_\-*…]))[A-Za-z0-9_\-.*…]{8,}",
    r"(?i:bearer)\s+[A-Za-z0-9._~+/\-]{8,}=*",
    r"(?<![A-Z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Z0-9])",
    r"AIza[A-Za-z0-9_\-]{30,}",
    # Whose account it is: OpenAI's errors name the organisation and the project, Anthropic's the organisation.
    r"(?<![A-Za-z0-9])(?:org-|proj_)[A-Za-z0-9]{16,}",
    r"(?i:organi[sz]ation)(?:'s)?[\s:(]{1,3}[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\)?",
    r"eyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]+",
)
_SHAPE = re.compile("|".join(_SHAPES))


class Scrubber:
    """Call it with a text. `secrets` are the values that the settings hold."""

    __slots__ = ("_pattern",)

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        # Longest first, so that a secret that begins with another one goes whole.
        known = sorted({secret for secret in secrets if len(secret) >= _SHORTEST}, key=len, reverse=True)
        self._pattern = re.compile("|".join([*map(re.escape, known), *_SHAPES])) if known else _SHAPE

    def __call__(self, text: str) -> str:
        return self._pattern.sub(MASK, text)
