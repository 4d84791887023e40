"""Ids of requests."""

import uuid

import pytest

from proxy.server.ids import client_id, request_id

DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"


def test_a_request_id_is_a_uuid_of_version_7_in_base_32() -> None:
    made = request_id()
    number = 0
    for digit in made.removeprefix("req_"):
        number = number * 32 + DIGITS.index(digit)
    read = uuid.UUID(int=number)
    assert (len(made), read.version, read.variant) == (30, 7, uuid.RFC_4122)


def test_request_ids_sort_by_the_time_they_were_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for nanoseconds in (1_700_000_000_000_000_000, 1_700_000_000_001_000_000, 1_900_000_000_000_000_000):
        monkeypatch.setattr("time.time_ns", lambda now=nanoseconds: now)
        made.append(request_id())
    assert made == sorted(made)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("my-id_1:2/3", "my-id_1:2/3"),
        ("x" * 128, "x" * 128),
        ("x" * 129, None),
        ("", None),
        (None, None),
        ("two words", None),
        ("naïve", None),
        ("a\tb", None),
    ],
)
def test_a_clients_id_is_kept_only_as_visible_ascii(text: str | None, kept: str | None) -> None:
    assert client_id(text) == kept
