"""Tools hidden in any protocol's spelling."""

import pytest

from proxy.canonical.errors import Reason, Rejected
from proxy.canonical.jsontext import dumps, loads
from proxy.protocols.fields import Wire, as_object
from proxy.settings.tenants import NameRules, Tenant, ToolRules
from proxy.tenancy.kinds import kind_of
from proxy.tenancy.policy import Policy
from proxy.tenancy.tool_places import Client
from proxy.tenancy.tool_rules import MOST_TOOLS


def refusals(rules: ToolRules, client: Client, wire: Wire) -> list[tuple[Reason | None, str | None]]:
    """Why and where, for all that is refused."""
    found = Policy(Tenant("team", tools=rules)).judge(client, wire)
    return [(refusal.reason, refusal.param) for refusal in found if refusal is not None]


def hosted(*allow: str, deny: tuple[str, ...] = ()) -> ToolRules:
    return ToolRules(hosted=NameRules(allow or None, deny))


NOTHING_HOSTED = ToolRules(hosted=NameRules(()))


# --- hosted tools: where they can stand, and what they are called ---


@pytest.mark.parametrize(
    ("client", "body", "place"),
    [
        # Chat and what its dialects add
        ("chat", {"web_search_options": {}}, "web_search_options"),
        ("chat", {"tools": [{"type": "web_search"}]}, "tools[0]"),
        (
            "chat",
            {"tools": [{"type": "function", "function": {"name": "a"}, "google_search": {}}]},
            "tools[0].google_search",
        ),
        ("chat", {"tools": [{"google_search": {}}]}, "tools[0]"),
        ("chat", {"tools": [{"googleSearch": {}}]}, "tools[0]"),
        ("chat", {"tools": [{}]}, "tools[0]"),
        ("chat", {"tools": [{"type": "builtin_function", "function": {"name": "$web_search"}}]}, "tools[0]"),
        ("chat", {"tools": [{"type": "openrouter:web_search"}]}, "tools[0]"),
        ("chat", {"plugins": [{"id": "web"}]}, "plugins[0]"),
        ("chat", {"model": "openai/gpt-5:online"}, "model"),
        ("chat", {"model": "gpt-4o-search-preview"}, "model"),
        ("chat", {"model": "gpt-5-search-api"}, "model"),
        ("chat", {"search_parameters": {"mode": "auto"}}, "search_parameters"),
        ("chat", {"enable_search": True}, "enable_search"),
        ("chat", {"extra_body": {"enable_search": True}}, "extra_body.enable_search"),
        ("chat", {"extra_body": {"google": {"tools": [{"code_execution": {}}]}}}, "extra_body.google.tools[0]"),
        ("chat", {"data_sources": [{"type": "azure_search"}]}, "data_sources"),
        ("chat", {"tool_choice": {"type": "web_search"}}, "tool_choice"),
        ("chat", {"messages": [{"role": "system", "tools": [{"type": "web_search"}]}]}, "messages[0].tools[0]"),
        # Responses
        ("responses", {"tools": [{"type": "code_interpreter", "container": "c"}]}, "tools[0]"),
        ("responses", {"tools": [{"type": "programmatic_tool_calling"}]}, "tools[0]"),
        ("responses", {"tools": [{"type": "of_tomorrow"}]}, "tools[0]"),
        ("responses", {"tools": [{"type": "namespace", "tools": [{"type": "shell"}]}]}, "tools[0].tools[0]"),
        ("responses", {"tool_choice": {"type": "file_search"}}, "tool_choice"),
        (
            "responses",
            {"tool_choice": {"type": "allowed_tools", "tools": [{"type": "image_generation"}]}},
            "tool_choice.tools[0]",
        ),
        ("responses", {"input": [{"type": "additional_tools", "tools": [{"type": "shell"}]}]}, "input[0].tools[0]"),
        ("responses", {"input": [{"type": "tool_search_output", "tools": [{"type": "mcp"}]}]}, "input[0].tools[0]"),
        ("responses", {"input": [{"type": "of_tomorrow", "tools": [{"type": "shell"}]}]}, "input[0].tools[0]"),
        ("responses", {"items": [{"type": "additional_tools", "tools": [{"type": "shell"}]}]}, "items[0].tools[0]"),
        ("responses", {"prompt": {"id": "pmpt_1"}}, "prompt"),
        # Messages
        ("messages", {"tools": [{"type": "web_fetch_20260318", "name": "web_fetch"}]}, "tools[0]"),
        ("messages", {"tools": [{"type": "computer_toolset_20260801"}]}, "tools[0]"),
        ("messages", {"tools": [{"type": "memory_20250818", "name": "memory"}]}, "tools[0]"),
        ("messages", {"mcp_servers": [{"type": "url", "url": "https://a.example/"}]}, "mcp_servers[0]"),
        ("messages", {"tools": [{"type": "mcp_toolset", "mcp_server_name": "a"}]}, "tools[0]"),
        ("messages", {"container": {"skills": [{"type": "anthropic", "skill_id": "pptx"}]}}, "container"),
        (
            "messages",
            {
                "messages": [
                    {"role": "user", "content": "x"},
                    {
                        "role": "system",
                        "content": [
                            {
                                "type": "tool_addition",
                                "tool": {"type": "tool_definition", "definition": {"type": "bash_20250124"}},
                            }
                        ],
                    },
                ]
            },
            "messages[1].content[0].tool.definition",
        ),
        (
            "messages",
            {
                "messages": [
                    {
                        "content": [
                            {
                                "type": "compaction",
                                "tool_changes": [{"tool": {"definition": {"type": "code_execution_20260120"}}}],
                            }
                        ]
                    }
                ]
            },
            "messages[0].content[0].tool_changes[0].tool.definition",
        ),
        ("chat", {"web_search_options": {"mode": "off"}}, "web_search_options"),
        ("chat", {"web_search_options": {"enable": False}}, "web_search_options"),
    ],
)
def test_a_hosted_tool_is_found_wherever_it_stands(client: Client, body: Wire, place: str) -> None:
    assert place in [at for _, at in refusals(NOTHING_HOSTED, client, body)]
    assert refusals(ToolRules(), client, body) == []


