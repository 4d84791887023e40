"""Prompt-cache marks, lifetimes and keys in the terms of the backend (mapping.md 10.1).

All of it happens here, on the canonical request, after everything else: a mark ends on a part that the backend lets
carry one, so writers just write the marks that are set. A mark never changes the words of a prompt, which is why it
may stand elsewhere when the conversation has grown.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol

from proxy.canonical.jsontext import NotJson, dumps, loads
from proxy.canonical.loss import LossReport, Rule
from proxy.canonical.parts import (
    Audio,
    CacheMark,
    Call,
    Document,
    Image,
    Part,
    Refusal,
    Result,
    SearchResult,
    Text,
    Turn,
)
from proxy.canonical.request import Request
from proxy.canonical.target import Target
from proxy.canonical.tools import FunctionTool
from proxy.translation import estimate
from proxy.translation.survey import Held

MOST_MARKS = 4
SMALLEST_CACHED = 512  # tokens of the shortest prompt that any model keeps (messages.md 5)
_KEY_DIGITS = 32
_VENDORS = ("openai", "azure", "codex")  # whose caches are routed by a key


class _Marked(Protocol):
    """A tool or a part that has a place for a mark."""

    cache: CacheMark | None


def fit_cache(request: Request, target: Target, held: Held, losses: LossReport) -> None:
    """Make marks, lifetimes and keys ones that the target takes, in place. `held`: most requests have no mark, and long
    histories should not pay for it.
    """
    if target.protocol == "messages":
        _fit_to_messages(request, target, held, losses)
    else:
        _fit_to_openai(request, target, held, losses)


# --- toward Messages ---


def _fit_to_messages(request: Request, target: Target, held: Held, losses: LossReport) -> None:
    cache = request.cache
    marked = _place(request, target, losses) if held.marks else []
    _order(marked, losses)
    if cache.key is not None:
        losses.drop(Rule.PROMPT_CACHE_KEY, ("prompt_cache_key",))
        cache.key = None
    wanted = cache.auto is not False and not marked and target.dialect.auto_cache != "none"
    if wanted and not _is_small(request):
        if cache.ttl is not None:
            losses.approx(Rule.CACHE_TTL, cache.at)
        if target.dialect.auto_cache == "marks":
            _mark_for_all(request, CacheMark(cache.ttl or "short"))
        cache.auto = target.dialect.auto_cache == "top_level"
    else:
        if cache.auto or cache.ttl is not None:
            losses.drop(_policy_rule(request), cache.at)
        cache.auto = None


def _order(marked: list[tuple[_Marked, CacheMark]], losses: LossReport) -> None:
    """A long life may not follow a short one: earlier marks are raised."""
    last_long = max((index for index, (_, mark) in enumerate(marked) if mark.ttl == "long"), default=-1)
    for holder, mark in marked[: max(last_long, 0)]:
        if mark.ttl == "short":
            losses.approx(Rule.CACHE_TTL, mark.at)
            holder.cache = replace(mark, ttl="long")


def _is_small(request: Request) -> bool:
    """Whether the prompt can't reach the size from which anything is kept; a mark would cost and bring nothing."""
    enough = SMALLEST_CACHED * 4  # characters of prose that are surely more
    for instruction in request.instructions:
        enough -= sum(len(part.text) for part in instruction.parts)
    for turn in request.turns:
        if enough <= 0:
            return False
        enough -= sum(len(part.text) for part in turn.parts if isinstance(part, Text))
    return enough > 0 and estimate.tokens(request) < SMALLEST_CACHED


def _mark_for_all(request: Request, mark: CacheMark) -> None:
    """Where an automatic mark would stand, for hosts that have none ("automatic position fallback")."""
    users = [run for run in _runs(request.turns) if run[0].role != "assistant"]
    places: list[list[_Marked]] = [
        [tool for tool in request.tools if isinstance(tool, FunctionTool)],
        [part for instruction in request.instructions for part in instruction.parts if _has_words(part)],
        list(_written_order(users[-2])) if len(users) > 1 else [],
        list(_written_order(_runs(request.turns)[-1])) if request.turns else [],
    ]
    for place in places:
        if place:
            place[-1].cache = mark


def _runs(turns: list[Turn]) -> list[list[Turn]]:
    """Turns that one message will hold: those of the assistant in a row, and all others in a row."""
    runs: list[list[Turn]] = []
    for turn in turns:
        if runs and (runs[-1][0].role == "assistant") == (turn.role == "assistant"):
            runs[-1].append(turn)
        else:
            runs.append([turn])
    return runs


def _written_order(run: list[Turn]) -> Iterator[_Marked]:
    """The parts of a message that can carry a mark, results first as Messages wants them."""
    parts = [part for turn in run if turn.role in ("user", "assistant") for part in turn.parts]
    yield from (part for part in parts if isinstance(part, Result))
    for part in parts:
        if not isinstance(part, Result) and (holder := _messages_holder(part)) is not None:
            yield holder


