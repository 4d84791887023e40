"""A valid file becomes plain values with everything filled in."""

from dataclasses import fields, replace
from pathlib import Path

import pytest

from proxy.canonical.loss import Rule
from proxy.canonical.target import ModelProfile
from proxy.settings import Address, Drain, LossPolicy, Settings, Timeouts, load
from proxy.settings.schema import ModelProfileEntry
from proxy.translation.profiles import profile_of

REPOSITORY = Path(__file__).parents[2]

MINIMAL = """
upstreams:
  - {name: claude, protocol: messages, base_url: https://api.anthropic.com}
"""


def read(folder: Path, text: str, environ: dict[str, str] | None = None) -> Settings:
    file = folder / "dragoman.yaml"
    file.write_text(text)
    return load(file, environ or {})


def test_the_shipped_example_is_true() -> None:
    settings = load(REPOSITORY / "config/dragoman.yaml", {})
    routes = {name: settings.route(name) for name in ("claude-opus-5", "gpt-5-mini", "gpt-5", "llama-4")}
    assert {name: route and route.targets[0].upstream.name for name, route in routes.items()} == {
        "claude-opus-5": "claude",
        "gpt-5-mini": "claude",
        "gpt-5": "openai",
        "llama-4": "local",
    }


def test_one_upstream_and_nothing_else_serves_every_model(tmp_path: Path) -> None:
    settings = read(tmp_path, MINIMAL)
    route = settings.route("anything")
    assert route is not None
    assert (route.targets[0].upstream.name, route.targets[0].model) == ("claude", None)
    assert (settings.listen, settings.admin_listen) == (Address("127.0.0.1", 8080), Address("127.0.0.1", 9090))
    assert (settings.timeouts, settings.drain) == (Timeouts(), Drain())
    assert settings.max_body == 33554432


def test_the_first_match_wins_and_case_counts(tmp_path: Path) -> None:
    settings = read(
        tmp_path,
        MINIMAL
        + """
models:
  - {match: "gpt-[45]*", upstream: claude, model: one}
  - {match: "gpt-*", upstream: claude, model: two}
""",
    )
    found = [route and route.targets[0].model for route in map(settings.route, ("gpt-5", "gpt-6", "GPT-5", "x-gpt-5"))]
    assert found == ["one", "two", None, None]


@pytest.mark.parametrize(
    ("written", "root"),
    [
        ("https://api.openai.com", "https://api.openai.com/v1"),
        ("https://api.openai.com/v1/", "https://api.openai.com/v1"),
        ("http://127.0.0.1:8000/proxy", "http://127.0.0.1:8000/proxy/v1"),
        ("https://example.com/v1beta/openai", "https://example.com/v1beta/openai"),
        ("http://[::1]:8000", "http://[::1]:8000/v1"),
        ("https://chatgpt.com/backend-api/codex", None),
        ("https://r.openai.azure.com/openai/deployments/d?api-version=2024-10-21", None),
    ],
)
def test_a_base_url_with_or_without_its_version(tmp_path: Path, written: str, root: str | None) -> None:
    settings = read(tmp_path, f"upstreams: [{{name: a, protocol: chat, base_url: '{written}'}}]")
    assert settings.upstreams["a"].base_url == (root or written)


def test_timeouts_of_an_upstream_replace_the_general_ones(tmp_path: Path) -> None:
    settings = read(
        tmp_path,
        """
timeouts: {connect: 1s, first_event: 1m30s, heartbeat: 0}
upstreams:
  - name: a
    protocol: chat
    base_url: http://a
    timeouts: {connect: 500ms, commit_after: never, total: 2h}
""",
    )
    general = Timeouts(connect=1.0, first_event_stream=90.0, first_event_whole=90.0, heartbeat=0.0)
    assert settings.timeouts == general
    assert settings.upstreams["a"].timeouts == Timeouts(
        connect=0.5,
        first_event_stream=90.0,
        first_event_whole=90.0,
        commit_after=None,
        total_stream=7200.0,
        total_whole=7200.0,
        heartbeat=0.0,
    )


