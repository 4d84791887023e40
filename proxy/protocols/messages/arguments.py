"""Arguments of tool calls: text in the canonical model and in streams, objects in Messages requests and replies.

Text that is an object is spliced in as it is, so that long numbers and the order of keys survive (mapping.md 0.3,
4.9). Text that is none is wrapped, never repaired and never dropped.
"""

from proxy.canonical.jsontext import Fragment, NotJson, dumps_exact, loads, loads_exact, well_formed

WRAPPER = "INVALID_JSON"
# Messages has no free-text calls: the text is the one string of an object (mapping.md 13.10).
FREE_TEXT = "input"
FREE_TEXT_BEGIN = f'{{"{FREE_TEXT}":"'
FREE_TEXT_END = '"}'


def arguments_object(text: str) -> tuple[object, bool]:
    """What stands for `text` where an object is wanted, ready to be dumped, and whether it is one in truth."""
    if text.startswith("{"):
        value = _object(text)
    else:
        text = text.strip()
        if text in ("", "null"):
            return {}, True
        value = _object(text) or _object_in_string(text)
    if value is None:
        return {WRAPPER: text}, False
    return value, True


def _object(text: str) -> object | None:
    try:
        raw = text.encode()
    except UnicodeEncodeError:
        raw = well_formed(text).encode()
    try:
        if type(loads(raw)) is not dict:
            return None
        # Half surrogates, legal as escapes, are no legal text: only a new dump can replace them.
        return loads_exact(raw) if b"\\ud" in raw or b"\\uD" in raw else Fragment(raw)
    except NotJson:
        return None


def _object_in_string(text: str) -> object | None:
    """Some models encode twice."""
    try:
        inner = loads(text)
    except NotJson:
        return None
    return _object(inner) if type(inner) is str else None


def unwrapped(arguments: dict[str, object]) -> str | None:
    """The text that an earlier reply had to wrap; None when `arguments` is no such wrapper."""
    text = arguments.get(WRAPPER)
    return text if len(arguments) == 1 and type(text) is str else None


def arguments_text(value: object) -> str:
    """The JSON text of an `input`; text stays text, and nothing stands for no arguments."""
    if type(value) is str:
        return value
    return "{}" if value is None else dumps_exact(value).decode()
