"""The answer's format: enforced, by a tool, or in words (mapping.md 9)."""

import json

import pytest

from proxy.canonical.loss import LossReport, Rule
from proxy.canonical.parts import Text, Turn
from proxy.canonical.request import Instruction, Output, OutputFormat, ReasoningPolicy, Request
from proxy.canonical.target import Dialect, Target
from proxy.canonical.tools import FunctionTool, Schema, ToolPolicy, ToolRef
from proxy.translation.answer_tool import DESCRIPTION
from proxy.translation.emulation import Emulation
from proxy.translation.profiles import profile_of
from proxy.translation.reduction import STRICT_TOOLS
from proxy.translation.structured import JSON_INSTRUCTION, SCHEMA_INSTRUCTION, fit_format
from proxy.translation.validation import Expected

CITY: Schema = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
MAP: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
BOUNDED: Schema = {**CITY, "properties": {"city": {"type": "string", "maxLength": 9}}}
AT = ("response_format",)
OFFICIAL = Dialect()


def asked(given: OutputFormat, **fields: object) -> Request:
    turns = [Turn("user", [Text("hi")])]
    return Request("chat", "m", turns=turns, output=Output(given), **fields)  # type: ignore[arg-type]


def fitted(
    request: Request, model: str = "claude-opus-5", dialect: Dialect = OFFICIAL, directive: str | None = None
) -> tuple[Emulation, list[str]]:
    emulation, losses = Emulation(directive=directive), LossReport()
    fit_format(request, Target("messages", model, dialect, profile_of(model)), emulation, losses)
    return emulation, [f"{loss.rule};{loss.level}" for loss in losses.losses]


def expected(schema: Schema | None) -> Expected:
    """The check of what the backend does not see to."""
    return Expected(schema, Rule.RESPONSE_FORMAT, fails=False)


def a_schema(schema: Schema, strict: bool | None = True, description: str | None = None) -> OutputFormat:
    return OutputFormat("json_schema", schema, "answer", strict, description, AT)


@pytest.mark.parametrize("model", ["claude-opus-5", "claude-opus-5-5", "claude-sonnet-4-5", "my-alias", "claude-next"])
@pytest.mark.parametrize("strict", [True, False, None])
def test_what_claude_enforces_is_sent_as_it_is(model: str, strict: bool | None) -> None:
    request = asked(a_schema(CITY, strict, "Where."))
    assert fitted(request, model) == (Emulation(), [])
    assert request.output.format == OutputFormat("json_schema", {**CITY, "description": "Where."}, at=AT)


@pytest.mark.parametrize("strict", [True, False])
def test_an_open_object_is_closed(strict: bool) -> None:
    schema: Schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    request = asked(a_schema(schema, strict))
    assert fitted(request) == (Emulation(expected=expected(schema)), ["response-format;approx"])
    assert request.output.format is not None
    assert request.output.format.schema == {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "additionalProperties": False,
    }


def test_a_bound_is_said_in_words_where_the_form_must_hold() -> None:
    request = asked(a_schema(BOUNDED))
    assert fitted(request) == (Emulation(expected=expected(BOUNDED)), ["response-format;approx"])
    assert request.output.format is not None
    assert request.output.format.schema == {
        **CITY,
        "properties": {"city": {"type": "string", "description": "maxLength: 9"}},
    }


def respond(schema: Schema) -> FunctionTool:
    return FunctionTool("respond", schema, DESCRIPTION)


@pytest.mark.parametrize("given", [a_schema(MAP), a_schema(BOUNDED, strict=False), a_schema(BOUNDED, strict=None)])
def test_without_tools_the_answer_tool_is_forced(given: OutputFormat) -> None:
    request = asked(given)
    emulation = Emulation(answer_tool="respond", expected=expected(given.schema))
    assert fitted(request) == (emulation, ["schema-fallback;approx"])
    assert given.schema is not None
    assert (request.output.format, request.tools) == (None, [respond(given.schema)])
    assert request.tool_policy == ToolPolicy("named", ToolRef("function", "respond"), parallel=False)


