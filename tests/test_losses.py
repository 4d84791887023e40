"""The losses of what real clients ask are those that are listed: none is a surprise (mapping.md 0.2).

`losses/` has a file for each client: recording, backend's protocol, `rule;level path` of each loss. When a change of
ours moves them, `python -m tests.losses` writes the lists anew, and the difference is to be read like code.
"""

from collections.abc import Iterator

from tests.losses import Lists, found, listed


def flat(lists: Lists) -> Iterator[str]:
    for client, recordings in lists.items():
        for recording, backends in recordings.items():
            yield f"{client}/{recording}"
            for backend, lines in backends.items():
                yield from (f"{client}/{recording} to {backend}: {line}" for line in lines)


def test_what_is_lost_is_what_is_listed() -> None:
    are, should_be = set(flat(found())), set(flat(listed()))
    difference = [f"+ {line}" for line in are - should_be] + [f"- {line}" for line in should_be - are]
    assert sorted(difference, key=lambda line: (line[2:], line)) == []
