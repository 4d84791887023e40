"""Arguments of tool calls as text (mapping.md 4.9): nothing is `{}`, what was encoded twice is decoded once, and
anything else is never repaired.
"""

from proxy.canonical import jsontext
from proxy.canonical.parts import Call


def arguments_text(call: Call) -> str:
    """The JSON text that OpenAI's protocols want."""
    if call.input is not None:
        return jsontext.dumps(call.input).decode()
    return decoded(call.arguments) or "{}"


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
