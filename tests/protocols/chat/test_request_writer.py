"""What a Chat backend is asked, for a canonical request and a dialect."""

import hashlib
from dataclasses import replace
from typing import Any

import pytest

from proxy.canonical.errors import Error, ErrorClass, Rejected
from proxy.canonical.loss import Loss, LossReport, Rule
from proxy.canonical.parts import (
    Audio,
    CacheMark,
    Call,
    Citation,
    Document,
    HostedCall,
    Image,
    Opaque,
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
)
from proxy.canonical.target import Dialect, Target
from proxy.canonical.tools import CustomTool, FunctionTool, Grammar, HostedTool, ToolPolicy, ToolRef, TypedTool
from proxy.protocols.chat import write_request
from proxy.protocols.system_tag import tag_of
from proxy.upstream.dialects import PROFILES

Wire = dict[str, Any]
GENERIC = Dialect()
OPENAI = PROFILES["chat"]["openai"]
AT = ("messages", 0)
ASK = Turn("user", [Text("Go")], at=AT)
PICTURE = Image(Source("base64", "AAAA", "image/png"), at=(*AT, "content", 1))


def write(request: Request, dialect: Dialect = GENERIC) -> tuple[Wire, list[Loss]]:
    losses = LossReport("Chat Completions")
    target = Target("chat", "backend-model", dialect)
    return write_request(request, target, losses), losses.losses


def asked(origin: Any = "messages", **fields: Any) -> Request:
    return Request(origin, "m", **{"turns": [ASK], **fields})


def messages(*turns: Turn, dialect: Dialect = GENERIC, origin: Any = "messages") -> list[Wire]:
    body, _ = write(asked(origin, turns=list(turns)), dialect)
    written: list[Wire] = body["messages"]
    return written


def user_content(*parts: Part, dialect: Dialect = GENERIC) -> Any:
    return messages(Turn("user", list(parts), at=AT), dialect=dialect)[0]["content"]


def refusal(request: Request, dialect: Dialect = GENERIC) -> Error:
    with pytest.raises(Rejected) as caught:
        write(request, dialect)
    return caught.value.error


def test_the_smallest_request() -> None:
    assert write(asked()) == (
        {"model": "backend-model", "messages": [{"role": "user", "content": "Go"}]},
        [],
    )


# --- instructions and system messages ---


def test_instructions_in_a_row_are_one_system_message() -> None:
    request = asked(
        instructions=[
            Instruction([Text("One"), Text("")], top_level=True, at=("system", 0)),
            Instruction([Text("Two"), Text("Three")], at=("system", 1)),
        ]
    )
    assert write(request)[0]["messages"][0] == {"role": "system", "content": "One\n\nTwo\n\nThree"}


@pytest.mark.parametrize(
    ("dialect", "written", "lost"),
    [
        (OPENAI, [{"role": "system", "content": "One"}, {"role": "developer", "content": "Two"}], []),
        (
            GENERIC,
            [{"role": "system", "content": "One\n\nTwo"}],
            [Loss(Rule.ROLE_DEVELOPER, "approx", "input[1]")],
        ),
    ],
    ids=["openai", "generic"],
)
def test_developer_is_a_role_only_where_it_is_known(dialect: Dialect, written: list[Wire], lost: list[Loss]) -> None:
    request = asked(
        "responses",
        instructions=[
            Instruction([Text("One")], at=("input", 0)),
            Instruction([Text("Two")], "developer", at=("input", 1)),
        ],
    )
    body, losses = write(request, dialect)
    assert (body["messages"][:-1], losses) == (written, lost)


def test_system_text_in_the_midst_stays_there() -> None:
    later = Turn("system", [Text("Be brief")], at=("messages", 1))
    assert messages(ASK, later) == [
        {"role": "user", "content": "Go"},
        {"role": "system", "content": "Be brief"},
    ]