# --- toward Chat and Responses ---


def _fit_to_openai(request: Request, target: Target, held: Held, losses: LossReport) -> None:
    cache, dialect = request.cache, target.dialect
    from_messages = request.origin == "messages"
    marked: list[tuple[_Marked, CacheMark]] = []
    if held.marks and takes_marks(target):
        marked = _place(request, target, losses)
    elif held.marks:
        _remove_marks(request, losses)
    takes_options = target.profile.cache_marks and dialect.cache_marks == "breakpoint"
    if not takes_options:
        if cache.auto is not None or cache.ttl is not None:
            losses.drop(_policy_rule(request), cache.at)
        cache.auto = cache.ttl = None
    elif from_messages:
        _fit_policy_of_messages(request, target, bool(marked), losses)
    elif cache.ttl == "long" and target.protocol == "chat":
        losses.approx(Rule.CACHE_TTL, cache.at)  # only half an hour can be said for a whole request
        cache.ttl = None
    if from_messages and dialect.family in _VENDORS:
        cache.key = _routing_key(request)


def can_prewarm(target: Target) -> bool:
    """Whether the backend can be asked to fill its cache and answer nothing (mapping.md 7.1)."""
    match target.protocol:
        case "messages":
            return not target.dialect.unsigned_thinking  # the servers of other vendors want an answer of a token
        case "responses":
            return target.dialect.cache_marks == "breakpoint" and target.profile.cache_marks
        case "chat":
            return False


def takes_marks(target: Target) -> bool:
    """Whether an OpenAI-style backend lets parts carry marks."""
    match target.dialect.cache_marks:
        case "none":
            return False
        case "breakpoint":
            return target.profile.cache_marks
        case "cache_control":  # a gateway, which hands it to Claude and to nobody else
            return target.profile.name.startswith("claude")


def _fit_policy_of_messages(request: Request, target: Target, marked: bool, losses: LossReport) -> None:
    """Messages marks nothing unasked, OpenAI does: a client that set its own marks wants only these."""
    cache = request.cache
    if cache.auto:
        losses.approx(Rule.CACHE_TTL, cache.at)
        cache.auto = None  # what OpenAI does unasked
        cache.ttl = "long" if cache.ttl == "long" and target.protocol == "responses" else None
    elif marked:
        cache.auto = False


def _remove_marks(request: Request, losses: LossReport) -> None:
    for holder, mark in _all_marks(request):
        losses.drop(mark.rule, mark.at)
        holder.cache = None


def _routing_key(request: Request) -> str | None:
    """What keeps one session on one machine: a user has many, and one machine takes few requests of a key."""
    user = request.identity.end_user
    if user:
        return _digest(_session(user).encode("utf-8", "replace"))
    texts = [part.text for instruction in request.instructions for part in instruction.parts]
    tools = [[tool.name, tool.description, tool.schema] for tool in request.tools if isinstance(tool, FunctionTool)]
    return _digest(dumps([texts, tools])) if texts or tools else None


def _session(user: str) -> str:
    """The session in Claude Code's ids (`{"session_id": …}`, before that `user_…_session_…`), else all of it."""
    if user.startswith("{"):
        try:
            told = loads(user.encode("utf-8", "replace"))
        except NotJson:
            return user
        session = told.get("session_id") if type(told) is dict else None
        return session if type(session) is str and session else user
    return user.rpartition("_session_")[2] or user


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:_KEY_DIGITS]


# --- where a mark may stand ---


def _place(request: Request, target: Target, losses: LossReport) -> list[tuple[_Marked, CacheMark]]:
    """Move marks forward to parts that may carry one; the last four stay (mapping.md 10.1). Gives them in order."""
    # Anthropic's marks live 5 minutes or an hour, OpenAI's half an hour or twelve.
    wanted = Rule.CACHE_CONTROL if _writes_cache_control(target) else Rule.PROMPT_CACHE_BREAKPOINT
    marked: list[tuple[_Marked, CacheMark]] = []
    moved: list[CacheMark] = []
    waiting: CacheMark | None = None
    for holder, mark in _slots(request, target, losses):
        waiting = _stronger(waiting, mark, losses)
        if waiting is None or holder is None:
            continue
        if waiting is not mark:
            moved.append(waiting)
        marked.append((holder, waiting))
        waiting = None
    if waiting is not None:
        losses.drop(waiting.rule, waiting.at)
    # OpenAI looks at many more marks than it writes, so one that came from its own client stays.
    limited = wanted is Rule.CACHE_CONTROL or request.origin == "messages"
    first = max(0, len(marked) - MOST_MARKS) if limited else 0
    for _, mark in marked[:first]:
        losses.drop(mark.rule, mark.at)
    marked = marked[first:]
    for holder, mark in marked:
        holder.cache = mark
        if mark.rule is not wanted:
            losses.approx(Rule.CACHE_TTL, mark.at)
        elif any(mark is other for other in moved):
            losses.approx(mark.rule, mark.at)
    return marked


