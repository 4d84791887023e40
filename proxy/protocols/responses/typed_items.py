"""Read calls and outputs of the tools that OpenAI's models know and the client runs (responses.md 4.4).

Each has a shape of its own; here its calls are objects of arguments and its outputs are text or an image, as those of a
function would be (mapping.md 5.3).
"""

from collections.abc import Callable

from proxy.canonical.jsontext import dumps
from proxy.canonical.loss import LossReport, Path, Rule
from proxy.canonical.parts import Call, Extra, Image, Part, Result, Text
from proxy.canonical.spelling import joined
from proxy.canonical.tools import Tool
from proxy.protocols.fields import Wire, array, as_object, invalid, is_object, mapping, need_text, report_unknown, text
from proxy.protocols.responses.input_content import read_image_source
from proxy.protocols.responses.tables import TYPED_CALLS
from proxy.protocols.responses.tool_reader import read_tools, whole_name

_CALLER = frozenset({"type", "caller_id"})
_ANY = frozenset({"type", "id", "call_id", "status", "created_by"})
# The fields of each item. An item's own id and its status mean nothing to another server.
_FIELDS: dict[str, frozenset[str]] = {
    "shell_call": _ANY | {"action", "environment", "caller"},
    "local_shell_call": _ANY | {"action"},
    "apply_patch_call": _ANY | {"operation", "caller"},
    "computer_call": _ANY | {"action", "actions", "pending_safety_checks"},
    "tool_search_call": _ANY | {"arguments", "execution"},
    "shell_call_output": _ANY | {"output", "max_output_length", "caller"},
    "local_shell_call_output": _ANY | {"output"},
    "apply_patch_call_output": _ANY | {"output", "caller"},
    "computer_call_output": _ANY | {"output", "acknowledged_safety_checks"},
    "tool_search_output": _ANY | {"tools", "execution"},
}
_CHECKS = ("pending_safety_checks", "acknowledged_safety_checks")  # of another vendor, which made them and is done


def read_caller(wire: Wire, path: Path, losses: LossReport) -> Extra | None:
    """Who made a call, unless it was the model itself. A program's call reads as one of the model's own."""
    caller = mapping(wire, "caller", path)
    if caller is None:
        return None
    report_unknown(caller, _CALLER, (*path, "caller"), losses)
    if caller.get("type") == "direct":
        return None
    losses.approx(Rule.PROGRAMMATIC_TOOL_CALLING, (*path, "caller"))
    return {"caller": caller}


def _report(wire: Wire, path: Path, losses: LossReport) -> None:
    report_unknown(wire, _FIELDS[str(wire["type"])], path, losses)
    for name in _CHECKS:
        if wire.get(name):
            losses.approx(Rule.TYPED_TOOL, (*path, name))


def read_typed_call(wire: Wire, path: Path, losses: LossReport) -> Call:
    """A call that the client is to run or has run. Raises `Rejected`."""
    _report(wire, path, losses)
    tool, place, _ = TYPED_CALLS[str(wire["type"])]
    call = Call(need_text(wire, "call_id", path), tool, kind="typed", tool=tool, at=path)
    call.extra = read_caller(wire, path, losses)
    if tool == "computer":
        call.input = _computer_actions(wire, path)
        return call
    if tool == "tool_search" and not is_object(wire.get(place)):
        call.arguments = dumps(wire.get(place)).decode()  # any JSON, though it is nearly always an object
        return call
    action = mapping(wire, place, path)
    if action is None:
        invalid((*path, place), "this field is required.", code="missing_required_parameter")
    if tool == "shell":
        _note_environment(wire, path, losses)
    call.input = {name: value for name, value in action.items() if name != "type"} if tool == "local_shell" else action
    return call


def _note_environment(wire: Wire, path: Path, losses: LossReport) -> None:
    """Where a shell ran is said by its tool."""
    environment = mapping(wire, "environment", path)
    if environment is None:
        return
    at = (*path, "environment")
    report_unknown(environment, frozenset({"type", "skills"}), at, losses)
    if environment.get("skills"):
        losses.drop(Rule.TYPED_TOOL, (*at, "skills"))


