"""Records and messages as lines for people: the same fields as in JSON, those that are empty left out."""

from collections.abc import Iterator, Mapping


def text_line(fields: Mapping[str, object]) -> bytes:
    """One record as one line, whatever its values hold; a traceback follows on lines of its own."""
    head = [str(fields.get("ts", "")), str(fields.get("level", "")).upper(), str(fields.get("log", ""))]
    message, trace = fields.get("message"), fields.get("traceback")
    rest = {name: value for name, value in fields.items() if name not in _IN_HEAD}
    words = head if message is None else [*head, _plain(str(message))]
    line = " ".join([*words, *_pairs(rest)]) + "\n"
    if trace is not None:
        line += "".join(f"    {_plain(part)}\n" for part in str(trace).splitlines())
    return line.encode(errors="replace")


_IN_HEAD = frozenset({"ts", "level", "log", "message", "traceback"})


def _pairs(fields: Mapping[str, object], prefix: str = "") -> Iterator[str]:
    for name, value in fields.items():
        if isinstance(value, Mapping):
            yield from _pairs(value, f"{prefix}{name}.")
        elif value is not None:
            yield f"{prefix}{name}={_word(value)}"


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(map(_word, value)) or "-"
    text = _plain(str(value))
    return (
        text
        if text and " " not in text and '"' not in text and "=" not in text
        else '"' + text.replace('"', '\\"') + '"'
    )


def _plain(text: str) -> str:
    """Without what would begin a line, or speak to a terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
