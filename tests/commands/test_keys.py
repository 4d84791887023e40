"""`dragoman keys`, as an operator sees it: what is printed where, what is written, and whether a key then works."""

import io
import json
import os
import re
import stat
import sys
import time
from pathlib import Path

import pytest

from proxy.cli import main
from proxy.commands import key_files
from proxy.settings import load
from proxy.tenancy.keys import Found, KeyRing, NewKey, flaw, new_key, state_of

PEPPER = "a-pepper-of-enough-length"
DAY = 86400.0

CONFIG = """\
# Who may ask what of whom.
upstreams:
  - name: claude
    protocol: messages
    base_url: https://api.anthropic.com
    api_key: ${ANTHROPIC_API_KEY}   # from the environment
state: {carrier_keys: ["${CARRIER}"]}
key_pepper: ${PEPPER}

tenants:
  - name: team-a      # the first
    disabled: ${A_OFF}
    limits: {rpm: 5}

  - name: team-b
    keys: []
    disabled:   ${B_OFF}
# the end
"""


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("PEPPER", PEPPER), ("A_OFF", "false"), ("B_OFF", "false")):
        monkeypatch.setenv(name, value)
    for name in ("DRAGOMAN_KEY_PEPPER", "ANTHROPIC_API_KEY", "CARRIER"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "dragoman.yaml"
    file.write_text(CONFIG)
    return file


def keys(*arguments: str | Path) -> int:
    return main(["keys", *map(str, arguments)])


def find(config: Path, key: str) -> Found | None:
    """Whose key it is for a server of this configuration. Tenants without keys have to be disabled there."""
    environ = {"ANTHROPIC_API_KEY": "sk-x", "CARRIER": "0" * 64, "PEPPER": PEPPER}
    for tenant in key_files.read_tenants(config, os.environ):
        environ[f"{tenant.name[-1].upper()}_OFF"] = "false" if tenant.keys else "true"
    settings = load(config, environ)
    pepper = settings.key_pepper
    ring = KeyRing((settings.tenants or {}).values(), pepper.get_secret_value() if pepper else None)
    found = ring.find(key)
    return found if isinstance(found, Found) else None


def state(config: Path, key: str, after: float = 0) -> str | None:
    found = find(config, key)
    return found and state_of(found, time.time() + after)


def made(capsys: pytest.CaptureFixture[str]) -> str:
    """The one key that was printed."""
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert flaw(out.strip()) is None
    return out.strip()


def add_key(config: Path, tenant: str, *options: str) -> str:
    """Have a key made; what it prints is not looked at."""
    kept, sys.stdout = sys.stdout, io.StringIO()
    try:
        assert keys("new", tenant, "--config", config, "--write", *options) == 0
        return sys.stdout.getvalue().strip()
    finally:
        sys.stdout = kept


def test_a_new_key_is_printed_once_with_what_to_write(capsys: pytest.CaptureFixture[str]) -> None:
    assert keys("new", "team-a", "--expires", "2030-01-15") == 0
    printed = capsys.readouterr()
    key = printed.out.strip()
    kid, secret = key[4:16], key[17:60]
    entry = rf"      - kid: {kid}\n        hash: sha256:[0-9a-f]{{64}}\n        expires_at: 2030-01-15T00:00:00Z\n"
    assert re.search(f"    keys:\n{entry}", printed.err)
    assert [word in printed.err for word in ("no key_pepper", "team-a", "shown this once")] == [True] * 3
    assert secret not in printed.err


def test_the_pepper_comes_from_the_environment_or_the_file(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert keys("new", "team-a", "--config", config) == 0
    assert "hash: hmac-sha256:" in capsys.readouterr().err
    assert config.read_text() == CONFIG
    monkeypatch.delenv("PEPPER")
    assert keys("new", "team-a", "--config", config) == 1
    printed = capsys.readouterr()
    assert printed.err == f"{config}:8: key_pepper: the environment variable PEPPER is not set\n"
    assert printed.out == ""
    monkeypatch.setenv("DRAGOMAN_KEY_PEPPER", PEPPER)
    assert keys("new", "team-a", "--config", config) == 0
    assert "hash: hmac-sha256:" in capsys.readouterr().err
    monkeypatch.setenv("DRAGOMAN_KEY_PEPPER", "short")
    assert keys("new", "team-a") == 1
    assert capsys.readouterr().err.startswith("environment: DRAGOMAN_KEY_PEPPER: must be at least")


@pytest.mark.parametrize("tenant", ["team-a", "team-b"])
def test_a_key_that_was_written_works(config: Path, tenant: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert keys("new", tenant, "--config", config, "--expires", "90d", "--not-before", "2026-01-01", "--write") == 0
    key = made(capsys)
    found = find(config, key)
    assert found is not None
    assert found.tenant.name == tenant
    assert (state(config, key), state(config, key, 91 * DAY)) == ("active", "expired")
    # All else stays as it was.
    entry = rf"      - kid: {key[4:16]}\n        hash: hmac-sha256:.*\n        not_before: .*\n        expires_at: .*\n"
    assert re.sub(f"    keys:\n{entry}", "" if tenant == "team-a" else "    keys: []\n", config.read_text()) == CONFIG


def test_many_keys_one_behind_the_other(config: Path) -> None:
    written = [add_key(config, tenant) for tenant in ("team-a", "team-b") * 3]
    assert [state(config, key) for key in written] == ["active"] * 6


def test_a_tenant_in_a_folder_of_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head, tail = CONFIG.split("tenants:\n")
    (tmp_path / "a.yaml").write_text(head)
    (tmp_path / "b.yml").write_text(f"tenants:\n{tail}")
    assert keys("new", "team-b", "--config", tmp_path, "--write") == 0
    assert state(tmp_path, made(capsys)) == "active"
    assert (tmp_path / "a.yaml").read_text() == head
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.yaml", "b.yml"]


def test_an_unknown_tenant(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for action in (["new"], ["rotate", "--overlap", "1d"], ["list"]):
        assert keys(*action, "nobody", "--config", config) == 1
        assert capsys.readouterr() == ("", "no tenant is called 'nobody', there is team-a, team-b\n")
    assert keys("new", "team-aa", "--config", config) == 1
    assert "did you mean 'team-a'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["new", "team-a", "--write"], "--write needs --config"),
        (["new", "team-a", "--expires", "2020-01-01"], "is over before it begins"),
        (["new", "team-a", "--expires", "2030-01-01", "--not-before", "2031-01-01"], "is over before it begins"),
        (["new", "team-a", "--expires", "soon"], "such as 90d"),
        (["new", "team-a", "--expires", "9999999999d"], "too far away"),
        (["rotate", "team-a", "--config", "x", "--overlap", "14"], "is not a duration"),
        (["rotate", "team-a", "--config", "x", "--overlap", "9999999999d"], "is too long"),
        (["list"], "--config"),
        (["list", "--config", "none.yaml"], "none.yaml: can't be read: No such file or directory"),
    ],
)
def test_what_is_not_even_tried(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = keys(*arguments)
    except SystemExit as left:
        code = int(str(left.code))
    printed = capsys.readouterr()
    assert (code, printed.out) == (2, "")
    assert said in printed.err


def test_rotate(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    forever, short = add_key(config, "team-a"), add_key(config, "team-a", "--expires", "2d")
    later = add_key(config, "team-a", "--not-before", "30d")
    capsys.readouterr()
    assert keys("rotate", "team-a", "--overlap", "14d", "--config", config, "--write") == 0
    new = made(capsys)
    assert [state(config, key) for key in (forever, short, later, new)] == [
        "active",
        "active",
        "not yet valid",
        "active",
    ]
    assert [state(config, key, 3 * DAY) for key in (forever, short)] == ["active", "expired"]
    assert [state(config, key, 15 * DAY) for key in (forever, later, new)] == ["expired", "not yet valid", "active"]
    assert state(config, later, 31 * DAY) == "active"
    assert [line for line in CONFIG.splitlines() if line not in config.read_text()] == []


def test_rotate_one_key_only(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = add_key(config, "team-a"), add_key(config, "team-a")
    capsys.readouterr()
    assert keys("rotate", "team-a", "--overlap", "0", "--kid", second[4:16], "--config", config, "--write") == 0
    assert [state(config, key, 60) for key in (first, second, made(capsys))] == ["active", "expired", "active"]


def test_rotate_says_what_to_write(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = add_key(config, "team-a")
    before = config.read_text()
    capsys.readouterr()
    assert keys("rotate", "team-a", "--overlap", "14d", "--config", config) == 0
    printed = capsys.readouterr()
    assert config.read_text() == before
    snippet = printed.err[printed.err.index("    keys:\n") :]
    config.write_text(CONFIG.replace("    limits", f"{snippet}    limits"))
    for key in (old, printed.out.strip()):
        assert state(config, key) == "active"
    assert [state(config, key, 15 * DAY) for key in (old, printed.out.strip())] == ["expired", "active"]


def test_what_would_end_before_it_begins_is_not_rotated(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    later = add_key(config, "team-a", "--not-before", "30d")
    before = config.read_text()
    capsys.readouterr()
    rotate = ("rotate", "team-a", "--overlap", "1d", "--kid", later[4:16], "--config", config, "--write")
    assert keys(*rotate) == 1
    assert capsys.readouterr() == ("", f"the key {later[4:16]} would end before it begins: revoke it instead\n")
    assert config.read_text() == before


def test_nothing_to_rotate(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert keys("rotate", "team-a", "--overlap", "1d", "--config", config) == 1
    assert keys("rotate", "team-a", "--overlap", "1d", "--kid", "x", "--config", config) == 1
    assert capsys.readouterr().err.splitlines() == [
        "the tenant team-a has no key to rotate",
        "the tenant team-a has no key x to rotate",
    ]


def test_revoke(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = add_key(config, "team-a"), add_key(config, "team-a")
    capsys.readouterr()
    assert keys("revoke", first[4:16], "--config", config) == 0
    assert capsys.readouterr().err.endswith(f"the tenant team-a: the entry whose kid is {first[4:16]}.\n")
    assert (state(config, first), state(config, second)) == ("active", "active")
    assert keys("revoke", first[4:16], "--config", config, "--write") == 0
    assert (state(config, first), state(config, second)) == (None, "active")
    assert keys("revoke", first[4:16], "--config", config, "--write") == 1
    assert f"no tenant has a key '{first[4:16]}'" in capsys.readouterr().err


def test_the_only_key_is_revoked_when_nobody_is_let_in_anyway(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    key = add_key(config, "team-a")
    capsys.readouterr()
    assert keys("revoke", key[4:16], "--config", config, "--write") == 1
    assert capsys.readouterr().err.startswith(
        f"{key[4:16]} is the only key of the tenant team-a: make another one first"
    )
    assert state(config, key) == "active"
    monkeypatch.setenv("A_OFF", "true")
    assert keys("revoke", key[4:16], "--config", config, "--write") == 0
    assert config.read_text() == CONFIG.replace("the first\n", "the first\n    keys: []\n")


def test_list(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text(CONFIG.replace("${B_OFF}", "true") + "  - {name: c, expires_at: 2030-06-01}\n")
    written = {
        add_key(config, "team-a"): ("active", "-", "-"),
        add_key(config, "team-a", "--not-before", "2030-01-01"): ("not yet valid", "2030-01-01T00:00:00Z", "-"),
        add_key(config, "team-b", "--expires", "2030-01-01"): ("tenant disabled", "-", "2030-01-01T00:00:00Z"),
        add_key(config, "c", "--expires", "2031-01-01"): ("active", "-", "2030-06-01T00:00:00Z"),
    }
    capsys.readouterr()
    assert keys("list", "--config", config) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["tenant", "kid", "state", "not_before", "expires_at"]
    assert [tuple(re.split(r"\s{2,}", row)[1:]) for row in rows] == [
        (key[4:16], *told) for key, told in written.items()
    ]
    assert keys("list", "team-b", "--config", config, "--json") == 0
    printed = capsys.readouterr().out
    assert [(row["tenant"], row["state"], row["not_before"]) for row in json.loads(printed)] == [
        ("team-b", "tenant disabled", None)
    ]
    assert "sha256" not in printed


def test_list_needs_no_secret(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("PEPPER")
    assert keys("list", "--config", config) == 0
    config.write_text(CONFIG.replace("keys: []", "keys: [{kid: x, hash: y}]"))
    assert keys("list", "--config", config) == 1
    said = capsys.readouterr().err.splitlines()
    assert [line.partition(": ")[2].partition(": ")[0] for line in said] == [
        "tenants[1].keys[0].kid",
        "tenants[1].keys[0].hash",
    ]


def checked(monkeypatch: pytest.MonkeyPatch, key: str, *options: str | Path) -> int:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f" {key}\r\nmore".encode())))
    return keys("check", *options)


def test_check(config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    good, late = add_key(config, "team-a"), add_key(config, "team-b", "--not-before", "2030-01-01")
    unknown = new_key(None)
    forged = same_kid(good, unknown)
    mistyped = good[:20] + ("A" if good[20] != "A" else "B") + good[21:]
    expected = {
        good: (0, f"active: the key {good[4:16]} of the tenant team-a"),
        late: (1, f"not yet valid: the key {late[4:16]} of the tenant team-b"),
        unknown.text: (1, f"unknown: no tenant has a key {unknown.kid}"),
        forged: (1, f"unknown: the tenant team-a has a key {good[4:16]} of another hash, or key_pepper is another one"),
        mistyped: (1, "mistyped: it has the form of a key, but a character of it is wrong"),
        "sk-prøj": (1, "malformed: a key is drg_ and 63 more characters, as `dragoman keys new` printed it"),
        "": (1, "malformed: a key is drg_ and 63 more characters, as `dragoman keys new` printed it"),
    }
    capsys.readouterr()
    for key, (code, said) in expected.items():
        assert checked(monkeypatch, key, "--config", config) == code
        assert capsys.readouterr() == (f"{said}\n", "")
    assert checked(monkeypatch, good) == 0
    assert capsys.readouterr().out == f"well-formed: its kid is {good[4:16]}; with --config it is looked up\n"
    config.write_text(config.read_text().replace("key_pepper", "# key_pepper"))
    assert checked(monkeypatch, good, "--config", config) == 1
    assert "needs a key_pepper, and there is none" in capsys.readouterr().out


def same_kid(key: str, other: NewKey) -> str:
    from proxy.tenancy.keys import _checksum

    head = f"{key[:17]}{other.text[17:60]}"
    return f"{head}_{_checksum(head)}"


def test_a_key_is_never_an_argument() -> None:
    with pytest.raises(SystemExit):
        keys("check", new_key(None).text)


def test_a_file_keeps_its_mode_and_a_link_stays_one(tmp_path: Path, config: Path) -> None:
    config.chmod(0o640)
    link = tmp_path / "link.yaml"
    link.symlink_to(config)
    key = add_key(link, "team-a")
    assert (link.is_symlink(), stat.S_IMODE(config.stat().st_mode)) == (True, 0o640)
    assert state(config, key) == "active"


def test_what_breaks_off_leaves_the_file_whole(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(key_files.os, "fsync", full)
    assert keys("new", "team-a", "--config", config, "--write") == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.splitlines()[-1]) == ("", f"{config}: can't be changed: No space left on device")
    assert config.read_text() == CONFIG
    assert os.listdir(config.parent) == [config.name]


def test_a_file_that_can_not_be_changed_safely(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shared = CONFIG.replace("keys: []", "keys: &none []") + "  - {name: team-c, keys: *none}\n"
    config.write_text(shared)
    assert keys("new", "team-c", "--config", config, "--write") == 1
    printed = capsys.readouterr()
    assert "can't be changed safely" in printed.err
    assert f"- kid: {printed.out[4:16]}" in printed.err
    assert config.read_text() == shared
