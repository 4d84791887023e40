"""What a Messages backend gets for a prepared request."""

from base64 import b64encode

import pytest

from proxy.canonical.errors import ErrorClass, Rejected
from proxy.canonical.jsontext import dumps, loads
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
    SearchResult,
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
from proxy.canonical.target import Dialect, ModelProfile, Target
from proxy.canonical.tools import CustomTool, FunctionTool, HostedTool, Tool, ToolPolicy, ToolRef, TypedTool
from proxy.protocols.messages import betas_of, write_request

Wire = dict[str, object]
TARGET = Target("messages", "claude-x")
AT = ("messages", 1)
CONTROLS = ("thinking-binding-controls-2026-08-01",)


def write(request: Request, target: Target = TARGET) -> tuple[Wire, list[Loss]]:
    """The body as the backend reads it, and what was lost."""
    losses = LossReport("Messages")
    body = loads(dumps(write_request(request, target, losses)))
    assert isinstance(body, dict)
    return body, losses.losses


def asking(*turns: Turn, **fields: object) -> Request:
    return Request("chat", "m", turns=list(turns), limits=Limits(max_output=100), **fields)


def user(*parts: Part | str) -> Turn:
    return Turn("user", [Text(part) if isinstance(part, str) else part for part in parts], at=AT)


def assistant(*parts: Part | str) -> Turn:
    return Turn("assistant", [Text(part) if isinstance(part, str) else part for part in parts], at=AT)


def system(text: str) -> Turn:
    return Turn("system", [Text(text)], at=AT)


def text(words: str) -> Wire:
    return {"type": "text", "text": words}


def said(role: str, *blocks: Wire | str) -> Wire:
    return {"role": role, "content": [text(block) if isinstance(block, str) else block for block in blocks]}


def messages(*turns: Turn, target: Target = TARGET, **fields: object) -> tuple[object, list[Loss]]:
    body, losses = write(asking(*turns, **fields), target)
    return body["messages"], losses


def block(part: Part, target: Target = TARGET) -> tuple[object, list[Loss]]:
    """How one part of a user turn is written."""
    body, losses = write(asking(user("x", part)), target)
    return body["messages"][0]["content"][1], losses


# --- fields ---


def test_a_small_request() -> None:
    body, losses = write(asking(user("Hello")))
    assert body == {"model": "claude-x", "max_tokens": 100, "messages": [said("user", "Hello")]}
    assert losses == []


def test_all_settings() -> None:
    request = asking(
        user("Hello"),
        instructions=[Instruction([Text("One."), Text(" ")]), Instruction([Text("Two.")], authority="developer")],
        tools=[FunctionTool("f", {"type": "object"}, "does f", strict=True), FunctionTool("g", None)],
        tool_policy=ToolPolicy("named", ToolRef("function", "f"), parallel=False),
        reasoning=ReasoningPolicy("adaptive", "high", show=True),
        output=Output(OutputFormat("json_schema", {"type": "object"}, name="n")),
        sampling=Sampling(temperature=0.5, top_p=0.9, top_k=3),
        identity=Identity("u-1"),
        service=Service("default"),
        stream=True,
    )
    request.limits.stop = ["END", " \n"]
    body, losses = write(request)
    assert body == {
        "model": "claude-x",
        "max_tokens": 100,
        "system": [text("One."), text("Two.")],
        "messages": [said("user", "Hello")],
        "tools": [
            {"name": "f", "description": "does f", "input_schema": {"type": "object"}, "strict": True},
            {"name": "g", "input_schema": {"type": "object", "properties": {}}},
        ],
        "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": True},
        "thinking": {"type": "adaptive", "display": "summarized"},
        "output_config": {"effort": "high", "format": {"type": "json_schema", "schema": {"type": "object"}}},
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 3,
        "stop_sequences": ["END"],
        "stream": True,
        "metadata": {"user_id": "u-1"},
        "service_tier": "standard_only",
    }
    assert losses == [Loss(Rule.ROLE_DEVELOPER, "approx", "")]


