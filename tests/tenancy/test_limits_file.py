"""What outlasts the process: what is kept of limits, in which form, and what becomes of a file that makes no sense."""

import errno
import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn
from zoneinfo import ZoneInfo

import pytest

from proxy.canonical.errors import Reason
from proxy.settings.tenants import Budget, Tenant
from proxy.tenancy.limits import MOST_SPENT, Spent
from proxy.tenancy.limits_file import LimitsFile, LimitsFileDamaged, LimitsFileTaken
from proxy.tenancy.memory import MemoryLimiter
from tests.tenancy.limiting import NOON, TO_MIDNIGHT, Clock, demand, refused, taken, tenant, used

DAY = 86_400.0
MIDNIGHT = NOON + TO_MIDNIGHT
NEW_YEAR = NOON + 31 * DAY - TO_MIDNIGHT
ALL = tenant(rpm=600, tpm=6000, concurrency=9, rpd=10, tpd=1000, budget=Budget(500))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def limiter(clock: Clock) -> MemoryLimiter:
    return MemoryLimiter(clock, clock)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "limits.json"


@pytest.fixture
def file(path: Path) -> Iterator[LimitsFile]:
    made = LimitsFile(path, Clock())
    yield made
    made.close()


def after(limiter: MemoryLimiter, clock: Clock) -> MemoryLimiter:
    """A process that goes on with what another left."""
    restarted = MemoryLimiter(clock, clock)
    restarted.restore(dict(limiter.snapshot()))
    return restarted


async def test_days_and_budgets_are_kept_and_nothing_else(limiter: MemoryLimiter, clock: Clock) -> None:
    limiter.settle(await taken(limiter, ALL, demand(50, 70)), 40, 60)
    assert dict(limiter.snapshot()) == {
        "a": {"rpd": Spent(1, MIDNIGHT), "tpd": Spent(40, MIDNIGHT), "budget": Spent(60, NEW_YEAR)}
    }
    restarted = after(limiter, clock)
    assert await used(restarted, ALL) == {"rpm": 0, "tpm": 0, "concurrency": 0, "rpd": 1, "tpd": 40, "budget": 60}


async def test_what_is_open_is_kept_as_it_was_reserved(limiter: MemoryLimiter, clock: Clock) -> None:
    """Nobody is left to settle it: a crash must not make it free."""
    lease = await taken(limiter, ALL, demand(50, 70))
    restarted = after(limiter, clock)
    limiter.settle(lease, 1, 1)
    assert dict(restarted.snapshot()) == {
        "a": {"rpd": Spent(1, MIDNIGHT), "tpd": Spent(50, MIDNIGHT), "budget": Spent(70, NEW_YEAR)}
    }


async def test_a_budget_that_is_used_up_stays_so_until_its_window_is_over(limiter: MemoryLimiter, clock: Clock) -> None:
    await taken(limiter, ALL, demand(0, 500))
    restarted = after(limiter, clock)
    assert (await refused(restarted, ALL)).reason is Reason.BUDGET
    clock.now = NEW_YEAR
    await taken(restarted, ALL)


async def test_what_is_settled_after_a_restart_is_given_back(limiter: MemoryLimiter, clock: Clock) -> None:
    await taken(limiter, ALL, demand(0, 100))
    restarted = after(limiter, clock)
    restarted.settle(await taken(restarted, ALL, demand(0, 50)), 0, 20)
    assert (await used(restarted, ALL))["budget"] == 120


async def test_windows_that_are_over_are_neither_written_nor_read(limiter: MemoryLimiter, clock: Clock) -> None:
    await taken(limiter, ALL, demand(50, 70))
    kept = dict(limiter.snapshot())
    clock.now = MIDNIGHT
    assert dict(limiter.snapshot()) == {"a": {"budget": Spent(70, NEW_YEAR)}}
    limiter.restore(kept)
    assert dict(limiter.snapshot()) == {"a": {"budget": Spent(70, NEW_YEAR)}}
    clock.now = NEW_YEAR
    assert dict(limiter.snapshot()) == {}


async def test_one_who_is_gone_is_kept_until_its_window_is_over(limiter: MemoryLimiter, clock: Clock) -> None:
    await taken(limiter, tenant("gone", rpd=5))
    twice = after(after(limiter, clock), clock)
    assert dict(twice.snapshot()) == {"gone": {"rpd": Spent(1, MIDNIGHT)}}
    assert await used(twice, tenant("gone", rpd=7)) == {"rpd": 1}
    clock.now = MIDNIGHT
    assert dict(after(limiter, clock).snapshot()) == {}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (tenant(rpd=1, budget=Budget(60)), {"rpd": 1, "budget": 70}),
        (tenant(rpd=10), {"rpd": 1}),
        (tenant(budget=Budget(500, "day")), {"budget": 70}),
    ],
)
async def test_limits_that_changed_meanwhile_hold_at_once(
    limiter: MemoryLimiter, clock: Clock, changed: Tenant, expected: dict[str, int]
) -> None:
    await taken(limiter, ALL, demand(50, 70))
    restarted = after(limiter, clock)
    assert await used(restarted, changed) == expected
    assert (await used(restarted, ALL))["tpd"] == 50  # what was not limited for a while is not forgotten


async def test_a_window_ends_as_the_calendar_of_now_says(limiter: MemoryLimiter, clock: Clock) -> None:
    await taken(limiter, tenant(rpd=5))
    restarted = after(limiter, clock)
    berlin = tenant(rpd=5, timezone=ZoneInfo("Europe/Berlin"))
    assert await used(restarted, berlin) == {"rpd": 1}
    clock.now = MIDNIGHT - 3600
    assert await used(restarted, berlin) == {"rpd": 0}


