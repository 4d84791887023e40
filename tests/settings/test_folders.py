"""A folder of files is one configuration."""

from pathlib import Path

import pytest

from proxy.settings import Settings, SettingsError, UnreadableFile, load

BACKENDS = """\
listen: 127.0.0.1:1
upstreams:
  - {name: a, protocol: chat, base_url: http://a}
models:
  - {match: "x-*", upstream: a}
timeouts: {connect: 1s}
"""
MORE = """\
upstreams:
  - {name: b, protocol: chat, base_url: http://b, api_key_file: key}
models:
  - {match: "*", upstream: b}
timeouts: {idle: 2s}
"""


def write(folder: Path, **texts: str) -> Path:
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text)
    (folder / "key").write_text("sk-of-b\n")
    return folder


def told(folder: Path) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load(folder, {})
    return [str(mistake).removeprefix(f"{folder}/") for mistake in caught.value.mistakes]


def shape(settings: Settings) -> object:
    connect, idle = settings.timeouts.connect, settings.timeouts.idle
    return [*settings.upstreams], [route.match for route in settings.models], str(settings.listen), connect, idle


def test_lists_are_appended_and_sections_merged_in_the_order_of_names(tmp_path: Path) -> None:
    settings = load(write(tmp_path, one=BACKENDS, two=MORE), {})
    assert shape(settings) == (["a", "b"], ["x-*", "*"], "127.0.0.1:1", 1.0, 2.0)
    key = settings.upstreams["b"].api_key
    assert key is not None
    assert key.get_secret_value() == "sk-of-b"


def test_other_files_and_hidden_ones_are_left_alone(tmp_path: Path) -> None:
    write(tmp_path, one=BACKENDS, two=MORE)
    (tmp_path / ".three.yaml").write_text("nonsense: 1")
    (tmp_path / "README").write_text("nonsense: 1")
    (tmp_path / "folder.yaml").mkdir()
    assert list(load(tmp_path, {}).upstreams) == ["a", "b"]


def test_a_mounted_config_map_is_read_once(tmp_path: Path) -> None:
    real = tmp_path / "..2026_12_01"
    real.mkdir()
    write(real, one=BACKENDS, two=MORE)
    (tmp_path / "..data").symlink_to(real.name)
    for name in ("one.yaml", "two.yaml", "key"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    assert list(load(tmp_path, {}).upstreams) == ["a", "b"]


def test_what_is_said_twice_names_both_places(tmp_path: Path) -> None:
    again = MORE.replace("idle", "connect").replace("name: b", "name: a") + "listen: 127.0.0.1:2\ntrusted_proxies: []\n"
    folder = write(tmp_path, one=BACKENDS + "trusted_proxies: []\n", two=again.replace("upstream: b", "upstream: a"))
    assert told(folder) == [
        f"two.yaml:2: upstreams[0].name: another upstream, upstreams[0] at {folder}/one.yaml:3, is called 'a'",
        f"two.yaml:5: timeouts.connect: given twice, first at {folder}/one.yaml:6",
        f"two.yaml:6: listen: given twice, first at {folder}/one.yaml:1",
        f"two.yaml:7: trusted_proxies: given twice, first at {folder}/one.yaml:7",
    ]


def test_mistakes_name_their_own_file_and_count_as_it_does(tmp_path: Path) -> None:
    wrong = MORE.replace("upstream: b", "upstream: c").replace("protocol: chat", "protocol: chatt")
    folder = write(tmp_path, one=BACKENDS.replace("http://a", "a"), two=wrong)
    assert [text.split(": ")[:2] for text in told(folder)] == [
        ["one.yaml:3", "upstreams[0].base_url"],
        ["two.yaml:2", "upstreams[0].protocol"],
        ["two.yaml:4", "models[0].upstream"],
    ]


def test_what_can_not_be_parsed_is_told_beside_the_rest(tmp_path: Path) -> None:
    folder = write(tmp_path, one=BACKENDS.replace("http://a", "a"), two="a: [")
    assert [text.partition(": ")[0] for text in told(folder)] == ["one.yaml:3", "two.yaml:1"]


def test_what_is_missing_is_missing_in_the_folder(tmp_path: Path) -> None:
    folder = write(tmp_path, one="- a list", two="listen: 127.0.0.1:1", three="drain: {lame_duck: soon}")
    with pytest.raises(SettingsError) as caught:
        load(folder, {})
    assert [(mistake.file, mistake.field) for mistake in caught.value.mistakes] == [
        (f"{folder}", "upstreams"),
        (f"{folder}/one.yaml", ""),
        (f"{folder}/three.yaml", "drain.lame_duck"),
    ]


def test_a_folder_without_files(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match=r"holds no \*\.yaml and no \*\.yml"):
        load(tmp_path, {})


def test_references_to_files_start_at_the_folder(tmp_path: Path) -> None:
    write(tmp_path, one=BACKENDS.replace("http://a}", "http://a, api_key: '${file:key}'}"))
    key = load(tmp_path, {}).upstreams["a"].api_key
    assert key is not None
    assert key.get_secret_value() == "sk-of-b"
