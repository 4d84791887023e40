"""Tools that a vendor's model knows by heart, on backends of another vendor (mapping.md 5.3).

The client runs them, so they work anywhere as functions with the documented arguments; what comes back takes the
client's own form again. They are never turned into a similar tool of the backend's vendor: the client would have to run
what it did not declare.
"""

from collections.abc import Iterable

from proxy.canonical.jsontext import NotJson, loads
from proxy.canonical.loss import LossReport, Path, Rule
from proxy.canonical.parts import Call, Result
from proxy.canonical.request import Request
from proxy.canonical.tools import FunctionTool, Schema, ToolRef, TypedTool
from proxy.protocols.fields import flag, invalid, is_object, mapping, report_unknown, text, whole
from proxy.translation import typed_schemas
from proxy.translation.typed_schemas import ToolSchema, fits, of, words

# Kinds of Responses, with the forms that the items of their calls need.
_PATCH: Schema = {
    "anyOf": [
        of({"type": words("create_file", "update_file"), "path": {"type": "string"}, "diff": {"type": "string"}}),
        of({"type": words("delete_file"), "path": {"type": "string"}}),
    ]
}
_FORMS: dict[str, Schema] = {
    "shell": typed_schemas.SHELL.schema,
    "local_shell": typed_schemas.LOCAL_SHELL.schema,
    "apply_patch": _PATCH,
    "computer": {"anyOf": [typed_schemas.COMPUTER_BATCH.schema, typed_schemas.COMPUTER_PREVIEW.schema]},
    "tool_search": {"type": "object"},
}


def as_functions(tool: TypedTool, losses: LossReport) -> list[FunctionTool]:
    """The function that stands for a typed tool, or one for each enabled member of a toolset. Raises `Rejected`."""
    losses.approx(Rule.TYPED_TOOL, tool.at)
    wire_type = text(tool.native, "type", tool.at) or tool.kind
    if "_toolset_" in wire_type:
        return _members(tool, losses)
    known = _known(tool, wire_type, losses)
    return [
        FunctionTool(
            tool.name,
            known.schema,
            "\n\n".join(line for line in (known.description, tool.description) if line),
            strict=tool.strict,
            deferred=tool.deferred,
            stands_for=tool.kind,
            cache=tool.cache,
            at=tool.at,
        )
    ]


def _known(tool: TypedTool, wire_type: str, losses: LossReport) -> ToolSchema:
    """What a model of the tool's vendor knows of it, with what the declaration says."""
    match tool.kind:
        case "bash":
            return typed_schemas.BASH
        case "text_editor":
            return _text_editor(tool, wire_type)
        case "memory":
            return typed_schemas.MEMORY
        case "shell":
            return _shell(tool, losses)
        case "local_shell":
            return typed_schemas.LOCAL_SHELL
        case "apply_patch":
            return typed_schemas.APPLY_PATCH
        case "tool_search":
            return _tool_search(tool)
        case "computer" if wire_type == "computer":
            return typed_schemas.COMPUTER_BATCH
        case "computer" if wire_type == "computer_use_preview":
            return _described(typed_schemas.COMPUTER_PREVIEW, _display(tool, "display_width", "display_height"))
        case "computer":
            return _computer(tool, wire_type)
        case _:
            invalid((*tool.at, "type"), f"'{wire_type}' is not known.")


def _described(known: ToolSchema, *lines: str | None) -> ToolSchema:
    return ToolSchema(known.schema, " ".join(line for line in (known.description, *lines) if line))


def _text_editor(tool: TypedTool, wire_type: str) -> ToolSchema:
    limit = whole(tool.native, "max_characters", tool.at)
    shown = f"At most {limit} characters of a file are shown." if limit is not None else None
    undo = wire_type.endswith(("_20241022", "_20250124"))
    return _described(typed_schemas.TEXT_EDITOR_WITH_UNDO if undo else typed_schemas.TEXT_EDITOR, shown)


def _computer(tool: TypedTool, wire_type: str) -> ToolSchema:
    """The single tool of Messages, whose actions depend on the version."""
    zooms = flag(tool.native, "enable_zoom", tool.at)
    actions = typed_schemas.COMPUTER_ACTIONS_2025
    if wire_type.endswith("_20241022"):
        actions = typed_schemas.COMPUTER_ACTIONS_2024
    elif zooms:
        actions = (*actions, typed_schemas.ZOOM)
    number = whole(tool.native, "display_number", tool.at)
    return _described(
        typed_schemas.computer(actions),
        _display(tool, "display_width_px", "display_height_px"),
        f"It is display number {number}." if number is not None else None,
    )


