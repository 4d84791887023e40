"""The text of a reasoning item, for requests, replies and the ends of streams.

An item can hold a summary, the raw chain, both or nothing but encrypted content. When both are there the summary is
shown (mapping.md 8.5).
"""

from proxy.protocols.fields import Wire, is_object


def read_reasoning_text(item: Wire) -> tuple[str, bool]:
    """The text to show, parts joined with a blank line, and whether it is the raw chain. Never fails."""
    summary = join_texts(item.get("summary"))
    if summary:
        return summary, False
    raw = join_texts(item.get("content"))
    return raw, bool(raw)


def join_texts(parts: object) -> str:
    """The texts of `summary` or `content`, joined with a blank line; "" for anything of another shape."""
    if type(parts) is not list:
        return ""
    texts = [part.get("text") for part in parts if is_object(part)]
    return "\n\n".join(text for text in texts if type(text) is str and text)
