"""The published schema is the one of the models, and says of documents what they do."""

import re
from pathlib import Path

import orjson
import pytest
from jsonschema_rs import validator_for

from proxy.settings import SettingsError, load
from proxy.settings.document import Value, read_yaml
from proxy.settings.json_schema import json_schema
from proxy.settings.schema import SettingsFile

CONFIG = Path(__file__).parents[2] / "config"
VALIDATOR = validator_for(json_schema())

UPSTREAM = "{name: a, protocol: chat, base_url: http://a}"
FILE = f"upstreams: [{UPSTREAM}]\n"
KEY = "{kid: 0123456789ab, hash: 'sha256:" + "0" * 64 + "'}"
STATE = f"state: {{carrier_keys: ['{'00' * 32}']}}\n"
TENANT = f"{FILE}{STATE}tenants: [{{name: t, keys: [{KEY}], "


def parsed(text: str) -> dict[str, Value]:
    return read_yaml("text", text).root


def uncommented(text: str) -> str:
    """With the sections that are commented out."""
    return re.sub(rf"^# (?=  |(?:{'|'.join(SettingsFile.model_fields)}):)", "", text, flags=re.MULTILINE)


def test_the_published_file_is_up_to_date() -> None:
    assert orjson.loads((CONFIG / "dragoman.schema.json").read_bytes()) == json_schema()


def test_the_example_names_the_schema_and_keeps_it() -> None:
    text = (CONFIG / "dragoman.yaml").read_text()
    assert text.startswith("# yaml-language-server: $schema=./dragoman.schema.json\n")
    assert VALIDATOR.is_valid(parsed(text))


def test_what_the_example_shows_in_comments_is_true(tmp_path: Path) -> None:
    text = uncommented((CONFIG / "dragoman.yaml").read_text())
    root = parsed(text)
    assert {"tenants", "tenant_defaults", "prices", "key_pepper", "trusted_proxies", "admin_token"} <= set(root)
    VALIDATOR.validate(root)
    file = tmp_path / "dragoman.yaml"
    file.write_text(text)
    secrets = ("DRAGOMAN_CARRIER_KEY", "DRAGOMAN_PEPPER", "DRAGOMAN_ADMIN_TOKEN", "TEAM_A_CLAUDE_KEY")
    assert load(file, dict.fromkeys(secrets, "00" * 32)).tenants


@pytest.mark.parametrize(
    "text",
    [
        FILE,
        FILE + "timeouts:\ndrain: {lame_duck: 0, max_stream: 1m30s}\nmax_body: 1024",
        FILE + "listen: '[::1]:80'\nadmin_listen: 127.0.0.1:${PORT}\nmax_body: ${SIZE}\nversion: 1",
        f"upstreams: [{UPSTREAM[:-1]}, api_key: '${{KEY}}', dialect: {{base: vllm, single_system: true}}, "
        "max_connections: '${MANY}', headers: {x-a: b}, always_stream_upstream: '${FLAG}', "
        "timeouts: {commit_after: never}}]",
        f"upstreams: [{UPSTREAM[:-1]}, api_keys: [first, '${{KEY}}'], breaker: off, retries: {{max_wait: 0}}}}]",
        f"upstreams: [{UPSTREAM[:-1]}, breaker: {{ratio: 0.2, open: 1s}}, retries: {{share: 0.1, free: 0}}}}]",
        FILE + "models: [{match: '*', upstream: a, loss: off, fan_out: 3}]",
        FILE + "models: [{match: '*', upstream: [a, {upstream: a, model: m, weight: '${MANY}'}]}]",
        FILE + "models: [{match: '*', upstream: a, on_context_length: {upstream: a, model: m}}]",
        FILE + "models: [{match: '*', upstream: a, loss: {mode: report, ignore: [top-k]}}]",
        FILE + "models: [{match: '*', upstream: a, loss: [top-k], validate_output: '${CHECK}'}]",
        FILE + "model_profiles: [{match: x, base: claude-sonnet-4-5, efforts: [high], max_output: 5}]",
        FILE + "state: {url: 'redis://h:1', on_failure: open}",
        FILE + "trusted_proxies: [10.0.0.1, '2001:db8::/32']\ntrust_request_id_from: [X-Id]\nkey_pepper: " + "p" * 32,
        FILE + "prices: [{match: '*', input: 0.25, output: 1, hosted: {web_search: 0.01}}]",
        FILE + "tenants: []",
        TENANT + "limits: {rpm: 1, max_body_bytes: 1MiB, budget: {usd: 1.5, hard: false, anchor: 2026-12-01}}}]",
        TENANT + "expires_at: 2027-01-01, not_before: 2026-01-01T00:00:00+01:00, metadata: {a: b}}]",
        TENANT + "protocols: [chat], endpoints: [], models: {allow: []}, ip_allow: [10.0.0.0/8], limits: {rpm: null}}]",
        TENANT + "tools: {hosted: {deny: [mcp]}, functions: {max: 0}}, upstream: {mode: map, map: {a: {api_key: k}}}}]",
    ],
)
def test_what_is_read_keeps_the_schema(tmp_path: Path, text: str) -> None:
    file = tmp_path / "d.yaml"
    file.write_text(text)
    filled = {"PORT": "1", "SIZE": "1MiB", "KEY": "k", "MANY": "3", "FLAG": "true", "CHECK": "off"}
    assert load(file, filled)
    VALIDATOR.validate(parsed(text))


