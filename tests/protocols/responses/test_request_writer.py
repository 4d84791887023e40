"""What a Responses backend is asked."""

import hashlib

import pytest

from proxy.canonical.errors import Error, Rejected
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
)
from proxy.canonical.target import Dialect, ModelProfile, Target
from proxy.canonical.tools import CustomTool, FunctionTool, Grammar, HostedTool, ToolPolicy, ToolRef, TypedTool
from proxy.protocols.responses import write_request

Wire = dict[str, object]
REASONS = ModelProfile("gpt-5.6", efforts=("none", "low", "medium", "high"))
TARGET = Target("responses", "gpt-5.6", profile=ModelProfile("plain"))


def write(request: Request, target: Target = TARGET) -> tuple[Wire, list[Loss]]:
    losses = LossReport("Responses")
    return write_request(request, target, losses), losses.losses


def items_of(*turns: Turn) -> tuple[object, list[Loss]]:
    body, losses = write(Request("chat", "m", list(turns)))
    return body["input"], losses


def content_of(part: Part) -> object:
    items, _ = items_of(Turn("user", [Text("See"), part]))
    assert isinstance(items, list)
    return items[0]["content"][1]


def rejection(request: Request) -> Error:
    with pytest.raises(Rejected) as caught:
        write(request)
    return caught.value.error


def test_the_smallest_request() -> None:
    assert write(Request("chat", "m", [Turn("user", [Text("Hi")])])) == (
        {
            "model": "gpt-5.6",
            "input": [{"type": "message", "role": "user", "content": "Hi"}],
            "store": False,
        },
        [],
    )


def test_settings() -> None:
    request = Request(
        "chat",
        "m",
        sampling=Sampling(0.5, 0.9, logprobs=True),
        reasoning=ReasoningPolicy(effort="low", show=True),
        output=Output(OutputFormat("json_schema", {"type": "object"}, "n", None, "d"), "low"),
        limits=Limits(100),
        cache=CachePolicy("key"),
        identity=Identity("user-1", metadata={"k": "v"}),
        service=Service("flex"),
        stream=True,
    )
    body, losses = write(request, Target("responses", "gpt-5.6", profile=REASONS))
    assert losses == []
    assert body == {
        "model": "gpt-5.6",
        "input": [],
        "temperature": 0.5,
        "top_p": 0.9,
        "top_logprobs": 0,
        "include": ["reasoning.encrypted_content", "message.output_text.logprobs"],
        "reasoning": {"effort": "low", "summary": "auto"},
        "text": {
            "format": {
                "type": "json_schema",
                "name": "n",
                "schema": {"type": "object"},
                "strict": False,
                "description": "d",
            },
            "verbosity": "low",
        },
        "max_output_tokens": 100,
        "prompt_cache_key": "key",
        "store": False,
        "metadata": {"k": "v"},
        "safety_identifier": "user-1",
        "service_tier": "flex",
        "stream": True,
    }


def test_settings_of_a_messages_client() -> None:
    request = Request(
        "messages",
        "m",
        limits=Limits(4, ("max_tokens",)),
        identity=Identity("user_1"),
        service=Service("standard_only", "fast"),
    )
    body, losses = write(request)
    assert body == {
        "model": "gpt-5.6",
        "input": [],
        "max_output_tokens": 16,
        "store": False,
        "safety_identifier": "79b0aa0042b3c05617c378046a6553ec2cd81e9995959a6012f9b497a18ec82b",
        "service_tier": "fast",
    }
    assert losses == [
        Loss(Rule.MIN_OUTPUT, "approx", "max_tokens"),
        Loss(Rule.SERVICE_TIER, "approx", "service_tier"),
    ]


def test_a_long_user_of_another_client_is_hashed_too() -> None:
    body, losses = write(Request("chat", "m", identity=Identity("u" * 65)))
    assert (body["safety_identifier"], losses) == (hashlib.sha256(b"u" * 65).hexdigest(), [])


