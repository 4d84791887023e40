"""Call ids and tool names: injective, reversible, within every side's limits (mapping.md I13)."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.canonical.target import Dialect, Target
from proxy.canonical.tools import FunctionTool
from proxy.translation import ids, pair, tool_names

IDS = st.text(min_size=1, max_size=90)
SHORT_RULE = ids.IdRule(40)
MESSAGES = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@given(IDS, IDS)
def test_encoding_keeps_different_ids_apart(one: str, other: str) -> None:
    rule = ids.CLIENT_RULES["messages"]
    assert (ids.encode(one, rule) == ids.encode(other, rule)) == (one == other)


@given(IDS)
def test_an_encoded_id_fits_its_rule_and_stays_as_it_is(call_id: str) -> None:
    spelled = ids.encode(call_id, SHORT_RULE)
    assert MESSAGES.fullmatch(spelled)
    assert len(spelled) <= 40
    assert ids.encode(call_id, SHORT_RULE) == spelled


@given(st.text(min_size=1, max_size=4))
def test_a_short_id_decodes_to_what_it_was(call_id: str) -> None:
    assert ids.decode(ids.encode(call_id, ids.CLIENT_RULES["messages"])) == call_id


def test_an_escape_that_was_not_needed_is_the_clients_own_id() -> None:
    spell = ids.BackendIds(Target("messages", "m")).spell
    assert spell("drgx_abc") != spell("abc") == "abc"


@pytest.mark.parametrize("mistral", [False, True])
@pytest.mark.parametrize("ids_of_client", [("a.b", "drgx_a_2eb"), ("drgx_a_2eb", "a.b", "a.b-2")])
def test_an_id_and_what_looks_like_its_escape_stay_two(ids_of_client: tuple[str, ...], mistral: bool) -> None:
    backend = ids.BackendIds(Target("chat", "m", Dialect(call_id_mistral=mistral)))
    spelled = [backend.spell(call_id) for call_id in ids_of_client]
    assert len(set(spelled)) == len(ids_of_client)
    assert [backend.spell(call_id) for call_id in ids_of_client] == spelled
    assert [backend.restored.get(one, one) for one in spelled] == list(ids_of_client)


def test_two_calls_of_one_turn_keep_their_own_results() -> None:
    pair_of_ids = ("a.b", "drgx_a_2eb")
    calls = [{"id": one, "type": "function", "function": {"name": "f", "arguments": "{}"}} for one in pair_of_ids]
    results = [{"role": "tool", "tool_call_id": one, "content": one} for one in pair_of_ids]
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "tool_calls": calls}, *results]
    body = json.dumps({"model": "m", "messages": messages}).encode()
    prepared = pair.prepare(pair.peek("chat", body), Target("messages", "claude-opus-5"), pair.Options())
    _, assistant, user = json.loads(prepared.body)["messages"]
    answered = {block["tool_use_id"]: block["content"] for block in user["content"]}
    assert [str(answered[block["id"]]) for block in assistant["content"]] == list(pair_of_ids)


def test_reserved_prefixes_are_escaped_so_that_decoding_is_exact() -> None:
    spelled = ids.encode("drgx_abc", ids.CLIENT_RULES["messages"])
    assert spelled == "drgx_drgx_5fabc"
    assert ids.decode(spelled) == "drgx_abc"


def test_an_id_the_backend_minted_comes_back_to_it_unchanged() -> None:
    minted = "functions.get_weather:0"
    seen_by_client = ids.for_client("messages")(minted)
    backend = ids.BackendIds(Target("chat", "m", Dialect(call_id_limit=64)))
    assert ids.decode(seen_by_client) == minted
    assert backend.spell(seen_by_client) == "drgx_functions_2eget_5fweather_3a0"


def test_a_one_way_spelling_is_restored_from_the_table() -> None:
    long_id = "call_" + "x" * 80
    backend = ids.BackendIds(Target("responses", "m"))
    spelled = backend.spell(long_id)
    assert spelled.startswith("drgh_")
    assert backend.restored == {spelled: long_id}


def test_mistral_takes_nine_letters_or_digits() -> None:
    backend = ids.BackendIds(Target("chat", "m", Dialect(call_id_mistral=True)))
    spelled = {backend.spell(f"toolu_{number}") for number in range(200)}
    assert len(spelled) == 200
    assert all(re.fullmatch(r"[A-Za-z0-9]{9}", one) for one in spelled)
    assert backend.spell("abcdefgh1") == "abcdefgh1"


@given(st.sets(st.text(min_size=1, max_size=100), min_size=1, max_size=8))
def test_tool_names_are_injective_and_reverse_exactly(names: set[str]) -> None:
    table = tool_names.ToolNames()
    spelled = {table.mention(name, None): name for name in sorted(names)}
    assert len(spelled) == len(names)
    assert all(MESSAGES.fullmatch(one) for one in spelled)
    back = {one: table.original[one].name if one in table.original else one for one in spelled}
    assert back == spelled


def test_only_names_that_must_change_change() -> None:
    assert tool_names.spell("get_weather-2") == "get_weather-2"
    assert re.fullmatch(r"mcp_server_tool_[0-9a-f]{10}", tool_names.spell("mcp.server/tool"))
    assert len(tool_names.spell("a" * 65)) == 64


A_TOOL = st.tuples(st.text("ab_.", min_size=1, max_size=6), st.none() | st.text("ab_.", min_size=1, max_size=4))


@given(st.lists(A_TOOL, min_size=1, max_size=6, unique=True))
def test_tools_whose_joined_names_look_alike_stay_apart(tools: list[tuple[str, str | None]]) -> None:
    table = tool_names.ToolNames(["a", "b"])
    spelled = {table.declare(FunctionTool(name, None, namespace=space)): (name, space) for name, space in tools}
    assert len(spelled) == len(tools)
    assert not {"a", "b"} & spelled.keys()
    back = {one: table.original[one][:2] if one in table.original else (one, None) for one in spelled}
    assert back == spelled
    assert {table.mention(name, space) for name, space in tools} == set(spelled)


def test_a_history_may_know_a_tool_of_a_group_by_its_joined_name() -> None:
    table = tool_names.ToolNames()
    assert table.declare(FunctionTool("b", None, namespace="a")) == table.mention("a__b", None) == "a__b"
