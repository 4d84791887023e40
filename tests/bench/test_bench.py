"""The benchmark itself: it starts and ends its processes, reads every reply and counts CPU time."""

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import get_args

import orjson
import pytest
import uvloop

from tests.bench import litellm
from tests.bench.backend import Script, canned, pieces_of, streamed_answer
from tests.bench.content import Phase, Reply, Wire, digest_of
from tests.bench.conversations import CARRIERS, conversation, replies_of_turns, reply
from tests.bench.figures import Figures, FirstBytes, Row, Sample, Start
from tests.bench.goals import verdicts
from tests.bench.load import ReplyError, verify
from tests.bench.measure import FIRST_BYTE, START, in_turn, measure
from tests.bench.report import as_json, noise, table, verdict_table
from tests.bench.targets import REPOSITORY, Target, proxy, started
from tests.bench.wires import WIRES

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
ALL_PHASES: tuple[Phase, ...] = get_args(Phase)


@linux_only
def test_the_floors_alone_give_positive_figures_and_leave_no_process() -> None:
    with started(proxied=[]) as targets:
        pids = [target.pid for target in (*targets.floors.values(), *targets.backends.values())]
        figures = uvloop.run(measure(targets, [], rounds=1, requests=32, parts=("small", "agent", "burst")))
        printed, written = table(figures), as_json(figures)
    assert [row["label"] for row in written["rows"]] == [
        f"{floor} {protocol}" for floor in ("floor", "plain", "events-floor") for protocol in WIRES
    ]
    assert all(sample.cpu_ns > 0 and sample.rss_kb > 0 for [sample] in figures.samples.values())
    assert {len(line) for line in printed.splitlines() if line} == {len(printed.splitlines()[0])}
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


@linux_only
def test_one_pair_in_every_part_of_a_run() -> None:
    """The proxy makes the carriers itself, and 20 streams whose events come 10 ms apart take their time."""
    with started(proxied=["messages"]) as targets:
        parts = ("carriers", "paced", FIRST_BYTE, START)
        figures = uvloop.run(measure(targets, [("chat", "messages")], rounds=1, requests=32, parts=parts))
        written = as_json(figures)
    carried = {row["label"] for row in written["rows"] if "carriers" in row["phases"]}
    assert carried == {"floor chat>messages", "chat>messages"}
    [paced] = figures.samples["chat>messages", "paced"]
    assert paced.wall_s > 0.99
    assert paced.backend_ns > 0
    assert paced.load_ns > 0
    [waits] = figures.first_bytes["chat>messages"]
    assert min(waits.proxied_ms) > min(waits.direct_ms) > 0
    [start] = figures.starts
    assert start.ready_s > 0.05
    assert start.rest_kb > 10_000
    assert start.open_kb > start.warm_kb
    assert [verdict["work"].split(",")[0] for verdict in written["verdicts"]] == [
        "the same with ten sealed carriers",
        "stream event each 10 ms",
        "time to first byte",
        "memory of a worker at rest",
        "memory of an open stream",
        "start to ready",
    ]


@linux_only
def test_a_peer_is_timed_with_fewer_requests_and_told_by_its_factor() -> None:
    """The peer is the proxy itself, which is not fifty times slower than the proxy."""

    @contextmanager
    def itself(protocol: str, upstream: str, scratch: Path) -> Iterator[Target]:
        with proxy("peer", protocol, upstream, scratch) as target:
            yield replace(target, name="peer", slowness=4, is_peer=True)

    with started(["messages"], itself) as targets:
        figures = uvloop.run(measure(targets, [("responses", "messages")], rounds=1, requests=128, parts=("small",)))
    [own], [peer] = (figures.samples[label, "small"] for label in ("responses>messages", "peer responses>messages"))
    assert (own.requests, peer.requests) == (128, 32)
    [verdict] = [verdict for verdict in verdicts(figures) if verdict.work == "peer: small"]
    assert 0.1 < verdict.worst < 10
    assert not verdict.met


def test_litellm_is_told_where_each_backend_is_and_asks_nobody_else() -> None:
    for protocol in WIRES:
        read = orjson.loads(litellm.config_of(protocol, "http://127.0.0.1:9"))
        assert {model["model_name"] for model in read["model_list"]} == {"bench-small", "bench-agent", "bench-burst"}
        assert all(model["litellm_params"]["api_base"].startswith("http://127.0.0.1:9") for model in read["model_list"])


@linux_only
def test_the_command_prints_its_verdicts_and_keeps_every_sample(tmp_path: Path) -> None:
    kept = tmp_path / "new" / "run.json"
    command = [sys.executable, "-m", "tests.bench", "--quick", "--only", "arguments", "--pairs", "chat>responses"]
    ended = subprocess.run([*command, "--json", str(kept)], capture_output=True, text=True, cwd=REPOSITORY, check=True)
    assert "| stream event in a burst: tool arguments |" in ended.stdout
    assert "load average" in ended.stdout
    rounds = {
        row["label"]: row["phases"]["arguments"]["rounds"]
        for row in orjson.loads(kept.read_bytes())["rows"]
        if row["phases"]
    }
    assert set(rounds) == {"events-floor chat", "events-floor responses", "chat>responses"}
    assert all(len(samples) == 1 for samples in rounds.values())


@pytest.mark.parametrize("phase", ALL_PHASES)
@pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)
def test_a_reply_that_is_cut_or_changed_stops_the_run(wire: Wire, phase: Phase) -> None:
    whole = canned(wire, phase)
    verify(wire, phase, Counter([whole]))
    word = word_in(reply(phase))
    for wrong in (whole[:-40], whole.replace(word, word.upper(), 1)):
        with pytest.raises(ReplyError):
            verify(wire, phase, Counter([wrong]))