def test_a_body_with_more_tools_than_can_be_looked_at_is_refused() -> None:
    rules = ToolRules(functions=NameRules(("f",)))
    tools: list[object] = [{"name": "f"}] * MOST_TOOLS
    assert refusals(rules, "chat", {"tools": tools}) == []
    with pytest.raises(Rejected) as caught:
        refusals(rules, "chat", {"tools": [*tools, {"name": "f"}]})
    assert (caught.value.error.reason, caught.value.error.param) == (Reason.MALFORMED, "tools[4096]")


def test_a_tool_of_more_members_than_can_be_looked_at_is_refused() -> None:
    with pytest.raises(Rejected) as caught:
        refusals(NOTHING_HOSTED, "chat", {"tools": [{f"x{number}": 1 for number in range(1001)}]})
    assert (caught.value.error.reason, caught.value.error.param) == (Reason.MALFORMED, "tools[0]")


@pytest.mark.parametrize(
    ("client", "body"),
    [
        ("chat", {"tools": [{"type": "function", "function": {"name": "web_search"}}]}),
        ("chat", {"tools": [{"type": "custom", "custom": {"name": "shell"}}]}),
        ("chat", {"tools": [{"function": {"name": "bash"}}]}),
        ("chat", {"functions": [{"name": "web_search"}]}),
        ("chat", {"tools": None, "web_search_options": None, "plugins": [], "enable_search": False}),
        ("chat", {"search_parameters": {"mode": "off"}, "web_search": {"enable": False}}),
        ("chat", {"tool_choice": {"type": "function", "function": {"name": "web_search"}}}),
        ("chat", {"model": "research-fast"}),
        ("chat", {"messages": [{"role": "user", "content": [{"type": "text", "text": "web_search"}]}]}),
        ("responses", {"tools": [{"type": "namespace", "tools": [{"type": "function", "name": "web_search"}]}]}),
        ("responses", {"input": [{"type": "mcp_list_tools", "tools": [{"name": "a", "input_schema": {}}]}]}),
        ("responses", {"tool_choice": "auto", "input": "shell"}),
        ("messages", {"tools": [{"name": "bash", "input_schema": {}}, {"type": "custom", "name": "memory"}]}),
        ("messages", {"tools": [{"type": None, "name": "web_search", "input_schema": {}}]}),
        ("messages", {"messages": [{"role": "assistant", "content": [{"type": "tool_use", "input": {"tools": [1]}}]}]}),
        ("completions", {"prompt": "Once"}),
    ],
)
def test_the_clients_own_tools_are_not_hosted_whatever_they_are_called(client: Client, body: Wire) -> None:
    assert refusals(NOTHING_HOSTED, client, body) == []