def test_top_level_instructions_stay_and_messages_keep_their_roles() -> None:
    body, _ = write(
        Request(
            "messages",
            "m",
            [Turn("user", [Text("Hi")]), Turn("system", [Text("Late")])],
            [
                Instruction([Text("A"), Text("B")], top_level=True),
                Instruction([Text("C")], top_level=True),
                Instruction([Text("D")], "developer"),
                Instruction([Text("E"), Text("F")]),
            ],
        )
    )
    assert (body["instructions"], body["input"]) == (
        "A\n\nB\n\nC",
        [
            {"type": "message", "role": "developer", "content": "D"},
            {
                "type": "message",
                "role": "system",
                "content": [{"type": "input_text", "text": "E"}, {"type": "input_text", "text": "F"}],
            },
            {"type": "message", "role": "user", "content": "Hi"},
            {"type": "message", "role": "system", "content": "Late"},
        ],
    )


def test_json_mode_puts_the_instructions_into_the_input() -> None:
    body, _ = write(
        Request(
            "messages",
            "m",
            [Turn("user", [Text("Hi")])],
            [Instruction([Text("Answer in JSON.")], top_level=True)],
            output=Output(OutputFormat("json_object")),
        )
    )
    assert body == {
        "model": "gpt-5.6",
        "input": [
            {"type": "message", "role": "developer", "content": "Answer in JSON."},
            {"type": "message", "role": "user", "content": "Hi"},
        ],
        "text": {"format": {"type": "json_object"}},
        "store": False,
    }


def test_an_assistant_turn_becomes_items_in_its_order() -> None:
    own: Wire = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
    items, losses = items_of(
        Turn("user", [Text("Hi")]),
        Turn(
            "assistant",
            [
                Reasoning("Hm", native={"type": "thinking", "signature": "s"}, at=("messages", 1, "content", 0)),
                Reasoning("", native=own),
                Text("One"),
                Text(", two"),
                Call("c1", "f", ""),
                Text(""),
                Call("c2", "g", input={"b": 1, "a": "é"}),
                Text("After", phase="final_answer"),
                Call("c3", "h", "free", kind="custom"),
                Refusal("No."),
                HostedCall("web_search", {}, at=("messages", 1, "content", 8)),
                Opaque("compaction", {}, ("messages", 1, "content", 9)),
            ],
            at=("messages", 1),
        ),
    )
    assert items == [
        {"type": "message", "role": "user", "content": "Hi"},
        own,
        {"type": "message", "role": "assistant", "content": "One, two"},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "function_call", "call_id": "c2", "name": "g", "arguments": '{"b":1,"a":"é"}'},
        {"type": "message", "role": "assistant", "content": "After", "phase": "final_answer"},
        {"type": "custom_tool_call", "call_id": "c3", "name": "h", "input": "free"},
        {"type": "message", "role": "assistant", "content": "No."},
    ]
    assert losses == [
        Loss(Rule.FOREIGN_REASONING, "drop", "messages[1].content[0]"),
        Loss(Rule.REFUSAL, "approx", "messages[1]"),
        Loss(Rule.HOSTED_TOOL, "drop", "messages[1].content[8]"),
        Loss(Rule.UNKNOWN_FIELD, "drop", "messages[1].content[9]"),
    ]


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ('{"a": 1}', '{"a": 1}'),
        ("", "{}"),
        (" \n", "{}"),
        ("null", "{}"),
        ('"{\\"a\\":1}"', '{"a":1}'),
        ('"a text"', '"a text"'),
        ('"open', '"open'),
        ('{"a": ', '{"a": '),
        ("NaN", "NaN"),
    ],
)
def test_arguments(written: str, sent: str) -> None:
    items, _ = items_of(Turn("assistant", [Call("c", "f", written)]))
    assert items == [{"type": "function_call", "call_id": "c", "name": "f", "arguments": sent}]


