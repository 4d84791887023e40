"""The command line, as its user sees it: what is printed, and the exit code."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

import proxy.server
from proxy import __version__
from proxy.canonical.loss_rules import ABOUT
from proxy.cli import main
from proxy.settings import Loaded, Settings

REPOSITORY = Path(__file__).parents[1]
EXAMPLE = str(REPOSITORY / "config/dragoman.yaml")
BAD = "listen: 127.0.0.1:8080\nupstreams:\n  - {name: a, protocol: chat}\n"

Served = list[tuple[Settings, bool]]


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "DRAGOMAN_LISTEN", "DRAGOMAN_ADMIN_LISTEN"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Served:
    """What the server was started with, instead of a server."""
    calls: Served = []

    def run(loaded: Loaded, read: Callable[[], Loaded] | None, *, demo: bool) -> int:
        assert read is None or read().digest == loaded.digest
        calls.append((loaded.settings, demo))
        return 0

    monkeypatch.setattr(proxy.server, "run", run, raising=False)
    return calls


def test_the_module_is_the_command() -> None:
    shown = subprocess.run([sys.executable, "-m", "proxy", "--version"], capture_output=True, text=True, check=True)
    assert shown.stdout == f"dragoman {__version__}\n"


def test_serve_with_nothing_names_the_ways_to_start(capsys: pytest.CaptureFixture[str], served: Served) -> None:
    assert main(["serve"]) == 2
    printed = capsys.readouterr().err
    assert [word in printed for word in ("--demo", "ANTHROPIC_API_KEY", "--config FILE")] == [True] * 3
    assert served == []


def test_a_file_in_the_folder_is_not_picked_up_unasked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, served: Served
) -> None:
    (tmp_path / "dragoman.yaml").write_bytes(Path(EXAMPLE).read_bytes())
    monkeypatch.chdir(tmp_path)
    assert main(["serve"]) == 2
    assert served == []


def test_serve_the_demo_where_it_was_told_to(served: Served) -> None:
    assert main(["serve", "--demo", "--listen", "127.0.0.1:1", "--admin-listen", "127.0.0.1:2"]) == 0
    [(settings, demo)] = served
    assert (demo, settings.listen.port, settings.admin_listen.port) == (True, 1, 2)
    assert list(settings.upstreams) == ["demo"]


def test_serve_from_the_environment(monkeypatch: pytest.MonkeyPatch, served: Served) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    assert main(["serve"]) == 0
    assert [(list(settings.upstreams), demo) for settings, demo in served] == [(["openai"], False)]


def test_serve_from_a_file(served: Served) -> None:
    assert main(["serve", "--config", EXAMPLE]) == 0
    assert [list(settings.upstreams) for settings, _ in served] == [["claude", "openai", "local"]]


def test_serve_tells_mistakes_and_does_not_start(capsys: pytest.CaptureFixture[str], served: Served) -> None:
    assert main(["serve", "--demo", "--listen", "0.0.0.0:80"]) == 1
    assert capsys.readouterr().err.startswith("command line: --listen: without tenants no key is asked for")
    assert served == []


def test_check_the_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", EXAMPLE]) == 0
    assert capsys.readouterr().out == f"{EXAMPLE}: valid\n"


def test_check_tells_every_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(BAD + "workers: 0\n")
    assert main(["check", EXAMPLE, str(bad)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{EXAMPLE}: valid",
        f"{bad}:3: upstreams[0].base_url: is required",
        f"{bad}:4: workers: must be greater than or equal to 1",
    ]


def test_check_a_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(BAD)
    assert main(["check", str(tmp_path / "none.yaml"), str(bad)]) == 2
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_check_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.yaml").write_text("upstreams: [{name: a, protocol: chat, base_url: http://a}]\n")
    (tmp_path / "b.yaml").write_text("timeouts: {connect: soon}\n")
    assert main(["check", str(tmp_path)]) == 1
    assert capsys.readouterr().out.startswith(f"{tmp_path}/b.yaml:1: timeouts.connect: 'soon' is not a duration")
    (tmp_path / "b.yaml").write_text("timeouts: {connect: 1s}\n")
    assert main(["check", str(tmp_path)]) == 0


def test_check_with_the_variables_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, variables = tmp_path / "a.yaml", tmp_path / ".env"
    config.write_text("upstreams: [{name: a, protocol: chat, base_url: '${URL}', api_key: '${KEY}'}]\n")
    variables.write_text("# of the backend\n\nURL=http://a\nexport KEY='sk-1'\n")
    assert main(["check", "--env-file", str(variables), str(config)]) == 0
    variables.write_text("URL=http://a\nsk-secret\n")
    capsys.readouterr()
    assert main(["check", "--env-file", str(variables), str(config)]) == 2
    assert capsys.readouterr().out == f"{variables}:2: is not NAME=value\n"
    assert main(["check", "--env-file", str(tmp_path / "none"), str(config)]) == 2
    assert capsys.readouterr().out == f"{tmp_path}/none: can't be read: No such file or directory\n"


def test_translate_needs_a_file_it_can_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", "request", "--from", "chat", "--to", "messages", "none.json"]) == 2
    assert capsys.readouterr().err == "none.json: can't be read: No such file or directory\n"


def test_losses_lists_every_rule(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["losses"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["rule", "levels", "sections", "meaning"]
    assert [row.split()[0] for row in rows] == list(ABOUT)
    meaning = head.index("meaning")
    assert [row[meaning:] for row in rows] == [about.text for about in ABOUT.values()]


def test_losses_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["losses", "--json"]) == 0
    assert orjson.loads(capsys.readouterr().out)[0] == {
        "rule": "allowed-tools",
        "levels": ["approx"],
        "sections": ["6.1"],
        "meaning": "Only the allowed tools are sent, since the backend knows no choice among some.",
    }


def test_translate_a_request_and_show_what_was_lost(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    file = tmp_path / "request.json"
    file.write_bytes(b'{"model": "gpt-5", "seed": 3, "messages": [{"role": "user", "content": "Hi"}]}')
    assert main(["translate", "request", "--from", "chat", "--to", "messages", "--model", "claude-x", str(file)]) == 0
    printed = capfdbinary.readouterr()
    request = orjson.loads(printed.out)
    assert (request["model"], request["messages"][0]["role"]) == ("claude-x", "user")
    assert b"loss: seed;drop seed: The backend's protocol has no seed.\n" in printed.err


def test_translate_shows_the_error_of_a_refusal(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    file = tmp_path / "request.json"
    file.write_bytes(b'{"model": "gpt-5", "n": 2, "messages": [{"role": "user", "content": "Hi"}]}')
    assert main(["translate", "request", "--from", "chat", "--to", "messages", str(file)]) == 1
    assert orjson.loads(capfdbinary.readouterr().out)["error"]["param"] == "n"


def test_translate_for_a_dialect_that_there_is_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "request.json"
    file.write_bytes(b"{}")
    assert main(["translate", "request", "--from", "chat", "--to", "chat", "--dialect", "vlm", str(file)]) == 2
    assert capsys.readouterr().err.startswith("--dialect: no dialect is called 'vlm'")