@pytest.mark.parametrize(
    ("policy", "wire"),
    [
        (ReasoningPolicy(), None),
        (ReasoningPolicy("off", show=False), {"type": "disabled"}),
        (ReasoningPolicy("between_tools", show=True), {"type": "between_tools"}),
        (ReasoningPolicy("adaptive"), {"type": "adaptive"}),
        (ReasoningPolicy("adaptive", show=False), {"type": "adaptive", "display": "omitted"}),
        (ReasoningPolicy("budget", budget=2048), {"type": "enabled", "budget_tokens": 2048}),
    ],
)
def test_thinking(policy: ReasoningPolicy, wire: Wire | None) -> None:
    body, _ = write(asking(user("Hello"), reasoning=policy))
    assert body.get("thinking") == wire


@pytest.mark.parametrize(
    ("policy", "wire"),
    [
        (
            ReasoningPolicy("adaptive"),
            {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}},
        ),
        (ReasoningPolicy("off"), {"type": "disabled"}),
    ],
)
def test_thinking_that_is_bound_to_what_stood_before_it(policy: ReasoningPolicy, wire: Wire) -> None:
    bound, controls = ModelProfile(bound=True), Dialect(binding_controls=True)
    body, _ = write(asking(user("Hello"), reasoning=policy), Target("messages", "m", controls, bound))
    assert (body["thinking"], betas_of(body)) == (wire, CONTROLS if policy.mode == "adaptive" else ())
    for elsewhere in (Target("messages", "m", Dialect(), bound), Target("messages", "m", controls, ModelProfile())):
        body, _ = write(asking(user("Hello"), reasoning=policy), elsewhere)
        assert (body["thinking"], betas_of(body)) == ({"type": wire["type"]}, ())


@pytest.mark.parametrize(
    ("policy", "wire"),
    [
        (ToolPolicy(), None),
        (ToolPolicy("auto"), {"type": "auto"}),
        (ToolPolicy(parallel=True), None),
        (ToolPolicy(parallel=False), {"type": "auto", "disable_parallel_tool_use": True}),
        (ToolPolicy("any", parallel=False), {"type": "any", "disable_parallel_tool_use": True}),
        (ToolPolicy("none", parallel=False), {"type": "none"}),
    ],
)
def test_tool_choice(policy: ToolPolicy, wire: Wire | None) -> None:
    body, _ = write(asking(user("Hello"), tools=[FunctionTool("f", {})], tool_policy=policy))
    assert body.get("tool_choice") == wire
    without_tools, _ = write(asking(user("Hello"), tool_policy=policy))
    assert "tool_choice" not in without_tools


def test_a_prewarm_asks_for_nothing_that_the_vendor_refuses_with_it() -> None:
    request = asking(
        instructions=[Instruction([Text("Long.")])],
        tools=[FunctionTool("f", {"type": "object"})],
        tool_policy=ToolPolicy("any"),
        reasoning=ReasoningPolicy("budget", budget=2000),
        output=Output(OutputFormat("json_schema", {"type": "object"})),
        stream=True,
    )
    request.limits.prewarm = True
    body, _ = write(request)
    assert body == {
        "model": "claude-x",
        "max_tokens": 0,
        "system": [text("Long.")],
        "messages": [said("user", "(prewarm)")],
        "tools": [{"name": "f", "input_schema": {"type": "object"}}],
    }


@pytest.mark.parametrize(
    ("tier", "wire", "losses"),
    [
        ("auto", None, []),
        ("flex", "standard_only", [Loss(Rule.SERVICE_TIER, "approx", "service_tier")]),
        ("priority", "auto", [Loss(Rule.SERVICE_TIER, "approx", "service_tier")]),
        ("fast", None, [Loss(Rule.SERVICE_TIER, "drop", "service_tier")]),
    ],
)
def test_service_tier(tier: str, wire: str | None, losses: list[Loss]) -> None:
    body, recorded = write(asking(user("Hello"), service=Service(tier)))
    assert (body.get("service_tier"), recorded) == (wire, losses)


def test_what_messages_has_no_place_for_is_recorded() -> None:
    _, losses = write(
        asking(Turn("user", [Text("Hello")], at=("messages", 0)), identity=Identity(metadata={"a": "b"})),
    )
    assert losses == [Loss(Rule.METADATA, "drop", "metadata")]


