"""Where state is kept, for how long, and what that can't be."""

from pathlib import Path

import pytest

from proxy.settings import Settings, SettingsError, load

UPSTREAM = "upstreams: [{name: a, protocol: responses, base_url: 'http://a'}]\n"
DAY = 86_400.0


def read(folder: Path, state: str) -> Settings:
    file = folder / "dragoman.yaml"
    file.write_text(UPSTREAM + (f"state: {{{state}}}\n" if state else ""))
    return load(file, {})


def test_without_a_word_it_is_in_memory_for_an_hour(tmp_path: Path) -> None:
    state = read(tmp_path, "").state
    assert state is not None
    assert (state.url.get_secret_value(), state.ttl, state.keys) == ("memory:", 3600.0, ())


@pytest.mark.parametrize("url", ["sqlite:///var/state.db", "redis://h/0", "postgresql://u:p@h/db", "postgres://h/db"])
def test_a_store_keeps_for_thirty_days(tmp_path: Path, url: str) -> None:
    settings = read(tmp_path, f"url: '{url}'")
    assert settings.state is not None
    assert (settings.state.url.get_secret_value(), settings.state.ttl) == (url, 30 * DAY)
    assert (settings.shared_limits is not None) is url.startswith("redis")
    assert "p@h" not in repr(settings)


def test_what_is_set_holds(tmp_path: Path) -> None:
    keys = f"content_keys: ['{'ab' * 32}']"
    state = read(tmp_path, f"url: 'sqlite:///s.db', ttl: 2d, max_stored: 1MiB, {keys}").state
    assert state is not None
    assert (state.ttl, state.most) == (2 * DAY, 2**20)
    assert [key.get_secret_value() for key in state.keys] == [b"\xab" * 32]


def test_nothing_is_kept_where_that_is_said(tmp_path: Path) -> None:
    assert read(tmp_path, "url: 'none:'").state is None


@pytest.mark.parametrize(
    ("state", "key"),
    [
        ("url: 'mysql://h'", "state.url"),
        ("url: 'sqlite:'", "state.url"),
        ("url: 7", "state.url"),
        ("ttl: 0", "state.ttl"),
        ("max_stored: 0", "state.max_stored"),
        ("content_keys: [short]", "state.content_keys[0]"),
        ("url: 'none:', ttl: 1d", "state.ttl"),
    ],
)
def test_what_can_not_be_is_told_by_its_name(tmp_path: Path, state: str, key: str) -> None:
    with pytest.raises(SettingsError) as told:
        read(tmp_path, state)
    assert [mistake.field for mistake in told.value.mistakes] == [key]


def test_an_upstream_says_whose_state_counts(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.yaml"
    file.write_text("upstreams: [{name: a, protocol: responses, base_url: 'http://a', state: proxy}]\n")
    assert load(file, {}).upstreams["a"].state == "proxy"
