"""What agents and SDKs really send: rules find all of it, and never take it for a trick."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

import pytest
from anthropic.types.beta.beta_tool_union_param import BetaToolUnionParam
from openai.types.responses.tool_param import ToolParam

from proxy.canonical.jsontext import dumps
from proxy.settings.tenants import ModelRules, NameRules, Tenant, TenantLimits, ToolRules
from proxy.tenancy.kinds import kind_of
from proxy.tenancy.policy import Policy
from proxy.tenancy.tool_places import Client

RECORDINGS = Path(__file__).parents[1] / "recordings"
CLIENTS: dict[str, Client] = {
    "/v1/chat/completions": "chat",
    "/v1/responses": "responses",
    "/v1/messages": "messages",
    "/v1/messages/count_tokens": "messages",
}
ANY = NameRules(("*",), ("none-such",))
OWN = {"function", "custom", "namespace"}  # the client's own tools, and groups of them


def test_rules_that_allow_everything_refuse_no_client() -> None:
    limits = TenantLimits(max_output_tokens=10**6)
    policy = Policy(Tenant("team", models=ModelRules(ANY), tools=ToolRules(ANY, 1000, ANY, ANY), limits=limits))
    asked = 0
    for file in sorted(RECORDINGS.glob("*/*.json")):
        recording = json.loads(file.read_text())
        client = CLIENTS.get(recording["path"].partition("?")[0])
        if client is None or not recording.get("body"):
            continue
        wire = recording["body"]
        policy.check_named_model(wire)
        for raw in (dumps(wire), json.dumps(wire, indent=1).encode()):
            policy.check_request(client, raw, wire)
        asked += 1
    assert asked > 500


def types_of(union: object) -> Iterator[str]:
    """The `type`s of all tools that an SDK knows."""
    for tool in get_args(union):
        hint = get_type_hints(tool)["type"]
        while get_origin(hint) is not Literal:
            hint = get_args(hint)[0]
        yield from get_args(hint)


@pytest.mark.parametrize("union", [BetaToolUnionParam, ToolParam], ids=["messages", "responses"])
def test_every_type_of_tool_that_the_vendors_have_is_of_some_kind(union: object) -> None:
    types = set(types_of(union))
    assert len(types) > 10
    assert {name for name in types if kind_of(name) is None} <= OWN