def test_a_picture_in_a_system_message_goes_with_the_users_next_words() -> None:
    request = asked("responses", turns=[ASK, Turn("system", [Text("Look"), PICTURE], at=AT), ASK])
    body, losses = write(request)
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    assert body["messages"] == [
        {"role": "user", "content": "Go"},
        {"role": "system", "content": "Look"},
        {"role": "user", "content": [picture, {"type": "text", "text": "Go"}]},
    ]
    assert losses == [Loss(Rule.CONTENT, "approx", "messages[0].content[1]")]


def test_system_text_in_the_midst_is_tagged_where_it_may_only_lead() -> None:
    request = asked(
        instructions=[Instruction([Text("Lead")])],
        turns=[Turn("system", [Text("Be brief")], at=("messages", 1)), Turn("user", [Text("Go")], at=("messages", 2))],
    )
    body, losses = write(request, replace(GENERIC, single_system=True))
    assert body["messages"] == [
        {"role": "system", "content": "Lead"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Go"},
                {"type": "text", "text": f'<system id="{tag_of(request)}">\nBe brief\n</system>'},
            ],
        },
    ]
    assert losses == [Loss(Rule.MID_SYSTEM, "approx", "messages[1]")]


# --- user turns ---


def test_one_text_is_a_string_and_several_are_parts() -> None:
    assert user_content(Text("One"), Text("")) == "One"
    assert user_content(Text("")) == ""
    assert user_content(Text("One"), Text("Two")) == [
        {"type": "text", "text": "One"},
        {"type": "text", "text": "Two"},
    ]
    assert user_content(Text("One"), Text("Two"), dialect=replace(GENERIC, string_content=True)) == "One\n\nTwo"


def test_user_parts_of_every_kind() -> None:
    assert user_content(
        Text("Look"),
        Image(Source("url", "https://example.com/a.png"), "high"),
        Image(Source("base64", "AAAA", "image/jpg")),
        Document(Source("base64", "BBBB", "application/pdf"), "a.pdf"),
        Document(Source("base64", "CCCC", "application/pdf")),
        Audio("DDDD", "wav"),
    ) == [
        {"type": "text", "text": "Look"},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png", "detail": "high"}},
        {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,AAAA"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,BBBB"}},
        {"type": "file", "file": {"filename": "document.pdf", "file_data": "data:application/pdf;base64,CCCC"}},
        {"type": "input_audio", "input_audio": {"data": "DDDD", "format": "wav"}},
    ]


def test_a_file_id_means_something_only_to_its_vendor() -> None:
    request = asked(turns=[Turn("user", [Document(Source("file", "file_1", vendor="openai"), at=AT)])])
    body, _ = write(request, OPENAI)
    assert body["messages"][0]["content"] == [{"type": "file", "file": {"file_id": "file_1"}}]
    assert refusal(request).kind is ErrorClass.UNSUPPORTED


@pytest.mark.parametrize(
    ("part", "dialect", "rule"),
    [
        (Image(Source("url", "https://a"), at=AT), replace(GENERIC, no_url_images=True), Rule.IMAGE),
        (Image(Source("file", "f"), at=AT), GENERIC, Rule.FILE_ID),
        (Document(Source("url", "https://a"), at=AT), GENERIC, Rule.PDF_URL_CHAT),
        (Document(Source("base64", "A"), at=AT), replace(GENERIC, file_parts=False), Rule.DOC_TYPE),
    ],
)
def test_a_part_that_the_backend_can_not_take_is_refused(part: Part, dialect: Dialect, rule: Rule) -> None:
    error = refusal(asked(turns=[Turn("user", [part], at=AT)]), dialect)
    assert (error.kind, error.param, f"({rule})" in error.message) == (ErrorClass.UNSUPPORTED, "messages[0]", True)


# --- assistant turns ---


def test_a_run_of_assistant_turns_is_one_message() -> None:
    request = asked(
        turns=[
            ASK,
            Turn("assistant", [Text("One, "), Text("still one."), Call("c1", "f", '{"a": 1}')], at=("messages", 1)),
            Turn("assistant", [Text("Two.")], at=("messages", 2)),
            Turn("user", [Result("c1", [Text("7")])], at=("messages", 3)),
        ]
    )
    body, losses = write(request)
    assert body["messages"][1:] == [
        {
            "role": "assistant",
            "content": "One, still one.\n\nTwo.",
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "7"},
    ]
    assert losses == [Loss(Rule.TEXT_AFTER_CALL, "approx", "messages[2]")]


