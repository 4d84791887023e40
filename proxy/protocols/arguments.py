"""Arguments of tool calls as text (mapping.md 4.9): nothing is `{}`, what was encoded twice is decoded once, and
anything else is never repaired.
"""

from proxy.canonical import jsontext
from proxy.canonical.errors import InexactNumber
from proxy.canonical.parts import Call

_BEYOND = 2.0**63
_EXACT = frozenset({str, int, bool, type(None)})


def arguments_text(call: Call) -> str:
    """The JSON text that OpenAI's protocols want."""
    if call.input is not None:
        return jsontext.dumps(call.input).decode()
    return decoded(call.arguments) or "{}"


def value_text(value: object, *, exact: bool) -> str:
    """The text of arguments that came as a value. Raises `InexactNumber` for what the decoder may have rounded, unless
    numbers are known to be `exact`.
    """
    if not exact and may_be_rounded(value):
        raise InexactNumber
    return jsontext.dumps_exact(value).decode()


def may_be_rounded(value: object) -> bool:
    """Whether a number here may be an integer beyond 64 bit that the fast decoder turned into a float; also for NaN,
    which it does not know.
    """
    pending: list[object] = [value] if type(value) is dict else [[value]]
    while pending:
        container = pending.pop()
        items = container.values() if type(container) is dict else container if type(container) is list else ()
        if _EXACT.issuperset(map(type, items)):
            continue
        for item in items:
            kind = type(item)
            if kind is dict or kind is list:
                pending.append(item)
            elif kind is float and not -_BEYOND < item < _BEYOND:
                return True
    return False


def decoded(arguments: str) -> str:
    """Whole arguments as the model meant them; "" for none."""
    written = arguments.strip()
    if written in ("", "null"):
        return ""
    if not written.startswith('"'):
        return arguments
    try:
        inner = jsontext.loads(written)
        if type(inner) is str and type(jsontext.loads(inner)) is dict:
            return inner
    except jsontext.NotJson:
        pass
    return arguments


class GrowingArguments:
    """Arguments that come in pieces. An object, which is the rule, passes as it comes; of anything else only the
    end tells what it is, and until then it is held back.
    """

    __slots__ = ("_begun", "_held", "_passes")

    def __init__(self) -> None:
        self._held: list[str] = []
        self._begun = False
        self._passes = False

    def feed(self, piece: str) -> str:
        """What can be told now."""
        if self._passes:
            return piece
        self._held.append(piece)
        start = piece.lstrip()
        if self._begun or not start:
            return ""
        self._begun = True
        self._passes = start.startswith("{")
        return "".join(self._held) if self._passes else ""

    def end(self) -> str:
        """What was held back."""
        return "" if self._passes else decoded("".join(self._held))