def test_cache_marks_stand_on_any_block_and_on_tools() -> None:
    short, long = CacheMark(), CacheMark("long")
    body, losses = write(
        asking(
            Turn("user", [Text("Hello", cache=short), Image(Source("url", "u"), cache=short)]),
            Turn("assistant", [Call("c", "f", input={}, cache=short)]),
            Turn("user", [Result("c", [], cache=short)]),
            instructions=[Instruction([Text("Be brief.", cache=long)])],
            tools=[FunctionTool("f", {"type": "object"}, cache=long)],
            cache=CachePolicy(auto=True, ttl="long"),
        )
    )
    ephemeral, hour = {"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}
    assert losses == []
    assert body["cache_control"] == hour
    assert body["system"] == [{"type": "text", "text": "Be brief.", "cache_control": hour}]
    assert body["tools"] == [{"name": "f", "input_schema": {"type": "object"}, "cache_control": hour}]
    assert body["messages"] == [
        said(
            "user",
            {"type": "text", "text": "Hello", "cache_control": ephemeral},
            {"type": "image", "source": {"type": "url", "url": "u"}, "cache_control": ephemeral},
        ),
        said("assistant", {"type": "tool_use", "id": "c", "name": "f", "input": {}, "cache_control": ephemeral}),
        said("user", {"type": "tool_result", "tool_use_id": "c", "cache_control": ephemeral}),
    ]


@pytest.mark.parametrize(
    ("request_fields", "param"),
    [
        ({"state": State(previous_id="resp_1")}, "previous_response_id"),
        ({"state": State(conversation="conv_1")}, "conversation"),
        ({"state": State(background=True)}, "background"),
        ({"tools": [CustomTool("p", at=("tools", 0))]}, "tools[0]"),
        ({"tools": [TypedTool("shell", {}, "shell", at=("tools", 0))]}, "tools[0]"),
        ({"tools": [HostedTool("file_search", {}, "file_search", at=("tools", 0))]}, "tools[0]"),
    ],
)
def test_what_the_client_relies_on_is_refused(request_fields: dict[str, list[Tool] | State], param: str) -> None:
    with pytest.raises(Rejected) as caught:
        write(asking(user("Hello"), **request_fields))
    assert (caught.value.error.kind, caught.value.error.param) == (ErrorClass.UNSUPPORTED, param)


# --- the shape of turns (mapping.md 2.4, 2.5) ---


def test_what_a_system_message_holds_beside_text_is_the_users() -> None:
    picture = Image(Source("base64", "iVBORw0KGgo=", "image/png"), at=("input", 1, "content", 1))
    written, losses = messages(user("Go"), Turn("system", [Text("Look"), picture], at=("input", 1)))
    assert [block["type"] for block in written[0]["content"]] == ["text", "image", "text"]  # type: ignore[index]
    assert losses == [
        Loss(Rule.CONTENT, "approx", "input[1].content[1]"),
        Loss(Rule.MID_SYSTEM, "approx", "input[1]"),
    ]


def test_runs_merge_and_results_come_first() -> None:
    written, losses = messages(
        user("Q"),
        assistant("Let me see."),
        assistant(Call("t1", "f", '{"a": 1}'), Call("t2", "g", "")),
        user(Result("t1", [Text("1")]), Result("t2", [])),
        user("And?"),
    )
    assert written == [
        said("user", "Q"),
        said(
            "assistant",
            "Let me see.",
            {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}},
            {"type": "tool_use", "id": "t2", "name": "g", "input": {}},
        ),
        said(
            "user",
            {"type": "tool_result", "tool_use_id": "t1", "content": "1"},
            {"type": "tool_result", "tool_use_id": "t2"},
            "And?",
        ),
    ]
    assert losses == []


def test_empty_texts_go_and_what_they_parted_merges() -> None:
    written, losses = messages(user("A", " \n"), assistant(""), user("B"))
    assert written == [said("user", "A", "B")]
    assert losses == []


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ([user("")], [said("user", "(empty)")]),
        ([user("A"), assistant("B"), user(" ")], [said("user", "A"), said("assistant", "B"), said("user", "(empty)")]),
        ([user(""), assistant("B")], [said("user", "(empty)"), said("assistant", "B")]),
    ],
)
def test_the_last_user_turn_says_that_it_is_empty(turns: list[Turn], expected: list[Wire]) -> None:
    written, losses = messages(*turns)
    assert written == expected
    assert losses == [Loss(Rule.EMPTY_USER, "approx", "messages[1]")]


