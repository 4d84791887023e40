"""What the recordings of real clients lose on their way to each protocol, listed in `losses/`, a file a client.

`python -m tests.losses` writes the lists anew; `tests/test_losses.py` holds them to what is. Read the change line by
line: each line is a loss that mapping.md calls for, or a fault.
"""

import json
import re
from collections import defaultdict
from pathlib import Path

from proxy.canonical.errors import Rejected
from proxy.canonical.loss import Loss
from proxy.canonical.target import Target
from proxy.translation.pair import Options, peek, prepare
from proxy.translation.profiles import profile_of
from proxy.upstream.dialects import PROFILES
from tests.harness.wire import ENDPOINTS, PROTOCOLS, Json, Protocol

TESTS = Path(__file__).parent
LISTS = TESTS / "losses"
# The vendors' own servers, and a model that each of them serves.
TARGETS: dict[Protocol, Target] = {
    "chat": Target("chat", "gpt-4.1", PROFILES["chat"]["openai"], profile_of("gpt-4.1")),
    "responses": Target("responses", "gpt-5.6", PROFILES["responses"]["openai"], profile_of("gpt-5.6")),
    "messages": Target("messages", "claude-opus-5-5", PROFILES["messages"]["anthropic"], profile_of("claude-opus-5-5")),
}
LAST_INDEX = re.compile(r"\[(\d+)\](?!.*\[)")

Lists = dict[str, dict[str, dict[str, list[str]]]]


def found() -> Lists:
    """Client, recording, backend's protocol: the lines; no backend where nothing is lost."""
    lists: Lists = {}
    for path in sorted(TESTS.glob("recordings/*/*.json")):
        recording = json.loads(path.read_text())
        for client in PROTOCOLS:
            if recording["method"] == "POST" and recording["path"].partition("?")[0] == ENDPOINTS[client]:
                lost = {
                    backend: lines(losses(client, target, recording["body"]))
                    for backend, target in TARGETS.items()
                    if backend != client
                }
                lists.setdefault(path.parent.name, {})[path.stem] = {
                    backend: told for backend, told in lost.items() if told
                }
    return lists


def losses(client: Protocol, target: Target, body: Json) -> list[Loss]:
    try:
        return prepare(peek(client, json.dumps(body).encode()), target, Options()).losses
    except Rejected as rejected:
        return rejected.losses or [Loss("rejected", "refuse", rejected.error.param or "")]  # type: ignore[arg-type]


def lines(lost: list[Loss]) -> list[str]:
    """`rule;level path` in order, with places that differ in their last index only in one line."""
    groups: dict[str, set[int]] = defaultdict(set)
    for loss in lost:
        line = f"{loss.rule};{loss.level} {loss.path}"
        index = LAST_INDEX.search(line)
        groups[LAST_INDEX.sub("[#]", line)].add(int(index[1]) if index else 0)
    return sorted(line.replace("[#]", f"[{spans(indices)}]") for line, indices in groups.items())


def spans(indices: set[int]) -> str:
    """`0,2-5`."""
    found: list[list[int]] = []
    for index in sorted(indices):
        if found and found[-1][1] == index - 1:
            found[-1][1] = index
        else:
            found.append([index, index])
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in found)


def listed() -> Lists:
    return {path.stem: json.loads(path.read_text()) for path in sorted(LISTS.glob("*.json"))}


def rewrite() -> None:
    LISTS.mkdir(exist_ok=True)
    lists = found()
    for path in LISTS.glob("*.json"):
        if path.stem not in lists:
            path.unlink()
    for name, recordings in lists.items():
        (LISTS / f"{name}.json").write_text(json.dumps(recordings, indent=1) + "\n")


if __name__ == "__main__":
    rewrite()
