"""What is wrong with a configuration is told without the secrets that stand in it."""

from pathlib import Path

import pytest
import yaml

from proxy.settings import SettingsError, load

SECRET = 'a "secret\\ of ours'
UPSTREAM = {"name": "one", "protocol": "chat", "base_url": "http://127.0.0.1:9"}
MAPPED = {"name": "t", "upstream": {"mode": "map", "map": {"one": {"api_key": SECRET}}}}


@pytest.mark.parametrize(
    "place",
    [
        {"upstreams": [{**UPSTREAM, "api_key": SECRET}]},
        {"upstreams": [{**UPSTREAM, "api_key_file": "key"}]},
        {"upstreams": [{**UPSTREAM, "headers": {"x-key": SECRET}}]},
        {"upstreams": [{**UPSTREAM, "api_key": "${THE_KEY}"}]},
        {"upstreams": [UPSTREAM], "tenants": [MAPPED]},
        {"upstreams": [UPSTREAM], "tenant_defaults": {"upstream": MAPPED["upstream"]}},
        {"upstreams": [UPSTREAM], "key_pepper": SECRET},
        {"upstreams": [UPSTREAM], "admin_token": SECRET},
        {"upstreams": [UPSTREAM], "state": {"carrier_keys": [SECRET]}},
    ],
)
@pytest.mark.parametrize("wrong", ["models", "match", "zone"])
def test_a_secret_in_a_wrong_place_too(tmp_path: Path, place: dict[str, object], wrong: str) -> None:
    (tmp_path / "key").write_text(SECRET)
    defaults = place.get("tenant_defaults", {})
    assert isinstance(defaults, dict)
    elsewhere: dict[str, dict[str, object]] = {
        "models": {"models": [{"match": "*", "upstream": SECRET}]},
        "match": {"models": [{"match": f"[{SECRET}", "upstream": "one"}]},
        "zone": {"tenant_defaults": {**defaults, "limits": {"timezone": SECRET}}},
    }
    assert SECRET not in told(tmp_path, {**place, **elsewhere[wrong]})


def told(folder: Path, wire: dict[str, object]) -> str:
    file = folder / "dragoman.yaml"
    file.write_text(yaml.safe_dump(wire))
    with pytest.raises(SettingsError) as raised:
        load(file, {"THE_KEY": SECRET})
    text = str(raised.value)
    assert "***" in text, text
    return text.replace("\\\\", "\\")


@pytest.mark.parametrize("key", ["sk-ant-api03-abcdefghijklmnop", "AIza" + "a1" * 18])
def test_a_key_where_a_file_is_meant(tmp_path: Path, key: str) -> None:
    assert key not in told(tmp_path, {"upstreams": [{**UPSTREAM, "api_key_file": key}]})


@pytest.mark.parametrize("url", ["redis://:pa/ssword@host:6379/0", "redis://host:port/0", "redis://host:0/0"])
def test_an_address_of_the_store_that_can_not_be(tmp_path: Path, url: str) -> None:
    file = tmp_path / "dragoman.yaml"
    file.write_text(yaml.safe_dump({"upstreams": [UPSTREAM], "state": {"url": url}}))
    with pytest.raises(SettingsError) as raised:
        load(file, {})
    assert "has a port that is no number; in a password, write / as %2F" in str(raised.value)
    assert url not in str(raised.value)
