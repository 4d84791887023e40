"""The protocols by name: what each can read and write.

The one place that knows all folders of `protocols`; nothing else names a protocol's module.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Concatenate, Literal, Protocol

from proxy.canonical.deed import Deed
from proxy.canonical.errors import Error
from proxy.canonical.events import Event
from proxy.canonical.loss import LossReport
from proxy.canonical.parts import Extra
from proxy.canonical.reply import Reply, ReplyContext
from proxy.canonical.request import Request
from proxy.canonical.spelling import Spelling
from proxy.canonical.stop import Stop
from proxy.canonical.target import Dialect, Target
from proxy.canonical.tools import HostedTool
from proxy.canonical.usage import Usage
from proxy.protocols import chat, completions, messages, responses

ClientProtocol = Literal["chat", "responses", "messages", "completions"]
BackendProtocol = Literal["chat", "responses", "messages"]
Wire = dict[str, object]
Emit = Callable[[Event], None]


class StreamReader(Protocol):
    """Wire events in, canonical events out through `emit`. `exact`: what is fed was decoded with long integers."""

    exact: bool
    # What stands right before the text of a delta that may come again, and somewhere in each of these events.
    text_key: bytes
    text_mark: bytes

    def grows(self, k: int) -> bool:
        """Whether `k` is the text part that grows now: deltas as the last one need not be fed then, but told as such,
        and `grown` with their texts before anything else is fed."""

    def grown(self, texts: list[str]) -> None:
        """Take note of deltas that were told elsewhere."""

    def feed(self, wire: Wire, event_name: str) -> None:
        """Take one event. Raises `InexactNumber`, having told nothing: it is then to be fed again, decoded exactly."""

    def done(self) -> None:
        """The stream's end mark came (`data: [DONE]`)."""

    def end(self) -> None:
        """The input ended: Finish, or Fail if it came too early."""

    @property
    def usage(self) -> Usage | None:
        """What the backend has told by now."""

    @property
    def stopped(self) -> bool:
        """Whether the backend has told why it stops, so that the answer is whole without its end mark."""


class StreamWriter(Protocol):
    """Canonical events in, the client's bytes out."""

    def write(self, events: Iterable[Event]) -> bytes:
        """The bytes of these events."""


class Account(Protocol):
    """What an answer that is passed on unread tells of itself."""

    stop: Stop | None
    said: int  # bytes of text, thinking, refusals and arguments, of what was weighed

    @property
    def text_key(self) -> bytes:
        """What stands right before the text of an event that may repeat itself with another."""

    @property
    def text_mark(self) -> bytes:
        """What stands somewhere in each of these events."""

    @property
    def usage(self) -> Usage | None:
        """The usage that has been told by now."""

    def hear(self, wire: Wire) -> None:
        """Take an event that may tell of usage or of why the answer ends; the other ones need not be shown."""

    def weigh(self, wire: Wire) -> str | None:
        """Count what an event says; the text, if that is all that it tells."""

    def hear_whole(self, wire: Wire) -> None:
        """Take a whole reply."""

    def weigh_whole(self, wire: Wire) -> object:
        """Count what a whole reply says."""


def _no_choices(_replies: Sequence[Reply], _context: ReplyContext) -> bytes:
    raise TypeError("A client of this protocol can't ask for choices.")


def _show_nothing(_deed: Deed, _call_id: str, _envelope: str) -> list[Wire]:
    return []


@dataclass(frozen=True, slots=True)
class ClientCodec:
    """What a client's side needs. A `read_request` that raises `InexactNumber` takes `exact=True` the second time.

    `read_hosted_tool` says in the tool's `asked` what its declaration asks for, given the request's `extra`.
    `show_deed` gives the items or blocks that show what a backend ran: what it did, the backend's id, an envelope.
    `write_choices`: a reply with a choice for each of several, where the protocol has choices.
    """

    read_request: Callable[Concatenate[Wire, LossReport, ...], Request]
    write_reply: Callable[[Reply, ReplyContext], bytes]
    stream_writer: Callable[[ReplyContext], StreamWriter]
    write_error: Callable[[Error, str], tuple[int, Wire]]
    read_hosted_tool: Callable[[HostedTool, Extra | None, LossReport], None]
    show_deed: Callable[[Deed, str, str], list[Wire]] = _show_nothing
    write_choices: Callable[[Sequence[Reply], ReplyContext], bytes] = _no_choices


