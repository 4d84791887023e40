"""For all tests: examples may take their time, and figures that a pass alone hides are shown after a run
(`record_property("shown", …)`)."""

import pytest
from hypothesis import HealthCheck, settings

# How fast the machine is says nothing of the code.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


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