def assistant(*parts: Part, dialect: Dialect = GENERIC) -> Wire:
    return messages(ASK, Turn("assistant", list(parts), at=("messages", 1)), ASK, dialect=dialect)[1]


def test_texts_are_set_apart_by_what_stands_between_them_and_by_their_phase() -> None:
    hosted = HostedCall("web_search", {}, at=AT)
    assert assistant(Text("One"), hosted, Text("Two"))["content"] == "One\n\nTwo"
    assert assistant(Text("One", phase="commentary"), Text("Two", phase="final_answer"))["content"] == "One\n\nTwo"


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        (Call("c", "f", ' {"a": 1} '), ' {"a": 1} '),
        (Call("c", "f", input={"b": 1, "a": "é"}), '{"b":1,"a":"é"}'),
        (Call("c", "f", ""), "{}"),
        (Call("c", "f", " null"), "{}"),
        (Call("c", "f", '"{\\"a\\": 1}"'), '{"a": 1}'),
        (Call("c", "f", '"text"'), '"text"'),
        (Call("c", "f", '"open'), '"open'),
        (Call("c", "f", "{broken"), "{broken"),
    ],
)
def test_arguments_are_text_and_never_repaired(call: Call, arguments: str) -> None:
    assert assistant(call)["tool_calls"] == [
        {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    ]


def test_free_form_calls_hold_text() -> None:
    assert assistant(Call("c", "f", "x", kind="custom"))["tool_calls"] == [
        {"id": "c", "type": "custom", "custom": {"name": "f", "input": "x"}}
    ]


def test_content_is_null_only_beside_calls_and_refusals() -> None:
    call = Call("c", "f")
    assert assistant(call)["content"] is None
    assert assistant(call, dialect=replace(GENERIC, no_null_content=True))["content"] == ""
    assert assistant(Refusal("No.")) == {"role": "assistant", "content": None, "refusal": "No."}
    assert assistant() == {"role": "assistant", "content": ""}


def test_what_has_no_place_in_an_assistant_message_is_recorded() -> None:
    at = ("messages", 1, "content", 0)
    request = asked(
        turns=[
            ASK,
            Turn(
                "assistant",
                [
                    Text("Hi", phase="final_answer"),
                    HostedCall("web_search", {}, at=at),
                    Opaque("compaction", {}, at=at),
                    Opaque("wish", {}, at=at),
                    Audio("", "", id="audio_1", transcript="said", at=at),
                    Reasoning("r", native={"type": "thinking"}, at=at),
                ],
                at=("messages", 1),
            ),
            ASK,
        ]
    )
    body, losses = write(request)
    assert body["messages"][1] == {"role": "assistant", "content": "Hi\n\nsaid"}
    assert losses == [
        Loss(Rule.HOSTED_TOOL, "drop", "messages[1].content[0]"),
        Loss(Rule.COMPACTION, "drop", "messages[1].content[0]"),
        Loss(Rule.UNKNOWN_FIELD, "drop", "messages[1].content[0]"),
        Loss(Rule.AUDIO, "approx", "messages[1].content[0]"),
        Loss(Rule.FOREIGN_REASONING, "drop", "messages[1].content[0]"),
    ]


def test_a_call_of_another_vendors_tool_is_refused() -> None:
    turn = Turn("assistant", [Call("c", "shell", kind="typed", tool="shell", at=AT)])
    assert refusal(asked(turns=[ASK, turn, ASK])).param == "messages[0]"


# --- reasoning ---


def _loop(*reasoning: Reasoning) -> list[Turn]:
    """An earlier answer with thinking, then a tool loop that is still going on."""
    return [
        ASK,
        Turn("assistant", [Reasoning("old", field="reasoning_content"), Text("Hi")]),
        ASK,
        Turn("assistant", [*reasoning, Call("c1", "f")]),
        Turn("user", [Result("c1", [Text("1")])]),
        Turn("user", [Text("beside the result")]),
        Turn("assistant", [*reasoning, Call("c2", "f")]),
        Turn("user", [Result("c2", [Text("2")])]),
    ]


def _reasoning_of(turns: list[Turn], dialect: Dialect) -> list[Wire]:
    names = ("reasoning_content", "reasoning", "reasoning_details")
    return [
        {name: message[name] for name in names if name in message}
        for message in messages(*turns, dialect=dialect)
        if message["role"] == "assistant"
    ]


def test_reasoning_goes_back_within_the_tool_loop_under_the_name_it_came_with() -> None:
    two = (Reasoning("a", field="reasoning"), Reasoning("b", field="reasoning"))
    assert _reasoning_of(_loop(*two), GENERIC) == [{}, {"reasoning": "a\n\nb"}, {"reasoning": "a\n\nb"}]
    assert _reasoning_of(_loop(Reasoning("a")), replace(GENERIC, reasoning_field="reasoning"))[1] == {"reasoning": "a"}
    entry = {"type": "reasoning.encrypted", "data": "x"}
    details = Reasoning("", native=entry, redacted=True, field="reasoning_details")
    assert _reasoning_of(_loop(details), GENERIC)[2] == {"reasoning_details": [entry]}


def test_reasoning_is_not_sent_to_a_server_that_rejects_it() -> None:
    body, losses = write(asked(turns=_loop(Reasoning("a", field="reasoning", at=AT))), OPENAI)
    assert not [message for message in body["messages"] if "reasoning" in message]
    assert {loss.rule for loss in losses} == {Rule.FOREIGN_REASONING}


def test_a_server_that_demands_reasoning_gets_the_field_even_when_it_was_lost() -> None:
    deepseek = PROFILES["chat"]["deepseek"]
    assert _reasoning_of(_loop(), deepseek) == [{}, {"reasoning_content": ""}, {"reasoning_content": ""}]


# --- tool results ---


def test_results_are_messages_before_the_words_of_the_user() -> None:
    turn = Turn("user", [Result("c1", [Text("a"), Text("b")]), Result("c2", []), Text("and?")], at=AT)
    assert messages(ASK, turn)[1:] == [
        {"role": "tool", "tool_call_id": "c1", "content": "a\nb"},
        {"role": "tool", "tool_call_id": "c2", "content": ""},
        {"role": "user", "content": "and?"},
    ]
    picky = replace(GENERIC, tool_content_parts=True, no_empty_tool=True)
    assert [message["content"] for message in messages(ASK, turn, dialect=picky)[1:3]] == [
        [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
        "(no output)",
    ]


IMAGE_PART: Wire = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def test_images_of_results_come_after_all_tool_messages() -> None:
    request = asked(
        turns=[
            ASK,
            Turn("user", [Result("c1", [PICTURE, Text("seen"), PICTURE]), Result("c2", [Text("2")])], at=AT),
            Turn("user", [Text("and?")], at=AT),
        ]
    )
    body, losses = write(request)
    assert body["messages"][1:] == [
        {
            "role": "tool",
            "tool_call_id": "c1",
            "content": "[image 1 of this result follows]\nseen\n[image 2 of this result follows]",
        },
        {"role": "tool", "tool_call_id": "c2", "content": "2"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Image 1 of the result of call c1:"},
                IMAGE_PART,
                {"type": "text", "text": "Image 2 of the result of call c1:"},
                IMAGE_PART,
                {"type": "text", "text": "and?"},
            ],
        },
    ]
    assert losses == [Loss(Rule.TOOL_IMAGE, "approx", "messages[0].content[1]")] * 2


def test_images_of_results_have_a_message_of_their_own_when_nothing_follows() -> None:
    answer = Turn("user", [Result("c1", [PICTURE])])
    following = [answer, Turn("system", [Text("mid")])]
    for turns in ([answer], following):
        assert messages(ASK, *turns)[2] == {
            "role": "user",
            "content": [{"type": "text", "text": "Image 1 of the result of call c1:"}, IMAGE_PART],
        }


def test_images_of_results_stay_where_the_server_takes_them() -> None:
    dialect = replace(GENERIC, tool_images=True)
    answer = Turn("user", [Result("c1", [Text("seen"), PICTURE])])
    assert messages(ASK, answer, dialect=dialect)[1]["content"] == [{"type": "text", "text": "seen"}, IMAGE_PART]


# --- tools ---

FUNCTION = FunctionTool("f", {"type": "object", "properties": {}}, "d", strict=False, at=("tools", 0))
CUSTOM = CustomTool("g", "e", Grammar("lark", "x"))


def test_tools_and_choice() -> None:
    policy = ToolPolicy("named", ToolRef("function", "f"), parallel=False)
    body, _ = write(asked(tools=[FUNCTION, FunctionTool("bare", None), CUSTOM], tool_policy=policy), OPENAI)
    assert {name: body[name] for name in ("tools", "tool_choice", "parallel_tool_calls")} == {
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "f",
                    "description": "d",
                    "parameters": {"type": "object", "properties": {}},
                    "strict": False,
                },
            },
            {"type": "function", "function": {"name": "bare"}},
            {
                "type": "custom",
                "custom": {
                    "name": "g",
                    "description": "e",
                    "format": {"type": "grammar", "grammar": {"definition": "x", "syntax": "lark"}},
                },
            },
        ],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "parallel_tool_calls": False,
    }