def test_a_model_without_structured_output_gets_the_tool_too() -> None:
    request = asked(a_schema(CITY))
    emulation = Emulation(answer_tool="respond", expected=expected(CITY))
    assert fitted(request, "claude-3-5-haiku") == (emulation, ["schema-fallback;approx"])
    assert request.tools == [respond(CITY)]


@pytest.mark.parametrize(
    ("mode", "policy"),
    [
        (None, ToolPolicy("any")),
        ("auto", ToolPolicy("any")),
        ("none", ToolPolicy("named", ToolRef("function", "respond"), parallel=False)),
    ],
)
def test_beside_tools_the_answer_is_one_of_them(mode: str | None, policy: ToolPolicy) -> None:
    tool = FunctionTool("f", {"type": "object"})
    request = asked(a_schema(MAP), tools=[tool], tool_policy=ToolPolicy(mode))  # type: ignore[arg-type]
    assert fitted(request)[0].answer_tool == "respond"
    assert (request.tools, request.tool_policy) == ([tool, respond(MAP)], policy)


def test_an_answer_that_must_be_a_call_has_the_form_of_the_call() -> None:
    tool = FunctionTool("f", {"type": "object"})
    request = asked(a_schema(MAP), tools=[tool], tool_policy=ToolPolicy("any"))
    assert fitted(request) == (Emulation(), ["schema-fallback;approx"])
    assert (request.tools, request.tool_policy, request.instructions) == ([tool], ToolPolicy("any"), [])


def test_nor_is_the_form_asked_for_where_the_call_is_asked_for_in_words() -> None:
    tool = FunctionTool("f", {"type": "object"})
    request = asked(a_schema(MAP), tools=[tool], tool_policy=ToolPolicy("auto"))
    words = "Answer by calling one of the tools."
    emulation, losses = fitted(request, "claude-opus-5-5", directive=words)
    assert (emulation, losses) == (Emulation(directive=words), ["schema-fallback;approx"])
    assert (request.tools, request.tool_policy, request.instructions) == ([tool], ToolPolicy("auto"), [])


@pytest.mark.parametrize(
    ("model", "reasoning", "schema"),
    [
        ("claude-opus-5-5", ReasoningPolicy(), MAP),  # can't be forced
        ("claude-sonnet-4-5", ReasoningPolicy(effort="high"), MAP),  # can't be forced while it thinks
        ("claude-sonnet-4", ReasoningPolicy("budget", budget=2000), CITY),
        ("claude-opus-5", ReasoningPolicy(), {"type": "array", "items": MAP}),  # arguments are an object
        ("claude-opus-5", ReasoningPolicy(), {"enum": [{"a": 1}, {"a": 2}]}),
    ],
)
def test_where_no_tool_can_be_forced_words_must_do(model: str, reasoning: ReasoningPolicy, schema: Schema) -> None:
    first = Instruction([Text("Be brief.")])
    request = asked(a_schema(schema, description="Where."), reasoning=reasoning, instructions=[first])
    assert fitted(request, model) == (Emulation(fenced=True, expected=expected(schema)), ["schema-fallback;approx"])
    words = SCHEMA_INSTRUCTION + json.dumps({**schema, "description": "Where."}, separators=(",", ":"))
    assert (request.output.format, request.tools) == (None, [])
    assert request.instructions == [first, Instruction([Text(words)], at=AT)]


def test_a_server_that_does_not_heed_the_choice_is_asked_in_words() -> None:
    request = asked(a_schema(MAP))
    emulation, _ = fitted(request, dialect=Dialect(no_forced_choice=True))
    assert (emulation.answer_tool, emulation.fenced, request.tools, len(request.instructions)) == (None, True, [], 1)


def test_the_answer_tool_is_forced_as_the_server_can_be_forced() -> None:
    request = asked(a_schema(MAP), tools=[FunctionTool("f", None)], tool_policy=ToolPolicy("none"))
    fitted(request, dialect=Dialect(named_choice=False, no_parallel_flag=True))
    assert (request.tools, request.tool_policy) == ([respond(MAP)], ToolPolicy("any"))