def test_a_history_that_starts_with_the_assistant_gets_a_first_turn() -> None:
    written, losses = messages(assistant("Hi."), user("Q"))
    assert written == [said("user", "(start)"), said("assistant", "Hi."), said("user", "Q")]
    assert losses == [Loss(Rule.FIRST_USER, "approx", "messages[1]")]


def test_no_turn_at_all_is_an_error() -> None:
    with pytest.raises(Rejected) as caught:
        write(asking(assistant("")))
    assert (caught.value.error.kind, caught.value.error.message) == (ErrorClass.INVALID, "messages must not be empty.")


PREFILLS = Target("messages", "claude-x", profile=ModelProfile(prefill=True))
NO_PREFILL = Target("messages", "claude-x", profile=ModelProfile(prefill=False))
THINKS = Target("messages", "claude-x", profile=ModelProfile(prefill=True, thinking_default=True))


def test_a_prefill_loses_trailing_whitespace() -> None:
    written, losses = messages(user("Q"), assistant("A: \n"), target=PREFILLS)
    assert written == [said("user", "Q"), said("assistant", "A:")]
    assert losses == []


@pytest.mark.parametrize(
    ("target", "fields"),
    [
        (NO_PREFILL, {}),
        (THINKS, {}),
        (PREFILLS, {"reasoning": ReasoningPolicy("budget", budget=1024)}),
        (PREFILLS, {"output": Output(OutputFormat("json_schema", {}))}),
    ],
)
def test_a_prefill_that_the_model_does_not_continue(target: Target, fields: dict[str, object]) -> None:
    written, losses = messages(user("Q"), assistant("A"), target=target, **fields)
    assert written == [said("user", "Q"), said("assistant", "A"), said("user", "Continue.")]
    assert losses == [Loss(Rule.PREFILL, "approx", "messages[1]")]


def test_a_prefill_with_thinking_off() -> None:
    written, _ = messages(user("Q"), assistant("A"), target=THINKS, reasoning=ReasoningPolicy("off"))
    assert written == [said("user", "Q"), said("assistant", "A")]


def test_calls_that_wait_at_the_end_are_left() -> None:
    written, losses = messages(user("Q"), assistant(Call("t", "f", "{}")), target=NO_PREFILL)
    assert written[-1] == said("assistant", {"type": "tool_use", "id": "t", "name": "f", "input": {}})
    assert losses == []


NATIVE = Target("messages", "claude-x", profile=ModelProfile(mid_system=True))


def test_system_text_in_the_middle_native() -> None:
    written, losses = messages(user("Q"), system("Nine words."), target=NATIVE)
    assert written == [said("user", "Q"), said("system", "Nine words.")]
    assert losses == []


def test_a_developer_in_the_middle_is_the_system() -> None:
    written, losses = messages(user("Q"), Turn("developer", [Text("Nine.")], at=("messages", 1)), target=NATIVE)
    assert written == [said("user", "Q"), said("system", "Nine.")]
    assert losses == [Loss(Rule.ROLE_DEVELOPER, "approx", "messages[1]")]


def test_system_text_moves_behind_the_words_of_the_user() -> None:
    turns = [user("Q"), assistant("A"), system("Nine words."), user("R"), assistant("B"), user("S")]
    written, losses = messages(*turns, target=NATIVE)
    assert written[2:] == [said("user", "R"), said("system", "Nine words."), said("assistant", "B"), said("user", "S")]
    assert losses == [Loss(Rule.MID_SYSTEM, "approx", "messages[1]")]


def test_system_text_in_the_middle_tagged() -> None:
    turns = [user("Q"), assistant("A"), system("Nine words."), user("R")]
    written, losses = messages(*turns, instructions=[Instruction([Text("Be brief.")])])
    assert written[2]["content"][0] == text("R")
    tagged = written[2]["content"][1]["text"]
    assert tagged.endswith("\nNine words.\n</system>")
    assert losses == [Loss(Rule.MID_SYSTEM, "approx", "messages[1]")]
    longer, _ = messages(*turns, assistant("B"), user("S"), instructions=[Instruction([Text("Be brief.")])])
    assert longer[:3] == written, "a longer history is an extension of the shorter one"
    other, _ = messages(*turns, instructions=[Instruction([Text("Be long.")])])
    assert other[2]["content"][1]["text"] != tagged, "the mark can't be guessed"