@pytest.mark.parametrize(
    ("policy", "dialect", "choice"),
    [
        (ToolPolicy(), GENERIC, None),
        (ToolPolicy("auto"), GENERIC, "auto"),
        (ToolPolicy("none"), GENERIC, "none"),
        (ToolPolicy("any"), GENERIC, "required"),
        (ToolPolicy("any"), replace(GENERIC, any_is="any"), "any"),
        (ToolPolicy("named", ToolRef("custom", "g")), OPENAI, {"type": "custom", "custom": {"name": "g"}}),
        (
            ToolPolicy("any", allowed=[ToolRef("function", "f")]),
            OPENAI,
            {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "f"}}]},
            },
        ),
    ],
)
def test_tool_choice(policy: ToolPolicy, dialect: Dialect, choice: object) -> None:
    assert write(asked(tools=[FUNCTION], tool_policy=policy), dialect)[0].get("tool_choice") == choice


def test_a_subset_is_all_that_a_server_without_subsets_gets() -> None:
    policy = ToolPolicy("auto", allowed=[ToolRef("function", "f")])
    body, losses = write(asked(tools=[FUNCTION, FunctionTool("x", {})], tool_policy=policy))
    assert ([tool["function"]["name"] for tool in body["tools"]], body["tool_choice"]) == (["f"], "auto")
    assert losses == [Loss(Rule.ALLOWED_TOOLS, "approx", "tool_choice")]


