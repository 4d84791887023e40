"""What the last runs showed, kept beside the code: the page is written from it, and CI holds it to the catalogue."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.e2e.matrix.client import Client
from tests.e2e.matrix.run import Cell
from tests.harness.wire import Json, Protocol

SHOWN_LENGTH = 160  # characters of a failure's message that are kept
FILE = Path(__file__).with_name("results.json")

# By the client's row: its version, and cells by scenario and protocol of the backend; what is no plain `passed` has its
# verdict and note, and a failure's message.
Results = dict[str, Json]


def read_results() -> Results:
    return dict(json.loads(FILE.read_text("utf-8"))) if FILE.exists() else {}


def merge(results: Results, client: Client, cells: Iterable[Cell]) -> Results:
    """A version's new cells replace its old ones; another version's are forgotten."""
    kept = results.get(client.row, {})
    known: dict[str, dict[Protocol, Json]] = kept.get("cells", {}) if kept.get("version") == client.version else {}
    for cell in cells:
        told = {"verdict": cell.verdict, "note": cell.note, "shown": cell.shown[:SHOWN_LENGTH]}
        known.setdefault(cell.scenario, {})[cell.backend] = {name: text for name, text in told.items() if text}
    return {**results, client.row: {"version": client.version, "cells": known}}


def write_results(results: Mapping[str, Json]) -> None:
    """A line for each scenario, so that a change of one is seen as one."""
    rows = []
    for row, result in sorted(results.items()):
        cells = [f" {_text(scenario)}: {_text(cells)}" for scenario, cells in sorted(result["cells"].items())]
        rows.append(f'{_text(row)}: {{"version": {_text(result["version"])}, "cells": {{\n' + ",\n".join(cells) + "}}")
    FILE.write_text("{\n" + ",\n".join(rows) + "\n}\n", "utf-8")


def _text(value: Json) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
