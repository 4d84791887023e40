"""No secret is ever shown."""

import json
import time
from collections.abc import Callable

import pytest

from proxy.telemetry.scrubber import ManySecrets, Scrubber


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Incorrect API key provided: sk-proj-abcd1234efgh.", "Incorrect API key provided: [secret]"),
        ("key sk-ant-api03-AAAA_bbbb-cccc was refused", "key [secret] was refused"),
        ("Incorrect API key provided: sk-abcd***********wxyz.", "Incorrect API key provided: [secret]"),
        ("authorization: Bearer abc.def-123456", "authorization: [secret]"),
        ("AKIAIOSFODNN7EXAMPLE", "[secret]"),
        ("in organization org-AbCdEfGhIjKlMnOpQrStUvWx on tokens", "in organization [secret] on tokens"),
        ("project proj_AbCdEfGhIjKlMnOpQrStUvWx", "project [secret]"),
        ("your organization's (0f8fad5b-d9cb-469f-a165-70867728950e) limit", "your [secret] limit"),
        ("the org-structure of the organization", "the org-structure of the organization"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "[secret]"),
        ("the task-force risk-management desk-lamp", "the task-force risk-management desk-lamp"),
        ("bearer of bad news", "bearer of bad news"),
    ],
)
def test_keys_are_known_by_their_shape(text: str, shown: str) -> None:
    assert Scrubber()(text) == shown


@pytest.mark.parametrize(
    ("secret", "crc"),
    [("0aB-_" * 8 + "_-_", "00aZ9x"), ("-" * 43, "000000"), ("_" * 43, "zzzzzz"), ("0AF9" * 10 + "0AF", "4GFfc3")],
)
@pytest.mark.parametrize(
    "around", ["{}", "key={}&x=1", '{{"key": "{}"}}', r"line\n{}\n", "Bearer {}.", "__{}", "{} and {}"]
)
def test_a_tenants_key_is_masked_whole(secret: str, crc: str, around: str) -> None:
    key = f"drg_7k3m9q2x4wtz_{secret}_{crc}"
    for written in (key, key.upper(), key[:-1], key[:40], f"{key[:22]}…{key[-4:]}", f"{key[:20]}*****"):
        shown = Scrubber()(around.format(written, written))
        assert [part in shown for part in (secret[:5], secret[-5:], crc, crc.upper(), "7k3m")] == [False] * 5


_PIECES = [
    "eyJ",
    "eyJaaaaaaaa.",
    "eyJaaaaaaaa.eyJaaaaaaaa.",
    "sk-",
    "sk-aaaaaaaa",
    "drg_",
    "drg-abcdefghjkmn",
    " ",
    "a",
]
_PIECES += [
    "bearer ",
    "bearer" + " " * 50,
    "AKIA",
    "AIza",
    "org-",
    "proj_",
    "organization ",
    "organization 01234567-",
    "-",
]


@pytest.mark.parametrize("piece", _PIECES)
def test_what_it_takes_grows_with_the_text_and_not_faster(piece: str) -> None:
    """Anyone may put anything into a text that is looked through on the loop."""

    def seconds(length: int) -> float:
        text = (piece * (length // len(piece) + 1))[:length]
        began = time.process_time()
        Scrubber(["known-secret-1"])(text)
        return time.process_time() - began

    seconds(1000)
    assert min(seconds(400_000) for _ in range(2)) < 10 * max(seconds(100_000), 0.02)


def test_the_public_part_of_a_key_is_shown() -> None:
    for text in ("key 7k3m9q2x4wtz has expired", "drg_7k3m9q2x4wtz, drg_7k3m9q2x4wtz.", "drg_7k3m9q2x4wtz"):
        assert Scrubber()(text) == text


def test_known_secrets_are_found_anywhere() -> None:
    scrub = Scrubber(["hunter2-hunter2", "hunter2-hunter2-longer", "short"])
    assert scrub("x=hunter2-hunter2-longer&y=hunter2-hunter2, short") == "x=[secret]&y=[secret], short"


MANY = [f"key-{number:05d}-of-a-tenant" for number in range(10_000)]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("short", "short"),
        ("nothing in here", "nothing in here"),
        ("key-00042-of-a-tenant", "[secret]"),
        ("akey-00042-of-a-tenantkey-09999-of-a-tenant.", "a[secret][secret]."),
        ("key-00042-of-a-tenan", "key-00042-of-a-tenan"),
        ("key-key-00042-of-a-tenant", "key-[secret]"),
    ],
)
def test_thousands_are_found_as_one_is(text: str, shown: str) -> None:
    assert (ManySecrets(MANY)(text), ManySecrets([])(text)) == (shown, text)


def test_the_longest_of_many_goes_whole() -> None:
    assert ManySecrets(["a-secret-1", "a-secret-1-and-more"])("a-secret-1-and-more a-secret-1") == "[secret] [secret]"


@pytest.mark.parametrize("scrub", [Scrubber, ManySecrets])
def test_as_json_writes_it(scrub: Callable[[list[str]], Callable[[str], str]]) -> None:
    secret = 'a"secret\\of mine'
    assert scrub([secret])(json.dumps({"key": secret}) + secret) == '{"key": "[secret]"}[secret]'


def test_what_only_looks_like_a_key_may_be_data() -> None:
    scrub = Scrubber(["a-known-secret"], shapes=False)
    assert scrub("hf-internal-model of a-known-secret") == "hf-internal-model of [secret]"
    assert Scrubber(shapes=False)("sk-ant-api03-AAAA_bbbb") == "sk-ant-api03-AAAA_bbbb"
