"""Prompt-cache marks, lifetimes, keys and prewarming between the vendors (mapping.md 7.1, 10.1)."""

import json
from hashlib import sha256
from typing import Any

import pytest

from proxy.canonical.target import Target
from proxy.translation import pair
from proxy.translation.prepared import Prepared
from proxy.translation.profiles import profile_of
from proxy.upstream.dialects import PROFILES
from tests.harness.wire import Json, Protocol

LONG_TEXT = "Answer every question about the city of Oslo. " * 60
EPHEMERAL: Json = {"type": "ephemeral"}
HOUR: Json = {"type": "ephemeral", "ttl": "1h"}
SHORT: Json = {"mode": "explicit"}
HALF_DAY: Json = {"mode": "explicit", "ttl": "12h"}
OPENAI: list[tuple[Protocol, str, str]] = [("chat", "openai", "gpt-5.6"), ("responses", "openai", "gpt-5.6")]


def prepared(client: Protocol, request: Json, backend: tuple[Protocol, str, str]) -> Prepared:
    protocol, dialect, model = backend
    target = Target(protocol, model, PROFILES[protocol][dialect], profile_of(model))
    return pair.prepare(pair.peek(client, json.dumps(request).encode()), target, pair.Options())


def sent(client: Protocol, request: Json, backend: tuple[Protocol, str, str]) -> tuple[Any, list[str]]:
    """The backend's request, and the losses as `rule;level path`."""
    done = prepared(client, request, backend)
    return json.loads(done.body), [f"{loss.rule};{loss.level} {loss.path}" for loss in done.losses]


def marked(value: object) -> list[tuple[str, Any]]:
    """(what, mark) of everything that carries a mark, in the order of the body."""
    found: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        for name in ("cache_control", "prompt_cache_breakpoint"):
            if name in value:
                what = value.get("text") or value.get("name") or value.get("tool_use_id") or value.get("type") or "top"
                found.append((what, value[name]))
        for inner in value.values():
            found += marked(inner)
    elif isinstance(value, list):
        for inner in value:
            found += marked(inner)
    return found


def claude_request(**fields: object) -> Json:
    return {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}], **fields}


TOOL: Json = {"name": "f", "input_schema": {"type": "object", "properties": {}}}


# --- a Messages client ---


@pytest.mark.parametrize("backend", OPENAI)
def test_marks_of_messages_become_breakpoints(backend: tuple[Protocol, str, str]) -> None:
    request = claude_request(
        system=[{"type": "text", "text": "s", "cache_control": HOUR}],
        messages=[{"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": EPHEMERAL}]}],
    )
    body, losses = sent("messages", request, backend)
    assert marked(body) == [("s", HALF_DAY), ("hi", SHORT)]
    assert body["prompt_cache_options"] == {"mode": "explicit"}
    assert losses == [
        "cache-ttl;approx system[0].cache_control",
        "cache-ttl;approx messages[0].content[0].cache_control",
    ]


@pytest.mark.parametrize("backend", OPENAI)
def test_a_mark_moves_forward_to_what_can_carry_it(backend: tuple[Protocol, str, str]) -> None:
    """From a tool to the end of the system text, from a call to its result; of two on one place the longer wins."""
    request = claude_request(
        thinking={"type": "disabled"},
        system=[{"type": "text", "text": "s"}, {"type": "text", "text": "t", "cache_control": EPHEMERAL}],
        tools=[{**TOOL, "cache_control": HOUR}],
        messages=[
            {"role": "user", "content": "hi"},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "Wait."},
                    {"type": "tool_use", "id": "c", "name": "f", "input": {}, "cache_control": EPHEMERAL},
                ],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "4"}]},
        ],
    )
    body, losses = sent("messages", request, backend)
    assert marked(body) == [("t", HALF_DAY), ("4", SHORT)]
    assert losses == [
        "cache-control;approx system[1].cache_control",
        "cache-ttl;approx tools[0].cache_control",
        "cache-ttl;approx messages[1].content[1].cache_control",
    ]