def test_system_text_without_a_user_turn_has_no_native_place() -> None:
    written, _ = messages(user("Q"), assistant("A"), system("Go."), target=NATIVE)
    assert [message["role"] for message in written] == ["user", "assistant", "user"]


# --- parts ---

PNG = b64encode(b"\x89PNG\r\n\x1a\n" + bytes(8)).decode()
WEBP = b64encode(b"RIFF\x00\x00\x00\x00WEBPVP8 ").decode()


def image(media_type: str, encoded: str) -> Wire:
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": encoded}}


@pytest.mark.parametrize(
    ("part", "wire"),
    [
        (Image(Source("url", "https://a/b")), {"type": "image", "source": {"type": "url", "url": "https://a/b"}}),
        (Image(Source("base64", PNG, "image/png"), detail="auto"), image("image/png", PNG)),
        (Image(Source("base64", PNG, "image/jpeg")), image("image/png", PNG)),
        (Image(Source("base64", WEBP, "image/bmp")), image("image/webp", WEBP)),
        (Image(Source("base64", "AAAA", "image/jpg")), image("image/jpeg", "AAAA")),
        (Image(Source("base64", "AAAA", "IMAGE/GIF; q=1")), image("image/gif", "AAAA")),
        (
            Document(Source("base64", "JVBERi0x", "application/pdf"), title="a.pdf", detail="auto"),
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0x"},
                "title": "a.pdf",
            },
        ),
        (
            Document(Source("base64", "JVBERi0x", None)),
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0x"},
            },
        ),
        (
            Document(Source("url", "https://a/b.pdf"), context="c", cite=True),
            {
                "type": "document",
                "source": {"type": "url", "url": "https://a/b.pdf"},
                "context": "c",
                "citations": {"enabled": True},
            },
        ),
        (
            Document(Source("base64", b64encode("a,b\n1,ü".encode()).decode(), "text/csv; charset=utf-8")),
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a,b\n1,ü"}},
        ),
        (
            Document(Source("text", "words", "text/plain")),
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "words"}},
        ),
        (
            Document(None, content=[Text("x"), Text("")]),
            {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "x"}]}},
        ),
        (
            SearchResult("https://s", "t", [Text("x")]),
            {"type": "search_result", "source": "https://s", "title": "t", "content": [text("x")]},
        ),
        (Refusal("No."), text("No.")),
    ],
)
def test_part(part: Part, wire: Wire) -> None:
    assert block(part) == (wire, [])


@pytest.mark.parametrize(
    ("part", "rule"),
    [
        (Image(Source("base64", "PHN2", "image/svg+xml"), at=AT), Rule.IMAGE),
        (Image(Source("base64", "not base64", None), at=AT), Rule.IMAGE),
        (Image(Source("file", "file-1"), at=AT), Rule.FILE_ID),
        (Document(Source("file", "file-1"), at=AT), Rule.FILE_ID),
        (Document(Source("base64", "UEsD", "application/vnd.openxmlformats"), at=AT), Rule.DOC_TYPE),
        (Audio("AAAA", "wav", at=AT), Rule.AUDIO_IN),
    ],
)
def test_part_that_is_refused(part: Part, rule: Rule) -> None:
    losses = LossReport("Messages")
    with pytest.raises(Rejected) as caught:
        write_request(asking(user("x", part)), TARGET, losses)
    assert (caught.value.error.param, losses.losses) == ("messages[1]", [Loss(rule, "refuse", "messages[1]")])


def test_files_of_the_same_vendor_and_images_by_url_where_they_are_not_taken() -> None:
    same = Target("messages", "m", Dialect("anthropic", "anthropic"))
    wire = {"type": "image", "source": {"type": "file", "file_id": "file_1"}}
    assert block(Image(Source("file", "file_1", vendor="anthropic")), same) == (wire, [])
    with pytest.raises(Rejected):
        block(Image(Source("url", "https://a/b")), Target("messages", "m", Dialect(no_url_images=True)))