def test_results_and_the_words_after_them() -> None:
    picture = Image(Source("base64", "QQ==", "image/jpg"))
    items, _ = items_of(
        Turn(
            "user",
            [
                Result("c1", [Text("one")]),
                Result("c2", []),
                Result("c3", [Text("See"), picture]),
                Result("c4", [Text("x")], kind="custom"),
                Text("Go on"),
            ],
        )
    )
    assert items == [
        {"type": "function_call_output", "call_id": "c1", "output": "one"},
        {"type": "function_call_output", "call_id": "c2", "output": ""},
        {
            "type": "function_call_output",
            "call_id": "c3",
            "output": [
                {"type": "input_text", "text": "See"},
                {"type": "input_image", "image_url": "data:image/jpeg;base64,QQ==", "detail": "auto"},
            ],
        },
        {"type": "custom_tool_call_output", "call_id": "c4", "output": "x"},
        {"type": "message", "role": "user", "content": "Go on"},
    ]


CONTENT: list[tuple[Part, Wire]] = [
    (
        Image(Source("url", "https://x/a.png"), "high"),
        {"type": "input_image", "image_url": "https://x/a.png", "detail": "high"},
    ),
    (
        Document(Source("base64", "QQ==", "application/pdf"), "a.pdf"),
        {"type": "input_file", "file_data": "data:application/pdf;base64,QQ==", "filename": "a.pdf"},
    ),
    (
        Document(Source("base64", "QQ==")),
        {"type": "input_file", "file_data": "data:application/pdf;base64,QQ==", "filename": "document.pdf"},
    ),
    (
        Document(Source("url", "https://x/a.pdf"), detail="low"),
        {"type": "input_file", "file_url": "https://x/a.pdf", "detail": "low"},
    ),
    (Document(Source("text", "plain", "text/plain")), {"type": "input_text", "text": "plain"}),
    (SearchResult("https://x", "X", [Text("found")]), {"type": "input_text", "text": "Source: X (https://x)\nfound"}),
]


@pytest.mark.parametrize(("part", "wire"), CONTENT)
def test_content(part: Part, wire: Wire) -> None:
    assert content_of(part) == wire


def test_file_ids_stay_with_their_vendor() -> None:
    request = Request(
        "chat",
        "m",
        [Turn("user", [Document(Source("file", "file-1", vendor="openai"), at=("messages", 0, "content", 0))])],
    )
    body, _ = write(request, Target("responses", "gpt-5.6", Dialect("openai", "openai")))
    assert body["input"] == [
        {"type": "message", "role": "user", "content": [{"type": "input_file", "file_id": "file-1"}]}
    ]
    assert rejection(request).param == "messages[0].content[0]"


@pytest.mark.parametrize(
    "part",
    [
        Audio("QQ==", "wav", at=("messages", 0)),
        Image(Source("file", "f"), at=("messages", 0)),
        Result("c", [Text("x" * (10 * 1024 * 1024 + 1))], at=("messages", 0)),
    ],
)
def test_what_a_user_turn_can_not_hold_is_refused(part: Part) -> None:
    assert rejection(Request("chat", "m", [Turn("user", [part])])).param == "messages[0]"


def test_citations_are_recorded() -> None:
    cited = Text("a", [Citation("url", "https://e.test")])
    _, losses = items_of(
        Turn("user", [cited], at=("c",)), Turn("assistant", [cited], at=("d",)), Turn("user", [Text("b")])
    )
    assert losses == [Loss(Rule.CITATIONS, "drop", "c"), Loss(Rule.CITATIONS, "drop", "d")]


def test_cache_marks_stand_on_input_parts() -> None:
    body, losses = write(
        Request(
            "messages",
            "m",
            [
                Turn("user", [Text("a", cache=CacheMark()), Image(Source("url", "u"), cache=CacheMark("long"))]),
                Turn("assistant", [Call("c", "f", "{}")]),
                Turn("user", [Result("c", [Text("4", cache=CacheMark())])]),
            ],
            [Instruction([Text("s", cache=CacheMark("long"))], top_level=True)],
            cache=CachePolicy("k", auto=False, ttl="long"),
        )
    )
    short, long = {"mode": "explicit"}, {"mode": "explicit", "ttl": "12h"}
    picture = {"type": "input_image", "image_url": "u", "detail": "auto", "prompt_cache_breakpoint": long}
    answer = [{"type": "input_text", "text": "4", "prompt_cache_breakpoint": short}]
    assert losses == []
    assert (body["prompt_cache_key"], body["prompt_cache_options"]) == ("k", {"mode": "explicit", "ttl": "12h"})
    assert body["input"] == [
        {
            "type": "message",
            "role": "developer",
            "content": [{"type": "input_text", "text": "s", "prompt_cache_breakpoint": long}],
        },
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "a", "prompt_cache_breakpoint": short}, picture],
        },
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": answer},
    ]


