"""Tools that a vendor runs, asked of another vendor (mapping.md 5.4, 6.1, 6.4)."""

import json

import pytest

from proxy.canonical.errors import ErrorClass, Rejected
from proxy.canonical.target import Dialect, Target
from proxy.translation import pair
from proxy.translation.prepared import Prepared
from proxy.translation.profiles import profile_of
from proxy.upstream.dialects import PROFILES
from tests.harness.model_rules import check_request
from tests.harness.wire import Json, Protocol

MODELS: dict[Protocol, str] = {
    "chat": "gpt-5-search-api",
    "responses": "gpt-5.4",
    "messages": "claude-sonnet-4-6",
}
VENDORS: dict[Protocol, str] = {"chat": "openai", "responses": "openai", "messages": "anthropic"}
BODIES: dict[Protocol, Json] = {
    "chat": {"model": "m", "messages": [{"role": "user", "content": "hi"}]},
    "responses": {"model": "m", "input": "hi"},
    "messages": {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]},
}
FUNCTIONS: dict[Protocol, Json] = {
    "chat": {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}},
    "responses": {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}},
    "messages": {"name": "f", "input_schema": {"type": "object", "properties": {}}},
}


def to(backend: Protocol, *, policy: str | None = None, model: str | None = None) -> Target:
    name = model or MODELS[backend]
    dialect = PROFILES[backend][VENDORS[backend]]
    return Target(backend, name, dialect, profile_of(name), policy)  # type: ignore[arg-type]


def translated(client: Protocol, body: Json, target: Target) -> tuple[Json, Prepared, list[tuple[str, str, str]]]:
    prepared = pair.prepare(pair.peek(client, json.dumps({**BODIES[client], **body}).encode()), target, pair.Options())
    sent = json.loads(prepared.body)
    check_request(target.protocol, sent)
    return sent, prepared, [(loss.rule, loss.level, loss.path) for loss in prepared.losses if loss.rule != "store"]


def tool(client: Protocol, declared: Json, backend: Protocol) -> tuple[Json, list[tuple[str, str, str]]]:
    """What one tool becomes, and what it loses."""
    sent, _, losses = translated(client, {"tools": [declared]}, to(backend))
    (only,) = sent["tools"]
    return only, losses


def refused(client: Protocol, body: Json, target: Target) -> tuple[str | None, str]:
    with pytest.raises(Rejected) as caught:
        translated(client, body, target)
    assert caught.value.error.kind is ErrorClass.UNSUPPORTED
    return caught.value.error.param, caught.value.losses[-1].rule


PLACE: Json = {"city": "Bern", "country": "CH", "region": "BE", "timezone": "Europe/Zurich"}
R_SEARCH: Json = {"type": "web_search"}
M_SEARCH: Json = {"type": "web_search_20260318", "name": "web_search"}


@pytest.mark.parametrize(
    ("declared", "becomes", "losses"),
    [
        (R_SEARCH, {}, []),
        (
            {
                **R_SEARCH,
                "filters": {"allowed_domains": ["example.com"]},
                "user_location": {"type": "approximate", **PLACE},
                "search_context_size": "low",
                "external_web_access": False,
            },
            {"allowed_domains": ["example.com"], "user_location": {"type": "approximate", **PLACE}},
            [
                ("web-search", "drop", "tools[0].external_web_access"),
                ("web-search", "drop", "tools[0].search_context_size"),
            ],
        ),
        ({"type": "web_search_preview", "user_location": {"type": "approximate"}}, {}, []),
        (
            {"type": "web_search_preview", "search_content_types": ["text", "image"]},
            {},
            [("web-search", "drop", "tools[0].search_content_types")],
        ),
    ],
)
def test_search_of_responses_on_messages(declared: Json, becomes: Json, losses: list[tuple[str, str, str]]) -> None:
    got, lost = tool("responses", declared, "messages")
    assert got == {"type": "web_search_20250305", "name": "web_search", **becomes}
    assert sorted(lost) == sorted([("web-search", "approx", "tools[0]"), *losses])