def _computer_actions(wire: Wire, path: Path) -> Wire:
    """What the model did: a list, or the one action of the older tool."""
    actions = array(wire, "actions", path)
    if actions is not None:
        return {"actions": actions}
    single = mapping(wire, "action", path)
    return {"actions": []} if single is None else {"action": single}


def _result(call_id: str | None, parts: list[Part], wire: Wire, path: Path, losses: LossReport) -> Result:
    losses.approx(Rule.TYPED_TOOL, path)
    _report(wire, path, losses)
    extra = {"native": wire, **(read_caller(wire, path, losses) or {})}
    return Result(call_id, parts, kind="typed", extra=extra, at=path)


def _shell_output(wire: Wire, path: Path, losses: LossReport) -> Result:
    """The outputs of a shell's commands, in sections."""
    outputs = array(wire, "output", path)
    if outputs is None:
        invalid((*path, "output"), "this field is required.", code="missing_required_parameter")
    sections: list[str] = []
    for index, output in enumerate(outputs):
        at = (*path, "output", index)
        sections.append(_command_text(as_object(output, at), at, losses))
    return _result(need_text(wire, "call_id", path), [Text("\n\n".join(sections))], wire, path, losses)


def _command_text(wire: Wire, path: Path, losses: LossReport) -> str:
    """The output of one command: its two streams, labelled, and how it ended."""
    report_unknown(wire, frozenset({"stdout", "stderr", "outcome", "created_by"}), path, losses)
    lines = [f"{name}:\n{stream}" for name in ("stdout", "stderr") if (stream := text(wire, name, path))]
    outcome = mapping(wire, "outcome", path)
    if outcome is not None:
        report_unknown(outcome, frozenset({"type", "exit_code"}), (*path, "outcome"), losses)
        if outcome.get("type") == "timeout":
            lines.append("timed out")
        elif type(outcome.get("exit_code")) is int:
            lines.append(f"exit code: {outcome['exit_code']}")
    return "\n".join(lines)


def _local_shell_output(wire: Wire, path: Path, losses: LossReport) -> Result:
    """The schema puts the id of the call into `id`, several clients into `call_id`."""
    call_id = text(wire, "call_id", path) or need_text(wire, "id", path)
    return _result(call_id, [Text(need_text(wire, "output", path))], wire, path, losses)


def _patch_output(wire: Wire, path: Path, losses: LossReport) -> Result:
    """Whether a patch was applied, and what there was to say about it."""
    status, output = need_text(wire, "status", path), text(wire, "output", path)
    shown = f"{status}: {output}" if output else status
    return _result(need_text(wire, "call_id", path), [Text(shown)], wire, path, losses)


_SCREENSHOT = frozenset({"type", "image_url", "file_id", "detail"})


def _computer_output(wire: Wire, path: Path, losses: LossReport) -> Result:
    """A screenshot."""
    screenshot = mapping(wire, "output", path)
    if screenshot is None:
        invalid((*path, "output"), "this field is required.", code="missing_required_parameter")
    at = (*path, "output")
    report_unknown(screenshot, _SCREENSHOT, at, losses)
    image = Image(read_image_source(screenshot, at, losses), text(screenshot, "detail", at), at=at)
    return _result(need_text(wire, "call_id", path), [image], wire, path, losses)


def read_search_output(wire: Wire, path: Path, losses: LossReport) -> tuple[Result, list[Tool]]:
    """What the client's own search found, as names, and the tools: the model may call them from now on."""
    losses.approx(Rule.TOOL_SEARCH, path)
    _report(wire, path, losses)
    found = read_tools(array(wire, "tools", path) or [], (*path, "tools"), losses)
    names = [joined(*whole_name(tool)) for tool in found]
    listing = "\n".join(["Tools that can be called now:", *names]) if names else "No tool was found."
    result = Result(text(wire, "call_id", path), [Text(listing)], kind="typed", extra={"native": wire}, at=path)
    return result, found


OUTPUTS: dict[str, Callable[[Wire, Path, LossReport], Result]] = {
    "shell_call_output": _shell_output,
    "local_shell_call_output": _local_shell_output,
    "apply_patch_call_output": _patch_output,
    "computer_call_output": _computer_output,
}
