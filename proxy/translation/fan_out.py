"""Several choices for a client of Chat, where the backend gives one: each is an answer of its own (mapping.md 7.4).

All are asked the same, so that it does not matter which becomes which choice. In a stream the first to begin is
choice 0, since the vendor's helpers count on choices that open in order.
"""

from dataclasses import replace
from functools import partial, reduce

from proxy.canonical.events import End, Event, Finish, Start, UsageUpdate, only_deltas
from proxy.canonical.reply import Reply, ReplyContext
from proxy.canonical.stop import Stop
from proxy.canonical.usage import Usage, total
from proxy.translation.codecs import CLIENTS, ClientProtocol
from proxy.translation.prepared import Prepared


def fan_out(prepared: Prepared) -> tuple[list[Prepared], "Choices"]:
    """The way back of each answer, and what they come to. `context.now` must be set."""
    choices = Choices(prepared.choices)
    each: list[Prepared] = []
    for number in range(prepared.choices):
        context = replace(prepared.context, choices=prepared.choices)
        last = _Joining(choices, number, context)
        each.append(prepared.of_choice(context, partial(choices.keep, number), last))
    return each, choices


def immediate(prepared: Prepared) -> bytes:
    """`Prepared.immediate` with all the choices that were asked for."""
    each, choices = fan_out(prepared)
    out = b"".join([one.immediate() for one in each])
    return out if prepared.stream else choices.reply(prepared.client, prepared.context)


class Choices:
    """The answers to one request, as far as they have come. `stop`: why choice 0 ended."""

    __slots__ = ("_begun", "_finished", "_replies", "_start", "_usages", "stop")

    def __init__(self, count: int) -> None:
        self._replies: list[Reply | None] = [None] * count
        self._usages: list[Usage | None] = [None] * count
        self._start: Start | None = None
        self._begun = 0
        self._finished = 0
        self.stop: Stop | None = None

    @property
    def over(self) -> bool:
        """Whether the last of the streams has finished."""
        return self._finished == len(self._usages)

    @property
    def usage(self) -> Usage | None:
        """What has been used by now, the prompt once for each answer, as it is billed; None when nothing was told."""
        told = [usage for usage in self._usages if usage is not None]
        return reduce(total, told) if told else None

    # --- whole replies ---

    def keep(self, number: int, reply: Reply) -> None:
        """Answer `number`, from 0, has come."""
        self._replies[number] = reply
        self._usages[number] = reply.usage
        if number == 0:
            self.stop = reply.stop

    def reply(self, client: ClientProtocol, context: ReplyContext) -> bytes:
        """The client's reply, once all answers have come."""
        first, *others = [reply for reply in self._replies if reply is not None]
        return CLIENTS[client].write_choices([replace(first, usage=self._told()), *others], context)

    # --- streams ---

    def begin(self, start: Start, context: ReplyContext) -> Start:
        """The next choice, for whose writer `context` is, begins: what it says of the answer is what the first said."""
        context.choice = self._begun
        self._begun += 1
        if self._start is None:
            self._start = replace(start, usage=None)
        return self._start

    def use(self, number: int, usage: Usage | None) -> None:
        """Answer `number` has used this much up to now."""
        self._usages[number] = usage or self._usages[number]

    def finish(self, finish: Finish, context: ReplyContext) -> list[Event]:
        """The choice of `context` ends; the last one tells what all have used."""
        self._finished += 1
        if context.choice == 0:
            self.stop = finish.stop
        usage = self._told() if self.over else None
        return [finish] if usage is None else [UsageUpdate(usage), finish]

    def _told(self) -> Usage | None:
        """A sum that lacks an answer would look like one that does not."""
        return None if None in self._usages else self.usage


class _Joining:
    """The last stage of each stream: what must come once for all choices comes once."""

    __slots__ = ("_choices", "_context", "_number")

    def __init__(self, choices: Choices, number: int, context: ReplyContext) -> None:
        self._choices = choices
        self._number = number
        self._context = context

    def pass_on(self, events: list[Event]) -> list[Event]:
        """The events of this choice, as its writer gets them."""
        if only_deltas(events):
            return events
        choices, out = self._choices, list[Event]()
        for event in events:
            match event:
                case Start():
                    choices.use(self._number, event.usage)
                    out.append(choices.begin(event, self._context))
                case UsageUpdate():
                    choices.use(self._number, event.usage)
                case Finish():
                    out += choices.finish(event, self._context)
                case End() if not choices.over:
                    pass
                case _:
                    out.append(event)
        return out
