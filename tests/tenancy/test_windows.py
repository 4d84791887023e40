"""When days, weeks and months of a tenant's calendar end."""

from datetime import date, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.settings.tenants import Budget
from proxy.tenancy.windows import Calendar, days, periods


def at(text: str, zone: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


@pytest.mark.parametrize(
    ("period", "anchor", "zone", "now", "end"),
    [
        ("day", None, "UTC", "2026-12-01T00:00:00", "2026-12-02T00:00:00"),
        ("day", None, "UTC", "2026-12-31T23:59:59", "2027-01-01T00:00:00"),
        ("day", None, "Asia/Kolkata", "2026-12-01T03:00:00", "2026-12-02T00:00:00"),
        # clocks change
        ("day", None, "Europe/Berlin", "2026-03-29T01:00:00", "2026-03-30T00:00:00"),
        ("day", None, "Europe/Berlin", "2026-10-25T02:30:00", "2026-10-26T00:00:00"),
        # weeks
        ("week", None, "UTC", "2026-12-01T12:00:00", "2026-12-07T00:00:00"),
        ("week", None, "UTC", "2026-12-07T00:00:00", "2026-12-14T00:00:00"),
        ("week", "2026-12-03", "UTC", "2026-12-02T23:00:00", "2026-12-03T00:00:00"),
        ("week", "2026-12-03", "UTC", "2026-12-03T00:00:00", "2026-12-10T00:00:00"),
        ("week", "2030-12-01", "UTC", "2026-12-01T12:00:00", "2026-12-06T00:00:00"),
        # months
        ("month", None, "America/New_York", "2026-12-15T12:00:00", "2027-01-01T00:00:00"),
        ("month", "2026-12-15", "UTC", "2026-12-14T12:00:00", "2026-12-15T00:00:00"),
        ("month", "2026-12-15", "UTC", "2026-12-15T00:00:00", "2027-01-15T00:00:00"),
        ("month", "2026-01-31", "UTC", "2027-01-31T00:00:00", "2027-02-28T00:00:00"),
        ("month", "2026-01-31", "UTC", "2027-02-28T00:00:00", "2027-03-31T00:00:00"),
        ("month", "2026-01-31", "UTC", "2028-02-28T12:00:00", "2028-02-29T00:00:00"),
        ("month", "2026-01-31", "UTC", "2027-04-29T12:00:00", "2027-04-30T00:00:00"),
    ],
)
def test_windows_end(period: str, anchor: str | None, zone: str, now: str, end: str) -> None:
    calendar = periods(Budget(0, period, anchor, ZoneInfo(zone)))
    assert calendar.end(at(now, zone)) == at(end, zone)


def test_a_day_may_have_25_hours() -> None:
    end, after = days(ZoneInfo("Europe/Berlin")).ends(at("2026-10-24T12:00:00", "Europe/Berlin"))[1:]
    assert after - end == 25 * 3600.0


def test_a_day_whose_midnight_is_skipped_begins_with_its_first_moment() -> None:
    """In Santiago clocks go from 24:00 to 1:00."""
    zone = "America/Santiago"
    assert days(ZoneInfo(zone)).end(at("2026-09-05T12:00:00", zone)) == at("2026-09-06T01:00:00", zone)


ZONES = ("UTC", "Europe/Berlin", "America/Santiago", "America/Havana", "Pacific/Apia", "Australia/Lord_Howe")


@given(
    period=st.sampled_from(["day", "week", "month"]),
    zone=st.sampled_from(ZONES),
    anchor=st.dates(date(2000, 1, 1), date(2030, 12, 31)),
    now=st.integers(0, 4 * 10**9),
)
def test_windows_follow_each_other(period: str, zone: str, anchor: date, now: int) -> None:
    """Each moment is in one window, and the next begins where it ends."""
    calendar = Calendar(period, ZoneInfo(zone), anchor)
    before, end, after = calendar.ends(now)
    assert before <= now < end < after
    assert calendar.ends(before) == (calendar.ends(before)[0], end, after)
    assert calendar.ends(end)[:2] == (end, after)
