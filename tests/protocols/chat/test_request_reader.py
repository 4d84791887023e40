"""What a Chat client asks, as the canonical request."""

from typing import Any

import pytest

from proxy.canonical.errors import Error, ErrorClass, InexactNumber, Reason, Rejected
from proxy.canonical.loss import Loss, LossReport, Rule
from proxy.canonical.parts import (
    Audio,
    CacheMark,
    Call,
    Document,
    Image,
    Part,
    Reasoning,
    Refusal,
    Result,
    Source,
    Text,
    Turn,
)
from proxy.canonical.request import (
    CachePolicy,
    Identity,
    Instruction,
    Limits,
    Output,
    OutputFormat,
    ReasoningPolicy,
    Request,
    Sampling,
    Service,
    State,
)
from proxy.canonical.tools import CustomTool, FunctionTool, Grammar, HostedTool, ToolPolicy, ToolRef
from proxy.protocols.chat import read_request

Wire = dict[str, Any]
HELLO: Wire = {"role": "user", "content": "Hello"}


def read(**fields: Any) -> tuple[Request, list[Loss]]:
    losses = LossReport("Messages")
    return read_request({"model": "m", "messages": [HELLO], **fields}, losses), losses.losses


def turns(*messages: Wire) -> list[Turn]:
    return read(messages=list(messages))[0].turns


def user_parts(*parts: Wire) -> list[Part]:
    return turns({"role": "user", "content": list(parts)})[0].parts


def assistant_parts(**fields: Any) -> list[Part]:
    return turns(HELLO, {"role": "assistant", **fields})[1].parts


def refusal(**fields: Any) -> Error:
    with pytest.raises(Rejected) as caught:
        read(**fields)
    return caught.value.error


def test_the_smallest_request() -> None:
    assert read() == (
        Request("chat", "m", turns=[Turn("user", [Text("Hello")], at=("messages", 0))]),
        [],
    )


# --- messages ---


def test_system_messages_before_any_other_are_instructions_and_later_ones_stay_in_place() -> None:
    request, losses = read(
        messages=[
            {"role": "system", "content": "One"},
            {"role": "developer", "content": [{"type": "text", "text": "Two"}, {"type": "text", "text": "Three"}]},
            HELLO,
            {"role": "developer", "content": "Later"},
        ]
    )
    assert request.instructions == [
        Instruction([Text("One")], "system", at=("messages", 0)),
        Instruction([Text("Two"), Text("Three")], "developer", at=("messages", 1)),
    ]
    assert request.turns == [
        Turn("user", [Text("Hello")], at=("messages", 2)),
        Turn("developer", [Text("Later")], at=("messages", 3)),
    ]
    assert losses == []


def test_user_parts_of_every_kind() -> None:
    assert user_parts(
        {"type": "text", "text": "Look", "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "12h"}},
        {"type": "text", "text": None},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png", "detail": "high"}},
        {"type": "image_url", "image_url": "data:image/PNG;base64,AAAA"},
        {"type": "input_audio", "input_audio": {"data": "BBBB", "format": "wav"}},
        {"type": "file", "file": {"file_data": "data:text/csv;base64,CCCC", "filename": "a.csv"}},
        {"type": "file", "file": {"file_data": "JVBERi0x"}},
        {"type": "file", "file": {"file_id": "file_1"}, "cache_control": {"type": "ephemeral"}},
    ) == [
        Text("Look", cache=CacheMark("long")),
        Image(Source("url", "https://example.com/a.png"), "high", at=("messages", 0, "content", 2)),
        Image(Source("base64", "AAAA", "image/png"), at=("messages", 0, "content", 3)),
        Audio("BBBB", "wav", at=("messages", 0, "content", 4)),
        Document(Source("base64", "CCCC", "text/csv"), "a.csv", at=("messages", 0, "content", 5)),
        Document(Source("base64", "JVBERi0x", "application/pdf"), at=("messages", 0, "content", 6)),
        Document(Source("file", "file_1", vendor="openai"), cache=CacheMark("short"), at=("messages", 0, "content", 7)),
    ]


def test_an_assistant_message_with_everything() -> None:
    at = ("messages", 1)
    assert assistant_parts(
        content=[{"type": "text", "text": "Hi"}],
        refusal="No.",
        reasoning_content="Hm",
        reasoning="Hm",
        audio={"id": "audio_1"},
        annotations=[{"type": "url_citation", "url_citation": {}}],
        tool_calls=[
            {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}},
            {"id": "c2", "type": "custom", "custom": {"name": "g", "input": "free"}},
            {"id": "c3", "function": {"name": "h", "arguments": {"b": 2}}},
            {"id": "c4", "function": {"name": "h", "arguments": None}},
        ],
    ) == [
        Reasoning("Hm", full=True, field="reasoning_content", at=(*at, "reasoning_content")),
        Text("Hi"),
        Refusal("No."),
        Audio("", "", id="audio_1", at=(*at, "audio")),
        Call("c1", "f", '{"a": 1}', at=(*at, "tool_calls", 0, "function")),
        Call("c2", "g", "free", kind="custom", at=(*at, "tool_calls", 1, "custom")),
        Call("c3", "h", input={"b": 2}, at=(*at, "tool_calls", 2, "function")),
        Call("c4", "h", at=(*at, "tool_calls", 3, "function")),
    ]