def test_off_is_a_word_and_no_boolean(tmp_path: Path) -> None:
    models = "models: [{match: a, upstream: claude, loss: off}, {match: b, upstream: claude, loss: [top-k, store]}]"
    settings = read(tmp_path, MINIMAL + models)
    assert [route.loss for route in settings.models] == [
        LossPolicy(shown=False),
        LossPolicy(refused=frozenset({Rule.TOP_K, Rule.STORE})),
    ]


def test_losses_to_refuse_and_losses_not_to_show(tmp_path: Path) -> None:
    losses = "loss: {mode: strict, refuse: [top-k], ignore: [store, prompt-cache-key]}"
    settings = read(tmp_path, MINIMAL + f"models: [{{match: a, upstream: claude, {losses}}}]")
    assert settings.models[0].loss == LossPolicy(
        strict=True,
        refused=frozenset({Rule.TOP_K}),
        ignored=frozenset({Rule.STORE, Rule.PROMPT_CACHE_KEY}),
    )


def test_models_that_the_table_does_not_know(tmp_path: Path) -> None:
    settings = read(
        tmp_path,
        MINIMAL
        + """
model_profiles:
  - {match: "house-*", base: claude-sonnet-4-5, max_output: 16000}
  - {match: "claude-opus-4-5*", structured: false}
  - {match: tiny, efforts: [high, low, none], sampling: false}
""",
    )
    sonnet = profile_of("claude-sonnet-4-5")
    assert settings.profile("house-large") == replace(sonnet, max_output=16000)
    assert settings.profile("claude-opus-4-5-20251101") == replace(profile_of("claude-opus-4-5"), structured=False)
    assert settings.profile("tiny") == ModelProfile("tiny", efforts=("none", "low", "high"), sampling=False)
    assert settings.profile("gpt-5") is profile_of("gpt-5")


def test_a_profile_has_every_field_in_the_file() -> None:
    known = {field.name for field in fields(ModelProfile)} - {"name"}
    assert set(ModelProfileEntry.model_fields) == known | {"match", "base", "tokenizer"}


