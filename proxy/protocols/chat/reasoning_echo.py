"""Give a Chat backend its own reasoning back (mapping.md 8.8).

Only within the current tool loop: DeepSeek demands it there, the templates of most others drop older thinking, and
within a loop the rule keeps earlier messages as they were. Another backend's reasoning is never put into words.
"""

from proxy.canonical.loss import LossReport, Rule
from proxy.canonical.parts import Reasoning
from proxy.canonical.target import Dialect
from proxy.protocols.fields import Wire

_DETAILS = "reasoning_details"


def echo_reasoning(
    message: Wire, parts: list[Reasoning], dialect: Dialect, losses: LossReport, *, in_loop: bool, calls: bool
) -> None:
    """Put into an assistant `message` what reasoning the backend wants back.

    `in_loop`: the message belongs to the tool loop that is going on; `calls`: it has tool calls.
    """
    plain: dict[str, list[str]] = {}
    details: list[object] = []
    for part in parts:
        if not dialect.echo_reasoning or (part.native is not None and part.field is None):
            losses.drop(Rule.FOREIGN_REASONING, part.at)
        elif part.field == _DETAILS and part.native is not None:
            details.append(part.native)
        elif part.text:
            plain.setdefault(part.field or dialect.reasoning_field, []).append(part.text)
    if not in_loop:
        return
    for name, texts in plain.items():
        message[name] = "\n\n".join(texts)
    if details:
        message[_DETAILS] = details
    if dialect.reasoning_required and calls and not plain and not details:
        message[dialect.reasoning_field] = ""
