"""Give a Chat backend its own reasoning back (mapping.md 8.8).

Only within the current tool loop: DeepSeek demands it there, the templates of most others drop older thinking, and
within a loop the rule keeps earlier messages as they were. Another backend's reasoning is never put into words.
"""

from proxy.canonical.loss import LossReport, Rule
from proxy.canonical.parts import Reasoning
from proxy.canonical.target import Dialect
from proxy.protocols.chat.tables import DETAILS_FIELD, IN_CONTENT, IN_TAGS
from proxy.protocols.chat.think_tags import CLOSING, OPENING
from proxy.protocols.fields import Wire
from proxy.protocols.openai_completions import PARAGRAPH


def echo_reasoning(
    message: Wire,
    parts: list[tuple[Reasoning, int]],
    dialect: Dialect,
    losses: LossReport,
    *,
    in_loop: bool,
    calls: bool,
) -> None:
    """Put into an assistant `message` what reasoning the backend wants back.

    With each of `parts` comes how many characters of the content stand before it. `in_loop`: the message belongs to the
    tool loop that is going on; `calls`: it has tool calls.
    """
    plain: dict[str, list[str]] = {}
    within: list[tuple[str, int]] = []
    details: list[object] = []
    for part, before in parts:
        if not dialect.echo_reasoning or (part.native is not None and part.field is None):
            losses.drop(Rule.FOREIGN_REASONING, part.at)
        elif part.field == DETAILS_FIELD and part.native is not None:
            details.append(part.native)
        elif part.text and part.field == IN_CONTENT:
            within.append((part.text, before))
        elif part.text:
            plain.setdefault(part.field or dialect.reasoning_field, []).append(part.text)
    if not in_loop:
        return
    for name, texts in plain.items():
        if name == IN_TAGS:
            said = message["content"]
            message["content"] = f"{OPENING}{PARAGRAPH.join(texts)}{CLOSING}{f'{PARAGRAPH}{said}' if said else ''}"
        else:
            message[name] = PARAGRAPH.join(texts)
    if within:
        message["content"] = _content_list(message["content"], within)
    if details:
        message[DETAILS_FIELD] = details
    if dialect.reasoning_required and calls and not plain and not details and not within:
        message[dialect.reasoning_field] = ""


def _content_list(said: object, thoughts: list[tuple[str, int]]) -> list[Wire]:
    """Mistral's list, with each thought behind as many characters of what was said as the number beside it tells."""
    words = said if isinstance(said, str) else ""
    content: list[Wire] = []
    at = 0
    for thought, before in [*thoughts, ("", len(words))]:
        piece = words[at:before].removeprefix(PARAGRAPH) if at else words[:before]
        if piece:
            content.append({"type": "text", "text": piece})
        if thought:
            content.append({"type": "thinking", "thinking": [{"type": "text", "text": thought}]})
        at = before
    return content
