"""Call ids and tool names: injective, reversible, within every side's limits (mapping.md I13)."""

import json
import re
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.canonical.target import Dialect, Target
from proxy.canonical.tools import FunctionTool
from proxy.translation import ids, pair, tool_names
from proxy.translation.prepared import Prepared
from proxy.upstream.dialects import PROFILES


def ask(client: str, backend: str, dialect: str, seen: list[str], *, stream: bool = False) -> Prepared:
    """A request whose history has a call with each of these ids."""
    hello = {"role": "user", "content": "hi"}
    body: dict[str, object] = {"model": "m", "stream": stream}
    turns: list[object] = [hello]
    for one in seen:
        if client == "chat":
            call = {"id": one, "type": "function", "function": {"name": "f", "arguments": "{}"}}
            turns += [
                {"role": "assistant", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": one, "content": "x"},
            ]
        elif client == "responses":
            turns.append({"type": "function_call", "call_id": one, "name": "f", "arguments": "{}"})
            turns.append({"type": "function_call_output", "call_id": one, "output": "x"})
        else:
            turns.append({"role": "assistant", "content": [{"type": "tool_use", "id": one, "name": "f", "input": {}}]})
            turns.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": one, "content": "x"}]})
    body["input" if client == "responses" else "messages"] = turns
    if client == "messages":
        body["max_tokens"] = 99
    seen_by_proxy = pair.peek(client, json.dumps(body).encode())  # type: ignore[arg-type]
    target = Target(backend, "m", PROFILES[backend][dialect])  # type: ignore[arg-type,index]
    return pair.prepare(seen_by_proxy, target, pair.Options(request_id="req_1"))


def answer(call_id: str, response_id: str, backend: str = "chat", *, stream: bool = False) -> bytes:
    """A backend's reply with one call."""
    if backend == "chat":
        call: dict[str, object] = {"id": call_id, "type": "function", "function": {"name": "f", "arguments": "{}"}}
        kept = {"index": 0, **call} if stream else call
        said = {"role": "assistant", "tool_calls": [kept]}
        choice = {"index": 0, "delta" if stream else "message": said, "finish_reason": "tool_calls"}
        wire: dict[str, object] = {"id": response_id, "choices": [choice]}
        return b"data: " + json.dumps(wire).encode() + b"\n\ndata: [DONE]\n\n" if stream else json.dumps(wire).encode()
    if backend == "responses":
        call = {"type": "function_call", "id": "fc_1", "call_id": call_id, "name": "f", "arguments": "{}"}
        whole = {"id": response_id, "object": "response", "status": "completed", "model": "m", "output": [call]}
        if not stream:
            return json.dumps(whole).encode()
        return events(
            {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}},
            {"type": "response.output_item.added", "output_index": 0, "item": {**call, "arguments": ""}},
            {"type": "response.function_call_arguments.done", "output_index": 0, "item_id": "fc_1", "arguments": "{}"},
            {"type": "response.output_item.done", "output_index": 0, "item": call},
            {"type": "response.completed", "response": whole},
        )
    call = {"type": "tool_use", "id": call_id, "name": "f", "input": {}}
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": response_id, "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    if not stream:
        return json.dumps({**message, "content": [call], "stop_reason": "tool_use"}).encode()
    return events(
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": call},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": usage},
        {"type": "message_stop"},
    )


def events(*wires: dict[str, object]) -> bytes:
    return b"".join(f"event: {wire['type']}\ndata: {json.dumps(wire)}\n\n".encode() for wire in wires)


def called(reply: bytes) -> str:
    """The one call id that a client sees."""
    found = set(re.findall(r'"(?:call_id|id)": ?"((?:call_|functions|drg)[^"]*)"', reply.decode()))
    (only,) = found
    return str(only)


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
    assert seen_by_client == "drgx_functions_2eget_5fweather_3a0"
    for protocol in ("chat", "responses"):
        assert ids.BackendIds(Target(protocol, "m", PROFILES[protocol]["vllm"])).spell(seen_by_client) == minted
    assert ids.BackendIds(Target("chat", "m", PROFILES["chat"]["openai"])).spell(minted) == seen_by_client


@pytest.mark.parametrize("client", ["chat", "responses", "messages"])
@pytest.mark.parametrize("dialect", ["generic", "moonshot", "gemini"])
def test_a_backend_gets_the_id_that_it_gave(client: str, dialect: str) -> None:
    prepared = ask(client, "chat", dialect, [])
    seen = called(prepared.reply(answer("functions.f:0", "r1")))
    again = ask(client, "chat", dialect, [seen])
    (call,) = json.loads(again.body)["messages"][1]["tool_calls"]
    assert (call["id"], json.loads(again.body)["messages"][2]["tool_call_id"]) == ("functions.f:0", "functions.f:0")


@pytest.mark.parametrize(("client", "backend"), list(permutations(["chat", "responses", "messages"], 2)))
@pytest.mark.parametrize("stream", [False, True])
def test_ids_that_a_backend_counts_anew_in_each_response_are_told_apart(
    client: str, backend: str, stream: bool
) -> None:
    seen: list[str] = []
    for number in range(3):
        prepared = ask(client, backend, "generic", seen, stream=stream)
        assert set(re.findall(r'"(?:call_)?id":"([^"]*)"', prepared.body.decode())) == set(seen)
        raw = answer("call_0", f"r{number}", backend, stream=stream)
        if stream:
            translation = prepared.translation()
            shown = translation.feed(raw) + translation.end()
        else:
            shown = prepared.reply(raw)
        seen.append(called(shown))
    assert seen == ["call_0", ids.mint("r1", 0), ids.mint("r2", 0)]


def test_an_id_that_is_missing_in_a_response_without_one_comes_of_the_request() -> None:
    prepared = ask("messages", "chat", "generic", [])
    assert called(prepared.reply(answer("", ""))) == ids.mint("req_1", 0)


@pytest.mark.parametrize("names", [("a", "a", "a-2"), ("a-2", "a", "a"), ("a", "a-2", "a"), ("", "drgp_1_0")])
def test_a_suffix_makes_no_id_of_another_call(names: tuple[str, ...]) -> None:
    calls = [{"id": one, "type": "function", "function": {"name": "f", "arguments": "{}"}} for one in names]
    results = [{"role": "tool", "tool_call_id": one, "content": str(place)} for place, one in enumerate(names)]
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "tool_calls": calls}, *results]
    body = json.dumps({"model": "m", "messages": messages}).encode()
    prepared = pair.prepare(pair.peek("chat", body), Target("messages", "claude-opus-5"), pair.Options())
    _, assistant, user = json.loads(prepared.body)["messages"]
    assert len({block["id"] for block in assistant["content"]}) == len(names)
    assert [block["id"] for block in assistant["content"]] == [block["tool_use_id"] for block in user["content"]]
    assert [block["content"] for block in user["content"]] == [str(place) for place in range(len(names))]


def test_a_call_of_the_deprecated_form_has_the_id_of_its_place() -> None:
    called_function = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    messages = [{"role": "user", "content": "hi"}, called_function, {"role": "function", "name": "f", "content": "r"}]
    body = json.dumps({"model": "m", "messages": messages}).encode()
    for protocol in ("messages", "responses"):
        prepared = pair.prepare(pair.peek("chat", body), Target(protocol, "m"), pair.Options())
        assert set(re.findall(r"drg\w+", prepared.body.decode())) == {"drgp_1_0"}


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
