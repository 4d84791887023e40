"""Days, weeks and months of a tenant's own calendar, as Unix seconds.

A window begins at midnight in its time zone, so it may last 23 or 25 hours. Where a clock change skips midnight it
begins with the first moment of the day.
"""

import calendar
from datetime import date, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from proxy.settings.tenants import Budget, Period

MONDAY_THE_FIRST = date(2024, 1, 1)


class Calendar(NamedTuple):
    """`anchor`: its weekday begins weeks, its day of the month begins months; where a month is too short, its last."""

    period: Period
    zone: ZoneInfo
    anchor: date = MONDAY_THE_FIRST

    def end(self, now: float) -> float:
        """When the window that holds `now` is over."""
        return self.ends(now)[1]

    def ends(self, now: float) -> tuple[float, float, float]:
        """When the window before the one that holds `now`, that one and the next are over."""
        first = self._first_day(datetime.fromtimestamp(now, self.zone).date())
        second = self._next(first)
        return self._midnight(first), self._midnight(second), self._midnight(self._next(second))

    def _first_day(self, day: date) -> date:
        """Of the window that holds this day."""
        if self.period == "day":
            return day
        if self.period == "week":
            return day - timedelta(days=(day.weekday() - self.anchor.weekday()) % 7)
        first = self._in_month(day.year, day.month)
        return first if first <= day else self._in_month(*_month_after(day.year, day.month, -1))

    def _next(self, first: date) -> date:
        if self.period == "month":
            return self._in_month(*_month_after(first.year, first.month, 1))
        return first + timedelta(days=1 if self.period == "day" else 7)

    def _in_month(self, year: int, month: int) -> date:
        return date(year, month, min(self.anchor.day, calendar.monthrange(year, month)[1]))

    def _midnight(self, day: date) -> float:
        return datetime(day.year, day.month, day.day, tzinfo=self.zone).timestamp()


def days(zone: ZoneInfo) -> Calendar:
    """Of the limits that count by the day."""
    return Calendar("day", zone)


def periods(budget: Budget) -> Calendar:
    """Of a budget."""
    anchor = MONDAY_THE_FIRST if budget.anchor is None else date.fromisoformat(budget.anchor)
    return Calendar(budget.period, budget.timezone, anchor)


def _month_after(year: int, month: int, steps: int) -> tuple[int, int]:
    months = year * 12 + month - 1 + steps
    return months // 12, months % 12 + 1
