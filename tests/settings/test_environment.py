"""Without a file, the vendors' usual variables are enough."""

import pytest

from proxy.settings import NothingToServe, Settings, SettingsError, from_environment


def targets(settings: Settings, *models: str) -> list[str | None]:
    return [route and route.targets[0].upstream.name for route in map(settings.route, models)]


def test_both_keys_divide_the_models() -> None:
    settings = from_environment({"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "o"})
    assert targets(settings, "claude-opus-5", "gpt-5", "other") == ["anthropic", "openai", "openai"]
    assert {name: (u.protocol, u.base_url) for name, u in settings.upstreams.items()} == {
        "anthropic": ("messages", "https://api.anthropic.com/v1"),
        "openai": ("responses", "https://api.openai.com/v1"),
    }


@pytest.mark.parametrize(("variable", "name"), [("ANTHROPIC_API_KEY", "anthropic"), ("OPENAI_API_KEY", "openai")])
def test_one_key_takes_every_model(variable: str, name: str) -> None:
    settings = from_environment({variable: "key"})
    assert targets(settings, "claude-opus-5", "gpt-5") == [name, name]
    key = settings.upstreams[name].api_key
    assert key is not None
    assert key.get_secret_value() == "key"


def test_a_key_with_a_dollar_sign_is_taken_as_it_is() -> None:
    key = from_environment({"OPENAI_API_KEY": "a${b}$$"}).upstreams["openai"].api_key
    assert key is not None
    assert key.get_secret_value() == "a${b}$$"


def test_no_key_is_nothing_to_serve() -> None:
    with pytest.raises(NothingToServe):
        from_environment({"OPENAI_API_KEY": ""})


def test_the_demo_needs_no_key_and_uses_none() -> None:
    settings = from_environment({"ANTHROPIC_API_KEY": "a"}, demo=True).with_demo_at("http://127.0.0.1:4711")
    assert targets(settings, "claude-opus-5", "gpt-5") == ["demo", "demo"]
    route = settings.route("any")
    assert route is not None
    assert route.targets[0].upstream.base_url == settings.upstreams["demo"].base_url == "http://127.0.0.1:4711/v1"


def test_overrides_hold_here_too() -> None:
    assert from_environment({"DRAGOMAN_LISTEN": "[::1]:1"}, demo=True).listen == ("::1", 1)
    with pytest.raises(SettingsError) as caught:
        from_environment({}, demo=True, options={"listen": "0.0.0.0:80"})
    assert [(m.file, m.field) for m in caught.value.mistakes] == [("command line", "--listen")]


def test_a_bad_key_is_told_without_being_shown() -> None:
    with pytest.raises(SettingsError) as caught:
        from_environment({"OPENAI_API_KEY": "sk-secret\n"})
    assert str(caught.value) == "environment: OPENAI_API_KEY: holds a character that can't stand in a header"