@pytest.mark.parametrize(
    ("declared", "becomes", "losses"),
    [
        (M_SEARCH, {}, []),
        (
            {
                **M_SEARCH,
                "allowed_domains": ["example.com"],
                "user_location": {"type": "approximate", **PLACE},
                "allowed_callers": ["direct"],
                "cache_control": {"type": "ephemeral"},
                "response_inclusion": "excluded",
            },
            {
                "filters": {"allowed_domains": ["example.com"]},
                "user_location": {"type": "approximate", **PLACE},
            },
            [
                ("cache-control", "drop", "tools[0].cache_control"),
                ("web-search", "drop", "tools[0].response_inclusion"),
            ],
        ),
        (
            {**M_SEARCH, "blocked_domains": ["example.org"], "allowed_callers": ["code_execution_20260120"]},
            {},
            [
                ("allowed-callers", "approx", "tools[0].allowed_callers"),
                ("web-search", "drop", "tools[0].blocked_domains"),
            ],
        ),
    ],
)
def test_search_of_messages_on_responses(declared: Json, becomes: Json, losses: list[tuple[str, str, str]]) -> None:
    got, lost = tool("messages", declared, "responses")
    assert got == {"type": "web_search", **becomes}
    assert sorted(lost) == sorted([("web-search", "approx", "tools[0]"), *losses])


def test_sources_are_asked_for() -> None:
    sent, _, _ = translated("messages", {"tools": [M_SEARCH]}, to("responses"))
    assert "web_search_call.action.sources" in sent["include"]


OPTIONS: Json = {
    "search_context_size": "high",
    "user_location": {"type": "approximate", "approximate": PLACE},
}


def test_search_options_of_chat() -> None:
    sent, _, lost = translated("chat", {"web_search_options": OPTIONS}, to("responses"))
    location = {"type": "approximate", **PLACE}
    assert sent["tools"] == [{"type": "web_search", "user_location": location, "search_context_size": "high"}]
    assert lost == [("web-search", "approx", "web_search_options")]
    sent, _, lost = translated("chat", {"web_search_options": OPTIONS}, to("messages"))
    assert sent["tools"] == [{"type": "web_search_20250305", "name": "web_search", "user_location": location}]
    assert ("web-search", "drop", "web_search_options.search_context_size") in lost


def test_search_on_chat() -> None:
    declared = {
        **R_SEARCH,
        "filters": {"allowed_domains": ["a.example"]},
        "user_location": {"type": "approximate", **PLACE},
        "search_context_size": "high",
    }
    sent, _, lost = translated("responses", {"tools": [declared, FUNCTIONS["responses"]]}, to("chat"))
    assert sent["web_search_options"] == OPTIONS
    assert [entry["type"] for entry in sent["tools"]] == ["function"]
    assert ("web-search", "drop", "tools[0].filters.allowed_domains") in lost
    sent, _, lost = translated("messages", {"tools": [{**M_SEARCH, "max_uses": 2}]}, to("chat"))
    assert sent["web_search_options"] == {}
    assert "tools" not in sent
    assert ("web-search", "drop", "tools[0].max_uses") in lost


def test_models_of_chat_that_do_not_search() -> None:
    target = to("chat", model="gpt-4.1")
    sent, _, lost = translated("responses", {"tools": [R_SEARCH, FUNCTIONS["responses"]]}, target)
    assert "web_search_options" not in sent
    assert lost == [("web-search", "drop", "tools[0]")]
    assert refused("responses", {"tools": [R_SEARCH]}, target) == ("tools[0]", "web-search")


def test_the_number_of_calls() -> None:
    sent, _, lost = translated("responses", {"tools": [R_SEARCH], "max_tool_calls": 3}, to("messages"))
    assert sent["tools"][0]["max_uses"] == 3
    assert ("max-tool-calls", "approx", "max_tool_calls") in lost
    sent, _, lost = translated("messages", {"tools": [{**M_SEARCH, "max_uses": 3}]}, to("responses"))
    assert sent["max_tool_calls"] == 3
    assert lost == [("web-search", "approx", "tools[0]")]
    code = {"type": "code_execution_20250825", "name": "code_execution"}
    sent, _, lost = translated("messages", {"tools": [{**M_SEARCH, "max_uses": 3}, code]}, to("responses"))
    assert "max_tool_calls" not in sent
    assert ("web-search", "drop", "tools[0].max_uses") in lost
    sent, _, lost = translated("responses", {"tools": [FUNCTIONS["responses"]], "max_tool_calls": 3}, to("messages"))
    assert ("max-tool-calls", "drop", "max_tool_calls") in lost


