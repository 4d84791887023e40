"""Every mistake is told, with its place, and none quotes a secret."""

from itertools import pairwise
from pathlib import Path

import pytest

from proxy.settings import Mistake, SettingsError, load

GOOD = "upstreams: [{name: a, protocol: chat, base_url: http://a}]\n"


def mistakes(folder: Path, text: str, environ: dict[str, str] | None = None) -> list[Mistake]:
    file = folder / "dragoman.yaml"
    file.write_text(text)
    with pytest.raises(SettingsError) as caught:
        load(file, environ or {})
    return caught.value.mistakes


def told(folder: Path, text: str, environ: dict[str, str] | None = None) -> list[str]:
    prefix = str(folder / "dragoman.yaml")
    return [str(mistake).removeprefix(prefix) for mistake in mistakes(folder, text, environ)]


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = """\
listen: 0.0.0.0:8080
admin_listen: 9090
upstreams:
  - name: a
    protocol: mesages
    base_url: api.example.com
    api_key: ${MISSING}
  - name: a
    protocl: chat
    base_url: http://a
models:
  - {match: "gpt-[", upstream: b}
workers: 0
"""
    assert told(tmp_path, text) == [
        ":1: listen: without tenants no key is asked for, so only a loopback address may be bound, such as 127.0.0.1",
        ":2: admin_listen: must be host:port, such as 127.0.0.1:8080 or [::1]:8080",
        ":5: upstreams[0].protocol: must be 'chat', 'responses' or 'messages'",
        ":6: upstreams[0].base_url: must be an http or https address with a host, such as https://api.example.com",
        ":7: upstreams[0].api_key: the environment variable MISSING is not set",
        ":8: upstreams[1].protocol: is required",
        ":8: upstreams[1].name: another upstream, upstreams[0], is called 'a'",
        ":9: upstreams[1].protocl: is not a key here, did you mean 'protocol'?",
        ":12: models[0].match: 'gpt-[' is not a pattern: its '[' is not closed",
        ":12: models[0].upstream: no upstream is called 'b', there is a",
        ":13: workers: must be greater than or equal to 1",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "models: [{match: '*', upstream: a, hosted_tools: emulate}]",
    ],
)
def test_what_is_not_done_yet_is_refused_and_not_ignored(tmp_path: Path, line: str) -> None:
    assert ["not supported yet by this version" in text for text in told(tmp_path, GOOD + line)] == [True]


