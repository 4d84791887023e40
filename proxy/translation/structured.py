"""The answer's format as the target takes it (mapping.md 9).

Anthropic enforces most schemas. What it can't enforce is asked for by a tool whose arguments are the answer, or in
words where no tool can be forced; either way the client gets the text that it asked for.
"""

from proxy.canonical.jsontext import dumps
from proxy.canonical.loss import LossReport, Rule
from proxy.canonical.parts import Text
from proxy.canonical.request import Instruction, OutputFormat, Request
from proxy.canonical.target import Target
from proxy.canonical.tools import FunctionTool, Schema, ToolPolicy, ToolRef
from proxy.translation import schemas
from proxy.translation.answer_tool import answer_tool
from proxy.translation.emulation import Emulation
from proxy.translation.reduction import (
    OPTIONAL_PARAMETERS,
    STRICT_TOOLS,
    UNION_PARAMETERS,
    NotExpressible,
    complexity,
    reduced,
)
from proxy.translation.root_objects import as_object
from proxy.translation.validation import Expected

JSON_INSTRUCTION = "Respond with a single JSON object and nothing else."
# The client's name of the field.
_RULES: dict[str, Rule] = {
    "chat": Rule.RESPONSE_FORMAT,
    "responses": Rule.TEXT_FORMAT,
    "messages": Rule.OUTPUT_CONFIG_FORMAT,
}
SCHEMA_INSTRUCTION = "Respond with a single JSON value that matches this JSON schema, and nothing else:\n"


def fit_format(request: Request, target: Target, emulation: Emulation, losses: LossReport) -> None:
    """Set the format, the tools and the words that bring about the answer's form, in place.

    Comes after the tools have been fitted, which it adds to, and before reasoning, which yields to a forced tool.
    """
    given = request.output.format
    if given is None:
        if target.protocol == "messages":
            _limit_strict_tools(request, None, losses)
    elif target.protocol == "messages":
        _fit_to_messages(request, given, target, emulation, losses)
        _limit_strict_tools(request, request.output.format, losses)
    elif given.kind == "json_schema" and target.dialect.no_json_schema:
        losses.approx(Rule.SCHEMA_FALLBACK, given.at)
        _instruct(request, given)
        request.output.format = OutputFormat("json_object", at=given.at)
        _expect(given, request, target, emulation)
    elif given.kind == "json_object" and target.dialect.no_json_object:
        _ask_for_object(request, given, target, emulation, losses)
    elif request.origin == "messages":
        given.strict = schemas.is_strict(given.schema, "openai")
        if not given.strict:
            losses.approx(Rule.STRICT_OFF, given.at)
            _expect(given, request, target, emulation)
        # OpenAI wants a name, and knows schemas that are not enforced (mapping.md 9.1).
        given.name, given.schema = "output", schemas.for_openai(given.schema)


def _expect(given: OutputFormat, request: Request, target: Target, emulation: Emulation) -> None:
    """Have the answer checked, whose form the backend does not see to (mapping.md 9.2, "after the answer")."""
    if target.validate_output != "off":
        schema = given.schema if given.kind == "json_schema" and given.schema else None
        emulation.expected = Expected(schema, _RULES[request.origin], fails=target.validate_output == "error")


def _fit_to_messages(
    request: Request, given: OutputFormat, target: Target, emulation: Emulation, losses: LossReport
) -> None:
    request.output.format = None
    if given.kind == "json_object" or not given.schema:
        _ask_for_object(request, given, target, emulation, losses)
        return
    enforced = _enforced(given) if target.profile.structured else None
    if enforced is not None:
        request.output.format, changed = enforced
        if changed:
            losses.approx(_RULES[request.origin], given.at)
            _expect(given, request, target, emulation)
        return
    losses.approx(Rule.SCHEMA_FALLBACK, given.at)
    if request.tool_policy.mode in ("any", "named") or emulation.directive is not None:
        return  # the answer is to be a call, by force or as asked for in words, which has a schema of its own
    _expect(given, request, target, emulation)
    if _may_force(request, target) and _is_object(given.schema):
        _ask_by_tool(request, given, target, emulation, losses)
    else:
        _instruct(request, given)
        emulation.fenced = True