def test_a_long_number_in_an_object_of_arguments_must_be_decoded_exactly() -> None:
    call = {"id": "c", "function": {"name": "f", "arguments": {"n": 2.0**80}}}
    wire: Wire = {"model": "m", "messages": [HELLO, {"role": "assistant", "tool_calls": [call]}]}
    with pytest.raises(InexactNumber):
        read_request(wire, LossReport())
    assert read_request(wire, LossReport(), exact=True).turns[1].parts == [
        Call("c", "f", input={"n": 2.0**80}, at=("messages", 1, "tool_calls", 0, "function"))
    ]


@pytest.mark.parametrize("content", [None, "", []])
def test_an_assistant_message_without_text_has_no_text_part(content: object) -> None:
    assert assistant_parts(content=content) == []


def test_reasoning_details_with_text_stand_for_the_plain_text_too() -> None:
    details = [
        {"type": "reasoning.text", "text": "Hm", "signature": "s", "index": 0},
        {"type": "reasoning.encrypted", "data": "xyz", "index": 1},
    ]
    at = ("messages", 1, "reasoning_details")
    assert assistant_parts(content="Hi", reasoning="Hm", reasoning_details=details) == [
        Reasoning("Hm", full=True, native=details[0], field="reasoning_details", at=(*at, 0)),
        Reasoning("", native=details[1], redacted=True, field="reasoning_details", at=(*at, 1)),
        Text("Hi"),
    ]


def test_encrypted_reasoning_details_leave_the_plain_text_to_be_read() -> None:
    details = [{"type": "reasoning.encrypted", "data": "xyz"}]
    parts = assistant_parts(content="Hi", reasoning_content="Hm", reasoning_details=details)
    assert parts[:2] == [
        Reasoning("Hm", full=True, field="reasoning_content", at=("messages", 1, "reasoning_content")),
        Reasoning(
            "",
            native=details[0],
            redacted=True,
            field="reasoning_details",
            at=("messages", 1, "reasoning_details", 0),
        ),
    ]


def test_tool_messages_are_results_in_turns_of_the_user() -> None:
    call = {"id": "c1", "type": "custom", "custom": {"name": "g", "input": "x"}}
    request, losses = read(
        messages=[
            HELLO,
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "one"}]},
            {"role": "tool", "tool_call_id": "other", "content": {"ok": True}},
            {"role": "tool", "content": None},
        ]
    )
    assert request.turns[2:] == [
        Turn("user", [Result("c1", [Text("one")], kind="custom", at=("messages", 2))], at=("messages", 2)),
        Turn("user", [Result("other", [Text('{"ok":true}')], at=("messages", 3))], at=("messages", 3)),
        Turn("user", [Result("", [], at=("messages", 4))], at=("messages", 4)),
    ]
    assert losses == [Loss(Rule.CONTENT, "approx", "messages[3].content")]


def test_a_result_of_the_deprecated_functions_answers_the_last_call_of_that_name() -> None:
    def call(name: str) -> Wire:
        return {"role": "assistant", "content": None, "function_call": {"name": name, "arguments": "{}"}}

    found = turns(
        HELLO,
        call("f"),
        call("f"),
        {"role": "function", "name": "f", "content": "second"},
        {"role": "function", "name": "f", "content": "first"},
        {"role": "function", "name": "f", "content": None},
    )
    assert [part.id for turn in found for part in turn.parts if isinstance(part, Call)] == ["drgp_1_0", "drgp_2_0"]
    assert [part for turn in found for part in turn.parts if isinstance(part, Result)] == [
        Result("drgp_2_0", [Text("second")], name="f", at=("messages", 3)),
        Result("drgp_1_0", [Text("first")], name="f", at=("messages", 4)),
        Result(None, [], name="f", at=("messages", 5)),
    ]


