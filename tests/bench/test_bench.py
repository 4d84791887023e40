"""The benchmark itself: it starts and ends its processes, reads every reply and counts CPU time."""

import re
import sys
from collections import Counter
from pathlib import Path

import orjson
import pytest
import uvloop

from tests.bench.backend import Script, canned
from tests.bench.content import PHASES, Phase, Wire, conversation, digest_of, reply
from tests.bench.load import ReplyError, verify
from tests.bench.measure import measure, rows_of
from tests.bench.report import as_json, table
from tests.bench.targets import started
from tests.bench.wires import WIRES


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_floor_alone_gives_positive_figures_and_leaves_no_process() -> None:
    with started(proxied=[]) as targets:
        pids = [targets.floor.pid, targets.events_floor.pid]
        rows = rows_of(targets, pairs=[])
        figures = uvloop.run(measure(rows, rounds=1, requests=32))
        printed, written = table(rows, figures), as_json(rows, figures)
    assert [row["label"] for row in written["rows"]] == [
        f"{floor} {protocol}" for floor in ("floor", "events-floor") for protocol in WIRES
    ]
    assert all(sample.cpu_ns > 0 and sample.rss_kb > 0 for [sample] in figures.samples.values())
    assert all(len(line) == len(printed.splitlines()[0]) for line in printed.splitlines())
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)
def test_a_reply_that_is_cut_or_changed_stops_the_run(wire: Wire, phase: Phase) -> None:
    whole = canned(wire, phase)
    verify(wire, phase, Counter([whole]))
    word = max(re.findall("[a-z]+", reply(phase).text), key=len).encode()
    for wrong in (whole[:-40], whole.replace(word, word.upper(), 1)):
        with pytest.raises(ReplyError):
            verify(wire, phase, Counter([wrong]))


@pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)
def test_the_backend_refuses_a_request_that_lost_a_tool(wire: Wire) -> None:
    body = wire.write_request(conversation("agent"))
    script = Script(wire)
    assert script.answer(wire.path, orjson.dumps(body)).startswith(b"HTTP/1.1 200 ")
    body["tools"].pop()
    assert Script(wire).answer(wire.path, orjson.dumps(body)).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("phase", PHASES)
def test_all_protocols_carry_the_same_conversation(phase: Phase) -> None:
    expected = digest_of(conversation(phase))
    for wire in WIRES.values():
        assert wire.digest_request(wire.write_request(conversation(phase))) == expected