@pytest.mark.parametrize("backend", OPENAI)
def test_a_system_message_between_others_keeps_its_mark(backend: tuple[Protocol, str, str]) -> None:
    content = [{"type": "text", "text": "Now be brief.", "cache_control": EPHEMERAL}]
    asked = [{"role": "user", "content": "hi"}, {"role": "system", "content": content}]
    body, losses = sent("messages", claude_request(messages=asked), backend)
    assert marked(body) == [("Now be brief.", SHORT)]
    assert losses == ["cache-ttl;approx messages[1].content[0].cache_control"]


@pytest.mark.parametrize("backend", OPENAI)
def test_a_mark_on_the_tools_alone_ends_with_the_first_words(backend: tuple[Protocol, str, str]) -> None:
    tools = [{**TOOL, "cache_control": EPHEMERAL}]
    body, _ = sent("messages", claude_request(tools=tools, thinking={"type": "disabled"}), backend)
    assert marked(body) == [("hi", SHORT)]


@pytest.mark.parametrize("backend", OPENAI)
def test_a_mark_behind_which_nothing_comes_is_dropped(backend: tuple[Protocol, str, str]) -> None:
    content = [{"type": "text", "text": "So", "cache_control": EPHEMERAL}]
    request = claude_request(messages=[{"role": "user", "content": "hi"}, {"role": "assistant", "content": content}])
    body, losses = sent("messages", request, backend)
    assert (marked(body), "cache-control;drop messages[1].content[0].cache_control" in losses) == ([], True)


def test_pictures_carry_marks_on_responses_alone() -> None:
    picture = {"type": "image", "source": {"type": "url", "url": "https://e.test/a.png"}, "cache_control": EPHEMERAL}
    request = claude_request(messages=[{"role": "user", "content": [picture, {"type": "text", "text": "what?"}]}])
    on_chat, on_responses = (sent("messages", request, backend)[0] for backend in OPENAI)
    assert marked(on_chat) == [("what?", SHORT)]
    assert marked(on_responses) == [("input_image", SHORT)]


@pytest.mark.parametrize("backend", OPENAI)
def test_more_than_four_marks(backend: tuple[Protocol, str, str]) -> None:
    content = [{"type": "text", "text": str(number), "cache_control": EPHEMERAL} for number in range(6)]
    body, losses = sent("messages", claude_request(messages=[{"role": "user", "content": content}]), backend)
    assert [what for what, _ in marked(body)] == ["2", "3", "4", "5"]
    assert "cache-control;drop messages[0].content[1].cache_control" in losses


@pytest.mark.parametrize(
    ("backend", "options"),
    [
        (OPENAI[0], None),
        (OPENAI[1], {"ttl": "12h"}),
    ],
)
def test_the_automatic_mark_is_what_openai_does_unasked(backend: tuple[Protocol, str, str], options: Json) -> None:
    body, losses = sent("messages", claude_request(cache_control=HOUR), backend)
    assert (body.get("prompt_cache_options"), losses) == (options, ["cache-ttl;approx cache_control"])


@pytest.mark.parametrize(
    "backend",
    [
        ("chat", "openai", "gpt-5.4"),
        ("chat", "openai", "some-model"),
        ("chat", "vllm", "qwen"),
        ("chat", "openrouter", "openai/gpt-5.6"),
        ("responses", "openai", "gpt-5.5"),
        ("responses", "generic", "gpt-5.6"),
    ],
)
def test_other_backends_get_no_marks(backend: tuple[Protocol, str, str]) -> None:
    request = claude_request(
        cache_control=EPHEMERAL,
        system=[{"type": "text", "text": "s", "cache_control": EPHEMERAL}],
        tools=[{**TOOL, "cache_control": EPHEMERAL}],
        thinking={"type": "disabled"},
    )
    body, losses = sent("messages", request, backend)
    assert (marked(body), body.get("prompt_cache_options")) == ([], None)
    assert [loss for loss in losses if "cache" in loss] == [
        "cache-control;drop tools[0].cache_control",
        "cache-control;drop system[0].cache_control",
        "cache-control;drop cache_control",
    ]


