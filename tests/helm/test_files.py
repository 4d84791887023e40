"""Dashboards and alert rules are in the chart as they are in `config`, also once it is packed."""

import tarfile
from pathlib import Path

import yaml

from tests.helm.chart import ROOT, WAYS, chart, render

DASHBOARDS = sorted(ROOT.joinpath("config", "grafana").glob("*.json"))
RULES = sorted(ROOT.joinpath("config", "prometheus").glob("*.yaml"))


def test_dashboards_are_those_of_config() -> None:
    found = {
        name: text
        for manifest in render(WAYS["everything"])
        if manifest["kind"] == "ConfigMap" and manifest["metadata"]["labels"].get("grafana_dashboard") == "1"
        for name, text in manifest["data"].items()
    }
    assert {name: text.strip() for name, text in found.items()} == {
        file.name: file.read_text("utf-8").strip() for file in DASHBOARDS
    }


def test_rules_are_those_of_config() -> None:
    groups = [group for file in RULES for group in yaml.safe_load(file.read_text("utf-8")).get("groups", [])]
    found = [m["spec"]["groups"] for m in render(WAYS["everything"]) if m["kind"] == "PrometheusRule"]
    assert found == ([groups] if groups else [])


def test_a_packed_chart_has_them_and_nothing_else_of_config(tmp_path: Path) -> None:
    with tarfile.open(chart().save(tmp_path)) as packed:
        files = {name for name in packed.getnames() if name.startswith("dragoman/files/")}
    assert files == {f"dragoman/files/{file.relative_to(ROOT / 'config')}" for file in [*DASHBOARDS, *RULES]}