def test_a_participants_name_is_kept() -> None:
    request, losses = read(messages=[{"role": "user", "content": "Hi", "name": "Ann"}])
    assert request.turns == [Turn("user", [Text("Hi")], name="Ann", at=("messages", 0))]
    assert losses == []


def test_parts_and_fields_that_nobody_knows_are_recorded() -> None:
    request, losses = read(
        messages=[{"role": "user", "content": [{"type": "smell"}, {"type": "text", "text": "Hi", "x": 1}], "y": 2}],
        provider={"order": []},
        absent=None,
    )
    assert request.turns[0].parts == [Text("Hi")]
    assert sorted((loss.rule, loss.level, loss.path) for loss in losses) == [
        (Rule.UNKNOWN_FIELD, "drop", "messages[0].content[0]"),
        (Rule.UNKNOWN_FIELD, "drop", "messages[0].content[1].x"),
        (Rule.UNKNOWN_FIELD, "drop", "messages[0].y"),
        (Rule.UNKNOWN_FIELD, "drop", "provider"),
    ]


# --- tools ---


def test_tools_of_every_kind() -> None:
    request, _ = read(
        tools=[
            {
                "type": "function",
                "function": {"name": "f", "description": "d", "parameters": {"type": "object"}, "strict": True},
                "cache_control": {"type": "ephemeral", "ttl": "1h"},
            },
            {"type": "custom", "custom": {"name": "g", "description": "d", "format": {"type": "text"}}},
            {
                "type": "custom",
                "custom": {
                    "name": "h",
                    "format": {"type": "grammar", "grammar": {"definition": "x", "syntax": "lark"}},
                },
            },
        ],
        web_search_options={"search_context_size": "low"},
    )
    assert request.tools == [
        FunctionTool("f", {"type": "object"}, "d", strict=True, cache=CacheMark("long"), at=("tools", 0, "function")),
        CustomTool("g", "d", at=("tools", 1, "custom")),
        CustomTool("h", grammar=Grammar("lark", "x"), at=("tools", 2, "custom")),
        HostedTool("web_search", {"search_context_size": "low"}, "web_search", at=("web_search_options",)),
    ]
    assert request.legacy_functions is False


def test_a_mark_on_a_tool_that_can_carry_none_is_recorded() -> None:
    tool = {"type": "custom", "custom": {"name": "g"}, "cache_control": {"type": "ephemeral"}}
    request, losses = read(tools=[tool])
    assert request.tools == [CustomTool("g", at=("tools", 0, "custom"))]
    assert losses == [Loss(Rule.CACHE_CONTROL, "drop", "tools[0].cache_control")]


def test_deprecated_functions_are_tools_and_ask_for_an_answer_in_their_form() -> None:
    request, losses = read(functions=[{"name": "f", "parameters": {}}], function_call={"name": "f"})
    assert request.tools == [FunctionTool("f", {}, at=("functions", 0))]
    assert request.tool_policy == ToolPolicy("named", ToolRef("function", "f"), parallel=False, at=("function_call",))
    assert request.legacy_functions is True
    assert losses == []


NAMED = {"type": "function", "function": {"name": "f"}}


@pytest.mark.parametrize(
    ("choice", "policy"),
    [
        (None, ToolPolicy()),
        ("auto", ToolPolicy("auto")),
        ("none", ToolPolicy("none")),
        ("required", ToolPolicy("any")),
        (NAMED, ToolPolicy("named", ToolRef("function", "f"))),
        ({"type": "custom", "custom": {"name": "g"}}, ToolPolicy("named", ToolRef("custom", "g"))),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [NAMED]}},
            ToolPolicy("any", allowed=[ToolRef("function", "f")]),
        ),
    ],
)
def test_tool_choice(choice: object, policy: ToolPolicy) -> None:
    assert read(tool_choice=choice)[0].tool_policy == policy


def test_parallel_calls_and_a_choice_that_has_no_effect() -> None:
    request, losses = read(parallel_tool_calls=False, tool_choice="auto", function_call="none")
    assert request.tool_policy == ToolPolicy("auto", parallel=False)
    assert losses == [Loss(Rule.TOOL_CHOICE, "drop", "function_call")]