def test_a_fetch_is_part_of_a_search() -> None:
    fetch = {"type": "web_fetch_20250910", "name": "web_fetch"}
    sent, _, lost = translated("messages", {"tools": [M_SEARCH, fetch]}, to("responses"))
    assert sent["tools"] == [{"type": "web_search"}]
    assert ("web-search", "approx", "tools[1]") in lost
    assert refused("messages", {"tools": [fetch, FUNCTIONS["messages"]]}, to("responses")) == (
        "tools[0]",
        "hosted-tool",
    )


def test_code() -> None:
    got, lost = tool("responses", {"type": "code_interpreter", "container": {"type": "auto"}}, "messages")
    assert got == {"type": "code_execution_20250825", "name": "code_execution"}
    assert lost == [("hosted-tool", "approx", "tools[0]")]
    got, lost = tool("messages", {"type": "code_execution_20260521", "name": "code_execution"}, "responses")
    assert got == {"type": "code_interpreter", "container": {"type": "auto"}}
    assert lost == [("hosted-tool", "approx", "tools[0]")]
    limited = {"type": "auto", "memory_limit": "4g", "network_policy": {"type": "disabled"}}
    _, lost = tool("responses", {"type": "code_interpreter", "container": limited}, "messages")
    assert {path for _, level, path in lost if level == "drop"} == {
        "tools[0].container.memory_limit",
        "tools[0].container.network_policy",
    }


@pytest.mark.parametrize(
    ("container", "path", "rule"),
    [
        ("cntr_1", "tools[0].container", "container"),
        ({"type": "auto", "file_ids": ["file_1"]}, "tools[0].container.file_ids", "file-id"),
    ],
)
def test_containers_stay_where_they_are(container: object, path: str, rule: str) -> None:
    body = {"tools": [{"type": "code_interpreter", "container": container}]}
    assert refused("responses", body, to("messages")) == (path, rule)


SERVER: Json = {"type": "url", "url": "https://mcp.example/sse", "name": "docs", "authorization_token": "secret"}
TOOLSET: Json = {"type": "mcp_toolset", "mcp_server_name": "docs"}
MCP: Json = {
    "type": "mcp",
    "server_label": "docs",
    "server_url": "https://mcp.example/sse",
    "require_approval": "never",
}


@pytest.mark.parametrize(
    ("more", "toolset", "token"),
    [
        ({}, {}, None),
        ({"authorization": "secret"}, {}, "secret"),
        ({"headers": {"Authorization": "Bearer secret"}}, {}, "secret"),
        (
            {"allowed_tools": ["a", "b"]},
            {"default_config": {"enabled": False}, "configs": {"a": {"enabled": True}, "b": {"enabled": True}}},
            None,
        ),
        (
            {"allowed_tools": {"tool_names": ["a"]}},
            {"default_config": {"enabled": False}, "configs": {"a": {"enabled": True}}},
            None,
        ),
    ],
)
def test_mcp_servers_of_responses(more: Json, toolset: Json, token: str | None) -> None:
    sent, prepared, lost = translated("responses", {"tools": [{**MCP, **more}]}, to("messages"))
    assert sent["tools"] == [{**TOOLSET, **toolset}]
    server = {name: value for name, value in SERVER.items() if name != "authorization_token"}
    assert sent["mcp_servers"] == [{**server, **({"authorization_token": token} if token else {})}]
    assert prepared.betas == ("mcp-client-2025-11-20",)
    assert lost == [("mcp-servers", "approx", "tools[0]")]