def test_details_of_images_and_files_are_dropped() -> None:
    url = Source("url", "https://a/b")
    _, losses = messages(user(Image(url, "high", at=AT), Document(url, detail="low", at=AT)))
    assert losses == [Loss(Rule.IMAGE_DETAIL, "drop", "messages[1]"), Loss(Rule.DETAIL, "drop", "messages[1]")]


@pytest.mark.parametrize(
    ("arguments", "spliced", "losses"),
    [
        ('{"b": 1.50, "a": 12345678901234567890123}', '{"b": 1.50, "a": 12345678901234567890123}', []),
        (" null ", "{}", []),
        ("", "{}", []),
        ('"{\\"a\\": 1}"', '{"a": 1}', []),
        ('  {"a": 1}', '{"a": 1}', []),
        ('{"a": "\\ud83d\\ude00"}', '{"a":"😀"}', []),
        ('{"a": "\\ud83d"}', '{"a":"�"}', []),
        ('{"a": ', '{"INVALID_JSON":"{\\"a\\": "}', [Loss(Rule.BAD_ARGS, "approx", "messages[1]")]),
        ("[1]", '{"INVALID_JSON":"[1]"}', [Loss(Rule.BAD_ARGS, "approx", "messages[1]")]),
        ('{"a": NaN}', '{"INVALID_JSON":"{\\"a\\": NaN}"}', [Loss(Rule.BAD_ARGS, "approx", "messages[1]")]),
    ],
)
def test_arguments_become_objects_byte_for_byte(arguments: str, spliced: str, losses: list[Loss]) -> None:
    report = LossReport("Messages")
    wire = write_request(asking(user("Q"), assistant(Call("t", "f", arguments, at=AT))), TARGET, report)
    assert dumps(wire["messages"]).decode().endswith(f'"name":"f","input":{spliced}}}]}}]')
    assert report.losses == losses


def test_results() -> None:
    url = Source("url", "https://a/b")
    written, losses = messages(
        user("Q"),
        assistant(Call("1", "f", "{}"), Call("2", "f", "{}"), Call("3", "f", "{}")),
        user(
            Result("1", [Text("a"), Text(""), Image(url)]),
            Result("2", [], is_error=True),
            Result("3", [Text("broken")], is_error=True),
        ),
    )
    assert written[2] == said(
        "user",
        {
            "type": "tool_result",
            "tool_use_id": "1",
            "content": [text("a"), {"type": "image", "source": {"type": "url", "url": "https://a/b"}}],
        },
        {"type": "tool_result", "tool_use_id": "2", "content": "error", "is_error": True},
        {"type": "tool_result", "tool_use_id": "3", "content": "broken", "is_error": True},
    )
    assert losses == []


def test_a_text_of_a_result_keeps_its_mark() -> None:
    written, losses = messages(
        user("Q"),
        assistant(Call("1", "f", "{}")),
        user(Result("1", [Text("a", cache=CacheMark())])),
    )
    content = [{**text("a"), "cache_control": {"type": "ephemeral"}}]
    assert written[2] == said("user", {"type": "tool_result", "tool_use_id": "1", "content": content})
    assert losses == []


SIGNED = {"type": "thinking", "thinking": "hm", "signature": "EqQB"}
HIDDEN = {"type": "redacted_thinking", "data": "d"}