def test_a_gateway_hands_marks_on_to_claude_as_they_are() -> None:
    request = claude_request(system=[{"type": "text", "text": "s", "cache_control": HOUR}])
    body, losses = sent("messages", request, ("chat", "openrouter", "anthropic/claude-sonnet-4.5"))
    assert (marked(body), losses) == ([("s", HOUR)], [])


# --- the key ---

SESSION = "0b0bb3f2-5d0e-4e25-8f3b-7a5b1e0f3c11"


@pytest.mark.parametrize(
    ("user", "hashed"),
    [
        (f"user_1234_account_5678_session_{SESSION}", SESSION),
        (json.dumps({"device_id": "d", "account_uuid": "", "session_id": SESSION}), SESSION),
        ('{"device_id": "d"}', '{"device_id": "d"}'),
        ("{not JSON", "{not JSON"),
        ("someone", "someone"),
    ],
)
@pytest.mark.parametrize("backend", [*OPENAI, ("chat", "azure", "gpt-4.1")])
def test_the_key_is_the_session(user: str, hashed: str, backend: tuple[Protocol, str, str]) -> None:
    body, _ = sent("messages", claude_request(metadata={"user_id": user}), backend)
    assert body["prompt_cache_key"] == sha256(hashed.encode()).hexdigest()[:32]


def test_without_a_user_the_key_is_made_of_what_stays_the_same() -> None:
    one = sent("messages", claude_request(system="Be brief.", tools=[TOOL]), OPENAI[1])[0]
    later = claude_request(system="Be brief.", tools=[TOOL], messages=[{"role": "user", "content": "and now?"}])
    other = sent("messages", claude_request(system="Be long.", tools=[TOOL]), OPENAI[1])[0]
    assert one["prompt_cache_key"] == sent("messages", later, OPENAI[1])[0]["prompt_cache_key"]
    assert one["prompt_cache_key"] != other["prompt_cache_key"]
    assert "prompt_cache_key" not in sent("messages", claude_request(), OPENAI[1])[0]


def test_servers_that_know_no_key_get_none() -> None:
    for backend in [("chat", "vllm", "q"), ("chat", "generic", "q"), ("responses", "generic", "q")]:
        body, losses = sent("messages", claude_request(metadata={"user_id": "u"}), backend)  # type: ignore[arg-type]
        assert ("prompt_cache_key" in body, [loss for loss in losses if "cache" in loss]) == (False, [])


# --- clients of OpenAI's protocols toward Claude ---

CLAUDE: tuple[Protocol, str, str] = ("messages", "anthropic", "claude-sonnet-4-5")


def chat_request(text: str = LONG_TEXT, **fields: object) -> Json:
    return {"model": "m", "messages": [{"role": "user", "content": text}], **fields}


@pytest.mark.parametrize(
    ("fields", "mark", "losses"),
    [
        ({}, EPHEMERAL, []),
        ({"prompt_cache_options": {"mode": "implicit"}}, EPHEMERAL, []),
        ({"prompt_cache_options": {"ttl": "30m"}}, EPHEMERAL, ["cache-ttl;approx prompt_cache_options"]),
        ({"prompt_cache_retention": "24h"}, HOUR, ["cache-ttl;approx prompt_cache_retention"]),
        ({"prompt_cache_key": "k"}, EPHEMERAL, ["prompt-cache-key;drop prompt_cache_key"]),
        ({"prompt_cache_options": {"mode": "explicit"}}, None, []),
    ],
)
def test_caching_is_automatic_unless_the_client_says_no(fields: Json, mark: Json, losses: list[str]) -> None:
    body, told = sent("chat", chat_request(**fields), CLAUDE)
    assert (body.get("cache_control"), told) == (mark, losses)