def test_a_last_turn_of_the_assistant_is_only_history() -> None:
    begun = Turn("assistant", [Text("So")], at=("messages", 1))
    assert items_of(Turn("user", [Text("Go")]), begun)[1] == [Loss(Rule.PREFILL, "approx", "messages[1]")]
    called = Turn("assistant", [Text("So"), Call("c", "f")], at=("messages", 1))
    assert items_of(Turn("user", [Text("Go")]), called)[1] == []


def test_a_file_by_url_keeps_its_name() -> None:
    assert content_of(Document(Source("url", "https://e.test/a.pdf"), title="A")) == {
        "type": "input_file",
        "file_url": "https://e.test/a.pdf",
        "filename": "A",
    }


def test_tools() -> None:
    body, losses = write(
        Request(
            "chat",
            "m",
            tools=[
                FunctionTool("f", {"type": "object"}, "d"),
                FunctionTool("g", None, strict=True),
                FunctionTool("h", {}, strict="try"),
                CustomTool("c", "d", Grammar("regex", "a+")),
                CustomTool("t"),
            ],
            tool_policy=ToolPolicy("any", parallel=False),
        )
    )
    assert losses == []
    assert body == {
        "model": "gpt-5.6",
        "input": [],
        "tools": [
            {
                "type": "function",
                "name": "f",
                "description": "d",
                "parameters": {"type": "object"},
                "strict": False,
            },
            {
                "type": "function",
                "name": "g",
                "parameters": {"type": "object", "properties": {}},
                "strict": True,
            },
            {"type": "function", "name": "h", "parameters": {}},
            {
                "type": "custom",
                "name": "c",
                "description": "d",
                "format": {"type": "grammar", "syntax": "regex", "definition": "a+"},
            },
            {"type": "custom", "name": "t"},
        ],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "store": False,
    }


CHOICES: list[tuple[ToolPolicy, object]] = [
    (ToolPolicy("none"), "none"),
    (ToolPolicy("auto"), "auto"),
    (ToolPolicy("named", ToolRef("function", "f")), {"type": "function", "name": "f"}),
    (ToolPolicy("named", ToolRef("custom", "f")), {"type": "custom", "name": "f"}),
    (
        ToolPolicy("any", allowed=[ToolRef("function", "f")]),
        {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}]},
    ),
    (
        ToolPolicy(allowed=[ToolRef("function", "f")]),
        {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
    ),
]


@pytest.mark.parametrize(("policy", "choice"), CHOICES)
def test_tool_choice(policy: ToolPolicy, choice: object) -> None:
    body, _ = write(Request("chat", "m", tools=[FunctionTool("f", {})], tool_policy=policy))
    assert body["tool_choice"] == choice


def test_no_choice_without_tools() -> None:
    body, _ = write(Request("chat", "m", tool_policy=ToolPolicy("any", parallel=True)))
    assert body == {"model": "gpt-5.6", "input": [], "store": False}


@pytest.mark.parametrize(
    "tool",
    [TypedTool("bash", {}, "bash", ("tools", 0)), HostedTool("web_fetch", {}, "web_fetch", ("tools", 0))],
)
def test_tools_of_other_vendors_are_refused(tool: TypedTool | HostedTool) -> None:
    assert rejection(Request("messages", "m", tools=[tool])).param == "tools[0]"


def test_no_summary_from_models_that_do_not_reason_or_are_told_not_to() -> None:
    plain, _ = write(Request("chat", "m", reasoning=ReasoningPolicy(show=True)))
    told, _ = write(
        Request("chat", "m", reasoning=ReasoningPolicy(effort="none", show=True)),
        Target("responses", "gpt-5.6", profile=REASONS),
    )
    assert (plain.get("reasoning"), told["reasoning"]) == (None, {"effort": "none"})
