"""What a tenant's policy says of requests that try to get around it."""

from ipaddress import ip_network

import pytest

from proxy.canonical.errors import ErrorClass, Reason, Rejected
from proxy.canonical.jsontext import dumps, loads
from proxy.protocols import openai_errors
from proxy.protocols.fields import Wire, as_object
from proxy.protocols.messages import errors as messages_errors
from proxy.settings.tenants import (
    EndpointClass,
    ModelRules,
    NameRules,
    Tenant,
    TenantLimits,
    ToolRules,
    UpstreamKeys,
)
from proxy.tenancy.policy import Policy
from proxy.tenancy.tool_places import Client


def refused(policy: Policy, client: Client, wire: Wire, raw: bytes | None = None) -> tuple[Reason | None, str | None]:
    """Why a request is refused, and where; nothing for one that is not."""
    try:
        policy.check_request(client, dumps(wire) if raw is None else raw, wire)
    except Rejected as rejected:
        return rejected.error.reason, rejected.error.param
    return None, None


def with_models(*allow: str, deny: tuple[str, ...] = ()) -> Policy:
    return Policy(Tenant("team", models=ModelRules(NameRules(allow or None, deny))))


# --- who, where, what for ---


@pytest.mark.parametrize(("client", "allowed"), [("chat", True), ("completions", True), ("messages", False)])
def test_legacy_completions_are_chat(client: Client, allowed: bool) -> None:
    policy = Policy(Tenant("team", protocols=frozenset({"chat"})))
    if allowed:
        policy.check_protocol(client)
        return
    with pytest.raises(Rejected) as caught:
        policy.check_protocol(client)
    assert caught.value.error.reason is Reason.PROTOCOL_DENIED
    assert caught.value.error.code == "dragoman_protocol_denied"


@pytest.mark.parametrize(
    ("endpoints", "kind", "own_key", "allowed"),
    [
        (None, "generate", False, True),
        (None, "other", False, True),
        (None, "stored", False, False),  # the vendor's account is everybody's
        (None, "stored", True, True),
        (frozenset({"generate", "stored"}), "stored", False, True),
        (frozenset({"generate"}), "stored", True, False),
        (frozenset({"generate"}), "models", False, False),
        (frozenset(), "generate", True, False),
    ],
)
def test_what_is_stored_under_a_shared_key_must_be_listed(
    endpoints: frozenset[EndpointClass] | None, kind: EndpointClass, own_key: bool, allowed: bool
) -> None:
    policy = Policy(Tenant("team", endpoints=endpoints, upstream=UpstreamKeys()))
    if allowed:
        policy.check_endpoint(kind, own_key=own_key)
        return
    with pytest.raises(Rejected) as caught:
        policy.check_endpoint(kind, own_key=own_key)
    assert caught.value.error.reason is Reason.ENDPOINT_DENIED


@pytest.mark.parametrize(
    ("ip", "allowed"), [("10.1.2.3", True), ("::ffff:10.1.2.3", True), ("11.0.0.1", False), (None, False)]
)
def test_only_listed_addresses_may_call(ip: str | None, allowed: bool) -> None:
    policy = Policy(Tenant("team", ip_allow=(ip_network("10.0.0.0/8"),)))
    if allowed:
        policy.check_address(ip)
        return
    with pytest.raises(Rejected) as caught:
        policy.check_address(ip)
    assert caught.value.error.reason is Reason.IP_DENIED


# --- models ---


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("gpt-5", True),
        ("GPT-5", False),  # allow is case-sensitive
        ("gpt-5-pro", False),
        ("gpt-5-PRO", False),  # deny is not
        ("gpt-5-pro ", False),
        (" gpt-5", False),
        ("gpt-5\n", False),
        ("gpt 5", False),
        ("gpt-5\u200b", False),
        ("gpt-5\x00", False),
        ("gpt-\uff15", False),  # a full-width digit
        ("gpt-5\ud800", False),
        ("", False),
        ("gpt-" + "5" * 300, False),
        ("other", False),
    ],
)
def test_a_model_is_allowed_in_one_spelling_only(name: str, allowed: bool) -> None:
    policy = with_models("gpt-*", deny=("*-pro",))
    assert policy.allows_model(name) is allowed
    if not allowed:
        with pytest.raises(Rejected) as caught:
            policy.check_model(name)
        assert (caught.value.error.kind, caught.value.error.param) == (ErrorClass.MODEL_NOT_FOUND, "model")


