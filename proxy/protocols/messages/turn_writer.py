"""Shape turns into the messages of a Messages request (mapping.md 2.2, 2.4, 2.5).

Messages wants strict alternation, every tool result first in the turn after its call, and no empty text: so turns are
merged and reordered here and nowhere else. No rule looks at later turns to change earlier ones, except where the
last turn must be one that the vendor takes: prompt caches and signed thinking depend on it.
"""

from proxy.canonical.errors import Error, ErrorClass, Reason, Rejected
from proxy.canonical.loss import LossReport, Path, Rule
from proxy.canonical.parts import Document, Image, Part, Text, Turn
from proxy.canonical.request import Request
from proxy.canonical.target import Target
from proxy.protocols.fields import Wire
from proxy.protocols.messages.block_writer import BlockWriter
from proxy.protocols.system_tag import tag_of, tagged

START = "(start)"
EMPTY = "(empty)"
PREWARM = "(prewarm)"
CONTINUE = "Continue."


class _Run:
    """Turns of one side in a row. `moved`: a system text stood before words of the user; `system_at`: the first one."""

    __slots__ = ("assistant", "at", "blocks", "moved", "results", "system_at", "systems")

    def __init__(self, at: Path, blocks: list[Wire], *, assistant: bool) -> None:
        self.assistant = assistant
        self.at = at
        self.results: list[Wire] = []
        self.blocks = blocks
        self.systems: list[str] = []
        self.system_at: Path = ()
        self.moved = False

    @property
    def empty(self) -> bool:
        return not (self.results or self.blocks or self.systems)

    def take(self, other: "_Run") -> None:
        """Append what comes behind; system texts stay last."""
        self.moved = self.moved or other.moved or bool(self.systems and (other.blocks or other.results))
        self.results += other.results
        self.blocks += other.blocks
        self.systems += other.systems
        self.system_at = self.system_at or other.system_at


def write_messages(request: Request, target: Target, losses: LossReport) -> list[Wire]:
    """The `messages` of a prepared request. Raises `Rejected` when there are none."""
    runs = _without_empty(_runs(request, BlockWriter(target, losses)), losses)
    if not runs:
        runs = [_Run(("messages",), [_text(_only_text(request))], assistant=False)]
    if runs[0].assistant:
        losses.approx(Rule.FIRST_USER, runs[0].at)
        runs.insert(0, _Run(runs[0].at, [_text(START)], assistant=False))
    if runs[-1].assistant:
        _end_for_user(runs, request, target, losses)
    messages: list[Wire] = []
    tag = ""
    for run in runs:
        own = run.results + run.blocks if run.results else run.blocks
        if not run.systems:
            messages.append({"role": "assistant" if run.assistant else "user", "content": own})
            continue
        if target.profile.mid_system and own:
            if run.moved:
                losses.approx(Rule.MID_SYSTEM, run.system_at)
            messages.append({"role": "user", "content": own})
            messages.append({"role": "system", "content": [_text(text) for text in run.systems]})
            continue
        losses.approx(Rule.MID_SYSTEM, run.system_at)
        tag = tag or tag_of(request)
        own += [_text(tagged(text, tag)) for text in run.systems]
        messages.append({"role": "user", "content": own})
    return messages


def _text(text: str) -> Wire:
    return {"type": "text", "text": text}


def _runs(request: Request, writer: BlockWriter) -> list[_Run]:
    runs: list[_Run] = []
    run: _Run | None = None
    for turn in request.turns:
        role = turn.role
        assistant = role == "assistant"
        if run is None or run.assistant is not assistant:
            run = _Run(turn.at, [], assistant=assistant)
            runs.append(run)
        if role == "system" or role == "developer" or run.systems:
            run.take(_run(turn, writer))
        else:
            writer.turn(turn, run.results, run.blocks)
    return runs


def _run(turn: Turn, writer: BlockWriter) -> _Run:
    """One turn alone. A system turn's texts are one section; whatever else it holds is the user's."""
    run = _Run(turn.at, [], assistant=turn.role == "assistant")
    if turn.role == "developer":
        writer.losses.approx(Rule.ROLE_DEVELOPER, turn.at)
    if turn.role in ("system", "developer"):
        words = "\n\n".join(part.text for part in turn.parts if isinstance(part, Text) and part.text.strip())
        if words:
            run.systems.append(words)
            run.system_at = turn.at
        others: list[Part] = [part for part in turn.parts if not isinstance(part, Text)]
        for part in others:
            writer.losses.approx(Rule.CONTENT, part.at if isinstance(part, Image | Document) else turn.at)
        turn = Turn("user", others, at=turn.at)
    writer.turn(turn, run.results, run.blocks)
    return run


def _without_empty(runs: list[_Run], losses: LossReport) -> list[_Run]:
    """Empty runs go and their neighbours merge, except the last run of the user, which says that it is empty."""
    if all(run.blocks or run.results or run.systems for run in runs):
        return runs
    last_user = max((index for index, run in enumerate(runs) if not run.assistant), default=-1)
    kept: list[_Run] = []
    for index, run in enumerate(runs):
        if run.empty:
            if index != last_user:
                continue
            losses.approx(Rule.EMPTY_USER, run.at)
            run.blocks.append(_text(EMPTY))
        if kept and kept[-1].assistant == run.assistant:
            kept[-1].take(run)
        else:
            kept.append(run)
    return kept


def _only_text(request: Request) -> str:
    """What the only turn says when the client sent none: allowed just to fill a cache."""
    if request.limits.prewarm and request.instructions:
        return PREWARM
    raise Rejected(
        Error(
            ErrorClass.INVALID,
            "messages must not be empty.",
            param="input" if request.origin == "responses" else "messages",
            reason=Reason.MALFORMED,
        )
    )


def _end_for_user(runs: list[_Run], request: Request, target: Target, losses: LossReport) -> None:
    """A last turn of the assistant is one to be continued; not every model does that (mapping.md 2.4)."""
    last = runs[-1]
    if any(block["type"] == "tool_use" for block in last.blocks):
        return
    mode = request.reasoning.mode
    thinks = mode != "off" if mode is not None else target.profile.thinking_default
    if not target.profile.prefill or thinks or request.output.format is not None:
        losses.approx(Rule.PREFILL, last.at)
        runs.append(_Run(last.at, [_text(CONTINUE)], assistant=False))
        return
    end = last.blocks[-1]
    words = end.get("text")
    if end["type"] == "text" and isinstance(words, str):
        last.blocks[-1] = {**end, "text": words.rstrip()}
