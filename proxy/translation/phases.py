"""The phase of what the assistant said, for models that want theirs back (mapping.md 4.1).

Only Responses has a field for it, so a client of another protocol can't keep it; but what the model meant shows from
where the text stands: words before a call are commentary, words that end the turn are the final answer.
"""

from proxy.canonical.parts import Call, HostedCall, Text, Turn

COMMENTARY = "commentary"
FINAL_ANSWER = "final_answer"


def restore_phases(turns: list[Turn]) -> None:
    """Give each assistant text without a phase the one that its place in its run of turns tells, in place."""
    called = False  # looking backwards: whether a call of the same run comes later
    for turn in reversed(turns):
        if turn.role != "assistant":
            called = False
            continue
        for part in reversed(turn.parts):
            if type(part) is Call or type(part) is HostedCall:
                called = True
            elif type(part) is Text and part.phase is None:
                part.phase = COMMENTARY if called else FINAL_ANSWER