def test_tools_are_left_out_where_none_is_not_understood_unless_the_history_needs_them() -> None:
    ollama = replace(GENERIC, no_tool_choice_none=True)
    policy = ToolPolicy("none")
    assert "tools" not in write(asked(tools=[FUNCTION], tool_policy=policy), ollama)[0]
    called = [ASK, Turn("assistant", [Call("c", "f")]), Turn("user", [Result("c", [])])]
    assert "tools" in write(asked(tools=[FUNCTION], tool_policy=policy, turns=called), ollama)[0]


@pytest.mark.parametrize(
    ("tool", "rule"),
    [
        (HostedTool("web_search", {}, "web_search", at=("tools", 0)), Rule.HOSTED_TOOL),
        (TypedTool("bash", {}, "bash", at=("tools", 0)), Rule.TYPED_TOOL),
    ],
)
def test_tools_that_chat_does_not_have_are_refused(tool: Any, rule: Rule) -> None:
    error = refusal(asked(tools=[tool]))
    assert (error.param, f"({rule})" in error.message) == ("tools[0]", True)


# --- settings ---


def test_core_fields_go_to_any_server() -> None:
    body, losses = write(
        asked(
            "responses",
            sampling=Sampling(
                temperature=0.2,
                top_p=0.9,
                seed=7,
                presence_penalty=1,
                frequency_penalty=-1,
                logit_bias={"5": 1},
                n=2,
                logprobs=True,
                top_logprobs=3,
            ),
            reasoning=ReasoningPolicy(effort="low"),
            limits=Limits(100, stop=["a"]),
            output=Output(OutputFormat("json_object")),
            stream=True,
        )
    )
    del body["model"], body["messages"]
    assert (body, losses) == (
        {
            "temperature": 0.2,
            "top_p": 0.9,
            "seed": 7,
            "presence_penalty": 1,
            "frequency_penalty": -1,
            "logit_bias": {"5": 1},
            "n": 2,
            "logprobs": True,
            "top_logprobs": 3,
            "reasoning_effort": "low",
            "response_format": {"type": "json_object"},
            "max_tokens": 100,
            "stop": ["a"],
            "stream": True,
            "stream_options": {"include_usage": True},
        },
        [],
    )