# --- settings ---


def test_sampling() -> None:
    request, losses = read(
        temperature=0.2,
        top_p=0.9,
        top_k=40,
        min_p=0.05,
        repetition_penalty=1.1,
        seed=7,
        presence_penalty=1,
        frequency_penalty=-1,
        logit_bias={"50256": -100},
        n=2,
        logprobs=True,
        top_logprobs=3,
    )
    assert request.sampling == Sampling(0.2, 0.9, 40, 0.05, 1.1, 7, 1, -1, {"50256": -100}, 2, True, 3)
    assert losses == []


@pytest.mark.parametrize(
    ("fields", "policy"),
    [
        ({"reasoning_effort": "xhigh"}, ReasoningPolicy(effort="xhigh", at=("reasoning_effort",))),
        ({"thinking": {"type": "disabled"}}, ReasoningPolicy("off", at=("thinking",))),
        ({"thinking": {"type": "enabled"}}, ReasoningPolicy("adaptive", at=("thinking",))),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 2048}},
            ReasoningPolicy("budget", budget=2048, at=("thinking",)),
        ),
        ({"enable_thinking": False}, ReasoningPolicy("off", at=("enable_thinking",))),
        (
            {"chat_template_kwargs": {"enable_thinking": True}},
            ReasoningPolicy("adaptive", at=("chat_template_kwargs", "enable_thinking")),
        ),
        (
            {"reasoning": {"effort": "low", "exclude": True}},
            ReasoningPolicy(effort="low", show=False, at=("reasoning",)),
        ),
        (
            {"reasoning": {"max_tokens": 900}, "reasoning_effort": "high"},
            ReasoningPolicy("budget", "high", 900, at=("reasoning",)),
        ),
        ({"reasoning": {"enabled": False}}, ReasoningPolicy("off", at=("reasoning",))),
    ],
)
def test_reasoning(fields: Wire, policy: ReasoningPolicy) -> None:
    assert read(**fields)[0].reasoning == policy


def test_output() -> None:
    form = {
        "type": "json_schema",
        "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True, "description": "d"},
    }
    prediction = {"type": "content", "content": "x"}
    request, _ = read(response_format=form, verbosity="low", modalities=["text"], prediction=prediction)
    at = ("response_format", "json_schema")
    assert request.output == Output(
        OutputFormat("json_schema", {"type": "object"}, "n", True, "d", at), "low", ["text"], prediction
    )


@pytest.mark.parametrize(
    ("form", "output"),
    [
        (None, None),
        ({"type": "text"}, None),
        ({"type": "json_object"}, OutputFormat("json_object", at=("response_format",))),
    ],
)
def test_formats_without_a_schema(form: object, output: OutputFormat | None) -> None:
    assert read(response_format=form)[0].output.format == output


@pytest.mark.parametrize(
    ("fields", "limits"),
    [
        ({"max_tokens": 5}, Limits(5, ("max_tokens",))),
        ({"max_tokens": 5, "max_completion_tokens": 6.0}, Limits(6, ("max_completion_tokens",))),
        ({"stop": "a"}, Limits(stop=["a"], stop_at=("stop",))),
        ({"stop": ["a", "b"]}, Limits(stop=["a", "b"], stop_at=("stop",))),
    ],
)
def test_limits(fields: Wire, limits: Limits) -> None:
    assert read(**fields)[0].limits == limits


@pytest.mark.parametrize(
    ("fields", "cache"),
    [
        ({"prompt_cache_key": "k"}, CachePolicy("k")),
        ({"prompt_cache_retention": "24h"}, CachePolicy(ttl="long", at=("prompt_cache_retention",))),
        (
            {"prompt_cache_options": {"mode": "explicit", "ttl": "30m"}, "prompt_cache_retention": "24h"},
            CachePolicy(auto=False, ttl="short", at=("prompt_cache_options",)),
        ),
    ],
)
def test_cache(fields: Wire, cache: CachePolicy) -> None:
    assert read(**fields)[0].cache == cache


def test_identity_state_service_and_stream() -> None:
    request, losses = read(
        user="old",
        safety_identifier="new",
        metadata={"a": "b"},
        store=True,
        service_tier="flex",
        stream=True,
        stream_options={"include_usage": True, "include_obfuscation": False},
    )
    assert request.identity == Identity("new", ("safety_identifier",), {"a": "b"})
    assert request.state == State(store=True)
    assert request.service == Service("flex")
    assert (request.stream, request.include_usage) == (True, True)
    assert losses == [Loss(Rule.STORE, "approx", "store"), Loss(Rule.USER, "drop", "user")]


