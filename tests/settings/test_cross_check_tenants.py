"""What tenants, keys, limits and prices must not say together."""

from pathlib import Path

import pytest

from proxy.settings import Settings, SettingsError, load

KEY = "{kid: 0123456789ab, hash: 'sha256:" + "0" * 64 + "'}"
HEAD = f"""\
state: {{carrier_keys: ['{"00" * 32}']}}
upstreams:
  - {{name: a, protocol: chat, base_url: http://a}}
  - {{name: b, protocol: chat, base_url: http://b, api_key: secret}}
models:
  - {{match: "gpt-*", upstream: a}}
  - {{match: "fast", upstream: b, model: claude-haiku}}
"""
ONE = f"{HEAD}tenants:\n  - name: t\n    keys: [{KEY}]\n"


def read(folder: Path, text: str, environ: dict[str, str] | None = None) -> Settings:
    (folder / "key").write_text("sk-1")
    (folder / "d.yaml").write_text(text)
    return load(folder / "d.yaml", environ or {})


def told(folder: Path, text: str) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        read(folder, text)
    return [str(mistake).removeprefix(f"{folder}/d.yaml:") for mistake in caught.value.mistakes]


def test_names_and_key_ids_are_unique_over_all_tenants(tmp_path: Path) -> None:
    assert told(tmp_path, ONE + f"  - name: t\n    keys:\n      - {KEY}\n") == [
        "11: tenants[1].name: another tenant, tenants[0], is called 't'",
        "13: tenants[1].keys[0].kid: tenants[0].keys[0].kid is the same: no two keys share one",
    ]


def test_a_key_id_of_digits_alone(tmp_path: Path) -> None:
    assert told(tmp_path, ONE.replace("0123456789ab", "123456789012")) == [
        "10: tenants[0].keys[0].kid: must stand in quotes: YAML takes it for a number"
    ]


def test_a_key_that_needs_a_pepper(tmp_path: Path) -> None:
    text = ONE.replace("'sha256", "'hmac-sha256")
    assert told(tmp_path, text) == ["10: tenants[0].keys[0].hash: needs the key_pepper that it was made with"]
    more = text.replace("]\n", ", {kid: 0123456789ac, hash: 'hmac-sha256:" + "0" * 64 + "'}]\n")
    assert told(tmp_path, more)[0].endswith("made with, and 1 more keys do")
    assert read(tmp_path, text, {"DRAGOMAN_KEY_PEPPER": "p" * 32}).tenants


def test_tenants_need_keys_that_seal_carriers(tmp_path: Path) -> None:
    text = ONE.replace(HEAD.splitlines()[0], "reasoning: none").replace("reasoning: none\n", "")
    [mistake] = told(tmp_path, text)
    assert mistake.startswith("1: state.carrier_keys: is required with tenants")
    assert read(tmp_path, text, {"DRAGOMAN_CARRIER_KEY": "00" * 32}).tenants


def test_nobody_and_everybody_are_said_in_so_many_words(tmp_path: Path) -> None:
    assert read(tmp_path, HEAD + "listen: 0.0.0.0:80\ntenants: []").tenants == {}
    assert told(tmp_path, HEAD + "listen: 0.0.0.0:80\ntenants:\n") == [
        "9: tenants: is empty: [] lets nobody in; leave the key out to ask nobody for a key"
    ]


@pytest.mark.parametrize(
    "lists", ["models: {allow: }", "protocols: ", "endpoints: ", "ip_allow: ", "tools: {hosted: {allow: }}"]
)
def test_an_empty_value_is_neither_all_nor_nothing(tmp_path: Path, lists: str) -> None:
    [mistake] = told(tmp_path, f"{ONE}    {lists}\n")
    assert mistake.endswith("is empty: [] allows nothing; leave the key out to allow everything")