def test_half_a_day_of_a_responses_client_is_an_hour() -> None:
    request = {"model": "m", "input": LONG_TEXT, "prompt_cache_options": {"ttl": "12h"}}
    assert sent("responses", request, CLAUDE)[0]["cache_control"] == HOUR


def test_nothing_is_marked_that_is_too_small_to_be_kept() -> None:
    assert "cache_control" not in sent("chat", chat_request("hi"), CLAUDE)[0]
    tools = [{"type": "function", "function": {"name": "f", "description": LONG_TEXT}}]
    assert sent("chat", chat_request("hi", tools=tools), CLAUDE)[0]["cache_control"] == EPHEMERAL
    body, losses = sent("chat", chat_request("hi", prompt_cache_options={"ttl": "30m"}), CLAUDE)
    assert ("cache_control" in body, losses) == (False, ["prompt-cache-options;drop prompt_cache_options"])


def test_a_gateway_that_is_not_known_gets_no_mark_unasked() -> None:
    backend: tuple[Protocol, str, str] = ("messages", "generic", "claude-sonnet-4-5")
    assert "cache_control" not in sent("chat", chat_request(), backend)[0]


def text_part(text: str, mark: Json = None) -> Json:
    return {"type": "text", "text": text, **({"prompt_cache_breakpoint": mark} if mark else {})}


def test_breakpoints_become_marks_and_long_ones_come_first() -> None:
    content = [text_part("a", SHORT), text_part("b", HALF_DAY), text_part(LONG_TEXT, SHORT), text_part("c")]
    body, losses = sent("chat", {"model": "m", "messages": [{"role": "user", "content": content}]}, CLAUDE)
    assert marked(body) == [("a", HOUR), ("b", HOUR), (LONG_TEXT, EPHEMERAL)]
    at = "cache-ttl;approx messages[0].content[{}].prompt_cache_breakpoint"
    assert losses == [at.format(index) for index in (0, 1, 2, 0)]


def test_a_mark_within_a_tool_output_goes_on_the_whole_and_one_on_blanks_moves() -> None:
    output = [{"type": "input_text", "text": "4", "prompt_cache_breakpoint": SHORT}]
    request = {
        "model": "m",
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": " ", "prompt_cache_breakpoint": HALF_DAY}]},
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": output},
        ],
    }
    body, _ = sent("responses", request, CLAUDE)
    assert marked(body) == [("f", HOUR), ("c1", EPHEMERAL)]


def test_hosts_without_an_automatic_mark_get_marks_where_it_would_stand() -> None:
    request = chat_request(
        tools=[{"type": "function", "function": {"name": name}} for name in ("f", "g")],
        messages=[
            {"role": "system", "content": "s"},
            {"role": "user", "content": LONG_TEXT},
            {"role": "assistant", "content": "a"},
            {"role": "user", "content": "b"},
        ],
    )
    body, losses = sent("chat", request, ("messages", "bedrock", "claude-sonnet-4-5"))
    assert (marked(body), losses) == (
        [("s", EPHEMERAL), (LONG_TEXT, EPHEMERAL), ("b", EPHEMERAL), ("g", EPHEMERAL)],
        [],
    )


# --- between OpenAI's protocols ---


def test_marks_keep_their_words_between_openais_protocols() -> None:
    content = [{"type": "input_text", "text": "a", "prompt_cache_breakpoint": HALF_DAY}]
    request = {
        "model": "m",
        "input": [{"role": "user", "content": content}],
        "prompt_cache_key": "k",
        "prompt_cache_options": {"mode": "explicit", "ttl": "12h"},
    }
    body, losses = sent("responses", request, OPENAI[0])
    assert (marked(body), body["prompt_cache_key"]) == ([("a", HALF_DAY)], "k")
    assert (body["prompt_cache_options"], losses) == ({"mode": "explicit"}, ["cache-ttl;approx prompt_cache_options"])
    chat = {
        "model": "m",
        "messages": [{"role": "user", "content": [text_part("a", HALF_DAY)]}],
        "prompt_cache_options": {"mode": "implicit", "ttl": "30m"},
    }
    body, losses = sent("chat", chat, OPENAI[1])
    assert (marked(body), losses) == ([("a", HALF_DAY)], [])
    assert body["prompt_cache_options"] == {"mode": "implicit", "ttl": "30m"}