@pytest.mark.parametrize("reasoning", [ReasoningPolicy("off"), ReasoningPolicy(effort="none"), ReasoningPolicy()])
def test_a_model_that_does_not_think_is_forced(reasoning: ReasoningPolicy) -> None:
    assert fitted(asked(a_schema(MAP), reasoning=reasoning), "claude-sonnet-4-5")[0].answer_tool == "respond"


@pytest.mark.parametrize("given", [OutputFormat("json_object", at=AT), OutputFormat("json_schema", None, "a", at=AT)])
def test_any_object_is_asked_for_in_words(given: OutputFormat) -> None:
    request = asked(given)
    assert fitted(request) == (Emulation(fenced=True, expected=expected(None)), ["json-object;approx"])
    assert request.output.format is None
    assert request.instructions == [Instruction([Text(JSON_INSTRUCTION)], at=AT)]


def test_a_chat_server_that_only_knows_json() -> None:
    request = asked(a_schema(MAP))
    emulation, losses = Emulation(), LossReport()
    fit_format(request, Target("chat", "m", Dialect(no_json_schema=True)), emulation, losses)
    assert emulation == Emulation(expected=expected(MAP))
    assert [loss.rule for loss in losses.losses] == ["schema-fallback"]
    assert request.output.format == OutputFormat("json_object", at=AT)
    words = SCHEMA_INSTRUCTION + json.dumps(MAP, separators=(",", ":"))
    assert request.instructions == [Instruction([Text(words)], at=AT)]


@pytest.mark.parametrize("protocol", ["chat", "responses"])
def test_openai_wants_a_name_and_its_own_rules(protocol: str) -> None:
    open_schema: Schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    for schema, strict, rules in ((CITY, True, []), (open_schema, False, ["strict-off"])):
        request = Request("messages", "m", output=Output(OutputFormat("json_schema", schema)))
        losses, emulation = LossReport(), Emulation()
        fit_format(request, Target(protocol, "gpt-4.1"), emulation, losses)  # type: ignore[arg-type]
        assert request.output.format == OutputFormat("json_schema", schema, "output", strict)
        assert [loss.rule for loss in losses.losses] == rules
        unenforced = Expected(schema, Rule.OUTPUT_CONFIG_FORMAT, fails=False)
        assert emulation.expected == (None if strict else unenforced)


@pytest.mark.parametrize(("validate", "fails"), [("off", None), ("record", False), ("error", True)])
def test_the_operator_says_whether_an_answer_is_checked(validate: str, fails: bool | None) -> None:
    emulation = Emulation()
    target = Target("messages", "claude-3-5-haiku", profile=profile_of("claude-3-5-haiku"), validate_output=validate)  # type: ignore[arg-type]
    fit_format(asked(a_schema(CITY)), target, emulation, LossReport())
    assert (emulation.expected and emulation.expected.fails) == fails


def test_no_more_strict_tools_than_there_may_be() -> None:
    tools = [FunctionTool(f"f{number}", CITY, strict=True) for number in range(STRICT_TOOLS + 2)]
    request = Request("chat", "m", tools=list(tools))
    assert fitted(request)[1] == ["strict-off;approx"] * 2
    assert [tool.strict for tool in tools] == [True] * STRICT_TOOLS + [False] * 2


def test_nothing_is_told_of_a_tool_that_nobody_asked_to_be_enforced() -> None:
    tools = [FunctionTool(f"f{number}", CITY, strict="try") for number in range(STRICT_TOOLS + 2)]
    assert fitted(Request("responses", "m", tools=list(tools)))[1] == []
    assert [tool.strict for tool in tools] == [True] * STRICT_TOOLS + [None] * 2


def test_optional_fields_of_all_schemas_are_counted_together() -> None:
    def schema(optional: int) -> Schema:
        return {**CITY, "properties": {f"p{number}": {"type": "string"} for number in range(optional)}, "required": []}

    tools = [FunctionTool("f", schema(10), strict=True), FunctionTool("g", schema(4), strict=True)]
    request = asked(a_schema(schema(14)), tools=list(tools))
    assert fitted(request)[1] == ["strict-off;approx"]
    assert [tool.strict for tool in tools] == [True, False]
