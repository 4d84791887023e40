"""What was read is watched, by its looks alone."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from proxy.settings import SettingsError, Watcher, load, load_with_sources, needs_restart
from proxy.settings.snapshot import Address, Settings

TEXT = "upstreams: [{name: a, protocol: chat, base_url: http://a, api_key_file: key, headers: {x: '${file:token}'}}]\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "dragoman.yaml").write_text(TEXT)
    (tmp_path / "key").write_text("sk-1")
    (tmp_path / "token").write_text("t-1")
    return tmp_path


def put(file: Path, text: str) -> None:
    """As editors do: a new file in the place of the old one."""
    new = file.with_name(".new")
    new.write_text(text)
    new.replace(file)


def test_what_was_read_is_named(folder: Path) -> None:
    loaded = load_with_sources(folder / "dragoman.yaml", {})
    assert loaded.sources.configuration == (folder / "dragoman.yaml",)
    assert set(loaded.sources.secrets) == {folder / "key", folder / "token"}
    assert load_with_sources(folder, {}).sources.configuration == (folder, folder / "dragoman.yaml")


def test_each_change_is_told_once(folder: Path) -> None:
    watcher = Watcher(load_with_sources(folder / "dragoman.yaml", {}).sources)
    assert (watcher.changed(), watcher.secrets_changed()) == (False, False)
    put(folder / "dragoman.yaml", TEXT)
    assert (watcher.changed(), watcher.secrets_changed(), watcher.changed()) == (True, False, False)
    put(folder / "key", "sk-2")
    assert (watcher.changed(), watcher.secrets_changed(), watcher.secrets_changed()) == (False, True, False)
    (folder / "token").unlink()
    assert (watcher.secrets_changed(), watcher.secrets_changed()) == (True, False)


def test_a_change_before_the_watch_began_is_not_missed(folder: Path) -> None:
    sources = load_with_sources(folder, {}).sources
    put(folder / "dragoman.yaml", TEXT)
    put(folder / "key", "sk-2")
    watcher = Watcher(sources)
    assert (watcher.changed(), watcher.secrets_changed()) == (True, True)


def test_a_file_that_is_written_in_place(folder: Path) -> None:
    watcher = Watcher(load_with_sources(folder / "dragoman.yaml", {}).sources)
    os.utime(folder / "dragoman.yaml", ns=(0, 0))
    assert watcher.changed()


def test_files_that_come_to_a_folder_and_go(folder: Path) -> None:
    watcher = Watcher(load_with_sources(folder, {}).sources)
    (folder / ".hidden.yaml").write_text("")
    assert not watcher.changed()
    (folder / "more.yml").write_text("")
    assert watcher.changed()
    (folder / "more.yml").unlink()
    assert watcher.changed()


def test_a_link_that_points_elsewhere(folder: Path) -> None:
    for version in ("..1", "..2"):
        (folder / version).mkdir()
        (folder / version / "dragoman.yaml").write_text(
            TEXT.replace(" key,", " ../key,").replace(":token", ":../token")
        )
    mounted = folder / "mounted"
    mounted.mkdir()
    (mounted / "..data").symlink_to("../..1")
    (mounted / "dragoman.yaml").symlink_to("..data/dragoman.yaml")
    watchers = [Watcher(load_with_sources(path, {}).sources) for path in (mounted, mounted / "dragoman.yaml")]
    (mounted / ".swap").symlink_to("../..2")
    (mounted / ".swap").replace(mounted / "..data")
    assert [watcher.changed() for watcher in watchers] == [True, True]


def test_what_is_wrong_is_watched_too(folder: Path) -> None:
    (folder / "key").unlink()
    with pytest.raises(SettingsError) as caught:
        load(folder / "dragoman.yaml", {})
    watcher = Watcher(caught.value.sources)
    assert not watcher.secrets_changed()
    (folder / "key").write_text("sk-3")
    assert watcher.secrets_changed()


def test_a_file_that_is_not_there_yet(folder: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        load(folder / "later.yaml", {})
    watcher = Watcher(caught.value.sources)
    assert not watcher.changed()
    (folder / "later.yaml").write_text(TEXT)
    assert watcher.changed()


def test_a_file_of_a_folder_that_is_no_text(folder: Path) -> None:
    (folder / "more.yaml").write_bytes(b"\xff")
    with pytest.raises(SettingsError, match=r"more\.yaml: is not UTF-8 text") as caught:
        load(folder, {})
    watcher = Watcher(caught.value.sources)
    (folder / "more.yaml").write_text("")
    assert watcher.changed()


def test_a_digest_tells_texts_apart_and_knows_no_secret(folder: Path) -> None:
    first = load_with_sources(folder, {}).digest
    (folder / "key").write_text("sk-2")
    assert load_with_sources(folder, {}).digest == first == load_with_sources(folder / "dragoman.yaml", {}).digest
    (folder / "dragoman.yaml").write_text(TEXT + "# more\n")
    assert load_with_sources(folder, {}).digest != first


def test_what_needs_a_restart(folder: Path) -> None:
    old = load(folder, {})
    state = {"DRAGOMAN_STATE__URL": "redis://host:1", "DRAGOMAN_TIMEOUTS__CONNECT": "1s"}
    assert needs_restart(old, load(folder, state)) == ["state.url"]
    failing = {**state, "DRAGOMAN_STATE__ON_FAILURE": "closed"}
    assert needs_restart(load(folder, state), load(folder, failing)) == ["state.on_failure"]
    assert needs_restart(old, load(folder, {"DRAGOMAN_STATE__LIMITS_FILE": "limits.json"})) == ["state.limits_file"]
    assert needs_restart(old, load(folder, {}, {"listen": "127.0.0.1:1", "admin_listen": "127.0.0.1:2"})) == [
        "listen",
        "admin_listen",
    ]


def test_a_listener_that_others_reach_is_never_left_open(folder: Path) -> None:
    new = load(folder, {})
    running: Settings = replace(new, listen=Address("0.0.0.0", 8080), tenants={})
    with pytest.raises(SettingsError, match="nobody would be asked for a key"):
        needs_restart(running, new)
    assert needs_restart(running, replace(new, tenants={})) == ["listen"]