@pytest.mark.parametrize(
    ("wire_type", "kind"),
    [
        ("web_search", "web_search"),
        ("web_search_20260318", "web_search"),
        ("web_search_preview_2025_03_11", "web_search"),
        ("Web_Search", "web_search"),
        ("$web_search", "web_search"),
        ("web_searcher", None),
        ("web_fetch_20250910", "web_fetch"),
        ("code_interpreter", "code_execution"),
        ("code_execution_20260521", "code_execution"),
        ("computer", "computer_use"),
        ("computer_use_preview", "computer_use"),
        ("computer_20251124", "computer_use"),
        ("text_editor_20250728", "text_editor"),
        ("bash_20250124", "bash"),
        ("local_shell", "local_shell"),
        ("shell", "shell"),
        ("tool_search_tool_bm25_20251119", "tool_search"),
        ("mcp_toolset", "mcp"),
        ("of_tomorrow", None),
    ],
)
def test_types_of_all_vendors_have_one_name(wire_type: str, kind: str | None) -> None:
    assert kind_of(wire_type) == kind


@pytest.mark.parametrize(
    ("rule", "wire_type", "matches"),
    [
        ("web_search", "web_search_20250305", True),
        ("web_search_20250305", "web_search_20250305", True),
        ("web_search_2025*", "web_search_20250305", True),
        ("web_search_20250305", "web_search_20260318", False),
        ("web_search_preview", "web_search_preview_2025_03_11", True),
        ("code_interpreter", "code_execution_20260120", True),
        ("code_execution", "code_interpreter", True),
        ("computer", "computer_use_preview", True),
        ("computer_use", "computer_20251124", True),
        ("shell", "local_shell", False),
        ("*", "of_tomorrow", True),
        ("of_tomorrow", "of_tomorrow", True),
    ],
)
def test_a_rule_may_use_the_kind_or_the_vendors_type(rule: str, wire_type: str, matches: bool) -> None:
    wire: Wire = {"tools": [{"type": wire_type}]}
    assert (refusals(hosted(rule), "responses", wire) == []) is matches
    assert (refusals(hosted(deny=(rule,)), "responses", wire) != []) is matches


def test_deny_wins_in_any_case_and_unknown_types_pass_it() -> None:
    rules = hosted(deny=("web_search",))
    assert refusals(rules, "responses", {"tools": [{"type": "of_tomorrow"}]}) == []
    assert refusals(rules, "responses", {"tools": [{"type": "WEB_SEARCH"}]}) == [
        (Reason.HOSTED_TOOL_DENIED, "tools[0]")
    ]
    both = hosted("*", deny=("web_search",))
    assert refusals(both, "chat", {"web_search_options": {}}) == [(Reason.HOSTED_TOOL_DENIED, "web_search_options")]


