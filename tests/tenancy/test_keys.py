"""A key is known by its form, belongs to one tenant, and costs the same to look up whatever it is."""

import string
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.canonical.errors import Reason
from proxy.settings.tenants import Tenant, TenantKey, UpstreamKeys
from proxy.tenancy import keys
from proxy.tenancy.keys import (
    AuthFailure,
    Found,
    KeyRing,
    NewKey,
    check,
    digest,
    flaw,
    new_key,
    own_key,
    parse,
    state_of,
)

PEPPER = b"a pepper of enough length"
NOW = 1_800_000_000.0


def key_of(new: NewKey, not_before: float | None = None, expires_at: float | None = None) -> TenantKey:
    method, _, hexed = new.hash.partition(":")
    return TenantKey(
        new.kid, "sha256" if method == "sha256" else "hmac-sha256", bytes.fromhex(hexed), not_before, expires_at
    )


@given(st.sampled_from([None, PEPPER]))
def test_a_new_key_has_its_form(pepper: bytes | None) -> None:
    new = new_key(pepper)
    parsed = parse(new.text)
    assert parsed is not None
    assert (len(new.text), len(parsed.secret), parsed.kid, new.text[:17]) == (67, 43, new.kid, f"drg_{new.kid}_")
    method: keys.Method = "sha256" if pepper is None else "hmac-sha256"
    assert new.hash == f"{method}:{digest(method, parsed.secret, pepper).hex()}"
    assert flaw(new.text) is None


def test_no_two_keys_are_alike() -> None:
    made = [new_key(None) for _ in range(200)]
    assert len({new.kid for new in made}) == len({new.text for new in made}) == len({new.hash for new in made}) == 200


@given(st.integers(0, 66), st.sampled_from(string.printable + "ſé漢\ud800"))
def test_one_wrong_character_anywhere_is_told_from_an_unknown_key(at: int, character: str) -> None:
    text = new_key(None).text
    wrong = text[:at] + character + text[at + 1 :]
    assert (parse(wrong) is None) == (wrong != text)
    assert (flaw(wrong) in ("malformed", "mistyped")) == (wrong != text)


@given(st.integers(0, 65))
def test_two_characters_that_changed_places_are_told(at: int) -> None:
    text = new_key(None).text
    wrong = text[:at] + text[at + 1] + text[at] + text[at + 2 :]
    assert (flaw(wrong) is not None) == (wrong != text)


@given(st.text(max_size=80) | st.text("drg_0aA-", min_size=60, max_size=70))
def test_any_other_text_is_malformed(text: str) -> None:
    assert parse(text) is None
    assert flaw(text) is not None


def test_what_is_wrong_with_a_key() -> None:
    text = new_key(None).text
    middle = "A" if text[30] != "A" else "B"
    wrong = [text[:-1], text + "\n", " " + text, text.upper(), text.replace("drg_", "sk-_"), ""]
    assert [flaw(one) for one in wrong] == ["malformed"] * 6
    assert flaw(text[:30] + middle + text[31:]) == "mistyped"


def test_a_digest_with_a_pepper_needs_one() -> None:
    with pytest.raises(ValueError, match="needs a pepper"):
        digest("hmac-sha256", "secret", None)


@pytest.mark.parametrize("pepper", [None, PEPPER])
def test_a_key_is_found_with_its_tenant(pepper: bytes | None) -> None:
    first, second, other = new_key(pepper), new_key(pepper), new_key(pepper)
    team = Tenant("team", keys=(key_of(first), key_of(second)))
    rest = Tenant("rest", keys=(key_of(other),))
    ring = KeyRing([team, rest], pepper)
    assert ring.find(first.text) == Found(team, team.keys[0])
    assert ring.find(second.text) == Found(team, team.keys[1])
    assert ring.find(other.text) == Found(rest, rest.keys[0])


def test_who_has_no_key_gets_one_answer() -> None:
    mine, theirs = new_key(None), new_key(None)
    ring = KeyRing([Tenant("team", keys=(key_of(mine),))], None)
    assert ring.find(theirs.text) == AuthFailure(Reason.AUTH_UNKNOWN, theirs.kid)
    assert ring.find("sk-proj-something") == AuthFailure(Reason.AUTH_UNKNOWN, None)
    assert ring.find(forged(mine)) == AuthFailure(Reason.AUTH_UNKNOWN, mine.kid)


def forged(new: NewKey) -> str:
    """A key of the same `kid` with another secret."""
    head = f"drg_{new.kid}_{'A' * 43}"
    return f"{head}_{keys._checksum(head)}"


def test_a_hash_with_a_pepper_matches_nothing_without_it() -> None:
    new = new_key(PEPPER)
    team = Tenant("team", keys=(key_of(new),))
    assert KeyRing([team], None).find(new.text) == AuthFailure(Reason.AUTH_UNKNOWN, new.kid)
    assert KeyRing([team], b"another pepper than that").find(new.text) == AuthFailure(Reason.AUTH_UNKNOWN, new.kid)


def test_keys_of_both_methods_live_side_by_side() -> None:
    old, new = new_key(None), new_key(PEPPER)
    team = Tenant("team", keys=(key_of(old), key_of(new)))
    ring = KeyRing([team], PEPPER)
    assert [ring.find(one.text) for one in (old, new)] == [Found(team, key) for key in team.keys]


def test_one_kid_may_have_two_hashes() -> None:
    new = new_key(None)
    right = key_of(new)
    wrong = replace(right, digest=bytes(32))
    for order in ((right, wrong), (wrong, right)):
        team = Tenant("team", keys=order)
        assert KeyRing([team], None).find(new.text) == Found(team, right)