EVERYTHING: Wire = {
    "sampling": Sampling(top_k=5, min_p=0.1, repetition_penalty=1.1),
    "output": Output(verbosity="low", prediction={"type": "content", "content": "x"}),
    "cache": CachePolicy("k", False, "short", at=("prompt_cache_options",)),
    "identity": Identity("u", ("safety_identifier",), {"a": "b"}),
    "service": Service("flex"),
}


def test_other_fields_go_only_to_a_server_that_takes_them() -> None:
    body, losses = write(asked("chat", **EVERYTHING))
    assert set(body) == {"model", "messages"}
    assert losses == [
        Loss(Rule.TOP_K, "drop", "top_k"),
        Loss(Rule.MIN_P, "drop", "min_p"),
        Loss(Rule.REPETITION_PENALTY, "drop", "repetition_penalty"),
        Loss(Rule.VERBOSITY, "drop", "verbosity"),
        Loss(Rule.PREDICTION, "drop", "prediction"),
        Loss(Rule.PROMPT_CACHE_KEY, "drop", "prompt_cache_key"),
        Loss(Rule.PROMPT_CACHE_OPTIONS, "drop", "prompt_cache_options"),
        Loss(Rule.SAFETY_IDENTIFIER, "drop", "safety_identifier"),
        Loss(Rule.METADATA, "drop", "metadata"),
        Loss(Rule.SERVICE_TIER, "drop", "service_tier"),
    ]


def test_openai_takes_its_own_fields() -> None:
    body, losses = write(asked("chat", **{**EVERYTHING, "sampling": Sampling(), "limits": Limits(9)}), OPENAI)
    del body["model"], body["messages"]
    assert body == {
        "verbosity": "low",
        "prediction": {"type": "content", "content": "x"},
        "max_completion_tokens": 9,
        "prompt_cache_key": "k",
        "prompt_cache_options": {"mode": "explicit", "ttl": "30m"},
        "safety_identifier": "u",
        "metadata": {"a": "b"},
        "service_tier": "flex",
    }
    assert losses == []


def test_the_user_of_a_messages_client_leaves_only_as_a_hash() -> None:
    body, _ = write(asked(identity=Identity("user_1", ("metadata", "user_id"))), OPENAI)
    assert body["safety_identifier"] == hashlib.sha256(b"user_1").hexdigest()


def test_a_long_user_leaves_as_a_hash_where_it_would_not_fit() -> None:
    long = asked("responses", identity=Identity("u" * 65, ("user",)))
    assert write(long, OPENAI)[0]["safety_identifier"] == hashlib.sha256(b"u" * 65).hexdigest()
    assert write(long, replace(GENERIC, fields=frozenset({"user"})))[0]["user"] == "u" * 65


@pytest.mark.parametrize(
    ("origin", "service", "tier", "lost"),
    [
        ("messages", Service("auto"), None, []),
        ("messages", Service("standard_only"), "default", []),
        ("messages", Service(speed="fast"), "fast", []),
        ("responses", Service("ultrafast"), "fast", [Loss(Rule.SERVICE_TIER, "approx", "service_tier")]),
        ("responses", Service("priority"), "priority", []),
    ],
)
def test_service_tiers(origin: str, service: Service, tier: str | None, lost: list[Loss]) -> None:
    body, losses = write(asked(origin, service=service), OPENAI)
    assert (body.get("service_tier"), losses) == (tier, lost)