@pytest.mark.parametrize("most", [1, 0, 17, "many"])
def test_choices_are_few_or_the_key_is_absent(tmp_path: Path, most: object) -> None:
    [mistake] = mistakes(tmp_path, f"{GOOD}models: [{{match: '*', upstream: a, fan_out: {most}}}]")
    assert mistake.field == "models[0].fan_out"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: [", ":1: not valid YAML: while parsing a flow node, did not find expected node content"),
        ("- a", ":1: a configuration is a mapping of names to values"),
        ("", ": upstreams: is required"),
        ("upstreams: []", ":1: upstreams: List should have at least 1 item after validation, not 0"),
        (GOOD + "listen: 127.0.0.1:1\nlisten: 127.0.0.1:2", ":3: listen: given twice, first on line 2"),
        (GOOD + "drain: &loop {lame_duck: *loop}", ":2: drain.lame_duck: refers to itself"),
        (GOOD + "x: " + "[" * 5000, ":2: not valid YAML: while increasing flow level, exceeded maximum nesting depth"),
        (GOOD + "x: " + "[" * 60 + "]" * 60, ":2: x: is nested too deeply"),
        (
            "a: &a [x]\n" + "".join(f"{to}: &{to} [{f'*{of},' * 9}]\n" for of, to in pairwise("abcdefghij")),
            ":1: holds more than 1000000 values, counting those that aliases repeat",
        ),
        (GOOD + "listen: !env LISTEN", ":2: listen: the tag !env has no meaning here"),
        (GOOD + "[a, b]: 1", ":2: a key must be a plain name"),
        (GOOD + "listn: a:1", ":2: listn: is not a key here, did you mean 'listen'?"),
        (GOOD + "drain: {max_stream: 30}", ":2: drain.max_stream: 30 is not a duration"),
        (GOOD + "drain: {max_stream: soon}", ":2: drain.max_stream: 'soon' is not a duration"),
        (GOOD + "timeouts: {connect: 0}", ":2: timeouts.connect: must be greater than 0"),
        (GOOD + "max_body: 32 parsecs", ":2: max_body: '32 parsecs' is not a size"),
        (GOOD + "listen: '::1:8080'", ":2: listen: an IPv6 address needs brackets"),
        (GOOD + "listen: proxy.example.com:80", ":2: listen: without tenants"),
        (GOOD + "admin_listen: 127.0.0.1:8080\nlisten: 127.0.0.1:8080", ":2: admin_listen: is the same address"),
        (GOOD + "models: [{match: '*', upstream: aa}]", ":2: models[0].upstream: no upstream is called 'aa', did you"),
        (
            GOOD + "models:\n - match: m\n   upstream:\n    - a\n    - {upstream: b, weight: 2}",
            ":6: models[0].upstream[1].upstream: no upstream is called 'b', there is a",
        ),
        (
            GOOD + "models:\n - match: m\n   upstream:\n    - {upstream: a, weight: 0}",
            ":5: models[0].upstream[0].weight: must be greater than 0",
        ),
        (
            GOOD + "models:\n - match: m\n   upstream: [a]\n   on_context_length: {upstream: c, model: n}",
            ":5: models[0].on_context_length.upstream: no upstream is called 'c', there is a",
        ),
        (
            GOOD + "models:\n - match: m\n   upstream:\n    - a\n    - {upstream: a, weight: 2}",
            ":6: models[0].upstream[1].upstream: is the same target as models[0].upstream[0]: the same model",
        ),
        (
            GOOD + "models:\n - match: m\n   upstream: []",
            ":4: models[0].upstream: List should have at least 1 item after validation, not 0",
        ),
        (
            GOOD + "models:\n - {match: '*', upstream: a}\n - {match: b, upstream: a}",
            ":4: models[1].match: is never reached: models[0] matches all of it before",
        ),
        (
            GOOD + "models: [{match: b, upstream: a, loss: [top-kk]}]",
            ":2: models[0].loss: 'top-kk' is not a rule, did you mean 'top-k'?",
        ),
        (
            GOOD + "models: [{match: b, upstream: a, loss: {ignored: [top-k]}}]",
            ":2: models[0].loss: 'ignored' is not a key here, did you mean 'ignore'?",
        ),
        (
            GOOD + "models: [{match: b, upstream: a, loss: {mode: reprot}}]",
            ":2: models[0].loss: mode must be off, report or strict, did you mean 'report'?",
        ),
        (
            GOOD + "models: [{match: b, upstream: a, loss: {refuse: [seed], ignore: [seed]}}]",
            ":2: models[0].loss: 'seed' can't be both refused and ignored",
        ),
        (
            GOOD + "models: [{match: b, upstream: a, loss: {ignore: seed}}]",
            ":2: models[0].loss: ignore must be a list of rules",
        ),
        (
            GOOD + "models: [{match: b, upstream: a, loss: quiet}]",
            ":2: models[0].loss: must be off, report, strict, a list of",
        ),
        (
            GOOD + "model_profiles: [{match: a, base: claude-sonet-4-5}]",
            ":2: model_profiles[0].base: no model that is known is called 'claude-sonet-4-5', did you mean",
        ),
        (
            GOOD + "model_profiles: [{match: a, max_ouput: 5}]",
            ":2: model_profiles[0].max_ouput: is not a key here, did you mean 'max_output'?",
        ),
        (GOOD + "model_profiles: [{match: a, efforts: [hihg]}]", ":2: model_profiles[0].efforts[0]: must be 'none',"),
        (
            "upstreams: [{name: a, protocol: chat, base_url: 'https://api.anthropic.com/v1'}]",
            ":1: upstreams[0].protocol: must be messages at Anthropic",
        ),
        (
            GOOD + "state: {carrier_keys: ['too short']}",
            ":2: state.carrier_keys[0]: must be 32 bytes in hex or base64",
        ),
        (
            GOOD + f"tenant_defaults: {{limits: {{rpm: {'9' * 5000}}}}}",
            ":2: tenant_defaults.limits.rpm: must be a finite",
        ),
        (GOOD + f"tenant_defaults: {{limits: {{rpm: '{'9' * 5000}', rpd: 1}}}}", ":2: tenant_defaults.limits.rpm: "),
        (GOOD + "listen: ${PORT", ":2: listen: '${' without its '}'"),
        (GOOD + "listen: ${a-b}", ":2: listen: '${a-b}' is neither"),
        (GOOD + "listen: ${file:/nowhere/at/all}", ":2: listen: the file /nowhere/at/all can't be read: No such file"),
        (
            "upstreams:\n - {name: a, protocol: chat, base_url: http://a}\n - {name: b, protocol: chat, base_url: http://b}",
            ":1: models: is needed with more than one upstream",
        ),
    ],
)
def test_a_mistake_names_its_line_and_field(tmp_path: Path, text: str, expected: str) -> None:
    [only] = told(tmp_path, text)
    assert only.startswith(expected)


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        ("base_url: 'http://user:pass@a'", "base_url", "must hold no user or password: use api_key or headers"),
        ("base_url: 'http://a?version=1'", "base_url", "must hold no fragment, and no query but api-version"),
        ("base_url: 'http://a:port'", "base_url", "must be an http or https address with a host"),
        ("base_url: http://a, api_key: ''", "api_key", "must be a text that is not empty"),
        ('base_url: http://a, api_key: "a\\nb"', "api_key", "holds a character that can't stand in a header"),
        ("base_url: http://a, api_key: k, api_key_file: dragoman.yaml", "api_key_file", "give either api_key or"),
        ("base_url: http://a, ca_file: none.pem", "ca_file", "there is no file "),
        ("base_url: http://a, ca_file: dragoman.yaml", "ca_file", ""),
        ("base_url: http://a, client_cert: dragoman.yaml", "client_cert", ""),
        ("base_url: http://a, proxy: 'https://b:3128'", "proxy", "must be the address of an HTTP proxy, such as"),
        ("base_url: http://a, proxy: 'http://b:port'", "proxy", "must be the address of an HTTP proxy, such as"),
        ("base_url: http://a, proxy: 'http://b/path'", "proxy", "must be the address of an HTTP proxy, such as"),
        ("base_url: http://a, headers: {'a b': c}", "headers.a b", "is not a header's name"),
        ("base_url: http://a, headers: {Host: c}", "headers.Host", "can't be set: it belongs to each request"),
        (
            "base_url: http://a, timeouts: {head_read: 1s}",
            "timeouts.head_read",
            "belongs to the timeouts of the whole file",
        ),
        (
            "base_url: http://a, timeouts: {body_read: 1s}",
            "timeouts.body_read",
            "belongs to the timeouts of the whole file",
        ),
        ("base_url: http://a, dialect: vlm", "dialect", "no dialect is called 'vlm'; there are "),
        ("base_url: http://a, dialect: {base: vllm, single: true}", "dialect", "a dialect has no flag 'single'; there"),
        ("base_url: http://a, dialect: [vllm]", "dialect", "must be a name, or {base: name, flag: value, …}"),
    ],
)
def test_a_mistake_in_an_upstream(tmp_path: Path, fields: str, field: str, message: str) -> None:
    found = mistakes(tmp_path, f"upstreams: [{{name: a, protocol: chat, {fields}}}]")
    assert [(m.field, m.message[: len(message)]) for m in found if m.field.endswith(field)] == [
        (f"upstreams[0].{field}", message)
    ]


