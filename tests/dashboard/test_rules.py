"""Alerts fire when they should, stay silent when they should, and lead to a page that says what to do."""

import shutil
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
import yaml

from tests.dashboard.sources import PROMETHEUS, RULE_FILES, rules

CASES = sorted((PROMETHEUS / "tests").glob("*.yaml"))
SEVERITIES = {"critical", "warning", "info"}


def promtool(*arguments: object) -> subprocess.CompletedProcess[str]:
    found = shutil.which("promtool")
    assert found, (
        "promtool has to be on PATH: `apt-get install prometheus` on Debian, `brew install prometheus` on a Mac."
    )
    return subprocess.run((found, *map(str, arguments)), capture_output=True, text=True, timeout=50, check=False)


@pytest.mark.parametrize("file", RULE_FILES, ids=lambda file: file.name)
def test_rules_are_well_formed(file: Path) -> None:
    ended = promtool("check", "rules", file)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize("file", CASES, ids=lambda file: file.name)
def test_alerts_fire_and_stay_silent(file: Path) -> None:
    ended = promtool("test", "rules", file)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_each_alert_has_a_case_that_fires_and_one_that_stays_silent() -> None:
    fires: defaultdict[str, set[bool]] = defaultdict(set)
    for file in CASES:
        for case in yaml.safe_load(file.read_text("utf-8"))["tests"]:
            for asked in case["alert_rule_test"]:
                fires[asked["alertname"]].add(bool(asked["exp_alerts"]))
    assert dict(fires) == {rule["alert"]: {True, False} for rule in rules("alert")}


def test_each_alert_says_how_bad_it_is_and_where_to_read_on() -> None:
    headings = {
        line.removeprefix("## ").strip().lower()
        for line in (PROMETHEUS / "runbook.md").read_text("utf-8").splitlines()
        if line.startswith("## ")
    }
    linked = set()
    for rule in rules("alert"):
        assert rule["labels"]["severity"] in SEVERITIES
        assert rule["for"]
        assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}
        page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        assert page == "config/prometheus/runbook.md"
        linked.add(anchor)
    assert linked == headings