@pytest.fixture
def digests(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The methods of all digests that are made."""
    made: list[str] = []
    real = keys.digest

    def counted(method: keys.Method, secret: str, pepper: bytes | None) -> bytes:
        made.append(method)
        return real(method, secret, pepper)

    monkeypatch.setattr(keys, "digest", counted)
    return made


@pytest.mark.parametrize("size", [10, 10_000])
def test_a_look_up_digests_as_much_for_any_key_and_any_number_of_tenants(size: int, digests: list[str]) -> None:
    mine, peppered, expired, unknown = new_key(None), new_key(PEPPER), new_key(PEPPER), new_key(PEPPER)
    others = [Tenant(f"t{n}", keys=(TenantKey(f"k{n:011}", "sha256", bytes(32)),)) for n in range(size)]
    held = (key_of(mine), key_of(peppered), key_of(expired, expires_at=NOW - 999))
    ring = KeyRing([*others, Tenant("team", keys=held)], PEPPER)
    mistyped = mine.text[:-1] + ("a" if mine.text[-1] != "a" else "b")
    for presented in (mine.text, peppered.text, expired.text, unknown.text, forged(mine), mistyped, "", "sk-x"):
        digests.clear()
        ring.find(presented)
        assert digests == ["hmac-sha256", "sha256"]


def test_a_ring_without_keys_digests_too(digests: list[str]) -> None:
    assert KeyRing([], None).find("x") == AuthFailure(Reason.AUTH_UNKNOWN)
    assert digests == ["sha256"]


@pytest.mark.parametrize(
    ("tenant", "key", "state"),
    [
        ({}, {}, "active"),
        ({"disabled": True}, {}, "tenant disabled"),
        ({"disabled": True}, {"expires_at": NOW - 99}, "tenant disabled"),
        ({"not_before": NOW + 31}, {}, "not yet valid"),
        ({"not_before": NOW + 29}, {}, "active"),
        ({"expires_at": NOW - 30}, {}, "expired"),
        ({"expires_at": NOW - 29}, {}, "active"),
        ({}, {"not_before": NOW + 31}, "not yet valid"),
        ({}, {"not_before": NOW + 30}, "active"),
        ({}, {"expires_at": NOW - 30}, "expired"),
        ({}, {"expires_at": NOW - 29}, "active"),
        ({"expires_at": NOW + 99}, {"expires_at": NOW - 99}, "expired"),
        ({"expires_at": NOW - 99}, {"expires_at": NOW + 99}, "expired"),
    ],
)
def test_the_dates_of_key_and_tenant_hold(tenant: dict[str, float], key: dict[str, float], state: str) -> None:
    held = key_of(new_key(None), **key)
    found = Found(replace(Tenant("team", keys=(held,)), **tenant), held)
    reasons = {"active": None, "tenant disabled": Reason.AUTH_DISABLED}
    assert (state_of(found, NOW), check(found, NOW)) == (state, reasons.get(state, Reason.AUTH_EXPIRED))


def test_one_who_brings_a_backends_key_is_the_one_tenant_without_keys() -> None:
    byok = UpstreamKeys("byok", byok_header="x-api-key")
    open_to_all = Tenant("own", upstream=byok)
    keyed = Tenant("keyed", keys=(key_of(new_key(None)),), upstream=byok)
    shared = Tenant("shared")
    unknown = AuthFailure(Reason.AUTH_UNKNOWN)
    ring = KeyRing([keyed, open_to_all, shared], None)
    assert ring.find_keyless({"x-api-key": "sk-x"}) == Found(open_to_all, None)
    assert check(Found(replace(open_to_all, expires_at=NOW - 99), None), NOW) is Reason.AUTH_EXPIRED
    assert ring.find_keyless({"authorization": "sk-x"}) == unknown
    assert ring.find_keyless({"x-api-key": "sk-x", "authorization": "sk-x"}) == Found(open_to_all, None)
    assert ring.find_keyless({"x-api-key": "sk-x", "authorization": "sk-y"}) == unknown
    assert ring.find_keyless({}) == unknown
    assert KeyRing([keyed, shared], None).find_keyless({"x-api-key": "sk-x"}) == unknown
    two = KeyRing([open_to_all, replace(open_to_all, name="other")], None)
    assert two.find_keyless({"x-api-key": "sk-x"}) == unknown


def test_who_may_bring_a_backends_key_and_how() -> None:
    byok = Tenant("own", upstream=UpstreamKeys("byok", byok_header="x-vendor-key"))
    unknown = AuthFailure(Reason.AUTH_UNKNOWN)
    assert own_key(byok, {"x-vendor-key": "sk-x"}) == "sk-x"
    assert own_key(byok, {}) is None
    assert own_key(byok, {"authorization": "sk-x"}) == unknown
    assert own_key(byok, {"authorization": "sk-y", "x-vendor-key": "sk-x"}) == unknown
    for mode in ("shared", "map"):
        tenant = Tenant("team", upstream=UpstreamKeys(mode, byok_header="x-vendor-key"))
        assert own_key(tenant, {"x-vendor-key": "sk-x"}) == unknown
        assert own_key(tenant, {}) is None
    other = Tenant("other", upstream=UpstreamKeys("byok"))
    assert KeyRing([byok, other, other, Tenant("team")], None).own_key_headers == ("x-vendor-key", "authorization")


def test_no_secret_is_shown() -> None:
    new = new_key(None)
    parsed = parse(new.text)
    assert parsed is not None
    assert parsed.secret not in f"{new!r} {parsed!r} {KeyRing([], PEPPER)!r}"