@pytest.mark.parametrize(
    ("more", "path"),
    [
        ({"require_approval": None}, "require_approval"),
        ({"require_approval": "always"}, "require_approval"),
        ({"require_approval": {"never": {"tool_names": ["a"]}}}, "require_approval"),
        ({"connector_id": "connector_dropbox", "server_url": None}, "connector_id"),
        ({"tunnel_id": "tunnel_1", "server_url": None}, "tunnel_id"),
        ({"headers": {"X-Key": "secret"}}, "headers.X-Key"),
        ({"headers": {"Authorization": "Basic secret"}}, "headers.Authorization"),
        ({"allowed_tools": {"read_only": True}}, "allowed_tools.read_only"),
    ],
)
def test_servers_that_only_responses_reaches(more: Json, path: str) -> None:
    assert refused("responses", {"tools": [{**MCP, **more}]}, to("messages")) == (f"tools[0].{path}", "mcp-servers")


@pytest.mark.parametrize(
    ("more", "allowed"),
    [
        ({}, None),
        ({"configs": {"a": {"enabled": True}}}, None),
        ({"default_config": {"enabled": False}, "configs": {"a": {"enabled": True}, "b": {}}}, ["a"]),
    ],
)
def test_mcp_servers_of_messages(more: Json, allowed: list[str] | None) -> None:
    body = {"tools": [{**TOOLSET, **more}], "mcp_servers": [SERVER]}
    sent, prepared, lost = translated("messages", body, to("responses"))
    only = {} if allowed is None else {"allowed_tools": allowed}
    assert sent["tools"] == [{**MCP, "authorization": "secret", **only}]
    assert prepared.betas == ()
    assert lost == [("mcp-servers", "approx", "tools[0]")]


def test_a_tool_that_is_switched_off_stays_off() -> None:
    body = {"tools": [{**TOOLSET, "configs": {"rm": {"enabled": False}}}], "mcp_servers": [SERVER]}
    assert refused("messages", body, to("responses")) == ("tools[0].configs.rm", "mcp-servers")


def test_a_toolset_without_its_server() -> None:
    body = {"tools": [TOOLSET], "mcp_servers": [{**SERVER, "name": "other"}]}
    assert refused("messages", body, to("responses")) == ("tools[0].mcp_server_name", "mcp-servers")


def deferred(client: Protocol) -> Json:
    return {**FUNCTIONS[client], "defer_loading": True}


def test_the_vendors_own_search_for_tools() -> None:
    sent, _, lost = translated("responses", {"tools": [{"type": "tool_search"}, deferred("responses")]}, to("messages"))
    search = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
    assert [sent["tools"][0], sent["tools"][1]["defer_loading"]] == [search, True]
    assert lost == [("tool-search", "approx", "tools[0]")]
    body = {"tools": [{"type": "tool_search_tool_regex", "name": "tool_search_tool_regex"}, deferred("messages")]}
    sent, _, lost = translated("messages", body, to("responses"))
    assert [sent["tools"][0], sent["tools"][1]["defer_loading"]] == [{"type": "tool_search"}, True]
    assert lost == [("tool-search", "approx", "tools[0]")]


def test_tools_that_nothing_could_find_are_sent() -> None:
    target = to("chat", model="gpt-4.1")
    sent, _, lost = translated("responses", {"tools": [{"type": "tool_search"}, deferred("responses")]}, target)
    assert len(sent["tools"]) == 1
    assert {(rule, level) for rule, level, _ in lost} == {("tool-search", "drop"), ("defer-loading", "approx")}