def test_a_mistake_from_outside_the_file_names_where_it_came_from(tmp_path: Path) -> None:
    assert told(tmp_path, GOOD, {"DRAGOMAN_LISTEN": "8080"}) == [
        "environment: DRAGOMAN_LISTEN: must be host:port, such as 127.0.0.1:8080 or [::1]:8080"
    ]


def test_no_mistake_quotes_what_was_filled_in(tmp_path: Path) -> None:
    text = GOOD + "max_body: ${SIZE}\nmodels: [{match: '*', upstream: '${NAME}'}]"
    found = told(tmp_path, text, {"SIZE": "sk-secret-1", "NAME": "sk-secret-2"})
    assert len(found) == 2
    assert "sk-secret" not in "".join(found)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        load(tmp_path / "none.yaml", {})
    assert str(caught.value) == f"{tmp_path}/none.yaml: can't be read: No such file or directory"


def test_a_hopeless_file_is_not_told_to_the_end(tmp_path: Path) -> None:
    found = told(tmp_path, GOOD + "trusted_proxies:\n" + "  - nobody\n" * 5000)
    assert (len(found), found[0]) == (1001, ": has more mistakes than these 1000")


def test_a_word_for_content_that_is_none_is_a_mistake_of_the_environment(tmp_path: Path) -> None:
    text = GOOD + "telemetry: {traces: {endpoint: http://c}}\n"
    switch = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
    words = "'NO_CONTENT', 'SPAN_ONLY', 'EVENT_ONLY' or 'SPAN_AND_EVENT'"
    assert [str(mistake) for mistake in mistakes(tmp_path, text, {switch: "true"})] == [
        f"environment: {switch}: must be {words}"
    ]