@pytest.mark.parametrize(
    "text",
    [
        "listen: 127.0.0.1:1",
        "upstreams: []",
        FILE + "listne: 127.0.0.1:1",
        FILE + "listen: 8080",
        FILE + "listen: '8080'",
        FILE + "drain: {max_stream: 30}",
        FILE + "drain: {max_stream: soon}",
        FILE + "max_body: 0",
        FILE + "max_body: 32 parsecs",
        FILE + "workers: 0",
        FILE + "telemetry: {traces: {}}",
        FILE + "telemetry: {traces: {endpoint: 'grpc://h'}}",
        FILE + "telemetry: {traces: {endpoint: 'http://h', sample: 2}}",
        FILE + "telemetry: {traces: {endpoint: 'http://h', accept: sometimes}}",
        FILE + "key_pepper: short",
        FILE + "state: {url: 'http://h'}",
        FILE + "state: {carrier_keys: [short]}",
        FILE + "models: [{match: '', upstream: a}]",
        FILE + "models: [{match: '*', upstream: []}]",
        FILE + "models: [{match: '*', upstream: [{model: m}]}]",
        FILE + "models: [{match: '*', upstream: [{upstream: a, weight: 0}]}]",
        FILE + "models: [{match: '*', upstream: a, on_context_length: [a]}]",
        FILE + "models: [{match: '*', upstream: a, loss: loud}]",
        FILE + "models: [{match: '*', upstream: a, loss: [top-kk]}]",
        FILE + "models: [{match: '*', upstream: a, fan_out: 99}]",
        FILE + "models: [{match: '*', upstream: a, hosted_tools: emulate}]",
        FILE + "model_profiles: [{match: x, base: no-such-model}]",
        f"upstreams: [{UPSTREAM[:-1]}, headers: {{'a b': c}}}}]",
        f"upstreams: [{UPSTREAM[:-1]}, breaker: {{ratio: 1}}}}]",
        f"upstreams: [{UPSTREAM[:-1]}, breaker: on}}]",
        f"upstreams: [{UPSTREAM[:-1]}, retries: {{free: -1}}}}]",
        f"upstreams: [{UPSTREAM[:-1]}, api_keys: k}}]",
        f"upstreams: [{UPSTREAM[:-1]}, always_stream_upstream: maybe}}]",
        FILE + "tenants:",
        FILE + "tenants: [{name: Team}]",
        TENANT + "protocols: }]",
        TENANT + "protocols: [grpc]}]",
        TENANT + "models: {allow: }}]",
        TENANT + "expires_at: tomorrow}]",
        TENANT + "ip_allow: [everyone]}]",
        TENANT + "limits: {rpm: 0}}]",
        TENANT + "limits: {budget: {usd: -1}}}]",
        TENANT.replace("sha256:0", "sha256:x") + "}]",
        TENANT.replace("kid: 0", "kid: u") + "}]",
    ],
)
def test_what_is_refused_breaks_the_schema(tmp_path: Path, text: str) -> None:
    file = tmp_path / "d.yaml"
    file.write_text(text)
    with pytest.raises(SettingsError):
        load(file, {})
    assert not VALIDATOR.is_valid(parsed(text))
