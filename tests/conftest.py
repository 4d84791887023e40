"""Shows after a run what tests were told to show (`record_property("shown", …)`): figures that a pass alone hides."""

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    shown = [
        value
        for report in terminalreporter.getreports("passed")
        for name, value in report.user_properties
        if name == "shown"
    ]
    if shown:
        terminalreporter.section("what was counted")
        for line in shown:
            terminalreporter.write_line(str(line))
