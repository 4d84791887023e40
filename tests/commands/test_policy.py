"""`dragoman policy`, as its user sees it: what is printed, and the exit code."""

import io
import sys
from pathlib import Path

import pytest
import yaml

from proxy.cli import main

CONFIG = """\
state: {carrier_keys: [CARRIER]}
prices: [{match: "*", input: 1, output: 2}]
upstreams:
  - {name: openai, protocol: responses, base_url: "https://api.openai.com", api_key: sk-of-everybody}
  - {name: claude, protocol: messages, base_url: "https://api.anthropic.com", api_key: sk-other}
  - {name: own, protocol: chat, base_url: "http://127.0.0.1:1234"}
models:
  - {match: claude-*, upstream: claude, model: claude-opus-5}
  - {match: local, upstream: own}
  - {match: gpt-*, upstream: openai}
  - match: mixed
    upstream: [{upstream: openai, weight: 3}, {upstream: claude, weight: 1}, own]
    on_context_length: {upstream: claude, model: claude-opus-5}
  - {match: either, upstream: [claude, {upstream: own, model: qwen}]}
tenant_defaults:
  limits: {rpm: 60, max_output_tokens: 2000}
  ip_allow: [10.0.0.0/8]
tenants:
  - name: team
    protocols: [messages, chat]
    keys:
      - {kid: 7k3m7k3m7k3m, hash: "sha256:HASH", expires_at: 2027-01-15T00:00:00Z}
    models: {allow: ["claude-*", "gpt-*"], deny: ["*-pro"], default: claude-fast}
    upstream: {mode: map, map: {claude: {api_key: sk-secret-of-team}}}
    tools: {hosted: {allow: [web_search]}, functions: {max: 2}, mcp_servers: {allow: []}}
    limits: {rpd: 1000, max_body_bytes: 1KiB, budget: {usd: 12.5}}
    loss: {mode: strict, refuse: [tool-choice]}
  - name: open
    keys: [{kid: 7k3m7k3m7k3n, hash: "sha256:HASH"}]
    ip_allow: ["0.0.0.0/0", "::/0"]
  - name: byok
    upstream: {mode: byok, byok_upstreams: [own]}
    ip_allow: ["0.0.0.0/0"]
  - {name: gone, disabled: true, not_before: 2020-01-01, ip_allow: ["0.0.0.0/0"]}
  - name: strict
    keys: [{kid: 7k3m7k3m7k3p, hash: "sha256:HASH"}]
    ip_allow: ["0.0.0.0/0"]
    limits: {on_excess_output: refuse}
""".replace("HASH", "0" * 64).replace("CARRIER", "ab" * 32)


@pytest.fixture
def config(tmp_path: Path) -> str:
    file = tmp_path / "dragoman.yaml"
    file.write_text(CONFIG)
    return str(file)


def ask(config: str, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, str], str]:
    """The exit code, the verdict on each field (the last, where there are several), and all that was printed."""
    code = main(["policy", "explain", "--config", config, *arguments])
    printed = capsys.readouterr().out
    rows = [line.split(None, 1) for line in printed.splitlines()]
    words = ("allowed", "refused", "can't tell")
    verdicts = {row[0]: next(word for word in words if row[1].startswith(word)) for row in rows}
    return code, verdicts, printed


# --- show ---


def test_show_prints_the_tenants_fields_over_the_defaults(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "show", "team", "--config", config]) == 0
    printed = capsys.readouterr().out
    assert yaml.safe_load(printed) == {
        "name": "team",
        "disabled": False,
        "keys": [{"kid": "7k3m7k3m7k3m", "hash": "**********", "expires_at": "2027-01-15T00:00:00Z"}],
        "protocols": ["chat", "messages"],
        "models": {"allow": ["claude-*", "gpt-*"], "deny": ["*-pro"], "default": "claude-fast"},
        "upstream": {"mode": "map", "map": {"claude": {"api_key": "**********"}}},
        "tools": {
            "functions": {"deny": [], "max": 2},
            "hosted": {"allow": ["web_search"], "deny": []},
            "mcp_servers": {"allow": [], "deny": []},
        },
        "limits": {
            "rpm": 60,
            "rpd": 1000,
            "max_body_bytes": 1024,
            "max_output_tokens": 2000,
            "on_excess_output": "clamp",
            "timezone": "UTC",
            "budget": {"usd": 12.5, "period": "month", "timezone": "UTC", "hard": True},
        },
        "ip_allow": ["10.0.0.0/8"],
        "loss": {"mode": "strict", "refuse": ["tool-choice"]},
        "log_content": "never",
        "audit_denials": False,
        "metadata": {},
        "forward_metadata": [],
    }
    assert "sk-" not in printed
    assert "0" * 64 not in printed