def test_without_rules_any_name_will_do() -> None:
    policy = Policy(Tenant("team"))
    policy.check_model("Any Model\u200b")
    assert not policy.needs_model


@pytest.mark.parametrize("wire", [{}, {"model": None}, {"model": ["gpt-5"]}])
def test_who_has_rules_on_models_must_name_one(wire: Wire) -> None:
    Policy(Tenant("team")).check_named_model(wire)
    with pytest.raises(Rejected) as caught:
        with_models("gpt-*").check_named_model(wire)
    assert (caught.value.error.reason, caught.value.error.param) == (Reason.MALFORMED, "model")


def test_the_named_model_is_checked() -> None:
    with_models("gpt-*").check_named_model({"model": "gpt-5"})
    with pytest.raises(Rejected):
        with_models("gpt-*").check_named_model({"model": "o9"})


@pytest.mark.parametrize(
    ("client", "body", "param"),
    [
        ("chat", {"models": ["gpt-5", "o9"]}, "models[1]"),
        ("chat", {"fallbacks": [{"model": "o9"}]}, "fallbacks[0].model"),
        ("chat", {"moderation": {"model": "omni"}}, "moderation.model"),
        ("chat", {"plugins": [{"id": "auto-router", "allowed_models": ["o9"]}]}, "plugins[0].allowed_models[0]"),
        ("chat", {"extra_body": {"models": ["o9"]}}, "extra_body.models[0]"),
        ("chat", {"preset": "mine"}, "preset"),
        ("chat", {"model": "gpt-5@preset/mine"}, "model"),
        ("responses", {"prompt": {"id": "pmpt_1"}}, "prompt"),
        ("responses", {"tools": [{"type": "image_generation", "model": "img"}]}, "tools[0].model"),
        ("responses", {"tools": [{"type": "image_generation", "svg": {"model": "o9"}}]}, "tools[0].svg.model"),
        (
            "responses",
            {"input": [{"type": "additional_tools", "tools": [{"type": "image_generation", "model": "img"}]}]},
            "input[0].tools[0].model",
        ),
        ("messages", {"fallbacks": [{"model": "gpt-5"}, {"model": "o9"}]}, "fallbacks[1].model"),
        ("messages", {"fallbacks": "default"}, "fallbacks"),
        ("messages", {"tools": [{"type": "advisor_20260301", "name": "advisor", "model": "o9"}]}, "tools[0].model"),
        ("messages", {"fallbacks": [{}]}, "fallbacks[0].model"),
    ],
)
def test_other_models_that_a_request_names_are_checked_too(client: Client, body: Wire, param: str) -> None:
    assert refused(with_models("gpt-*"), client, {"model": "gpt-5", **body})[1] == param
    assert refused(Policy(Tenant("team")), client, body) == (None, None)


def test_a_prompt_of_completions_is_only_text() -> None:
    assert refused(with_models("gpt-*"), "completions", {"prompt": "Once"}) == (None, None)


# --- readers that differ ---


@pytest.mark.parametrize(
    "raw",
    [
        b'{"model":"gpt-5","model":"o9"}',
        b'{"model":"gpt-5","mod\\u0065l":"o9"}',
        b'{"model":"gpt-5","Model":"o9"}',
        b'{"model":"gpt-5","MODEL":"o9"}',
        b'{"model":"gpt-5","maxTokens":1}',
        b'{"model":"gpt-5","tool\xc5\xbf":[]}',  # Go's decoder takes it for an s
        b'{"model":"gpt-5", "tools":[{"type":"function","type":"web_search"}]}',
        b'{"model":"gpt-5","tools":[{"type":"function","Type":"web_search","name":"a"}]}',
        b'\xef\xbb\xbf{"model":"gpt-5"}',
        '{"model":"gpt-5"}'.encode("utf-16"),
        '{"model":"gpt-5"}'.encode("utf-16-le"),
    ],
)
def test_a_body_that_can_be_read_in_two_ways_is_malformed(raw: bytes) -> None:
    wire = as_object(loads(raw), ())
    assert refused(with_models("gpt-*"), "chat", wire, raw)[0] is Reason.MALFORMED
    assert refused(Policy(Tenant("team")), "chat", wire, raw) == (None, None)