def test_a_shell_in_a_container_is_the_vendors_code_execution() -> None:
    rules = hosted(deny=("code_execution",))
    contained: Wire = {"tools": [{"type": "shell", "environment": {"type": "container_auto"}}]}
    assert refusals(rules, "responses", contained) == [(Reason.HOSTED_TOOL_DENIED, "tools[0]")]
    assert refusals(rules, "responses", {"tools": [{"type": "shell", "environment": {"type": "local"}}]}) == []


# --- functions ---


@pytest.mark.parametrize(
    ("tool", "allowed"),
    [
        ({"type": "function", "function": {"name": "get_weather"}}, True),
        ({"type": "function", "function": {"name": "Get_weather"}}, False),
        ({"type": "function", "function": {"name": "get_secret"}}, False),
        ({"type": "function", "function": {"name": "get_SECRET"}}, False),
        ({"type": "function", "name": "get_weather", "function": {"name": "drop"}}, False),
        ({"type": "custom", "custom": {"name": "get_code"}}, True),
        ({"type": "custom", "custom": {"name": "code"}}, False),
        ({"type": "function", "function": {}}, False),
        ({"type": "function"}, False),
    ],
)
def test_functions_go_by_every_name_that_they_claim(tool: Wire, allowed: bool) -> None:
    rules = ToolRules(functions=NameRules(("get_*",), ("*secret",)))
    assert (refusals(rules, "chat", {"tools": [tool]}) == []) is allowed


def test_a_member_of_a_group_goes_by_either_name() -> None:
    wire: Wire = {"tools": [{"type": "namespace", "name": "git", "tools": [{"type": "function", "name": "push"}]}]}
    for names, allowed in (
        (NameRules(("push",)), True),
        (NameRules(("git.*",)), True),
        (NameRules(("pull",)), False),
        (NameRules(None, ("git.*",)), False),
        (NameRules(("git.*",), ("push",)), False),
    ):
        assert (refusals(ToolRules(functions=names), "responses", wire) == []) is allowed


def test_functions_are_counted_over_all_places() -> None:
    rules = ToolRules(most_functions=2)
    wire: Wire = {
        "tools": [{"type": "function", "name": "a"}, {"type": "web_search"}, {"type": "custom", "name": "b"}],
        "input": [{"type": "additional_tools", "tools": [{"type": "function", "name": "c"}]}],
    }
    assert refusals(rules, "responses", wire) == [(Reason.TOOL_DENIED, "input[0].tools[0]")]
    legacy: Wire = {"functions": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}
    assert refusals(rules, "chat", legacy) == [(Reason.TOOL_DENIED, "functions[2]")]
    assert refusals(ToolRules(most_functions=0), "messages", {"tools": [{"name": "a"}]}) == [
        (Reason.TOOL_DENIED, "tools[0]")
    ]


# --- MCP servers ---


def mcp(url: object) -> Wire:
    return {"tools": [{"type": "mcp", "server_label": "a", "server_url": url}]}


ONE_HOST = ToolRules(mcp_servers=NameRules(("https://mcp.example.org/*",)))


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("https://mcp.example.org/sse", True),
        ("https://mcp.example.org", True),
        ("https://mcp.example.org/", True),
        ("HTTPS://MCP.Example.ORG:443/sse", True),
        ("https://mcp.example.org./sse", True),
        ("https://mcp.example.org/%73se?x=1", True),
        ("http://mcp.example.org/sse", False),
        ("https://mcp.example.org:8443/sse", False),
        ("https://mcp.example.org/@evil.net/", True),  # a path of that host
        ("https://mcp.example.org@evil.net/", False),
        ("https://mcp.example.org:x@evil.net/", False),
        ("https://evil.net/https://mcp.example.org/", False),
        ("https://evil.net/?https://mcp.example.org/", False),
        ("https://evil.net#https://mcp.example.org/", False),
        ("https://evil.net\\@mcp.example.org/", False),
        ("https:\\\\mcp.example.org/sse", False),
        ("https://mcp.example.org.evil.net/", False),
        ("https://mcp.example.org%2eevil.net/", False),
        ("https://mcp\u3002example.org/", False),
        ("https://mcp.example.org/\n", False),
        (" https://mcp.example.org/", False),
        ("//mcp.example.org/", False),
        ("ftp://mcp.example.org/", False),
        ("https://mcp.example.org:99999/", False),
        ("https://mcp.example.org:/", False),
        ("https:///sse", False),
        ("", False),
    ],
)
def test_a_server_is_known_by_its_parts(url: str, allowed: bool) -> None:
    assert (refusals(ONE_HOST, "responses", mcp(url)) == []) is allowed
    servers: Wire = {"mcp_servers": [{"type": "url", "url": url, "name": "a"}]}
    assert (refusals(ONE_HOST, "messages", servers) == []) is allowed