def test_show_says_what_absence_means(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "show", "byok", "--config", config]) == 0
    printed = capsys.readouterr().out
    for line in (
        "# protocols is absent: all",
        "# endpoints is absent: all, but what is stored with a key that tenants share",
        "  # allow is absent: all",
        "  # default is absent: a request must name its model",
        "    # max is absent: any number",
        "  # tpm is absent: no limit",
        "  # budget is absent: no limit",
        "# loss is absent: as the model's entry says",
        "keys: []  # who brings a backend's key needs none",
        "  byok_upstreams: [own]",
    ):
        assert line in printed.splitlines()


@pytest.mark.parametrize("action", [["show"], ["explain", "--tenant"]])
def test_who_is_not_there_is_named(config: str, capsys: pytest.CaptureFixture[str], action: list[str]) -> None:
    assert main(["policy", *action, "nobody", "--config", config]) == 2
    assert capsys.readouterr().err == f"{config}: there is no tenant 'nobody'\n"


def test_a_configuration_with_mistakes_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("upstreams: 1\n")
    assert main(["policy", "show", "team", "--config", str(file)]) == 2
    assert "upstreams" in capsys.readouterr().err


# --- explain ---


def test_a_request_is_judged_rule_by_rule(config: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    request = tmp_path / "request.json"
    request.write_text(
        '{"max_tokens": 9000, "tools": [{"name": "a"}, {"name": "b"}, {"name": "c"}, {"type": "bash_20250124"}],'
        ' "mcp_servers": [{"url": "https://a.example/"}], "fallbacks": [{"model": "claude-pro"}]}'
    )
    code, verdicts, printed = ask(
        config, capsys, "--tenant", "team", "--protocol", "messages", "--ip", "10.1.1.1", str(request)
    )
    assert code == 1
    assert verdicts == {
        "name": "allowed",
        "ip_allow": "allowed",
        "protocols": "allowed",
        "endpoints": "allowed",
        "limits.max_body_bytes": "allowed",
        "models": "refused",
        "tools.functions": "refused",
        "tools.hosted": "refused",
        "tools.mcp_servers": "refused",
        "limits.max_output_tokens": "allowed",
        "route": "allowed",
    }
    for said in (
        "tools[2]: this key may use at most 2 functions.  (max 2)",
        "tools[3]: this key may not use the tool 'bash_20250124'.  (allow web_search)",
        "mcp_servers[0].url: this key may not use this MCP server.  (allow nothing)",
        "max_tokens becomes 2000  (2000, clamp)",
        "claude-opus-5 at claude (messages), with the tenant's key of upstream.map  (match claude-*)",
    ):
        assert said in printed


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ("--tenant open --ip 1.1.1.1 --model gpt-5", 0, {}),
        ("--tenant open --model gpt-5", 2, {"ip_allow": "can't tell"}),
        ("--tenant open --ip 1.1.1.1", 2, {"route": "can't tell"}),
        ("--tenant open --ip 1.1.1.1 --model o9", 1, {"route": "refused"}),
        ("--tenant open --ip 1.1.1.1 --model gpt-5 --endpoint stored", 1, {"endpoints": "refused"}),
        ("--tenant team --ip 10.1.1.1 --protocol chat --model gpt-5-pro", 1, {"models": "refused"}),
        ("--tenant team --ip 10.1.1.1 --protocol chat", 2, {"models": "allowed", "tools.hosted": "can't tell"}),
        ("--tenant team --ip 11.1.1.1 --protocol responses", 1, {"ip_allow": "refused", "protocols": "refused"}),
        ("--tenant byok --ip 1.1.1.1 --model local --endpoint stored", 0, {"endpoints": "allowed"}),
        ("--tenant byok --ip 1.1.1.1 --model gpt-5", 1, {"route": "refused"}),
        ("--tenant gone --ip 1.1.1.1 --model gpt-5", 1, {"name": "refused"}),
        ("--tenant strict --ip 1.1.1.1 --model gpt-5", 2, {"limits.max_output_tokens": "can't tell"}),
    ],
)
def test_the_exit_code_tells_refused_from_unknown(
    config: str, capsys: pytest.CaptureFixture[str], arguments: str, code: int, told: dict[str, str]
) -> None:
    found, verdicts, _ = ask(config, capsys, *arguments.split())
    assert found == code
    assert told.items() <= verdicts.items()