def word_in(said: Reply) -> bytes:
    """One that no protocol's own names hold."""
    if said.splits > 1 and said.call:
        pieces = said.argument_pieces(json.dumps(said.call.arguments))
    else:
        pieces = list(said.thoughts or said.pieces)
    words: list[str] = [word for piece in pieces for word in re.findall("[a-z]+", piece)]
    return max((word for word in words if word not in ("index", "schema", "token", "stream")), key=len).encode()


def test_a_peer_may_cut_its_stream_in_other_pieces_but_not_change_what_it_says() -> None:
    wire = WIRES["chat"]
    first, second, *rest = reply("burst").pieces
    merged, changed = (
        Counter([streamed_answer(wire.write_stream(Reply((start, *rest))))]) for start in (first + second, "else ")
    )
    verify(wire, "burst", merged, loosely=True)
    for replies, loosely in ((merged, False), (changed, True)):
        with pytest.raises(ReplyError):
            verify(wire, "burst", replies, loosely=loosely)


@pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)
def test_the_backend_refuses_a_request_that_lost_a_tool(wire: Wire) -> None:
    body = wire.write_request(conversation("agent"))
    assert status_of(wire, body) == 200
    body["tools"].pop()
    assert status_of(wire, body) == 400


@pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)
def test_the_backend_refuses_a_history_that_lost_its_reasoning(wire: Wire) -> None:
    """What it gets back here is what it sent, as a client of its own protocol keeps it."""
    said = [each for each in replies_of_turns() if each.thoughts]
    assert len(said) == CARRIERS
    kept = [wire.keep(wire.write_reply(each)) for each in replies_of_turns()]
    turns = iter(kept)
    history = tuple(next(turns) if getattr(turn, "call", None) else turn for turn in conversation("turn").turns)
    talk = conversation("carriers")
    whole = type(talk)(talk.model, talk.system, history, talk.tools, talk.stream, talk.thinks)
    assert status_of(wire, wire.write_request(whole)) == 200
    assert status_of(wire, wire.write_request(talk)) == 400


def status_of(wire: Wire, body: object) -> int:
    answer = Script(wire).answer(wire.path, orjson.dumps(body))
    return int((answer if isinstance(answer, bytes) else answer[0])[9:12])


@pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)
def test_a_paced_stream_is_the_same_in_pieces_of_an_event(wire: Wire) -> None:
    pieces = pieces_of(canned(wire, "paced"))
    assert b"".join(pieces) == canned(wire, "paced")
    assert len(pieces) > len(reply("paced").pieces)


@pytest.mark.parametrize("phase", ALL_PHASES)
def test_all_protocols_carry_the_same_conversation(phase: Phase) -> None:
    expected = digest_of(conversation(phase))
    for wire in WIRES.values():
        assert wire.digest_request(wire.write_request(conversation(phase))) == expected


def test_the_worst_pair_decides_and_a_peer_has_to_be_slower_by_far() -> None:
    floor, own = Target("floor", 1, 1), Target("proxy", 2, 2, "messages")
    peer = Target("litellm", 3, 3, "messages", is_peer=True)
    rows = [
        *(Row(floor, protocol, protocol, ("small",)) for protocol in WIRES),
        *(Row(target, client, "messages", ("small",)) for client in ("chat", "responses") for target in (own, peer)),
    ]
    figures = Figures(rows)
    costs = {
        "floor": [10, 20],
        "chat>messages": [15, 31],
        "responses>messages": [17, 35],
        "litellm": [800, 2_000],
        "litellm responses>messages": [800, 1_600],
    }
    for row in rows:
        spent = costs.get(row.label) or costs[row.target.name]
        figures.samples[row.label, "small"] = [Sample(1000, 1000, each * 1_000_000, 0, 1, 1.0) for each in spent]
    found = {verdict.work: verdict for verdict in verdicts(figures)}
    small = found["small request, 1 KB"]
    assert small.worst == pytest.approx((17 / 10 + 35 / 20) / 2)
    assert not small.met
    assert "responses>messages" in small.measured
    peers = found["litellm: small"]
    assert peers.worst == pytest.approx((800 / 17 + 1_600 / 35) / 2)
    assert not peers.met
    assert "litellm responses>messages" in peers.measured


def test_what_is_not_met_is_said_so() -> None:
    figures = Figures([], loads=[0.5, 3.5])
    figures.first_bytes["chat>messages"] += [FirstBytes([1.0, 1.1, 9.0], [1.3, 1.4, 1.5])]
    opened = {"chat>messages": [30, 31, 70], "chat>responses": [38, 44]}  # KB a stream
    figures.starts += [
        Start(pair, 0.9, 76 * 1024, 80_000, 1_000, 80_000 + 1_000 * each) for pair in opened for each in opened[pair]
    ]
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in verdict_table(verdicts(figures)).splitlines()]
    assert [(line[0], line[5]) for line in lines[2:]] == [
        ("time to first byte, one client", "yes"),
        ("memory of a worker at rest", "**no**"),
        ("memory of an open stream, of 1,000", "**no**"),
        ("start to ready", "**no**"),
    ]
    assert lines[4][3] == "31.0 to 41.0 KB (chat>responses)"
    assert "0.5 to 3.5" in noise(figures)


def test_every_pair_has_its_turn_to_be_started() -> None:
    pairs = [("chat", "messages"), ("chat", "responses"), ("messages", "chat")]
    assert [in_turn(pairs, number, 2) for number in range(3)] == [pairs[:2], [pairs[2], pairs[0]], pairs[1:]]
    assert in_turn(pairs[:1], 4, 2) == pairs[:1]
    assert in_turn([], 0, 2) == []