@pytest.mark.parametrize(
    ("glob", "url", "allowed"),
    [
        ("https://*.example.org/*", "https://a.example.org/x", True),
        ("https://*.example.org/*", "https://evil.net/x.example.org/x", False),
        ("https://*.example.org/*", "https://evil.net:1/.example.org/x", False),
        ("https://mcp.example.org*", "https://mcp.example.org/x", True),
        ("https://mcp.example.org*", "https://mcp.example.org.evil.net/x", False),
        ("https://mcp.example.org", "https://mcp.example.org/", True),
        ("https://mcp.example.org", "https://mcp.example.org/x", False),
        ("https://mcp.example.org/team/*", "https://mcp.example.org/team/x", True),
        ("https://mcp.example.org/team/*", "https://mcp.example.org/team/../other", False),
        ("https://mcp.example.org/team/*", "https://mcp.example.org/team/%2e%2e/other", False),
        ("https://mcp.example.org/team/*", "https://mcp.example.org/team/..%2fother", False),
        ("https://mcp.example.org/team/*", "https://mcp.example.org/team/..;/other", False),
        ("https://mcp.example.org/*", "https://mcp.example.org//admin", False),
        ("https://mcp.example.org/*", "https://mcp.example.org/admin;x/a", False),
        ("https://mcp.example.org/team/*", "https://mcp.example.org/TEAM/x", False),
        ("https://mcp.example.org/team", "https://mcp.example.org/team?x=1", False),
        ("https://mcp.example.org:8443/*", "https://mcp.example.org:8443/", True),
        ("https://mcp.example.org:*/*", "https://mcp.example.org:8443/", True),
        ("https://mcp.example.org:443/*", "https://mcp.example.org/", True),
        ("mcp.example.org/*", "http://mcp.example.org/", True),
        ("https://[::1]/*", "https://[0:0::1]/x", True),
        ("https://127.0.0.1/*", "https://127.0.0.1/x", True),
        ("https://127.*/*", "https://127.1/x", False),
        ("*", "https://anything.example/x", True),
        ("*", "https://a@b/", False),
    ],
)
def test_a_star_stays_in_its_part(glob: str, url: str, allowed: bool) -> None:
    assert (refusals(ToolRules(mcp_servers=NameRules((glob,))), "responses", mcp(url)) == []) is allowed


@pytest.mark.parametrize(
    ("glob", "url"),
    [
        ("https://evil.net/*", "https://evil.net/x"),
        ("https://evil.net", "https://evil.net/x"),
        ("https://evil.net/*", "http://evil.net/x"),
        ("https://evil.net/*", "https://evil.net:8443/x"),
        ("https://evil.net/*", "https://EVIL.net./x"),
        ("https://evil.net/x", "https://evil.net/X?y"),
        ("https://evil.net/x", "https://evil.net/%78"),
        ("https://127.0.0.1/*", "https://0x7f.1/x"),
        ("https://127.0.0.1/*", "https://2130706433/x"),
    ],
)
def test_deny_holds_however_the_address_is_written(glob: str, url: str) -> None:
    rules = ToolRules(mcp_servers=NameRules(None, (glob,)))
    assert refusals(rules, "responses", mcp(url)) == [(Reason.MCP_DENIED, "tools[0].server_url")]
    assert refusals(rules, "responses", mcp("https://good.example/x")) == []


