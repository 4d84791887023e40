"""Questions about whole globs: is there a name that this one matches and those don't?

Every pattern is read as a small automaton whose states are positions in it. The search walks all of them at once and
keeps to the characters that some pattern names, and one that none does, so it ends after few steps for what people
write.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

# Beyond this the patterns are not what people write, and the question is given up.
_MOST_STATES = 20_000
_LARGEST_RANGE = 256


@dataclass(frozen=True, slots=True)
class _Step:
    """One character: any of `of`, or any but these. `star`: any number of any."""

    of: frozenset[str] = frozenset()
    but: bool = True
    star: bool = False

    def takes(self, character: str) -> bool:
        return (character in self.of) is not self.but


_Glob = tuple[_Step, ...]
_State = frozenset[tuple[int, int]]  # (which pattern, position in it)


def name_between(within: Sequence[str], without: Iterable[str]) -> str | None:
    """The shortest name that all of `within` match and none of `without`, or None.

    Also None where it would take too long to say.
    """
    return _search(tuple(within), tuple(without))


def covers(wide: str, narrow: str) -> bool:
    """Whether `wide` matches every name that `narrow` does."""
    return name_between([narrow], [wide]) is None


@lru_cache(maxsize=512)  # most tenants have rules like another's
def _search(within: tuple[str, ...], without: tuple[str, ...]) -> str | None:
    globs = [_parse(pattern) for pattern in (*within, *without)]
    needed = frozenset(range(len(within)))
    odd = _odd_character(globs)
    start = _rested(globs, ((index, 0) for index in range(len(globs))))
    names = {start: ""}
    waiting = [start]
    for state in waiting:
        if {index for index, position in state if position == len(globs[index])} == needed:
            return names[state]
        named = {character for index, position in state for character in _named(globs[index], position)}
        for character in [*sorted(named), odd]:
            following = _after(globs, state, character)
            if following not in names and needed <= {index for index, _ in following}:
                names[following] = names[state] + character
                waiting.append(following)
        if len(names) > _MOST_STATES:
            return None
    return None


def _parse(pattern: str) -> _Glob:
    """As `fnmatch` reads it."""
    steps: list[_Step] = []
    at = 0
    while at < len(pattern):
        character = pattern[at]
        at += 1
        closing = pattern.find("]", at + (2 if pattern[at : at + 1] == "!" else 1))
        match character:
            case "*":
                if not (steps and steps[-1].star):
                    steps.append(_Step(star=True))
            case "?":
                steps.append(_Step())
            case "[" if closing >= 0:
                steps.append(_set(pattern[at:closing]))
                at = closing + 1
            case _:
                steps.append(_Step(frozenset(character), but=False))
    return tuple(steps)


def _set(inside: str) -> _Step:
    negated = inside.startswith("!")
    inside = inside.removeprefix("!")
    of: set[str] = set()
    at = 0
    while at < len(inside):
        if inside[at + 1 : at + 2] == "-" and at + 2 < len(inside):
            first, last = ord(inside[at]), ord(inside[at + 2])
            of.update(map(chr, range(first, min(last, first + _LARGEST_RANGE) + 1)))
            at += 3
        else:
            of.add(inside[at])
            at += 1
    return _Step(frozenset(of), negated)


def _odd_character(globs: Iterable[_Glob]) -> str:
    """One that no pattern names."""
    named = {character for glob in globs for step in glob for character in step.of}
    return next(character for character in map(chr, range(ord("a"), 0x10FFFF)) if character not in named)


def _named(glob: _Glob, position: int) -> frozenset[str]:
    return glob[position].of if position < len(glob) else frozenset()


def _after(globs: Sequence[_Glob], state: _State, character: str) -> _State:
    moved = (
        (index, position if step.star else position + 1)
        for index, position in state
        if position < len(globs[index]) and (step := globs[index][position]).takes(character)
    )
    return _rested(globs, moved)


def _rested(globs: Sequence[_Glob], positions: Iterable[tuple[int, int]]) -> _State:
    """With the positions behind stars, which may stand for nothing."""
    reached = set(positions)
    for index, position in list(reached):
        if position < len(globs[index]) and globs[index][position].star:
            reached.add((index, position + 1))
    return frozenset(reached)
