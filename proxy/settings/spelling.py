"""A suggestion for a name that was probably mistyped."""

import difflib
from collections.abc import Iterable


def did_you_mean(written: object, known: Iterable[str]) -> str:
    """`, did you mean 'x'?`, or nothing when nothing known is close."""
    close = difflib.get_close_matches(str(written), list(known), n=1)
    return f", did you mean {str(close[0])!r}?" if close else ""