def test_a_clients_own_marks_may_be_many() -> None:
    content = [text_part(str(number), SHORT) for number in range(7)]
    body, losses = sent("chat", {"model": "m", "messages": [{"role": "user", "content": content}]}, OPENAI[1])
    assert (len(marked(body)), losses) == (7, [])


# --- prewarming ---

WARM_REPLIES: dict[str, Json] = {
    "messages": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": [],
        "stop_reason": "max_tokens",
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "cache_creation_input_tokens": 900, "output_tokens": 0},
    },
    "responses": {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": "gpt-5.6",
        "output": [],
        "usage": {
            "input_tokens": 903,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 900},
            "output_tokens": 0,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 903,
        },
    },
}


@pytest.mark.parametrize("stream", [False, True])
def test_a_prewarm_of_messages_on_responses(stream: bool) -> None:
    warm = prepared("messages", {**claude_request(system="s", stream=stream), "max_tokens": 0}, OPENAI[1])
    body = json.loads(warm.body)
    assert (warm.prewarm, warm.upstream_stream, warm.losses) == (False, False, [])
    assert (body["prompt_cache_options"], body.get("max_output_tokens"), body.get("stream")) == (
        {"prewarm": True},
        None,
        None,
    )
    raw = json.dumps(WARM_REPLIES["responses"]).encode()
    if stream:
        assert b'"stop_reason":"max_tokens"' in (warm.take_streamed(raw) or b"")
        return
    reply = json.loads(warm.reply(raw))
    assert (reply["content"], reply["stop_reason"]) == ([], "max_tokens")
    assert (reply["usage"]["input_tokens"], reply["usage"]["cache_creation_input_tokens"]) == (3, 900)


@pytest.mark.parametrize("stream", [False, True])
def test_a_prewarm_of_responses_on_messages(stream: bool) -> None:
    request = {"model": "m", "input": "hi", "stream": stream, "prompt_cache_options": {"prewarm": True}}
    warm = prepared("responses", request, CLAUDE)
    body = json.loads(warm.body)
    assert (warm.prewarm, warm.upstream_stream, body["max_tokens"], body.get("stream")) == (False, False, 0, None)
    raw = json.dumps(WARM_REPLIES["messages"]).encode()
    if stream:
        assert b"event: response.completed" in (warm.take_streamed(raw) or b"")
        return
    reply = json.loads(warm.reply(raw))
    assert (reply["status"], reply["output"], reply["usage"]["input_tokens"]) == ("completed", [], 903)


@pytest.mark.parametrize("backend", [OPENAI[0], ("responses", "openai", "gpt-5.4"), ("responses", "generic", "m")])
def test_a_backend_that_can_not_is_not_asked(backend: tuple[Protocol, str, str]) -> None:
    warm = prepared("messages", {**claude_request(), "max_tokens": 0}, backend)
    assert (warm.prewarm, [loss.rule for loss in warm.losses]) == (True, ["prewarm"])


def test_a_mark_too_many_is_told_once() -> None:
    """What becomes of a mark is told, not what would have become of it."""
    parts = [{"type": "text", "text": f"p{index}", "cache_control": {"type": "ephemeral"}} for index in range(6)]
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": parts}]}
    target = Target("chat", "gpt-5.6", PROFILES["chat"]["openai"], profile_of("gpt-5.6"))
    prepared = pair.prepare(pair.peek("messages", json.dumps(body).encode()), target, pair.Options())
    told = [(loss.rule, loss.level) for loss in prepared.losses if loss.path.endswith("cache_control")]
    assert sorted(told) == [("cache-control", "drop")] * 2 + [("cache-ttl", "approx")] * 4
