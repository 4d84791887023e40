"""Rate-limit headers of one vendor's family in the other's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.server.rate_limits import (
    Family,
    parse_duration,
    read_retry_after,
    reset_of,
    translate,
    write_duration,
    write_retry_after,
)

NOW = 1_796_000_000.0  # 2026-11-30T00:53:20Z


def test_openais_become_anthropics() -> None:
    told = {
        "x-ratelimit-limit-requests": "500",
        "x-ratelimit-remaining-requests": "499",
        "x-ratelimit-reset-requests": "120ms",
        "x-ratelimit-limit-tokens": "30000",
        "x-ratelimit-remaining-tokens": "29000",
        "x-ratelimit-reset-tokens": "6m0s",
    }
    assert translate(told, "openai", "anthropic", NOW) == [
        ("anthropic-ratelimit-requests-limit", "500"),
        ("anthropic-ratelimit-requests-remaining", "499"),
        ("anthropic-ratelimit-requests-reset", "2026-11-30T00:53:21Z"),
        ("anthropic-ratelimit-tokens-limit", "30000"),
        ("anthropic-ratelimit-tokens-remaining", "29000"),
        ("anthropic-ratelimit-tokens-reset", "2026-11-30T00:59:20Z"),
    ]


def test_anthropics_become_openais() -> None:
    told = {
        "anthropic-ratelimit-requests-limit": "50",
        "anthropic-ratelimit-requests-remaining": "49",
        "anthropic-ratelimit-requests-reset": "2026-11-30T00:53:21.5Z",
        "anthropic-ratelimit-tokens-limit": "80000",
        "anthropic-ratelimit-tokens-remaining": "80000",
        "anthropic-ratelimit-tokens-reset": "2026-11-30T00:00:00Z",
        "anthropic-ratelimit-input-tokens-limit": "1",
        "anthropic-ratelimit-unified-status": "allowed",
    }
    assert translate(told, "anthropic", "openai", NOW) == [
        ("x-ratelimit-limit-requests", "50"),
        ("x-ratelimit-remaining-requests", "49"),
        ("x-ratelimit-reset-requests", "1.5s"),
        ("x-ratelimit-limit-tokens", "80000"),
        ("x-ratelimit-remaining-tokens", "80000"),
        ("x-ratelimit-reset-tokens", "0s"),
    ]


def test_the_tighter_of_input_and_output_stands_for_all_tokens() -> None:
    told = {
        "anthropic-ratelimit-input-tokens-limit": "1000",
        "anthropic-ratelimit-input-tokens-remaining": "900",
        "anthropic-ratelimit-output-tokens-limit": "100",
        "anthropic-ratelimit-output-tokens-remaining": "10",
        "anthropic-ratelimit-output-tokens-reset": "2026-11-30T01:53:20Z",
    }
    assert translate(told, "anthropic", "openai", NOW) == [
        ("x-ratelimit-limit-tokens", "100"),
        ("x-ratelimit-remaining-tokens", "10"),
        ("x-ratelimit-reset-tokens", "1h0m0s"),
    ]


def test_what_is_not_told_is_not_made_up() -> None:
    assert translate({"x-ratelimit-remaining-tokens": "7"}, "openai", "anthropic", NOW) == [
        ("anthropic-ratelimit-tokens-remaining", "7")
    ]
    assert translate({}, "anthropic", "openai", NOW) == []


@given(
    st.dictionaries(
        st.sampled_from(
            [f"x-ratelimit-{kind}-tokens" for kind in ("limit", "remaining", "reset")]
            + [
                f"anthropic-ratelimit-{unit}-{kind}"
                for unit in ("tokens", "input-tokens", "output-tokens")
                for kind in ("limit", "remaining", "reset")
            ]
        ),
        st.text(max_size=40)
        | st.sampled_from(["9" * 5000, "99999999h", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"]),
    ),
    st.sampled_from(["openai", "anthropic"]),
)
def test_nothing_that_a_backend_says_breaks_it(told: dict[str, str], source: Family) -> None:
    target: Family = "anthropic" if source == "openai" else "openai"
    translate(told, source, target, NOW)
    reset_of(told, source, NOW)
    read_retry_after({"retry-after": told.get("x-ratelimit-reset-tokens", "")}, NOW)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("6m0s", 360.0),
        ("1s", 1.0),
        ("120ms", 0.12),
        ("1h2m3.5s", 3723.5),
        ("1d", 86400.0),
        ("250µs", 0.00025),
        ("17", 17.0),
        ("1.5", 1.5),
        ("", None),
        ("soon", None),
        ("1s later", None),
        ("-1s", None),
    ],
)
def test_durations_are_read(text: str, seconds: float | None) -> None:
    assert parse_duration(text) == pytest.approx(seconds) if seconds is not None else parse_duration(text) is None


@given(st.integers(0, 10**9))
def test_a_duration_reads_as_it_was_written(milliseconds: int) -> None:
    assert parse_duration(write_duration(milliseconds / 1000)) == pytest.approx(milliseconds / 1000)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        ({"retry-after": "Mon, 30 Nov 2026 00:53:30 GMT"}, 10.0),
        ({"retry-after": "Mon, 30 Nov 2026 00:00:00 GMT"}, 0.0),
        ({"retry-after": "tomorrow"}, None),
        ({"retry-after": "-1"}, None),
        ({}, None),
    ],
)
def test_how_long_to_wait_is_read_from_either_header(headers: dict[str, str], seconds: float | None) -> None:
    assert read_retry_after(headers, NOW) == seconds


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (7, {"retry-after": "7", "retry-after-ms": "7000"}),
        (0.2, {"retry-after": "1", "retry-after-ms": "200"}),
        (120, {"retry-after": "120", "retry-after-ms": "120000"}),
        (7200, {"retry-after": "120", "retry-after-ms": "120000", "dragoman-retry-after": "7200"}),
    ],
)
def test_both_headers_are_written_and_never_more_than_sdks_accept(seconds: float, told: dict[str, str]) -> None:
    assert dict(write_retry_after(seconds)) == told


def test_the_slowest_limit_that_is_used_up_says_how_long_to_wait() -> None:
    told = {
        "anthropic-ratelimit-requests-remaining": "5",
        "anthropic-ratelimit-requests-reset": "2026-11-30T02:00:00Z",
        "anthropic-ratelimit-input-tokens-remaining": "0",
        "anthropic-ratelimit-input-tokens-reset": "2026-11-30T00:53:50Z",
        "anthropic-ratelimit-output-tokens-remaining": "0",
        "anthropic-ratelimit-output-tokens-reset": "2026-11-30T00:53:40Z",
    }
    assert reset_of(told, "anthropic", NOW) == 30.0
