"""Arguments of tool calls as the text that OpenAI's protocols want (mapping.md 4.9)."""

from proxy.canonical import jsontext
from proxy.canonical.parts import Call


def arguments_text(call: Call) -> str:
    """The JSON text: nothing is `{}`, what was encoded twice is decoded once, anything else is never repaired."""
    if call.input is not None:
        return jsontext.dumps(call.input).decode()
    written = call.arguments.strip()
    if written in ("", "null"):
        return "{}"
    if not written.startswith('"'):
        return call.arguments
    try:
        inner = jsontext.loads(written)
        if type(inner) is str and type(jsontext.loads(inner)) is dict:
            return inner
    except jsontext.NotJson:
        pass
    return call.arguments