@pytest.mark.parametrize(
    ("model", "tenant", "told"),
    [
        (
            "mixed",
            "open",
            [
                "mixed at openai (responses), with the upstream's own key, which tenants share: 75% of the load",
                "mixed at claude (messages), with the upstream's own key, which tenants share: 25% of the load",
                "mixed at own (chat), with no key: the upstream has none: when those before fail",
                "claude-opus-5 at claude (messages), with the upstream's own key, which tenants share: "
                "for prompts that are too long for the others",
            ],
        ),
        (
            "either",
            "byok",
            [
                "either at claude (messages), with no key: upstream.byok_upstreams does not name it: left out",
                "qwen at own (chat), with the caller's own key, from the header authorization: when those before fail",
            ],
        ),
    ],
)
def test_each_target_is_told(
    config: str, capsys: pytest.CaptureFixture[str], model: str, tenant: str, told: list[str]
) -> None:
    code, _, printed = ask(config, capsys, "--tenant", tenant, "--ip", "1.1.1.1", "--model", model)
    routes = [line.split("allowed", 1)[1].strip() for line in printed.splitlines() if line.startswith("route")]
    assert (code, routes) == (0, [f"{each}  (match {model})" for each in told])


@pytest.mark.parametrize(
    ("body", "tenant", "code", "said"),
    [
        ('{"model": "gpt-5", "messages": []}', "team", 0, "max_completion_tokens becomes 2000"),
        ('{"model": "gpt-5", "model": "gpt-5-pro"}', "team", 1, "the member 'model' stands twice"),
        ('{"model": "gpt-5", "tools": 1}', "team", 1, "tools: expected an array."),
        ('{"model": ', "team", 1, "it is not valid JSON"),
        ("[]", "team", 1, "it is not a JSON object"),
        ('{"model": "gpt-5", "x": "' + "x" * 2000 + '"}', "team", 1, "bytes  (1024)"),
        ('{"model": "gpt-5", "max_tokens": 9000}', "strict", 1, "max_tokens: at most 2000 tokens"),
        ('{"model": "gpt-5", "prompt": {"id": "p"}}', "strict", 0, "max_completion_tokens becomes 2000"),
    ],
)
def test_a_request_may_come_from_standard_input(
    config: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    body: str,
    tenant: str,
    code: int,
    said: str,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(body.encode())))
    found, _, printed = ask(config, capsys, "--tenant", tenant, "--protocol", "chat", "--ip", "10.1.1.1", "-")
    assert said in printed
    assert found == code


def test_without_a_protocol_a_body_can_not_be_read(
    config: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    request = tmp_path / "request.json"
    request.write_text('{"model": "gpt-5"}')
    code, verdicts, _ = ask(config, capsys, "--tenant", "open", "--ip", "1.1.1.1", str(request))
    assert (code, verdicts["body"]) == (2, "can't tell")


def test_a_request_that_is_not_there_is_named(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "explain", "--config", config, "--tenant", "open", "/no/such/file"]) == 2
    assert capsys.readouterr().err == "/no/such/file: can't be read: No such file or directory\n"
