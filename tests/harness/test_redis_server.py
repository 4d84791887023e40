"""The Redis of tests."""

from pathlib import Path

import pytest

from tests.harness.redis_server import RedisFailed, RedisServer


def test_a_missing_server_is_an_error_that_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RedisFailed, match="apt-get install redis-server"), RedisServer():
        pass


def test_valkey_serves_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = tmp_path / "valkey-server"
    stand_in.write_text("#!/bin/sh\necho 'valkey was asked'\n", "utf-8")
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RedisFailed, match="valkey was asked"), RedisServer():
        pass