def _ask_for_object(
    request: Request, given: OutputFormat, target: Target, emulation: Emulation, losses: LossReport
) -> None:
    """In words, of a backend that knows no JSON without a schema."""
    losses.approx(Rule.JSON_OBJECT, given.at)
    words = f"{JSON_INSTRUCTION} {given.description}" if given.description else JSON_INSTRUCTION
    request.instructions.append(Instruction([Text(words)], at=given.at))
    request.output.format = None
    emulation.fenced = True
    _expect(given, request, target, emulation)


def _enforced(given: OutputFormat) -> tuple[OutputFormat, bool] | None:
    """(the format that Anthropic enforces, whether its schema is another); None when it can't enforce it, or when a
    schema that is only a wish would have to change for it (mapping.md 9.1, `strict: false`)."""
    try:
        result = reduced(given.schema or {})
    except NotExpressible:
        return None
    # To close an object that the schema leaves open is no change that stands in the way: an answer needs no further
    # fields (mapping.md 9.2 accepts it), and nearly no schema that is only a wish closes its objects.
    if result.said and given.strict is not True:
        return None
    schema = result.schema
    if given.description and not schema.get("description"):
        schema = {**schema, "description": given.description}
    return OutputFormat("json_schema", schema, at=given.at), result.changed


def _may_force(request: Request, target: Target) -> bool:
    """Whether a call can be forced without taking away thinking that the client asked for (mapping.md 6.2, 9.3)."""
    policy, profile = request.reasoning, target.profile
    asked = policy.stated and policy.mode not in ("off", "between_tools") and policy.effort != "none"
    heeded = profile.forced and not target.dialect.no_forced_choice
    return heeded and not (asked and "adaptive" not in profile.thinking and "budget" in profile.thinking)


def _is_object(schema: Schema) -> bool:
    """Whether arguments can have this form: they are always an object."""
    return as_object(schema).free


def _ask_by_tool(
    request: Request, given: OutputFormat, target: Target, emulation: Emulation, losses: LossReport
) -> None:
    tool = answer_tool(request, schemas.for_messages(given.schema, given.at, losses), given.description)
    emulation.answer_tool = tool.name
    request.tools.append(tool)
    policy, dialect = request.tool_policy, target.dialect
    if len(request.tools) == 1 or policy.mode == "none":
        # What it would call besides is left out of the answer anyway.
        one_call = None if dialect.no_parallel_flag else False
        request.tool_policy = ToolPolicy("named", ToolRef("function", tool.name), parallel=one_call, at=policy.at)
        if not dialect.named_choice:
            request.tools = [tool]
            request.tool_policy.mode, request.tool_policy.named = "any", None
    else:
        policy.mode = "any"


def _instruct(request: Request, given: OutputFormat) -> None:
    schema: Schema = dict(given.schema or {})
    if given.description and not schema.get("description"):
        schema["description"] = given.description
    words = SCHEMA_INSTRUCTION + dumps(schema).decode()
    request.instructions.append(Instruction([Text(words)], at=given.at))


def _limit_strict_tools(request: Request, enforced: OutputFormat | None, losses: LossReport) -> None:
    """Keep within what all strict schemas of one request may have; the later tools yield (mapping.md 9.2)."""
    count = optional = unions = 0
    if enforced is not None and enforced.schema is not None:
        optional, unions = complexity(enforced.schema)
    for tool in request.tools:
        if not isinstance(tool, FunctionTool) or not tool.strict or tool.schema is None:
            continue
        more_optional, more_unions = complexity(tool.schema)
        if (
            count == STRICT_TOOLS
            or optional + more_optional > OPTIONAL_PARAMETERS
            or unions + more_unions > UNION_PARAMETERS
        ):
            if tool.strict is True:
                losses.approx(Rule.STRICT_OFF, (*tool.at, "strict"))
            tool.strict = None if tool.strict == "try" else False
            continue
        tool.strict = True
        count, optional, unions = count + 1, optional + more_optional, unions + more_unions