def test_spaces_escapes_and_large_numbers_are_nobodys_trick() -> None:
    raw = b'{ "model" : "gpt-5", "seed": 123456789012345678901234567890, "user": "\\u00fc\\/", "top_p": 1.0 }'
    assert refused(with_models("gpt-*"), "chat", as_object(loads(raw), ()), raw) == (None, None)


# --- batches, files, forms ---


def limited() -> Policy:
    return Policy(
        Tenant(
            "team",
            models=ModelRules(NameRules(("claude-*",)), "claude-fast"),
            tools=ToolRules(hosted=NameRules(("web_search",))),
            limits=TenantLimits(max_output_tokens=1000),
        )
    )


def batch(*params: Wire) -> Wire:
    return {"requests": [{"custom_id": str(index), "params": each} for index, each in enumerate(params)]}


def test_each_request_of_a_batch_is_fitted_like_one_alone() -> None:
    wire = batch({"model": "claude-a", "max_tokens": 10}, {"max_tokens": 5000})
    changed = limited().check_batch(dumps(wire), wire)
    wanted = batch({"model": "claude-a", "max_tokens": 10}, {"max_tokens": 1000, "model": "claude-fast"})
    assert loads(changed) == wanted == wire


@pytest.mark.parametrize(
    ("params", "param"),
    [
        ({"model": "gpt-5"}, "requests[1].params.model"),
        ({"model": ["claude-a"]}, "requests[1].params.model"),
        ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "requests[1].params.tools[0]"),
        ({"fallbacks": [{"model": "gpt-5"}]}, "requests[1].params.fallbacks[0].model"),
        ({"Model": "gpt-5"}, "requests[1].params"),
        ({"max_tokens": -1}, "requests[1].params.max_tokens"),
    ],
)
def test_a_batch_tells_where_it_is_refused(params: Wire, param: str) -> None:
    wire = batch({"model": "claude-a"}, params)
    with pytest.raises(Rejected) as caught:
        limited().check_batch(dumps(wire), wire)
    assert caught.value.error.param == param


def test_an_open_tenants_batch_is_not_looked_at() -> None:
    raw = b'{"requests": 1, "requests": 2}'
    assert Policy(Tenant("team")).check_batch(raw, {"requests": 2}) is raw


@pytest.mark.parametrize(
    ("tenant", "form", "hidden"),
    [
        (Tenant("team"), True, True),
        (Tenant("team", limits=TenantLimits(rpm=1)), True, True),
        (Tenant("team", limits=TenantLimits(tpm=1)), True, False),
        (Tenant("team", limits=TenantLimits(max_output_tokens=1)), True, False),
        (Tenant("team", tools=ToolRules(most_functions=1)), True, False),
        (Tenant("team", models=ModelRules(NameRules(deny=("x",)))), False, False),
    ],
)
def test_what_can_not_be_looked_into_is_refused_where_it_matters(tenant: Tenant, form: bool, hidden: bool) -> None:
    policy = Policy(tenant)
    for check, allowed in ((policy.check_form, form), (policy.check_hidden_requests, hidden)):
        if allowed:
            check()
            continue
        with pytest.raises(Rejected) as caught:
            check()
        assert caught.value.error.kind is ErrorClass.PERMISSION


# --- what clients read ---


def test_a_refused_tool_says_where_in_both_shapes() -> None:
    wire: Wire = {"tools": [{"type": "function", "function": {"name": "a"}}, {"type": "code_interpreter"}]}
    with pytest.raises(Rejected) as caught:
        limited().check_request("chat", dumps(wire), wire)
    error = caught.value.error
    message = "tools[1]: this key may not use the tool 'code_interpreter'."
    assert openai_errors.write_error(error, "req_1") == (
        403,
        {
            "error": {
                "message": message,
                "type": "permission_error",
                "param": "tools[1]",
                "code": "dragoman_hosted_tool_denied",
            }
        },
    )
    assert messages_errors.write_error(error, "req_1") == (
        403,
        {"type": "error", "error": {"type": "permission_error", "message": message}, "request_id": "req_1"},
    )