async def test_more_than_a_file_can_hold(limiter: MemoryLimiter, file: LimitsFile) -> None:
    await taken(limiter, tenant(budget=Budget(1)), demand(0, 10**30))
    file.write(dict(limiter.snapshot()))
    assert file.read()["a"]["budget"].used == MOST_SPENT


def test_what_is_written_is_read(path: Path, file: LimitsFile) -> None:
    assert file.read() == {}
    file.write({"a": {"rpd": Spent(1, MIDNIGHT)}})
    file.write({"a": {"rpd": Spent(2, MIDNIGHT), "budget": Spent(70, NEW_YEAR)}})
    assert json.loads(path.read_bytes()) == {
        "version": 1,
        "tenants": {"a": {"rpd": {"used": 2, "end": MIDNIGHT}, "budget": {"used": 70, "end": NEW_YEAR}}},
    }
    assert file.read() == {"a": {"rpd": Spent(2, MIDNIGHT), "budget": Spent(70, NEW_YEAR)}}
    assert sorted(os.listdir(path.parent)) == ["limits.json", "limits.json.lock"]
    assert {stat.S_IMODE(entry.stat().st_mode) for entry in path.parent.iterdir()} == {0o600}


def test_what_has_not_changed_is_not_written_again(path: Path, file: LimitsFile) -> None:
    file.write({})
    before = path.stat().st_ino, path.stat().st_mtime_ns
    file.write({})
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == before


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "limits.json").symlink_to(tmp_path / "disk" / "limits.json")
    file = LimitsFile(tmp_path / "limits.json")
    file.write({})
    file.close()
    assert (tmp_path / "limits.json").is_symlink()
    assert (tmp_path / "disk" / "limits.json").is_file()


def test_what_a_killed_process_left_is_not_in_the_way(path: Path, file: LimitsFile) -> None:
    elsewhere = path.with_name("elsewhere")
    elsewhere.write_text("of somebody else")
    path.with_name(".limits.json.new").symlink_to(elsewhere)
    file.write({})
    assert elsewhere.read_text() == "of somebody else"
    assert not path.with_name(".limits.json.new").exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "Invalid JSON: EOF while parsing"),
        (b'{"version": 1, "tenants": {"a": {"rpd": {"us', "Invalid JSON: EOF while parsing"),
        (b"\xff\x00", "Invalid JSON"),
        (b"[]", "Input should be an object"),
        (b'{"version": 2, "tenants": {}}', "version: Input should be 1"),
        (b'{"tenants": {}}', "version: Field required"),
        (b'{"version": 1, "tenants": {"a": {"rpm": {"used": 1, "end": 1}}}}', "tenants.a.rpm"),
        (b'{"version": 1, "tenants": {"a": {"rpd": {"used": -1, "end": 1}}}}', "tenants.a.rpd.used"),
        (b'{"version": 1, "tenants": {"a": {"rpd": {"used": "1", "end": 1}}}}', "tenants.a.rpd.used"),
        (b'{"version": 1, "tenants": {"a": {"rpd": {"used": 1, "end": NaN}}}}', "tenants.a.rpd.end"),
    ],
)
def test_what_makes_no_sense_is_set_aside(path: Path, file: LimitsFile, content: bytes, said: str) -> None:
    path.write_bytes(content)
    with pytest.raises(LimitsFileDamaged) as caught:
        file.read()
    assert str(caught.value).startswith(said)
    assert str(caught.value).endswith("; it is kept as limits.json.damaged-1796126400")
    assert path.with_name("limits.json.damaged-1796126400").read_bytes() == content
    file.write({})
    assert file.read() == {}


def failing(number: int) -> Callable[..., NoReturn]:
    def fail(*_arguments: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    return fail


def test_what_can_neither_be_read_nor_set_aside_is_not_overwritten(
    path: Path, file: LimitsFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_text("damaged")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", failing(errno.EIO))
        patch.setattr(Path, "rename", failing(errno.EROFS))
        with pytest.raises(LimitsFileDamaged) as caught:
            file.read()
        assert str(caught.value) == (
            "it can't be read: Input/output error; it can't be set aside: Read-only file system"
        )
        with pytest.raises(OSError, match="Read-only"):
            file.write({})
    assert path.read_text() == "damaged"
    file.write({})
    assert path.with_name("limits.json.damaged-1796126400").read_text() == "damaged"
    assert file.read() == {}


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_leaves_what_there_was(
    path: Path, file: LimitsFile, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    file.write({"a": {"rpd": Spent(1, MIDNIGHT)}})
    with monkeypatch.context() as patch:
        patch.setattr(Path if step == "replace" else os, step, failing(errno.ENOSPC))
        with pytest.raises(OSError, match="No space left"):
            file.write({"a": {"rpd": Spent(2, MIDNIGHT)}})
    assert sorted(os.listdir(path.parent)) == ["limits.json", "limits.json.lock"]
    assert file.read() == {"a": {"rpd": Spent(1, MIDNIGHT)}}
    file.write({"a": {"rpd": Spent(2, MIDNIGHT)}})
    assert file.read() == {"a": {"rpd": Spent(2, MIDNIGHT)}}


def test_one_at_a_time(path: Path, file: LimitsFile) -> None:
    with pytest.raises(LimitsFileTaken, match=r"another process keeps its limits in .*limits\.json: give each its own"):
        LimitsFile(path)
    file.write({})  # which puts another file in the place of the first
    with pytest.raises(LimitsFileTaken):
        LimitsFile(path)
    file.close()
    LimitsFile(path).close()
