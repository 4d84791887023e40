"""The dashboard and the rules as files, and the expressions in them."""

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

Json = dict[str, Any]

CONFIG = Path(__file__).parents[2] / "config"
GRAFANA, PROMETHEUS = CONFIG / "grafana", CONFIG / "prometheus"
RULE_FILES = (PROMETHEUS / "alerts.yaml", PROMETHEUS / "optional" / "no-traffic.yaml")

SET_OPERATORS = frozenset({"and", "unless"})
# A comparison with a constant, which is what makes an alert's expression empty while all is well.
BOUND = re.compile(r"\s*(?:>|<|==)\s*[\d.]+$")


def builder() -> ModuleType:
    """config/grafana/build.py."""
    spec = importlib.util.spec_from_file_location("build", GRAFANA / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def dashboard() -> Json:
    """As it is committed."""
    return json.loads((GRAFANA / "dragoman.json").read_text("utf-8"))


def panels() -> list[Json]:
    """Those that show something, in order."""
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def rules(kind: str) -> list[Json]:
    """All of all files; `kind`: alert or record."""
    groups = [group for file in RULE_FILES for group in yaml.safe_load(file.read_text("utf-8"))["groups"]]
    return [rule for group in groups for rule in group["rules"] if kind in rule]


def operands(expression: str) -> list[str]:
    """The parts of an alert's expression without their bounds, each of which should have a value at any time."""
    parts, lines = [], [*expression.splitlines(), "and"]
    part: list[str] = []
    for line in lines:
        if line.strip() in SET_OPERATORS:
            parts.append(BOUND.sub("", "\n".join(part)))
            part = []
        else:
            part.append(line)
    return parts