def _display(tool: TypedTool, width: str, height: str) -> str:
    size = [whole(tool.native, name, tool.at) for name in (width, height)]
    environment = text(tool.native, "environment", tool.at)
    system = f" Its environment is {environment}." if environment else ""
    return f"The screen is {size[0]} pixels wide and {size[1]} high.{system}" if None not in size else system.strip()


_SKILL = frozenset({"name", "path", "description"})


def _shell(tool: TypedTool, losses: LossReport) -> ToolSchema:
    """A shell, with the skills that the client keeps beside it."""
    environment = mapping(tool.native, "environment", tool.at) or {}
    at = (*tool.at, "environment", "skills")
    lines = []
    skills = environment.get("skills")
    for index, skill in enumerate(skills if isinstance(skills, list) else ()):
        if not is_object(skill):
            invalid((*at, index), "expected an object.")
        report_unknown(skill, _SKILL, (*at, index), losses)
        named = [text(skill, name, (*at, index)) for name in ("name", "path", "description")]
        lines.append("- {} ({}): {}".format(*named))
    if not lines:
        return typed_schemas.SHELL
    heading = f"{typed_schemas.SHELL.description}\n\nSkills, each a directory to read before work of its kind:"
    return ToolSchema(typed_schemas.SHELL.schema, "\n".join([heading, *lines]))


def _tool_search(tool: TypedTool) -> ToolSchema:
    """The client's own search for tools, which it describes itself."""
    known = typed_schemas.TOOL_SEARCH
    return ToolSchema(
        mapping(tool.native, "parameters", tool.at) or known.schema,
        text(tool.native, "description", tool.at) or known.description,
    )


def _members(tool: TypedTool, losses: LossReport) -> list[FunctionTool]:
    """A function for each enabled member, under the family's name as namespace."""
    at: Path = (*tool.at, "configs")
    known = typed_schemas.MEMBERS[tool.kind]
    configs = mapping(tool.native, "configs", tool.at) or {}
    report_unknown(configs, frozenset(known), at, losses)
    functions: list[FunctionTool] = []
    for name, member in known.items():
        config = mapping(configs, name, at) or {}
        report_unknown(config, frozenset({"enabled", "defer_loading"}), (*at, name), losses)
        enabled = flag(config, "enabled", (*at, name))
        if enabled is None:
            enabled = tool.kind != "browser" or name not in typed_schemas.DISABLED_MEMBERS
        deferred = flag(config, "defer_loading", (*at, name)) or False
        if enabled:
            functions.append(
                FunctionTool(
                    name,
                    member.schema,
                    member.description,
                    namespace=tool.kind,
                    deferred=deferred,
                    stands_for=tool.kind,
                    at=(*at, name),
                )
            )
    if not functions:
        invalid(at, "all members are disabled.")
    functions[-1].cache = tool.cache
    return functions


def wrap_history(request: Request) -> None:
    """Earlier results of typed tools as those of the functions that stand for them, in place.

    Calls keep their kind until names are spelled, since another tool may have the same name.
    """
    for turn in request.turns:
        for part in turn.parts:
            if type(part) is Result and part.kind == "typed":
                part.kind = "function"


def wrap_choices(request: Request) -> None:
    """Choices of typed tools as those of the functions that stand for them, in place."""
    policy = request.tool_policy
    if policy.named is None and policy.allowed is None:
        return
    declared = {tool.name for tool in request.tools if isinstance(tool, TypedTool)}
    if policy.named is not None:
        policy.named = _as_function_ref(policy.named, declared)
    if policy.allowed is not None:
        policy.allowed = [_as_function_ref(ref, declared) for ref in policy.allowed]


def _as_function_ref(ref: ToolRef, declared: Iterable[str]) -> ToolRef:
    return ToolRef("typed", ref.name) if ref.kind not in ("function", "custom") and ref.name in declared else ref


class TypedCalls:
    """An edit of replies (see `call_edits`): calls of typed tools in the form that the client's item needs.

    Items of Responses and members of toolsets come whole. Arguments that fit no item of Responses are not repaired:
    the client gets the function call that it was.
    """

    __slots__ = ("_whole_items",)

    def __init__(self, client: str) -> None:
        self._whole_items = client == "responses"

    def takes(self, call: Call) -> bool:
        """Whether the call must wait for its arguments."""
        return call.kind == "typed" and (self._whole_items or call.namespace is not None)

    def edit(self, call: Call) -> list[Call]:
        """The call with whole arguments, as the client gets it."""
        if self._whole_items and not _fits(call):
            call.kind, call.tool = "function", None
        return [call]


def _fits(call: Call) -> bool:
    try:
        arguments = loads(call.arguments or "{}")
    except NotJson:
        return False
    return fits(arguments, _FORMS.get(call.tool or "", {"type": "object"}))
