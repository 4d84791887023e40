"""Write the page of what clients do through the proxy, and the README's guide of how to point each at it.

Both come from the catalogue and the results of runs; a test says when they are out of date.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from tests.e2e.matrix.client import Client
from tests.e2e.matrix.results import SHOWN_LENGTH, Results
from tests.e2e.matrix.run import fill
from tests.e2e.matrix.scenarios import SCENARIOS
from tests.harness.wire import PROTOCOLS, Json, Protocol

TOP = Path(__file__).parents[3]
PAGE = TOP / "tests/e2e/CLIENTS.md"
README = TOP / "README.md"
BEGIN, END = "<!-- clients: written by `python -m tests.e2e.matrix --write` -->\n", "<!-- clients: end -->\n"

KEY_VARIABLE = "DRAGOMAN_KEY"  # a reader has it
SPOKEN: dict[Protocol, str] = {"chat": "Chat Completions", "responses": "Responses", "messages": "Messages"}
# What a reader has in place of what the run fills in.
READERS = {"url": "http://127.0.0.1:8080", "key": f"${KEY_VARIABLE}", "home": "~", "prompt": "Say hello."}

HEAD = """\
# Clients

Real programs at pinned versions, each through a proxy on a backend of each protocol. The backend refuses what the
vendor's own API refuses (fields, order, ids, altered signatures, unanswered calls), and the prompt tells it to think,
to call tools, to fail or to fall silent. `make e2e` runs all of it, and `python -m tests.e2e.matrix --write` also
writes this page. Every change is held to the SDKs, Codex and Claude Code (`make e2e-quick`). The
[README](../../README.md#clients) tells how to point each client at the proxy.

✓ the user saw what was right · `name` the proxy refused, by this rule or status · - the client does not offer it
"""


def page(clients: Sequence[Client], results: Results) -> str:
    parts = [HEAD]
    for backend in PROTOCOLS:
        parts += [f"## On a backend of {SPOKEN[backend]}\n", _matrix(clients, results, backend)]
    parts += ["## Not offered\n", _lacking(clients)]
    parts += ["## Settings of programs\n", *_settings(clients)]
    parts += ["## What the user sees when something is wrong\n", SHOWN_HEAD, _shown(clients, results)]
    return "\n".join(parts)


def _settings(clients: Iterable[Client]) -> Iterable[str]:
    programs = [client for client in clients if client.settings.command]
    for name, group in groupby(programs, lambda client: client.name):
        yield f"### {name}\n"
        yield from map(_example, group)


SHOWN_HEAD = """\
In the client's own words, on a backend of another protocol than its own, cut at some length.
"""


def _matrix(clients: Iterable[Client], results: Results, backend: Protocol) -> str:
    head = ["client", "version", "speaks", *(scenario.title for scenario in SCENARIOS)]
    rows = []
    for client in clients:
        cells = [_mark(_cell(results, client, scenario.name, backend)) for scenario in SCENARIOS]
        rows.append([client.name, client.version, SPOKEN[client.protocol], *cells])
    return _table(head, rows)


def _cell(results: Results, client: Client, scenario: str, backend: Protocol) -> Json:
    return results.get(client.row, {}).get("cells", {}).get(scenario, {}).get(backend)


def _mark(cell: Json) -> str:
    if cell is None:
        return "not run"
    if cell["verdict"] == "refused":
        return f"`{cell['note']}`"
    return {"passed": "✓", "lacking": "-", "failed": "✗"}[cell["verdict"]]


def _lacking(clients: Iterable[Client]) -> str:
    titles = {scenario.name: scenario.title for scenario in SCENARIOS}
    lines = []
    for client in clients:
        reasons: dict[str, list[str]] = {}
        for name, reason in client.lacks.items():
            reasons.setdefault(reason, []).append(titles[name])
        if reasons:
            told = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in reasons.items())
            lines.append(f"- {client.row}: {told}\n")
    return "".join(lines)


def _shown(clients: Iterable[Client], results: Results) -> str:
    failures = [scenario for scenario in SCENARIOS if scenario.is_failure]
    rows = []
    for client in clients:
        backend: Protocol = "chat" if client.protocol == "messages" else "messages"
        for scenario in failures:
            cell = _cell(results, client, scenario.name, backend)
            if cell is not None and cell.get("shown"):
                rows.append([client.row, scenario.title, _cut(cell["shown"])])
    return _table(["client", "what", "it says"], rows)


def _cut(text: str) -> str:
    text = text if len(text) < SHOWN_LENGTH else f"{text} …"
    return "`" + text.replace("`", "'").replace("|", "\\|") + "`"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def guide(clients: Sequence[Client]) -> str:
    """How to set each client, as the run sets it: of programs, by one protocol."""
    libraries = [client for client in clients if not client.settings.command]
    programs = [client for client in clients if client.settings.command]
    parts = [_table(["library", "protocols", "environment"], _library_rows(libraries))]
    for name, group in groupby(programs, lambda client: client.name):
        parts += [f"**{name}**\n", _example(next(group))]
    return "\n".join(parts)


def _library_rows(clients: Iterable[Client]) -> Iterable[list[str]]:
    """Those that are set alike, in one row."""
    rows: dict[str, tuple[list[str], list[str]]] = {}
    for client in clients:
        names, protocols = rows.setdefault(_variables(client.settings.environment), ([], []))
        names += [client.name] * (client.name not in names)
        protocols += [SPOKEN[client.protocol]] * (SPOKEN[client.protocol] not in protocols)
    for variables, (names, protocols) in rows.items():
        yield [", ".join(names), ", ".join(protocols), variables]


def _variables(environment: Mapping[str, str]) -> str:
    return " ".join(f"`{name}={fill(text, READERS)}`" for name, text in environment.items())


def _example(client: Client) -> str:
    """One working example by one protocol: what its files have, and how it is started."""
    values = {**READERS, "model": client.model}
    environment = {
        name: fill(text, values) for name, text in client.settings.environment.items() if name != KEY_VARIABLE
    }
    parts = [f"By {SPOKEN[client.protocol]}:\n"]
    for path, text in client.settings.files.items():
        parts.append(f"`~/{path}`\n\n```\n{fill(text, values)}```\n")
    variables = "".join(f"{name}={text} \\\n" for name, text in environment.items())
    command = " ".join(_quoted(fill(word, values)) for word in client.settings.command)
    return "\n".join([*parts, f"```\n{variables}{command}\n```\n"])


def _quoted(word: str) -> str:
    return f'"{word}"' if " " in word else word


def write_pages(clients: Sequence[Client], results: Results) -> None:
    PAGE.write_text(page(clients, results), "utf-8")
    README.write_text(with_guide(README.read_text("utf-8"), clients), "utf-8")


def with_guide(readme: str, clients: Sequence[Client]) -> str:
    """The README with its guide of clients written anew."""
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{guide(clients)}\n{END}{after}"
