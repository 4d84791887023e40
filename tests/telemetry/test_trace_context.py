"""W3C trace context, read strictly."""

import re

import pytest

from proxy.telemetry.trace_context import TraceContext, begin, continued, read_state

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"


@pytest.mark.parametrize(
    "traceparent",
    [
        f"00-{TRACE}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-ff",
        f"01-{TRACE}-{PARENT}-01",
        f"cc-{TRACE}-{PARENT}-01-what-the-future-brings",
    ],
)
def test_a_valid_trace_is_continued(traceparent: str) -> None:
    assert continued(traceparent, (), believed=True).trace == TRACE


@pytest.mark.parametrize(
    "traceparent",
    [
        "",
        f"00-{TRACE}-{PARENT}",
        f"00-{TRACE}-{PARENT}-01-more",
        f"00-{TRACE.upper()}-{PARENT}-01",
        f"ff-{TRACE}-{PARENT}-01",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"cc-{TRACE}-{PARENT}-01.more",
        f" 00-{TRACE}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-01\n",
    ],
)
def test_an_invalid_one_is_replaced(traceparent: str) -> None:
    made = continued(traceparent, ["a=b"], believed=True)
    assert re.fullmatch(r"[0-9a-f]{32}", made.trace)
    assert (made.trace != TRACE, made.parent, made.sampled, made.state) == (True, None, None, ())


@pytest.mark.parametrize(
    ("flags", "believed", "sampled", "random"),
    [("00", True, False, False), ("01", True, True, False), ("ff", True, True, True), ("03", False, None, True)],
)
def test_flags_are_read_one_by_one(flags: str, believed: bool, sampled: bool | None, random: bool) -> None:
    read = continued(f"00-{TRACE}-{PARENT}-{flags}", (), believed=believed)
    assert read == TraceContext(TRACE, PARENT, sampled, random)


def test_what_goes_on_names_the_span_that_asks_and_knows_two_flags() -> None:
    read = continued(f"00-{TRACE}-{PARENT}-ff", ["a=1, b=2", "c@d=3"], believed=True)
    assert read.headers("1" * 16, sampled=True) == {
        "traceparent": f"00-{TRACE}-{'1' * 16}-03",
        "tracestate": "a=1,b=2,c@d=3",
    }
    assert read.headers(None, sampled=False)["traceparent"] == f"00-{TRACE}-{PARENT}-02"
    new = begin()
    assert re.fullmatch(rf"00-{new.trace}-[0-9a-f]{{16}}-02", new.headers(None, sampled=False)["traceparent"])


@pytest.mark.parametrize(
    "state",
    ["a", "A=1", "a=1,a=2", "a=" + "x" * 257, "a=b=c", "a=é", ",".join(f"k{n}=1" for n in range(33)), "a=1," * 3000],
)
def test_a_malformed_state_is_left_out(state: str) -> None:
    assert read_state([state]) == ()


def test_a_long_state_loses_its_long_members_and_then_those_at_the_right() -> None:
    long, short = f"long={'x' * 150}", [f"k{number}={'y' * 90}" for number in range(9)]
    kept = read_state([",".join([short[0], long, *short[1:]])])
    assert [key for key, _ in kept] == ["k0", "k1", "k2", "k3", "k4"]
    assert len(",".join(f"{key}={value}" for key, value in kept)) <= 512