def test_values_from_the_environment_and_from_files(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("sk-from-a-file\n")
    settings = read(
        tmp_path,
        f"""
listen: 127.0.0.1:${{PORT:-8081}}
upstreams:
  - name: a
    protocol: chat
    base_url: http://${{HOST}}:8000
    api_key: ${{file:{tmp_path}/token}}
    headers: {{X-Price: "5$$ and ${{EMPTY:-more}}"}}
  - name: b
    protocol: chat
    base_url: http://b
    api_key_file: token
models: [{{match: "*", upstream: a}}]
""",
        {"HOST": "backend", "EMPTY": ""},
    )
    a, b = settings.upstreams.values()
    assert (settings.listen.port, a.base_url) == (8081, "http://backend:8000/v1")
    assert [a.api_key and a.api_key.get_secret_value(), b.api_key and b.api_key.get_secret_value()] == [
        "sk-from-a-file",
        "sk-from-a-file",
    ]
    assert {name: value.get_secret_value() for name, value in a.headers.items()} == {"x-price": "5$ and more"}


def test_no_secret_shows_in_the_settings(tmp_path: Path) -> None:
    keyed = MINIMAL.replace("}", ", api_key: '${KEY}', headers: {x-token: hush-hush}}")
    settings = read(tmp_path, keyed, {"KEY": "sk-very-secret"})
    assert "sk-very-secret" not in repr(settings)
    assert "hush-hush" not in repr(settings)


def test_the_environment_overrides_scalars_of_the_file(tmp_path: Path) -> None:
    environ = {
        "DRAGOMAN_LISTEN": "127.0.0.1:1",
        "DRAGOMAN_ADMIN_LISTEN": "0.0.0.0:2",
        "DRAGOMAN_TIMEOUTS__CONNECT": "7s",
        "DRAGOMAN_WORKERS": "1",
        "DRAGOMAN_ELSEWHERE": "is none of ours",
    }
    settings = read(tmp_path, "listen: 127.0.0.1:3\n" + MINIMAL, environ)
    assert (settings.listen, settings.admin_listen) == (Address("127.0.0.1", 1), Address("0.0.0.0", 2))
    assert settings.timeouts.connect == 7.0


def test_options_override_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.yaml"
    file.write_text(MINIMAL)
    settings = load(file, {"DRAGOMAN_LISTEN": "127.0.0.1:1"}, {"listen": "[::1]:9"})
    assert str(settings.listen) == "[::1]:9"


def test_an_alias_repeats_what_its_anchor_said(tmp_path: Path) -> None:
    settings = read(
        tmp_path,
        """
upstreams:
  - {name: a, protocol: chat, base_url: http://a, timeouts: &slow {connect: 9s}}
  - {name: b, protocol: chat, base_url: http://b, timeouts: *slow}
models: [{match: "*", upstream: a}]
""",
    )
    assert [upstream.timeouts.connect for upstream in settings.upstreams.values()] == [9.0, 9.0]


def test_a_dialect_is_a_name_or_a_name_with_flags(tmp_path: Path) -> None:
    settings = read(
        tmp_path,
        """
upstreams:
  - {name: a, protocol: chat, base_url: http://a, dialect: vllm}
  - {name: b, protocol: chat, base_url: http://b, dialect: {base: vllm, single_system: true}}
models: [{match: "*", upstream: a}]
""",
    )
    assert [(u.dialect, u.dialect_flags) for u in settings.upstreams.values()] == [
        ("vllm", {}),
        ("vllm", {"single_system": True}),
    ]


HEX, BASE64 = "00" * 32, "AQEB" * 10 + "AQE="


@pytest.mark.parametrize(
    ("text", "environ", "keys"),
    [
        (f"state: {{carrier_keys: ['{HEX}', '{BASE64}']}}", {}, [bytes(32), b"\x01" * 32]),
        (f"state: {{carrier_keys: ['{HEX}']}}", {"DRAGOMAN_CARRIER_KEY": BASE64}, [bytes(32)]),
        ("", {"DRAGOMAN_CARRIER_KEY": HEX}, [bytes(32)]),
        ("", {}, []),
    ],
)
def test_keys_that_seal_carriers(tmp_path: Path, text: str, environ: dict[str, str], keys: list[bytes]) -> None:
    settings = read(tmp_path, MINIMAL + text, environ)
    assert [key.get_secret_value() for key in settings.carrier_keys] == keys
    assert HEX not in repr(settings)


def test_ten_thousand_tenants(tmp_path: Path) -> None:
    digits = str.maketrans("0123456789", "abcdefghjk")
    key = "{{kid: {}, hash: 'sha256:" + "0" * 64 + "', expires_at: 2027-01-15}}"
    limits = "models: {allow: ['claude-*', 'gpt-*'], deny: ['*-pro']}, limits: {rpm: 120, tpm: 400000, streams: 10}"
    tenants = [
        f"  - {{name: t-{n}, keys: [{key.format(f'{n:012}'.translate(digits))}], {limits}}}\n" for n in range(10_000)
    ]
    text = MINIMAL + f"state: {{carrier_keys: ['{HEX}']}}\ntenants:\n" + "".join(tenants)
    assert len(read(tmp_path, text).tenants or {}) == 10_000


@pytest.mark.parametrize(
    ("traces", "environ", "content"),
    [
        ("endpoint: http://c", {}, "NO_CONTENT"),
        ("endpoint: http://c, content: SPAN_ONLY", {}, "SPAN_ONLY"),
        (
            "endpoint: http://c",
            {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "span_and_event"},
            "SPAN_AND_EVENT",
        ),
    ],
)
def test_content_is_recorded_only_where_it_is_said(
    tmp_path: Path, traces: str, environ: dict[str, str], content: str
) -> None:
    settings = read(tmp_path, f"{MINIMAL}telemetry: {{traces: {{{traces}}}}}", environ)
    assert settings.traces is not None
    assert settings.traces.content == content


def test_the_switch_for_content_is_nothing_without_a_receiver(tmp_path: Path) -> None:
    switch = {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "nonsense"}
    assert read(tmp_path, MINIMAL, switch).traces is None


@pytest.mark.parametrize(
    ("lines", "kept"),
    [("", "memory:"), ("workers: 2", None), ("workers: 2\nstate: {url: 'sqlite:///s'}", "sqlite:///s")],
)
def test_several_workers_keep_nothing_in_memory(tmp_path: Path, lines: str, kept: str | None) -> None:
    state = read(tmp_path, MINIMAL + lines).state
    assert (state and state.url.get_secret_value()) == kept