def _read_nothing(_call: Wire, _result: Wire | None) -> Deed | None:
    return None


def _none(_body: Wire) -> tuple[str, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class BackendCodec:
    """What a backend's side needs. A `read_reply` that raises `InexactNumber` takes `exact=True` the second time.

    `hosted_names`: what a tool choice calls hosted tools, by their kind. `betas`: what a request must be sent with.
    `read_deed`: what a call of a hosted tool, with its result where that is apart, did. `hosted_types`: types of what
    only this protocol knows, as it may come back out of an envelope. `reasoning_fields`: where reasoning may have stood
    in a message, where there is more than one place.
    """

    write_request: Callable[[Request, Target, LossReport], Wire]
    read_reply: Callable[Concatenate[Wire, Spelling, Dialect, LossReport, ...], Reply]
    stream_reader: Callable[[Emit, Spelling, Dialect, LossReport], StreamReader]
    account: Callable[[], Account]
    read_error: Callable[[int, object, str], Error]
    hosted_names: Mapping[str, str] = field(default_factory=dict)
    betas: Callable[[Wire], tuple[str, ...]] = _none
    read_deed: Callable[[Wire, Wire | None], Deed | None] = _read_nothing
    hosted_types: frozenset[str] = frozenset()
    reasoning_fields: frozenset[str] = frozenset()


CLIENTS: dict[ClientProtocol, ClientCodec] = {
    "chat": ClientCodec(
        chat.read_request,
        chat.write_reply,
        chat.StreamWriter,
        chat.write_error,
        chat.read_hosted_tool,
        write_choices=chat.write_choices,
    ),
    "responses": ClientCodec(
        responses.read_request,
        responses.write_reply,
        responses.StreamWriter,
        responses.write_error,
        responses.read_hosted_tool,
        responses.show_deed,
    ),
    "messages": ClientCodec(
        messages.read_request,
        messages.write_reply,
        messages.StreamWriter,
        messages.write_error,
        messages.read_hosted_tool,
        messages.show_deed,
    ),
    "completions": ClientCodec(
        completions.read_request,
        completions.write_reply,
        completions.StreamWriter,
        completions.write_error,
        chat.read_hosted_tool,
        write_choices=completions.write_choices,
    ),
}

BACKENDS: dict[BackendProtocol, BackendCodec] = {
    "chat": BackendCodec(
        chat.write_request,
        chat.read_reply,
        chat.StreamReader,
        chat.Account,
        chat.read_error,
        reasoning_fields=chat.REASONING_FIELDS,
    ),
    "responses": BackendCodec(
        responses.write_request,
        responses.read_reply,
        responses.StreamReader,
        responses.Account,
        responses.read_error,
        responses.HOSTED_NAMES,
        read_deed=responses.read_deed,
        hosted_types=responses.HOSTED_TYPES,
    ),
    "messages": BackendCodec(
        messages.write_request,
        messages.read_reply,
        messages.StreamReader,
        messages.Account,
        messages.read_error,
        messages.HOSTED_NAMES,
        messages.betas_of,
        messages.read_deed,
        messages.HOSTED_TYPES,
    ),
}

# What it takes to make Messages go on with a turn that it paused (mapping.md 12.3); no other protocol pauses.
MessageContent = messages.MessageContent
container_of = messages.container_of
# Whether a chunk of Chat is what a client gets only if it has asked for usage.
is_usage_alone = chat.is_usage_alone
CALL_SIGNATURE = chat.CALL_SIGNATURE  # where in a Chat call its signature is
# A citation that may be sent back to Messages, from what it wrote.
read_message_citation = messages.read_citation
continued = messages.continued
# How items of Responses are kept and listed.
as_items, listed_item, listed_items, sent_items = (
    responses.as_items,
    responses.listed_item,
    responses.listed_items,
    responses.sent_items,
)
place_of = responses.place_of  # which response an item's id is of
# What is told of a response before it has begun, and of one that failed.
queued_response, echo_of, failure_of = responses.queued_response, responses.echo_of, responses.failure_of
write_usage = responses.write_usage
# What ends a stream of Responses that passes through and has no end of its own.
MissingEnd = responses.MissingEnd
