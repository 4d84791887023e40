"""What is in the image, and that it runs with as little as a restricted pod gives it."""

import json
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.image.podman import IMAGE, ROOT, container, podman, run_once
from tests.image.pods import ready

MEGABYTES = 120
DEMO = ("serve", "--demo", "--listen", "127.0.0.4:8080", "--admin-listen", "127.0.0.4:9090")


@pytest.fixture(scope="module")
def files() -> Iterator[list[Path]]:
    """All that is in it."""
    root = Path(podman("image", "mount", IMAGE))
    try:
        yield [root, *root.rglob("*")]
    finally:
        podman("image", "unmount", IMAGE)


def test_is_small() -> None:
    """As it lies on a node's disk; what is pulled is less than half of it."""
    assert int(podman("image", "inspect", IMAGE, "--format", "{{.Size}}")) < MEGABYTES * 10**6


def test_says_how_to_run_it() -> None:
    config = json.loads(podman("image", "inspect", IMAGE, "--format", "{{json .Config}}"))
    assert config["User"] == "65532:65532"
    assert config["Entrypoint"] == ["dragoman"]
    assert config["Cmd"] == ["serve", "--config", "/etc/dragoman"]
    assert "Healthcheck" not in config
    labels = config["Labels"]
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", labels["org.opencontainers.image.version"])


def test_has_no_shell_and_nothing_to_install_with(files: list[Path]) -> None:
    unwanted = {
        "sh",
        "bash",
        "dash",
        "busybox",
        "apt",
        "apt-get",
        "dpkg",
        "pip",
        "pip3",
        "gcc",
        "perl",
        "ldd",
        "su",
        "mount",
    }
    assert {path.name for path in files} & unwanted == set()
    programs = {
        path.name for path in files if path.parent.name in ("bin", "sbin") and path.parent.parent.name != "dragoman"
    }
    assert programs == {"python3", "python3.13"}


def test_lets_nobody_rise_or_change_it(files: list[Path]) -> None:
    modes = {path: path.lstat().st_mode for path in files if not path.is_symlink()}
    assert not [path for path, mode in modes.items() if mode & (stat.S_ISUID | stat.S_ISGID)]
    assert not [path for path, mode in modes.items() if mode & stat.S_IWOTH]


def test_is_compiled(files: list[Path]) -> None:
    """Else each start would compile it, and could not keep the result."""
    compiled = {path.name.split(".")[0] for path in files if path.suffix == ".pyc" and "proxy" in path.parts}
    assert compiled == {path.stem for path in files if path.suffix == ".py" and "proxy" in path.parts} != set()


def test_lacks_no_library() -> None:
    """Each of these loads one that the environment does not bring."""
    tried = "import bz2, ctypes, decimal, hashlib, lzma, sqlite3, ssl, zlib, zoneinfo, uvloop, cryptography.x509, yaml"
    trust = "ssl.create_default_context().cert_store_stats()['x509_ca'] > 50"
    options = ["--entrypoint", "python"]
    done = run_once("-c", f"{tried}; assert {trust}; print(zoneinfo.ZoneInfo('Europe/Oslo'))", options=options)
    assert (done.returncode, done.stdout, done.stderr) == (0, "Europe/Oslo\n", "")


def test_says_what_it_wants_without_a_configuration() -> None:
    done = run_once()
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.strip() == "/etc/dragoman: holds no *.yaml and no *.yml"


async def test_answers_the_first_request_of_the_readme() -> None:
    """By the very lines that a newcomer copies."""
    (code,) = re.findall(r"```python\n(from openai.*?)```", ROOT.joinpath("README.md").read_text("utf-8"), re.DOTALL)
    code = code.replace("127.0.0.1:8080", "127.0.0.4:8080")
    with container("demo", *DEMO) as demo:
        await ready("127.0.0.4")
        status, mounts = seen_of(demo.state["Pid"])
        done = run_python(code)
        demo.terminate()
        assert demo.wait() == 0
    assert "get_weather" in done
    assert "rain" in done
    told = dict(re.findall(r"^(\w+):\s+(.*)$", status, re.MULTILINE))
    assert told["Uid"].split() == ["65532"] * 4
    assert {name: int(told[name], 16) for name in told if name.startswith("Cap")} == dict.fromkeys(
        ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"), 0
    )
    assert told["NoNewPrivs"] == "1"
    assert told["Seccomp"] == "2"
    (root,) = [mount.split() for mount in mounts if mount.split()[1] == "/"]
    assert "ro" in root[3].split(",")


def seen_of(process: int) -> tuple[str, list[str]]:
    """What the kernel says of it: its status, and the lines of its mounts."""
    return Path(f"/proc/{process}/status").read_text(), Path(f"/proc/{process}/mounts").read_text().splitlines()


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], check=False, text=True, capture_output=True, timeout=30)
    assert done.returncode == 0, done.stderr
    return done.stdout
