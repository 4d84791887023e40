"""Lines of JSON: collected, and without secrets even in tracebacks."""

import asyncio
import json
import logging

import pytest

from proxy.telemetry import logs
from proxy.telemetry.logs import AccessLog, configure_messages, write_stdout
from proxy.telemetry.scrubber import Scrubber
from proxy.telemetry.text_lines import text_line


async def test_records_are_written_together_and_soon() -> None:
    written: list[bytes] = []
    access = AccessLog(written.append)
    access.record({"a": 1})
    access.record({"b": "ü\n"})
    assert written == []
    access.flush()
    assert written == ['{"a":1}\n{"b":"ü\\n"}\n'.encode()]
    access.flush()
    assert len(written) == 1


async def test_a_record_does_not_wait_for_others_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_FLUSH_AFTER", 0.0)
    done = asyncio.Event()
    access = AccessLog(lambda _lines: done.set())
    access.record({"a": 1})
    await asyncio.wait_for(done.wait(), 5)


async def test_many_records_don_t_pile_up() -> None:
    written: list[bytes] = []
    access = AccessLog(written.append)
    for _ in range(100):
        access.record({"text": "x" * 1000})
    access.flush()
    assert len(written) == 2


def test_messages_and_tracebacks_hold_no_secret(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    configure_messages(Scrubber(["a-known-secret"]))
    try:
        try:
            int("a-known-secret")
        except ValueError:
            logging.getLogger("somewhere").exception("failed with %s", "sk-abcdefgh12345678")
    finally:
        root.handlers[:] = before
        root.setLevel(level)
    line = json.loads(capsysbinary.readouterr().out)
    assert (line["level"], line["log"], line["logger"], line["message"]) == (
        "error",
        "app",
        "somewhere",
        "failed with [secret]",
    )
    assert line["traceback"].endswith("base 10: '[secret]'")


def test_a_reader_that_has_gone_does_not_stop_the_proxy() -> None:
    class Gone:
        def write(self, _lines: bytes) -> int:
            raise BrokenPipeError

        def flush(self) -> None: ...

    write_stdout(b"line", Gone())  # type: ignore[arg-type]


def test_a_line_for_people_is_one_line_whatever_it_holds() -> None:
    fields = {
        "ts": "T",
        "level": "info",
        "log": "access",
        "model": "a b\nts=forged",
        "ms": {"total": 1.5},
        "losses": ["seed", "n"],
        "stream": True,
        "reason": None,
    }
    assert text_line(fields) == b'T INFO access model="a b\\nts=forged" ms.total=1.5 losses=seed,n stream=yes\n'
    message = {"ts": "T", "level": "error", "log": "app", "logger": "x", "message": "No\x1b[1m.", "traceback": "A\nB"}
    assert text_line(message) == b"T ERROR app No\\x1b[1m. logger=x\n    A\n    B\n"


async def test_records_can_be_lines_for_people() -> None:
    written: list[bytes] = []
    access = AccessLog(written.append, text_line)
    access.record({"ts": "T", "level": "info", "log": "access", "status": 200})
    access.flush()
    assert written == [b"T INFO access status=200\n"]