def test_events_with_content_need_a_neighbour_of_the_spans_endpoint(tmp_path: Path) -> None:
    text = GOOD + "telemetry: {traces: {endpoint: 'http://c/x', content: EVENT_ONLY}}\n"
    (mistake,) = told(tmp_path, text)
    assert (
        mistake == ":2: telemetry.traces: endpoint must end in /traces where events with content go to /logs beside it"
    )


@pytest.mark.parametrize(
    ("lines", "mistake"),
    [
        (
            "workers: 4\nadmin_listen: 127.0.0.1:8078",
            ":2: workers: worker 2 would have its admin listener at 127.0.0.1:8080",
        ),
        (
            "workers: 4\nadmin_listen: localhost:8078",
            ":2: workers: worker 2 would have its admin listener at 127.0.0.1:8080",
        ),
        ("workers: 4\nadmin_listen: 127.0.0.1:65533", ":2: workers: needs 4 ports from that of admin_listen on"),
        (
            "workers: 2\nstate: {limits_file: limits.json}",
            ":3: state.limits_file: can't be used by several workers: one process at a time has the file",
        ),
        (
            "workers: 2\nstate: {url: 'memory:'}",
            ":3: state.url: is one worker's own memory, of which the others know nothing: use a file or a server",
        ),
    ],
)
def test_what_several_workers_can_not_have(tmp_path: Path, lines: str, mistake: str) -> None:
    assert told(tmp_path, GOOD + lines) == [mistake]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("api_key: k1, api_keys: [k2]", "api_keys: give either api_key or api_keys"),
        ("api_keys: [k1, k2, k1]", "api_keys[2]: is the same key as api_keys[0]"),
        ("breaker: {failures: 0}", "breaker.failures: must be greater than or equal to 1"),
        ("breaker: {ratio: 1}", "breaker.ratio: must be less than 1"),
        ("breaker: {open: 3m}", "breaker.longest: must not be shorter than open"),
        ("breaker: {open: 3m, longest: 2m}", "breaker.longest: must not be shorter than open"),
        ("retries: {share: 2}", "retries.share: must be less than or equal to 1"),
        ("retries: {max_wait: 2}", "retries.max_wait: 2 is not a duration"),
    ],
)
def test_what_an_upstream_says_of_failures_is_checked(tmp_path: Path, keys: str, expected: str) -> None:
    text = f"upstreams: [{{name: a, protocol: chat, base_url: http://a, {keys}}}]"
    assert [line.removeprefix(":1: upstreams[0].")[: len(expected)] for line in told(tmp_path, text)] == [expected]
