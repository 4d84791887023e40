"""Read a whole Messages reply into the canonical one.

A backend's reply is as little to be trusted as a client's request, but no client is helped by a refusal because of a
missing field: what is missing reads as empty, and only a body that is no message at all is an error.
"""

from collections.abc import Callable

from proxy.canonical.errors import Error, ErrorClass, InexactNumber, Reason, Rejected
from proxy.canonical.loss import LossReport
from proxy.canonical.parts import Call, HostedCall, Opaque, Reasoning, ReplyPart, Text
from proxy.canonical.reply import Reply
from proxy.canonical.spelling import Spelling
from proxy.canonical.target import Dialect
from proxy.protocols.arguments import may_be_rounded
from proxy.protocols.fields import Wire, is_object
from proxy.protocols.messages.arguments import arguments_text
from proxy.protocols.messages.citations import read_citations
from proxy.protocols.messages.errors import read_error
from proxy.protocols.messages.stops import read_stop
from proxy.protocols.messages.tables import SERVER_RESULTS, SERVER_TOOLS
from proxy.protocols.messages.usage import read_tier, read_usage

NAMELESS = "calls a tool without naming it"


def bad_gateway(problem: str) -> Error:
    """The error of an answer that can't be understood."""
    return Error(ErrorClass.BAD_GATEWAY, f"The backend's answer {problem}.", reason=Reason.UPSTREAM_ERROR)


def text_of(wire: Wire, name: str) -> str:
    """A string that a backend sent; "" for anything else."""
    value = wire.get(name)
    return value if type(value) is str else ""


def read_reply(
    wire: object,
    spelling: Spelling,
    dialect: Dialect,
    losses: LossReport,  # noqa: ARG001
    *,
    exact: bool = False,
) -> Reply:
    """The canonical reply. Raises `Rejected` for an error inside a 200 and for what is no message.

    Raises `InexactNumber` like `read_request`; `exact` means the same.
    """
    if not is_object(wire):
        raise Rejected(bad_gateway("is not a JSON object"))
    if wire.get("type") == "error" or ("content" not in wire and wire.get("error") is not None):
        raise Rejected(read_error(200, wire, ""))
    content = wire.get("content")
    if type(content) is str:
        content = [{"type": "text", "text": content}]
    elif content is None:
        content = []
    elif type(content) is not list:
        raise Rejected(bad_gateway("has no list of content blocks"))
    blocks = [block for block in content if is_object(block)]
    if not exact and any(may_be_rounded(block.get("input")) for block in blocks):
        raise InexactNumber
    reply = Reply(text_of(wire, "id"), text_of(wire, "model"))
    reading = ReplyBlocks(spelling, reply.id, signed=not dialect.unsigned_thinking)
    reply.parts = [reading.part(block) for block in blocks]
    if any(type(part) is Call and not part.name for part in reply.parts):
        raise Rejected(bad_gateway(NAMELESS))
    reply.stop = read_stop(wire, calls=reading.calls > 0)
    reply.usage = read_usage(wire.get("usage"))
    reply.service_tier = read_tier(wire.get("usage"))
    return reply


class ReplyBlocks:
    """Reads the blocks of one reply, whole or as a stream starts them; `calls` counts client-side calls.

    `signed`: thinking has the vendor's signature. What other servers write in its place is made up and would be taken
    for one by whoever gets it (mapping.md 17.2).
    """

    __slots__ = ("calls", "response_id", "signed", "spelling")

    def __init__(self, spelling: Spelling, response_id: str, *, signed: bool) -> None:
        self.spelling = spelling
        self.response_id = response_id
        self.signed = signed
        self.calls = 0

    def part(self, block: Wire) -> ReplyPart:
        """The part that a block is. Texts and arguments that it already holds are in it."""
        read = READ.get(text_of(block, "type"), _opaque)
        return read(self, block)


def _text(_reply: ReplyBlocks, block: Wire) -> Text:
    return Text(text_of(block, "text"), read_citations(block.get("citations")))


def _thinking(reply: ReplyBlocks, block: Wire) -> Reasoning:
    if not reply.signed:
        block = {name: value for name, value in block.items() if name != "signature"}
    return Reasoning(text_of(block, "thinking"), native=block)


def _redacted_thinking(_reply: ReplyBlocks, block: Wire) -> Reasoning:
    return Reasoning("", native=block, redacted=True)


def _call(reply: ReplyBlocks, block: Wire) -> Call:
    tool = reply.spelling.tool(text_of(block, "name"))
    call_id = reply.spelling.call_id(text_of(block, "id"), reply.response_id, reply.calls)
    reply.calls += 1
    extra = {"caller": block["caller"]} if block.get("caller") is not None else None
    return Call(
        call_id,
        tool.name,
        arguments_text(block.get("input")),
        kind=tool.kind,
        namespace=tool.namespace,
        tool=tool.tool,
        extra=extra,
    )


def _server_call(_reply: ReplyBlocks, block: Wire) -> HostedCall:
    name = text_of(block, "name")
    tool = "mcp" if block["type"] == "mcp_tool_use" else SERVER_TOOLS.get(name, name)
    return HostedCall(tool, block, text_of(block, "id"))


def _server_result(_reply: ReplyBlocks, block: Wire) -> HostedCall:
    return HostedCall(SERVER_RESULTS[text_of(block, "type")], block, text_of(block, "tool_use_id"), is_result=True)


def _opaque(_reply: ReplyBlocks, block: Wire) -> Opaque:
    return Opaque(text_of(block, "type"), block)


READ: dict[str, Callable[[ReplyBlocks, Wire], ReplyPart]] = {
    "text": _text,
    "tool_use": _call,
    "thinking": _thinking,
    "redacted_thinking": _redacted_thinking,
    "server_tool_use": _server_call,
    "mcp_tool_use": _server_call,
    **dict.fromkeys(SERVER_RESULTS, _server_result),
}
