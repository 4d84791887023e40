"""Where limits are kept beyond the process: a file that need not exist yet, of which only the folder is looked at."""

from pathlib import Path

import pytest

from proxy.settings import SettingsError, load_with_sources

TEXT = "upstreams: [{{name: a, protocol: chat, base_url: http://a}}]\nstate: {{{}}}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sub").mkdir()
    return tmp_path


def kept_in(folder: Path, state: str, environ: dict[str, str] | None = None) -> Path | None:
    (folder / "d.yaml").write_text(TEXT.format(state))
    loaded = load_with_sources(folder / "d.yaml", environ or {})
    # What the proxy itself writes is no reason to read the configuration again.
    assert loaded.sources.secrets == ()
    return loaded.settings.limits_file


def test_a_path_starts_at_the_folder_of_the_configuration(folder: Path) -> None:
    assert kept_in(folder, "limits_file: sub/limits.json") == folder / "sub" / "limits.json"
    assert kept_in(folder, f"limits_file: {folder}/limits.json, url: 'none:'") == folder / "limits.json"
    assert kept_in(folder, "", {"DRAGOMAN_STATE__LIMITS_FILE": "sub/l"}) == folder / "sub" / "l"
    assert kept_in(folder, "") is None
    assert kept_in(folder, "limits_file: ") is None


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("limits_file: none/limits.json", "there is no folder FOLDER/none"),
        ("limits_file: sub", "FOLDER/sub is a folder"),
        ("limits_file: d.yaml/limits.json", "there is no folder FOLDER/d.yaml"),
        ("limits_file: limits.yaml", "must not end in .yaml: it could be taken for a part of the configuration"),
        ("limits_file: 5", "must be a path"),
        ("limits_file: ''", "must be a path"),
        (
            "limits_file: limits.json, url: 'redis://h:1'",
            "means nothing beside a server in url, which keeps what was used itself",
        ),
    ],
)
def test_what_it_can_not_be(folder: Path, state: str, said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        kept_in(folder, state)
    expected = f"{folder}/d.yaml:2: state.limits_file: {said.replace('FOLDER', str(folder))}"
    assert [str(mistake) for mistake in caught.value.mistakes] == [expected]