@pytest.mark.parametrize(
    "policy",
    [
        "protocols: []",
        "models: {allow: []}",
        "models: {allow: [gpt-*], deny: ['*-pro'], default: gpt-5}",
        "tools: {hosted: {allow: [web_search], deny: [mcp]}}",
        "limits: {rpm: 10, rpd: 10, streams: 5, concurrency: 5}",
        "upstream: {mode: map, map: {a: {api_key: k}}}",
        "upstream: {mode: byok}",
        "upstream: {mode: byok, byok_upstreams: [b], byok_header: x-mine}",
        "metadata: {owner: o}\n    forward_metadata: [owner]",
        "not_before: 2026-12-01\n    expires_at: 2026-12-02",
        "limits: {budget: {usd: 1, hard: false}}",
    ],
)
def test_what_goes_together(tmp_path: Path, policy: str) -> None:
    assert read(tmp_path, f"{ONE}    {policy}\n").tenants


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("expires_at: 2026-01-01\n    not_before: 2026-01-02", "expires_at: is not after not_before"),
        ("models: {allow: [gpt-5], deny: ['gpt-*']}", "models.allow: deny refuses all of it"),
        ("models: {allow: ['gpt-*', fast], deny: [fast]}", "models.allow[1]: deny refuses all of 'fast'"),
        ("tools: {hosted: {allow: [a, mcp], deny: [mcp]}}", "tools.hosted.allow[1]: deny refuses all of 'mcp'"),
        ("models: {allow: [fast], default: gpt-5}", "models.default: 'gpt-5' is not allowed by allow and deny"),
        ("models: {deny: [fast], default: fast}", "models.default: 'fast' is not allowed by allow and deny"),
        ("models: {default: llama}", "models.default: 'llama' goes nowhere: no match of models"),
        ("limits: {streams: 6, concurrency: 5}", "limits.streams: streams is more than concurrency"),
        ("limits: {rpm: 6, rpd: 5}", "limits.rpm: rpm is more than rpd"),
        ("limits: {tpd: 5, tpm: 6}", "limits.tpm: tpm is more than tpd"),
        ("forward_metadata: [owner]", "forward_metadata[0]: metadata has no 'owner'"),
        ("upstream: {map: {a: {api_key: k}}}", "upstream.map: means nothing while mode is shared: say mode: map"),
        ("upstream: {byok_upstreams: [a]}", "upstream.byok_upstreams: means nothing while mode is shared"),
        ("upstream: {byok_header: x-k}", "upstream.byok_header: means nothing while mode is shared"),
        ("upstream: {mode: map}", "upstream.map: is needed with mode: map"),
        ("upstream: {mode: map, map: {c: {api_key: k}}}", "upstream.map.c: no upstream is called 'c', there is a, b"),
        ("upstream: {mode: map, map: {a: {}}}", "upstream.map.a: give either api_key or api_key_file"),
        (
            "upstream: {mode: map, map: {a: {api_key: k, api_key_file: key}}}",
            "upstream.map.a: give either api_key or api_key_file",
        ),
        ("upstream: {mode: byok, byok_upstreams: [c]}", "upstream.byok_upstreams[0]: no upstream is called 'c'"),
        ("limits: {budget: {usd: 1}}", "limits.budget: is hard, so it needs a price for every model: none of prices"),
    ],
)
def test_what_does_not(tmp_path: Path, policy: str, expected: str) -> None:
    found = [mistake.partition(": ")[2] for mistake in told(tmp_path, f"{ONE}    {policy}\n")]
    assert [mistake.removeprefix("tenants[0].")[: len(expected)] for mistake in found][:1] == [expected]
    assert all(mistake.startswith("tenants[0].") for mistake in found)


def test_dates_of_a_key(tmp_path: Path) -> None:
    text = ONE.replace("{kid", "{expires_at: 2026-01-01, not_before: 2026-01-01, kid")
    assert told(tmp_path, text) == ["10: tenants[0].keys[0].expires_at: is not after not_before, so it never holds"]


def test_a_tenant_that_nobody_can_be(tmp_path: Path) -> None:
    others = "  - {name: u}\n  - {name: v, disabled: true}\n"
    assert told(tmp_path, ONE + others) == [
        "11: tenants[1].keys: is needed: nobody can be a tenant without keys, unless mode is byok"
    ]


def test_one_tenant_takes_those_that_bring_their_own_keys(tmp_path: Path) -> None:
    byok = "  - {{name: {}, upstream: {{mode: byok}}}}\n"
    assert set(read(tmp_path, ONE + byok.format("u")).tenants or {}) == {"t", "u"}
    assert told(tmp_path, ONE + byok.format("u") + byok.format("v")) == [
        "12: tenants[2].keys: is needed: tenants[1] is already who callers are that bring their own keys"
    ]


def test_own_keys_need_an_upstream_without_one(tmp_path: Path) -> None:
    text = ONE.replace("http://a}", "http://a, api_key: k}") + "    upstream: {mode: byok}\n"
    [mistake] = told(tmp_path, text)
    assert mistake.startswith("11: tenants[0].upstream.byok_upstreams: is needed with mode: byok")


