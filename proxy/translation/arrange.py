"""Put tool results where every protocol wants them: one for each call, right after the calls (mapping.md 2.6).

Done once, before any writer: the three protocols disagree on the form of a result but not on its place. The rules look
at one run of turns at a time, so a longer history arranges to an extension of the shorter one; a call without result is
the one exception that mapping.md allows, and it is stable from the next turn on.
"""

from proxy.canonical.loss import LossReport, Rule
from proxy.canonical.parts import Call, Part, Result, Text, Turn
from proxy.canonical.request import Request
from proxy.translation.ids import BackendIds, placed

NO_RESULT = "No result was recorded for this call."
_NO_IDS = frozenset({"", "null"})
BILLING_HEADER = "x-anthropic-billing-header"


def arrange(request: Request, ids: BackendIds, losses: LossReport) -> None:
    """Pair results with calls and spell their ids for the backend, in place."""
    turns = request.turns
    pairs = _pairs(turns)
    if pairs is not None:
        for call, result in pairs:
            call.id = result.call_id = ids.spell(call.id)
            result.kind = call.kind
        return
    calls_of, results_of = _name_calls(turns)
    arranged: list[Turn] = []
    index = 0
    while index < len(turns):
        start = index
        while index < len(turns) and turns[index].role == "assistant":
            index += 1
        arranged += turns[start:index]
        calls = calls_of[start] if index == start + 1 else [call for calls in calls_of[start:index] for call in calls]
        start = index
        while index < len(turns) and turns[index].role != "assistant":
            index += 1
        answers = turns[start:index]
        results = sum(results_of[start:index])
        if not calls and not results:
            arranged += answers
            continue
        if results != len(calls) or not _are_in_place(calls, answers[0]):
            answers = _answer(calls, answers, losses, last=index == len(turns) and not answers)
        arranged += answers
        for call in calls:
            call.id = ids.spell(call.id)
        for turn in answers:
            for part in turn.parts:
                if type(part) is Result and part.call_id is not None:
                    part.call_id = ids.spell(part.call_id)
    request.turns = arranged


def _pairs(turns: list[Turn]) -> list[tuple[Call, Result]] | None:
    """The calls with their results where all of it is as it should be, as in most histories: every call has an id of
    its own, and the turn behind holds the result of each call in order, and nothing else. None where it is not.
    """
    pairs: list[tuple[Call, Result]] = []
    waiting: list[Call] = []
    for turn in turns:
        if turn.role == "assistant":
            for part in turn.parts:
                if type(part) is Call:
                    waiting.append(part)
                elif type(part) is Result:
                    return None
            continue
        if not waiting:
            if Result in map(type, turn.parts):
                return None
            continue
        if len(turn.parts) != len(waiting):
            return None
        for call, part in zip(waiting, turn.parts, strict=True):
            if type(part) is not Result or part.call_id != call.id:
                return None
            pairs.append((call, part))
        waiting = []
    names = {call.id for call, _ in pairs}
    sound = not waiting and len(names) == len(pairs) and names.isdisjoint(_NO_IDS)
    return pairs if sound else None


def _are_in_place(calls: list[Call], turn: Turn) -> bool:
    """Whether a turn is just what it should be, as most are: the result of each call in order, and nothing else."""
    parts = turn.parts
    if len(parts) != len(calls):
        return False
    for part, call in zip(parts, calls, strict=True):
        if type(part) is not Result or part.call_id != call.id:
            return False
        part.kind = call.kind
    return True


def _name_calls(turns: list[Turn]) -> tuple[list[list[Call]], list[int]]:
    """Name calls without a usable id by their place and give repeated ids a suffix; results follow (mapping.md 3.2).

    Gives for each turn its calls, and how many results it has.
    """
    calls_of: list[list[Call]] = []
    results_of: list[int] = []
    seen: dict[str, int] = {}
    named: set[str] = set()
    waiting: dict[str, list[tuple[int, Call]]] = {}
    answered: dict[str, Call] = {}
    for position, turn in enumerate(turns):
        calls: list[Call] = []
        results = 0
        for part in turn.parts:
            if type(part) is Call:
                wire_id = part.id
                own_id = placed(position, len(calls)) if wire_id in _NO_IDS else wire_id
                count = seen.get(own_id, 0) + 1
                part.id = own_id if count == 1 else f"{own_id}-{count}"
                while part.id in named:  # a client may have an id that looks like one with a suffix
                    count += 1
                    part.id = f"{own_id}-{count}"
                seen[own_id] = count
                named.add(part.id)
                waiting.setdefault(wire_id, []).append((position, part))
                calls.append(part)
            elif type(part) is Result:
                results += 1
                call = _answered_call(part.call_id, waiting, answered) if part.call_id is not None else None
                if call is not None:
                    part.call_id = call.id
        calls_of.append(calls)
        results_of.append(results)
    return calls_of, results_of