@pytest.mark.parametrize(
    ("client", "body", "backend", "choice"),
    [
        (
            "messages",
            {"tools": [M_SEARCH], "tool_choice": {"type": "tool", "name": "web_search"}},
            "responses",
            {"type": "allowed_tools", "mode": "required", "tools": [{"type": "web_search"}]},
        ),
        (
            "messages",
            {
                "tools": [{"type": "code_execution_20250825", "name": "code_execution"}],
                "tool_choice": {"type": "tool", "name": "code_execution"},
            },
            "responses",
            {"type": "code_interpreter"},
        ),
        (
            "responses",
            {"tools": [{"type": "web_search_preview"}], "tool_choice": {"type": "web_search_preview"}},
            "messages",
            {"type": "tool", "name": "web_search"},
        ),
        (
            "responses",
            {
                "tools": [R_SEARCH, FUNCTIONS["responses"]],
                "tool_choice": {"type": "allowed_tools", "mode": "required", "tools": [{"type": "web_search"}]},
            },
            "messages",
            {"type": "any"},
        ),
    ],
)
def test_choices(client: Protocol, body: Json, backend: Protocol, choice: Json) -> None:
    sent, _, _ = translated(client, body, to(backend))
    assert sent["tool_choice"] == choice
    assert len(sent["tools"]) == 1


@pytest.mark.parametrize(
    ("client", "body", "backend", "rule"),
    [
        ("responses", {"tools": [R_SEARCH], "tool_choice": {"type": "web_search"}}, "chat", "tool-choice"),
        (
            "responses",
            {"tools": [MCP], "tool_choice": {"type": "mcp", "server_label": "docs"}},
            "messages",
            "tool-choice",
        ),
        (
            "responses",
            {
                "tools": [{"type": "image_generation"}, FUNCTIONS["responses"]],
                "tool_choice": {"type": "image_generation"},
            },
            "messages",
            "image-generation",
        ),
    ],
)
def test_choices_that_can_not_be_said(client: Protocol, body: Json, backend: Protocol, rule: str) -> None:
    assert refused(client, body, to(backend))[1] == rule


@pytest.mark.parametrize("kind", ["file_search", "image_generation"])
def test_what_only_openai_runs(kind: str) -> None:
    body = {"tools": [{"type": kind, "vector_store_ids": ["vs_1"]}, FUNCTIONS["responses"]]}
    if kind == "image_generation":
        _, _, lost = translated("responses", body, to("messages"))
        assert lost == [("image-generation", "drop", "tools[0]")]
    else:
        assert refused("responses", body, to("messages")) == ("tools[0]", "hosted-tool")
    _, _, lost = translated("responses", body, to("messages", policy="drop"))
    assert [level for _, level, _ in lost] == ["drop"]
    assert refused("responses", body, to("messages", policy="refuse"))[0] == "tools[0]"


def test_servers_of_no_vendor_run_nothing() -> None:
    target = Target("messages", "some-model", Dialect())
    _, _, lost = translated("responses", {"tools": [R_SEARCH, FUNCTIONS["responses"]]}, target)
    assert ("web-search", "drop", "tools[0]") in lost


BROKEN: list[tuple[Protocol, Json]] = [
    ("responses", {"tools": [{"type": "web_search", "filters": 1}]}),
    ("responses", {"tools": [{"type": "web_search", "filters": {"allowed_domains": [1]}}]}),
    ("responses", {"tools": [{"type": "web_search", "user_location": {"city": 1}}]}),
    ("responses", {"tools": [{"type": "web_search", "search_context_size": "vast"}]}),
    ("responses", {"tools": [{"type": "code_interpreter"}]}),
    ("responses", {"tools": [{**MCP, "server_url": None}]}),
    ("responses", {"tools": [{**MCP, "headers": {"authorization": 1}}]}),
    ("responses", {"tools": [{**MCP, "allowed_tools": 1}]}),
    ("messages", {"tools": [{**M_SEARCH, "max_uses": "1"}]}),
    ("messages", {"tools": [{**M_SEARCH, "user_location": []}]}),
    ("messages", {"tools": [{**TOOLSET, "configs": {"a": 1}}], "mcp_servers": [SERVER]}),
    ("messages", {"tools": [{**TOOLSET, "default_config": {"enabled": 1}}], "mcp_servers": [SERVER]}),
    ("messages", {"tools": [TOOLSET], "mcp_servers": [{**SERVER, "url": None}]}),
    ("chat", {"web_search_options": {"user_location": {"approximate": 1}}}),
    ("chat", {"web_search_options": {"search_context_size": 1}}),
]


