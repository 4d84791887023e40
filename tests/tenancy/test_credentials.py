"""What headers present, in all the ways that clients send keys."""

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from proxy.canonical.errors import Reason
from proxy.tenancy.credentials import Presented, presented
from proxy.tenancy.keys import AuthFailure, new_key

ONE, OTHER = (new_key(None).text for _ in range(2))
DISAGREE = AuthFailure(Reason.AUTH_UNKNOWN)
MISSING = AuthFailure(Reason.AUTH_MISSING)


def bearer(key: str) -> tuple[str, str]:
    return "Authorization", f"Bearer {key}"


def read(*lines: tuple[str, str], also: tuple[str, ...] = ()) -> Presented | AuthFailure:
    return presented(CIMultiDictProxy(CIMultiDict(lines)), also)


@pytest.mark.parametrize(
    "lines",
    [
        [bearer(ONE)],
        [("X-API-Key", ONE)],
        [("api-key", ONE)],
        [("AUTHORIZATION", f"bEARER   {ONE} ")],
        [("x-api-key", f"  {ONE}\t")],
        [bearer(ONE), ("x-api-key", ONE)],
        [bearer(ONE), ("x-api-key", ONE), ("api-key", ONE)],
        [bearer(ONE), bearer(ONE)],
        [("x-api-key", ONE), ("x-api-key", ONE)],
        [("x-api-key", ""), bearer(ONE)],
        [("x-api-key", ONE), bearer("")],
        [("Authorization", "Basic dXNlcjpwdw=="), ("x-api-key", ONE)],
    ],
)
def test_one_key_however_it_comes(lines: list[tuple[str, str]]) -> None:
    assert read(*lines) == Presented(ONE)


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [bearer("")],
        [("Authorization", "Bearer")],
        [("Authorization", ONE)],
        [("Authorization", f"Basic {ONE}")],
        [("x-api-key", " ")],
        [("cookie", f"key={ONE}")],
        [("x-goog-api-key", ONE)],
    ],
)
def test_no_key(lines: list[tuple[str, str]]) -> None:
    assert read(*lines) == MISSING


@pytest.mark.parametrize(
    "lines",
    [
        [bearer(ONE), ("x-api-key", OTHER)],
        [("x-api-key", ONE), ("api-key", OTHER)],
        [bearer(ONE), bearer(OTHER)],
        [("x-api-key", ONE), ("x-api-key", OTHER)],
        [bearer(ONE), ("x-api-key", ONE), ("api-key", ONE), ("api-key", OTHER)],
        # One header can't be both.
        [("x-api-key", ONE), ("x-api-key", "sk-mine")],
        [bearer("sk-mine"), bearer(ONE)],
        [bearer(ONE), ("x-api-key", ONE), ("x-api-key", "sk-mine")],
        # Two foreign ones.
        [bearer("sk-mine"), ("x-api-key", "sk-other")],
        [bearer("sk-mine"), bearer("sk-other")],
        [bearer(ONE), ("x-api-key", "sk-mine"), ("api-key", "sk-other")],
        [bearer(ONE), ("x-api-key", "sk-mïne")],
    ],
)
def test_keys_that_disagree(lines: list[tuple[str, str]]) -> None:
    assert read(*lines) == DISAGREE
    assert read(*reversed(lines)) == DISAGREE


def test_a_foreign_key_is_told_apart() -> None:
    assert read(bearer("sk-mine")) == Presented(None, {"authorization": "sk-mine"})
    assert read(("X-Api-Key", "sk-mine")) == Presented(None, {"x-api-key": "sk-mine"})
    assert read(("X-Api-Key", ONE), bearer("sk-mine")) == Presented(ONE, {"authorization": "sk-mine"})
    twice = read(bearer("sk-mine"), ("api-key", "sk-mine"), ("api-key", "sk-mine"))
    assert twice == Presented(None, {"authorization": "sk-mine", "api-key": "sk-mine"})


@pytest.mark.parametrize("wrong", [ONE[:-1], ONE.upper(), "drg_", f"{ONE}, Bearer sk-mine"], ids="abcd")
def test_one_of_ours_with_a_mistake_is_not_taken_for_foreign(wrong: str) -> None:
    assert read(bearer(wrong)) == Presented(wrong)
    assert read(bearer(wrong), ("x-api-key", ONE)) == DISAGREE


def test_a_header_that_only_brings_foreign_keys() -> None:
    also = ("x-vendor-key", "authorization")
    assert read(bearer(ONE), ("X-Vendor-Key", " v "), also=also) == Presented(ONE, {"x-vendor-key": "v"})
    assert read(("X-Vendor-Key", "v"), also=also) == Presented(None, {"x-vendor-key": "v"})
    assert read(("X-Vendor-Key", "v")) == MISSING
    assert read(bearer(ONE), ("X-Vendor-Key", " "), also=also) == Presented(ONE)
    assert read(bearer(ONE), ("X-Vendor-Key", ONE), also=also) == DISAGREE
    assert read(("X-Vendor-Key", "v"), ("X-Vendor-Key", "w"), also=also) == DISAGREE


def test_no_key_is_shown() -> None:
    shown = repr(read(("X-Api-Key", ONE), bearer("sk-mine")))
    assert ONE not in shown
    assert "sk-mine" not in shown