def _writes_cache_control(target: Target) -> bool:
    return target.protocol == "messages" or target.dialect.cache_marks == "cache_control"


def _stronger(first: CacheMark | None, second: CacheMark | None, losses: LossReport) -> CacheMark | None:
    """Of two marks that end on one part the one with the longer life; the other becomes one with it."""
    if first is None or second is None:
        return first or second
    stronger, other = (first, second) if first.ttl == "long" and second.ttl == "short" else (second, first)
    losses.approx(other.rule, other.at)
    return stronger


def _slots(request: Request, target: Target, losses: LossReport) -> Iterator[tuple[_Marked | None, CacheMark | None]]:
    """(what may carry a mark at this place, the mark that stood there), in the order of the prompt.

    Takes all marks off the request on its way.
    """
    to_messages = target.protocol == "messages"
    holder: _Marked | None
    late: CacheMark | None = None
    for tool in request.tools:
        if isinstance(tool, FunctionTool):
            mark = _taken(tool)
            if to_messages:
                yield tool, mark
            else:
                late = _stronger(late, mark, losses)
    leading = [part for instruction in request.instructions for part in instruction.parts]
    last = max((index for index, part in enumerate(leading) if _has_words(part)), default=-1)
    for index, text in enumerate(leading):
        mark = _taken(text)
        if index == last and late is not None:
            mark, late = _stronger(late, mark, losses), None  # one on a tool ends with the instructions
        yield text if _has_words(text) else None, mark
    if late is not None:
        yield None, late
    for turn in request.turns:
        for part in turn.parts:
            mark = _taken_off(part, losses)
            if to_messages:
                holder = _messages_holder(part) if turn.role in ("user", "assistant") else None
            elif turn.role == "user" or (turn.role != "assistant" and _stays_system(part, target)):
                holder = _openai_holder(part, target)
            else:
                holder = None
            yield holder, mark


def _stays_system(part: Part, target: Target) -> bool:
    """Whether a part of a system message between others is sent as one."""
    return isinstance(part, Text) and not target.dialect.single_system


def _has_words(part: Text) -> bool:
    return bool(part.text) and not part.text.isspace()


def _messages_holder(part: Part) -> _Marked | None:
    """The part, if Messages takes a mark on it."""
    match part:
        case Text():
            return part if _has_words(part) else None
        case Refusal():
            return part if part.text and not part.text.isspace() else None
        case Image() | Document() | SearchResult() | Call() | Result():
            return part
        case _:
            return None


def _openai_holder(part: Part, target: Target) -> _Marked | None:
    """What of a part carries a mark on Chat or Responses: of a result what stands last in it."""
    on_chat = target.protocol == "chat"
    match part:
        case Text():
            return part if _has_words(part) else None
        case Document():
            return part
        case Audio():
            return part if on_chat and part.id is None else None
        case Image():
            return None if on_chat else part  # Chat's documentation takes them, its servers do not
        case Result() if part.parts:
            last = part.parts[-1]
            if on_chat and not isinstance(last, Text):
                return None  # moves out of the result
            return _openai_holder(last, target)
        case _:
            return None


def _taken(holder: _Marked) -> CacheMark | None:
    mark, holder.cache = holder.cache, None
    return mark


def _taken_off(part: Part, losses: LossReport) -> CacheMark | None:
    """The strongest mark on a part and on what it holds."""
    mark: CacheMark | None = None
    for holder in _holders(part):
        mark = _stronger(mark, _taken(holder), losses)
    return mark


def _holders(part: Part) -> Iterator[_Marked]:
    """The part and what it holds, the outermost last."""
    match part:
        case Result():
            for inner in part.parts:
                yield from _holders(inner)
            yield part
        case Document():
            for inner in part.content or ():
                yield from _holders(inner)
            yield part
        case SearchResult():
            yield from part.content
            yield part
        case Text() | Image() | Audio() | Call() | Refusal():
            yield part
        case _:
            return


def _all_marks(request: Request) -> Iterator[tuple[_Marked, CacheMark]]:
    holders: list[_Marked] = [tool for tool in request.tools if isinstance(tool, FunctionTool)]
    holders += (part for instruction in request.instructions for part in instruction.parts)
    for turn in request.turns:
        for part in turn.parts:
            holders += _holders(part)
    for holder in holders:
        if holder.cache is not None:
            yield holder, holder.cache


def _policy_rule(request: Request) -> Rule:
    """What the client calls the field that says how to cache."""
    return Rule.CACHE_CONTROL if request.origin == "messages" else Rule.PROMPT_CACHE_OPTIONS