def _answered_call(wire_id: str, waiting: dict[str, list[tuple[int, Call]]], answered: dict[str, Call]) -> Call | None:
    """The call that a result with this id answers: in the newest turn that still waits, the first one."""
    candidates = waiting.get(wire_id)
    if not candidates:
        return answered.get(wire_id)
    index = len(candidates) - 1
    newest = candidates[index][0]
    while index > 0 and candidates[index - 1][0] == newest:
        index -= 1
    answered[wire_id] = candidates.pop(index)[1]
    return answered[wire_id]


def _answer(calls: list[Call], turns: list[Turn], losses: LossReport, *, last: bool) -> list[Turn]:
    """The turns after a run of calls: the results first, in call order, then everything else in its order."""
    wanted = {call.id: call for call in calls}
    results: dict[str, Result] = {}
    rest: list[Turn] = []
    moved = False
    for turn in turns:
        others: list[Part] = []
        has_results = False
        for part in turn.parts:
            if type(part) is not Result:
                others.append(part)
                continue
            has_results = True
            if part.call_id is not None and part.call_id in wanted:
                moved = moved or bool(others) or bool(rest)
                _take(results, part, wanted[part.call_id], losses)
            else:
                losses.approx(Rule.ORPHAN_RESULT, part.at)
                others += _orphan(part)
        if not has_results:
            rest.append(turn)
        elif others:
            rest.append(Turn(turn.role, others, turn.name, turn.extra, turn.at))
    if moved:
        losses.approx(Rule.RESULT_ORDER, turns[0].at)
        rest = _as_one(rest)
    if not calls or last:
        return rest
    for call in calls:
        if call.id not in results:
            losses.approx(Rule.MISSING_RESULT, call.at)
            results[call.id] = Result(call.id, [Text(NO_RESULT)], is_error=True, kind=call.kind, at=call.at)
    first = Turn("user", [results[call.id] for call in calls], at=turns[0].at if turns else calls[0].at)
    return [first, *rest]


def _as_one(turns: list[Turn]) -> list[Turn]:
    """What the user said between results is one message behind them (mapping.md 2.6)."""
    joined: list[Turn] = []
    for turn in turns:
        last = joined[-1] if joined else None
        if last is not None and last.role == turn.role == "user" and last.name == turn.name:
            joined[-1] = Turn("user", [*last.parts, *turn.parts], last.name, last.extra, last.at)
        else:
            joined.append(turn)
    return joined


def _take(results: dict[str, Result], part: Result, call: Call, losses: LossReport) -> None:
    first = results.get(call.id)
    if first is None:
        part.kind = call.kind
        results[call.id] = part
        return
    losses.approx(Rule.DUP_RESULT, part.at)
    first.parts = [*first.parts, *part.parts]
    first.is_error = first.is_error or part.is_error


def _orphan(part: Result) -> list[Part]:
    """A result without its call becomes words of the user: no call is made up for it."""
    name = part.call_id or part.name
    label = f"Result of an earlier tool call {name}:" if name else "Result of an earlier tool call:"
    if len(part.parts) == 1 and isinstance(part.parts[0], Text):
        said = part.parts[0]
        return [Text(f"{label}\n{said.text}", said.citations, cache=said.cache or part.cache)]
    return [Text(label, cache=part.cache), *part.parts]


def drop_billing_header(request: Request) -> None:
    """Remove the system block that Claude Code changes with every request; it would defeat every prefix cache.

    Only for backends that are not Anthropic's own (mapping.md 2.1).
    """
    if not request.instructions:
        return
    parts = request.instructions[0].parts
    if not parts or not parts[0].text.startswith(BILLING_HEADER):
        return
    rest = without_billing_header(parts[0].text)
    if rest is not None:
        parts[0].text = rest
        return
    del parts[0]
    if not parts:
        del request.instructions[0]


def without_billing_header(text: str) -> str | None:
    """What follows the header, where a client sends all of its system text as one string; None where nothing does."""
    _, _, rest = text.partition("\n")
    return rest if rest.strip() else None