def test_servers_without_an_address_have_names() -> None:
    rules = ToolRules(mcp_servers=NameRules(("connector:connector_gmail", "tunnel:*", "label:docs"), ("tunnel:bad",)))
    for tool, allowed in (
        ({"connector_id": "connector_gmail"}, True),
        ({"connector_id": "connector_dropbox"}, False),
        ({"tunnel_id": "tunnel_1"}, True),
        ({"tunnel_id": "BAD"}, False),
        ({"server_label": "docs"}, True),
        ({"server_label": "other"}, False),
        ({"connector_id": "connector_gmail", "server_url": "https://evil.net/"}, False),
    ):
        assert (refusals(rules, "responses", {"tools": [{"type": "mcp", **tool}]}) == []) is allowed


def test_who_names_servers_allows_the_kind() -> None:
    wire = mcp("https://mcp.example.org/sse")
    servers = ONE_HOST.mcp_servers
    assert refusals(ToolRules(hosted=NameRules(("web_search",)), mcp_servers=servers), "responses", wire) == []
    toolset: Wire = {"tools": [{"type": "mcp_toolset", "mcp_server_name": "a"}]}
    assert refusals(ToolRules(hosted=NameRules(("web_search",)), mcp_servers=servers), "messages", toolset) == []
    for rules in (hosted("web_search"), ToolRules(hosted=NameRules(None, ("mcp",)), mcp_servers=servers)):
        assert refusals(rules, "responses", wire) == [(Reason.MCP_DENIED, "tools[0]")]
    assert refusals(hosted("mcp"), "responses", wire) == []


# --- what can't be read ---


@pytest.mark.parametrize(
    ("client", "wire", "param"),
    [
        ("chat", {"tools": {"type": "web_search"}}, "tools"),
        ("chat", {"tools": ["web_search"]}, "tools[0]"),
        ("responses", {"tools": [{"type": ["web_search"]}]}, "tools[0].type"),
        ("responses", {"tools": [{"type": "function", "Type": "mcp"}]}, "tools[0]"),
        ("responses", {"tools": [{"type": "mcp", "server_url": ["x"]}]}, "tools[0].server_url"),
        ("responses", {"tools": [{"type": "mcp", "serverUrl": "x"}]}, "tools[0]"),
        (
            "responses",
            {"tools": [{"type": "namespace", "tools": [{"type": "namespace", "tools": []}]}]},
            "tools[0].tools[0]",
        ),
        ("messages", {"mcp_servers": {"url": "x"}}, "mcp_servers"),
        ("messages", {"mcp_servers": [{}]}, "mcp_servers[0].url"),
        (
            "messages",
            {"messages": [{"content": [{"tool": {"definition": 1}}]}]},
            "messages[0].content[0].tool.definition",
        ),
    ],
)
def test_what_can_not_be_read_is_malformed(client: Client, wire: Wire, param: str) -> None:
    policy = Policy(Tenant("team", tools=ToolRules(mcp_servers=NameRules(()))))
    with pytest.raises(Rejected) as caught:
        policy.check_request(client, dumps(wire), wire)
    assert (caught.value.error.reason, caught.value.error.param) == (Reason.MALFORMED, param)


@pytest.mark.parametrize(
    ("opening", "closing"), [('{"extra_body":', "}"), ('{"x":', "}"), ('{"tools":[{"type":"namespace","x":', "}]}")]
)
def test_what_is_nested_too_deeply_is_malformed(opening: str, closing: str) -> None:
    steps = 1000 // (opening.count("{") + opening.count("["))
    raw = (opening * steps + "1" + closing * steps).encode()
    with pytest.raises(Rejected) as caught:
        Policy(Tenant("team", tools=NOTHING_HOSTED)).check_request("chat", raw, as_object(loads(raw), ()))
    assert caught.value.error.reason is Reason.MALFORMED