def test_the_defaults_of_all_are_told_once_and_a_tenant_by_what_it_adds(tmp_path: Path) -> None:
    defaults = "tenant_defaults:\n  models: {allow: ['gpt-*', fast], default: gpt-5}\n  limits: {concurrency: 5}\n"
    assert read(tmp_path, ONE + "    models: {deny: [fast]}\n" + defaults).tenants
    text = ONE + "    models: {deny: ['gpt-*']}\n    limits: {streams: 6}\n" + defaults
    assert told(tmp_path, text) == [
        "11: tenants[0].models.default: 'gpt-5' is not allowed by allow and deny",
        "12: tenants[0].limits.streams: streams is more than concurrency, so it never holds",
    ]
    wrong = defaults.replace("concurrency: 5", "concurrency: 5, streams: 6")
    assert told(tmp_path, ONE + wrong) == [
        "13: tenant_defaults.limits.streams: streams is more than concurrency, so it never holds"
    ]


BUDGET = "    limits: {budget: {usd: 1}}\n"
PRICE = "{{match: '{}', input: 1, output: 1}}"


@pytest.mark.parametrize(
    ("prices", "models", "unpriced"),
    [
        (["*"], "", None),
        (["gpt-*", "claude-*"], "", None),  # the second by the backend's name
        (["gpt-*", "fast"], "", None),
        (["gpt-*"], "", "fast"),
        (["gpt-4*", "claude-haiku"], "", "gpt-"),
        (["gpt-4*"], "{allow: [gpt-4o]}", None),
        (["gpt-4*"], "{allow: ['gpt-4*'], deny: [x]}", None),
        (["gpt-4*"], "{allow: ['gpt-[45]*']}", "gpt-5"),
        (["gpt-4*"], "{deny: ['gpt-[!4]*', gpt-, fast]}", None),
        (["gpt-?"], "{allow: ['gpt-5*']}", "gpt-5a"),
        ([], "{allow: []}", None),
        ([], "{allow: [llama]}", None),  # which goes nowhere
    ],
)
def test_a_hard_budget_has_a_price_for_all_that_may_be_reached(
    tmp_path: Path, prices: list[str], models: str, unpriced: str | None
) -> None:
    listed = f"prices: [{', '.join(map(PRICE.format, prices))}]\n"
    text = ONE + (f"    models: {models}\n" if models else "") + BUDGET + listed
    if unpriced is None:
        assert read(tmp_path, text).tenants
    else:
        assert [mistake.rpartition(" ")[2] for mistake in told(tmp_path, text)] == [repr(unpriced)]


def test_a_disabled_tenant_needs_no_price(tmp_path: Path) -> None:
    assert read(tmp_path, ONE + "    disabled: true\n" + BUDGET).tenants


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("trusted_proxies: [10.0.0.0/8, 0.0.0.0/0]", "trusted_proxies[1]: trusts everyone"),
        ("trusted_proxies: ['::/0']", "trusted_proxies[0]: trusts everyone"),
        ("prices: [{match: 'a*', input: 1, output: 1}, {match: 'ab', input: 1, output: 1}]", "prices[1].match: is nev"),
        ("prices: [{match: a, input: 1, output: 1}, {match: a, input: 1, output: 1}]", "prices[1].match: is never re"),
        ("admin_token: ''", "admin_token: must be a text that is not empty"),
    ],
)
def test_mistakes_of_the_whole_file(tmp_path: Path, line: str, expected: str) -> None:
    [mistake] = told(tmp_path, f"{HEAD}{line}\n")
    assert mistake.startswith(f"8: {expected}")


def test_what_holds_while_a_store_is_away_needs_a_store(tmp_path: Path) -> None:
    text = HEAD.replace("state: {", "state: {on_failure: open, ")
    assert told(tmp_path, text) == ["1: state.on_failure: means nothing without a Redis or Valkey server in url"]
    assert read(tmp_path, text, {"DRAGOMAN_STATE__URL": "redis://host:6379"}).shared_limits


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "key_pepper: hunter2",
        HEAD + "admin_token: hunter2",
        HEAD + 'admin_token: "hunter2hunter2hunter2\\n"',
        HEAD + "admin_token: *hunter2",
        HEAD.replace("state: {", "state: {url: 'http://u:hunter2@host', "),
        HEAD.replace("state: {", "state: {url: 'redis://u:hunter2@a b', "),
        HEAD.replace("00" * 32, "hunter2"),
        HEAD.replace("secret", '"hunter2\\n"'),
        ONE + '    upstream: {mode: map, map: {a: {api_key: "hunter2\\n"}}}',
        ONE + "    upstream: {map: {a: {api_key: hunter2}}}",
        ONE + "    upstream: {mode: map, map: {a: hunter2}}",
        ONE.replace("sha256:", "hunter2"),
        HEAD + "key_pepper: [hunter2]",
    ],
)
def test_no_mistake_quotes_a_secret(tmp_path: Path, text: str) -> None:
    assert "hunter2" not in "\n".join(told(tmp_path, text))