def test_speed_is_dropped_where_there_are_no_tiers() -> None:
    assert write(asked(service=Service(speed="fast")))[1] == [Loss(Rule.SPEED, "drop", "speed")]


def test_dialects_spell_fields_their_own_way() -> None:
    request = asked(sampling=Sampling(seed=7), reasoning=ReasoningPolicy(effort="low"), stream=True)
    mistral, _ = write(request, PROFILES["chat"]["mistral"])
    openrouter, _ = write(request, PROFILES["chat"]["openrouter"])
    vllm, _ = write(request, PROFILES["chat"]["vllm"])
    assert (mistral["random_seed"], "seed" in mistral, "stream_options" in mistral) == (7, False, False)
    assert (openrouter["reasoning"], "reasoning_effort" in openrouter) == ({"effort": "low"}, False)
    assert vllm["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}


def test_a_core_field_that_a_server_refuses_is_recorded() -> None:
    body, losses = write(asked(sampling=Sampling(logit_bias={"5": 1})), PROFILES["chat"]["groq"])
    assert "logit_bias" not in body
    assert losses == [Loss(Rule.LOGIT_BIAS, "drop", "logit_bias")]


def test_a_schema_is_nested() -> None:
    form = OutputFormat("json_schema", {"type": "object"}, None, False, "d")
    assert write(asked(output=Output(form)))[0]["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "output", "description": "d", "schema": {"type": "object"}, "strict": False},
    }


def test_citations_are_recorded() -> None:
    cited = Text("Go", [Citation("url", "https://e.test")])
    assert write(asked(turns=[Turn("user", [cited], at=AT)]))[1] == [Loss(Rule.CITATIONS, "drop", "messages[0]")]


@pytest.mark.parametrize(
    ("dialect", "short", "long"),
    [
        (
            OPENAI,
            {"prompt_cache_breakpoint": {"mode": "explicit"}},
            {"prompt_cache_breakpoint": {"mode": "explicit", "ttl": "12h"}},
        ),
        (
            PROFILES["chat"]["openrouter"],
            {"cache_control": {"type": "ephemeral"}},
            {"cache_control": {"type": "ephemeral", "ttl": "1h"}},
        ),
    ],
)
def test_cache_marks_in_the_words_of_the_server(dialect: Dialect, short: Wire, long: Wire) -> None:
    request = asked(
        turns=[
            Turn("user", [Text("a", cache=CacheMark()), Text("b")]),
            Turn("assistant", [Call("c", "f", "{}")]),
            Turn("user", [Result("c", [Text("4", cache=CacheMark("long"))]), Text("go", cache=CacheMark())]),
        ],
        instructions=[Instruction([Text("s"), Text("t", cache=CacheMark("long"))])],
    )
    body, losses = write(request, dialect)
    assert losses == []
    assert [message["content"] for message in body["messages"]] == [
        [{"type": "text", "text": "s"}, {"type": "text", "text": "t", **long}],
        [{"type": "text", "text": "a", **short}, {"type": "text", "text": "b"}],
        None,
        [{"type": "text", "text": "4", **long}],
        [{"type": "text", "text": "go", **short}],
    ]


def test_a_last_turn_of_the_assistant_is_to_be_continued() -> None:
    request = asked(turns=[ASK, Turn("assistant", [Text("So")], at=("messages", 1))])
    body, losses = write(request, PROFILES["chat"]["vllm"])
    assert (body["continue_final_message"], body["add_generation_prompt"], losses) == (True, False, [])
    assert write(request)[1] == [Loss(Rule.PREFILL, "approx", "messages[1]")]
    called = asked(turns=[ASK, Turn("assistant", [Call("c", "f")], at=("messages", 1))])
    assert write(called)[1] == []