@pytest.mark.parametrize(("client", "body"), BROKEN)
def test_broken_declarations(client: Protocol, body: Json) -> None:
    backend: Protocol = "responses" if client == "messages" else "messages"
    with pytest.raises(Rejected) as caught:
        translated(client, body, to(backend))
    assert caught.value.error.kind is ErrorClass.INVALID
    assert caught.value.error.param


@pytest.mark.parametrize(
    ("hosted", "name"),
    [
        ({"type": "web_search"}, "web_search"),
        ({"type": "code_interpreter", "container": {"type": "auto"}}, "code_execution"),
    ],
)
@pytest.mark.parametrize("kind", ["function", "custom"])
def test_a_tool_of_the_client_that_is_called_like_one_of_the_vendor_stays_apart(
    hosted: Json, name: str, kind: str
) -> None:
    own = {"type": "custom", "name": name} if kind == "custom" else {**FUNCTIONS["responses"], "name": name}
    call = {"type": f"{kind}_call" if kind == "function" else "custom_tool_call", "call_id": "c1", "name": name}
    call |= {"arguments": "{}"} if kind == "function" else {"input": "x"}
    history = [{"role": "user", "content": "hi"}, call, {**call, "type": f"{call['type']}_output", "output": "ok"}]
    for choice, chosen in (({"type": kind, "name": name}, "own"), ({"type": hosted["type"]}, "hosted")):
        body = {"tools": [own, hosted], "input": history, "tool_choice": choice}
        wire, prepared, _ = translated("responses", body, to("messages"))
        spelled, other = (tool["name"] for tool in wire["tools"])
        assert (spelled.startswith(f"{name}_"), other) == (True, name)
        assert wire["messages"][1]["content"][0]["name"] == spelled
        assert wire["tool_choice"]["name"] == (spelled if chosen == "own" else name)
        item = calling(prepared, [spelled])[0]
        assert (item["type"], item["name"]) == (call["type"], name)


def calling(prepared: Prepared, names: list[str]) -> list[Json]:
    """What a client of Responses gets when Claude calls these tools."""
    content = [{"type": "tool_use", "id": f"toolu_{name}", "name": name, "input": {"input": "x"}} for name in names]
    reply: Json = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content}
    reply |= {"stop_reason": "tool_use", "usage": {"input_tokens": 1, "output_tokens": 1}}
    output: list[Json] = json.loads(prepared.reply(json.dumps(reply).encode()))["output"]
    return output


def test_tools_of_groups_whose_joined_names_look_alike_stay_apart() -> None:
    def group(name: str, *members: str) -> Json:
        tools = [{**FUNCTIONS["responses"], "name": member} for member in members]
        return {"type": "namespace", "name": name, "description": "", "tools": tools}

    own = {**FUNCTIONS["responses"], "name": "a__b__c"}
    body: Json = {"tools": [group("a", "b__c"), group("a__b", "c"), own]}
    body["tool_choice"] = {"type": "function", "name": "c", "namespace": "a__b"}
    for backend in ("messages", "chat"):
        wire, prepared, _ = translated("responses", body, to(backend))
        names = [tool["name"] if backend == "messages" else tool["function"]["name"] for tool in wire["tools"]]
        assert names[0] == "a__b__c"
        assert len(set(names)) == 3
        choice = wire["tool_choice"]
        assert (choice["name"] if backend == "messages" else choice["function"]["name"]) == names[1]
        if backend == "messages":
            called = [(item["name"], item.get("namespace")) for item in calling(prepared, names)]
            assert called == [("b__c", "a"), ("c", "a__b"), ("a__b__c", None)]


@pytest.mark.parametrize("declared", ["web_search", "web_search_2025_08_26", "web_search_preview"])
@pytest.mark.parametrize("chosen", ["web_search", "web_search_2025_08_26", "web_search_preview_2025_03_11"])
def test_a_search_may_be_chosen_by_another_of_its_names(declared: str, chosen: str) -> None:
    body = {"tools": [{"type": declared}, FUNCTIONS["responses"]], "tool_choice": {"type": chosen}}
    assert translated("responses", body, to("messages"))[0]["tool_choice"] == {"type": "tool", "name": "web_search"}