# --- what is refused ---


@pytest.mark.parametrize(
    ("fields", "rule", "param"),
    [
        ({"modalities": ["text", "audio"]}, "modalities", "modalities"),
        ({"audio": {"format": "wav", "voice": "alloy"}}, "audio", "audio"),
        (
            {"messages": [{"role": "user", "content": [{"type": "video_url", "video_url": {"url": "u"}}]}]},
            "video-url",
            "messages[0].content[0]",
        ),
        (
            {"moderation": {"model": "m", "policy": {"output": {"mode": "block"}}}},
            "moderation",
            "moderation.policy.output.mode",
        ),
    ],
)
def test_what_no_other_protocol_can_do_is_refused(fields: Wire, rule: str, param: str) -> None:
    error = refusal(**fields)
    assert (error.kind, error.param, f"({rule})" in error.message) == (ErrorClass.UNSUPPORTED, param, True)


def test_how_to_speak_is_left_out_where_only_text_is_asked_for() -> None:
    audio = {"format": "wav", "voice": "alloy"}
    assert read(modalities=["text"], audio=audio)[1] == [Loss(Rule.AUDIO, "drop", "audio")]


def test_moderation_scores_are_left_out() -> None:
    assert read(moderation={"model": "m"})[1] == [Loss(Rule.MODERATION, "drop", "moderation")]


@pytest.mark.parametrize(
    ("fields", "param", "problem"),
    [
        ({"model": None}, "model", "this field is required."),
        ({"messages": None}, "messages", "this field is required."),
        ({"messages": []}, "messages", "at least one message is required."),
        ({"messages": ["x"]}, "messages[0]", "expected an object, got a string."),
        ({"messages": [{"content": "x"}]}, "messages[0].role", "this field is required."),
        ({"messages": [{"role": "user"}]}, "messages[0].content", "this field is required."),
        (
            {"messages": [{"role": "user", "content": 5}]},
            "messages[0].content",
            "expected a string or an array of content parts, got a number.",
        ),
        (
            {"messages": [{"role": "system", "content": [{"type": "refusal", "refusal": "x"}]}]},
            "messages[0].content[0]",
            "only text parts are allowed in messages of this role.",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "data:image/png,x"}]}]},
            "messages[0].content[0].image_url",
            "expected a data URL of the form 'data:<media type>;base64,<data>'.",
        ),
        (
            {
                "messages": [
                    {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": 1}}]}
                ]
            },
            "messages[0].tool_calls[0].function.arguments",
            "expected a string, got a number.",
        ),
        (
            {"tools": [{"type": "web_search"}]},
            "tools[0].type",
            "'web_search' is not one of 'custom', 'function'.",
        ),
        ({"max_tokens": 0}, "max_tokens", "expected a value of at least 1."),
        ({"temperature": "hot"}, "temperature", "expected a number, got a string."),
        ({"stop": 5}, "stop", "expected a string or an array of strings, got a number."),
        ({"logit_bias": {"5": "x"}}, "logit_bias.5", "expected a number, got a string."),
        ({"metadata": {"a": 1}}, "metadata.a", "expected a string, got a number."),
        ({"stream_options": {"include_usage": 1}}, "stream_options.include_usage", "expected a boolean, got a number."),
    ],
)
def test_a_wrong_field_is_named(fields: Wire, param: str, problem: str) -> None:
    error = refusal(**fields)
    assert (error.kind, error.reason, error.param, error.message) == (
        ErrorClass.INVALID,
        Reason.MALFORMED,
        param,
        f"{param}: {problem}",
    )


def test_a_role_that_does_not_exist_is_named() -> None:
    error = refusal(messages=[{"role": "robot", "content": "x"}])
    assert error.code == "invalid_value"
    assert error.message.startswith("messages[0].role: 'robot' is not one of 'system', 'developer', 'user'")


def test_strict_mode_refuses_what_would_be_dropped() -> None:
    with pytest.raises(Rejected) as caught:
        read_request({"model": "m", "messages": [HELLO], "wish": 1}, LossReport("Messages", strict=True))
    assert caught.value.error.param == "wish"