def test_signed_thinking_goes_back_in_its_place() -> None:
    written, losses = messages(
        user("Q"),
        assistant(
            Reasoning("hm", native=SIGNED),
            "A",
            Reasoning("", native=HIDDEN, redacted=True),
            Call("t", "f", "{}"),
        ),
        user(Result("t", [])),
    )
    assert written[1] == said(
        "assistant", SIGNED, "A", HIDDEN, {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    )
    assert losses == []


@pytest.mark.parametrize(
    "foreign",
    [
        Reasoning("hm", at=AT),
        Reasoning("hm", native={"type": "reasoning", "id": "rs_1"}, at=AT),
        Reasoning("hm", native={"type": "thinking", "thinking": "hm", "signature": ""}, at=AT),
    ],
)
def test_thinking_that_is_not_the_vendors_takes_the_rest_of_the_turn_with_it(foreign: Reasoning) -> None:
    written, losses = messages(user("Q"), assistant(Reasoning("a", native=SIGNED, at=AT), foreign, "A"), user("R"))
    assert written[1] == said("assistant", "A")
    assert losses == [Loss(Rule.FOREIGN_REASONING, "drop", "messages[1]")] * 2


def test_servers_that_take_unsigned_thinking_get_it_back() -> None:
    unsigned = {"type": "thinking", "thinking": "hm", "signature": ""}
    target = Target("messages", "m", Dialect(unsigned_thinking=True))
    written, losses = messages(user("Q"), assistant(Reasoning("hm", native=unsigned), "A"), user("R"), target=target)
    assert written[1] == said("assistant", unsigned, "A")
    assert losses == []


def test_parts_of_another_vendor_are_dropped_and_own_ones_pass() -> None:
    own = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    written, losses = messages(
        user("Q"),
        assistant(
            HostedCall("web_search", {"type": "web_search_call", "id": "ws_1"}, at=AT),
            HostedCall("web_search", own),
            Opaque("compaction", {"type": "compaction", "id": "cmp_1"}, at=AT),
            Opaque("item_reference", {"type": "item_reference", "id": "x"}, at=AT),
            "A",
        ),
        user("R"),
    )
    assert written[1] == said("assistant", own, "A")
    assert losses == [
        Loss(Rule.HOSTED_TOOL, "drop", "messages[1]"),
        Loss(Rule.COMPACTION, "drop", "messages[1]"),
        Loss(Rule.UNKNOWN_FIELD, "drop", "messages[1]"),
    ]


def test_what_text_carries_beside_words() -> None:
    own = {"type": "page_location", "cited_text": "c", "document_index": 0, "document_title": None}
    web = {"type": "web_search_result_location", "url": "u", "cited_text": "c", "title": "t", "encrypted_index": ""}
    parts = [
        Text("A", phase="commentary"),
        Text("B", [Citation("document", native=own), Citation("url", url="u", native=web), Citation("url", url="v")]),
    ]
    written, losses = messages(user("Q"), assistant(*parts), user("R"))
    assert written[1] == said("assistant", "A", {"type": "text", "text": "B", "citations": [own]})
    assert losses == [
        Loss(Rule.CITATIONS, "drop", "messages[1]"),
        Loss(Rule.CITATIONS, "drop", "messages[1]"),
    ]


def test_an_earlier_spoken_answer_is_its_words() -> None:
    written, losses = messages(user("Q"), assistant(Audio("", "wav", id="a", transcript="Hello.", at=AT)), user("R"))
    assert written[1] == said("assistant", "Hello.")
    assert losses == [Loss(Rule.AUDIO, "approx", "messages[1]")]


def test_a_free_form_call_of_the_history() -> None:
    written, losses = messages(user("Q"), assistant(Call("t", "patch", "*** Begin", kind="custom", at=AT)))
    call = {"type": "tool_use", "id": "t", "name": "patch", "input": {"input": "*** Begin"}}
    assert written[1] == said("assistant", call)
    assert losses == [Loss(Rule.CUSTOM_TOOL, "approx", "messages[1]")]


# --- a longer history extends the shorter one (mapping.md P3) ---

HISTORY = [
    assistant("Hello."),
    user("Q", " "),
    system("Be brief."),
    assistant(Reasoning("hm", native=SIGNED), "Looking.", Call("t1", "f", '{"a": 1}'), Call("t2", "f", "oops")),
    user(Result("t1", [Text("1")]), Result("t2", [], is_error=True)),
    user("And?"),
    assistant("", Reasoning("foreign")),
    system("Briefer."),
    user("Well?"),
    assistant("So."),
    user("", "Thanks."),
    assistant("Bye."),
    user("R"),
]


@pytest.mark.parametrize("target", [TARGET, NATIVE, NO_PREFILL])
def test_a_longer_history_is_an_extension(target: Target) -> None:
    ends = [index for index, turn in enumerate(HISTORY) if turn.role == "user"]
    whole, _ = messages(*HISTORY, target=target)
    for end in ends:
        written, _ = messages(*HISTORY[: end + 1], target=target)
        assert blocks_of(whole)[: len(blocks_of(written))] == blocks_of(written)


def blocks_of(written: list[Wire]) -> list[tuple[str, object]]:
    """The blocks with their roles: runs merge, so messages can't be compared."""
    return [(message["role"], block) for message in written for block in message["content"]]
