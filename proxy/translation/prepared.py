"""A request ready to be sent, and the way back: what a backend answers becomes what the client reads."""

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import partial

from proxy.canonical.errors import Error, InexactNumber, Rejected
from proxy.canonical.jsontext import loads_exact, loads_leniently
from proxy.canonical.loss import Loss, LossReport, Rule
from proxy.canonical.reply import Reply, ReplyContext
from proxy.canonical.spelling import Spelling
from proxy.canonical.stop import Stop
from proxy.canonical.target import Target
from proxy.canonical.usage import Usage
from proxy.protocols.fields import as_object
from proxy.protocols.untold_usage import said_in
from proxy.translation.asked_usage import unasked
from proxy.translation.call_edits import edit_reply
from proxy.translation.codecs import BACKENDS, CLIENTS, BackendProtocol, ClientProtocol
from proxy.translation.continuation import Continuation
from proxy.translation.custom_tools import unwrap_reply
from proxy.translation.emulation import Emulation, Stage, staged
from proxy.translation.envelope import NO_SCOPE, Scope
from proxy.translation.error_fields import client_name, reword
from proxy.translation.pass_through import PassThrough
from proxy.translation.passed_reply import is_error, named, parse_reply
from proxy.translation.reading import Scrub, WayBack, undecodable
from proxy.translation.recall import Remembered
from proxy.translation.refused_fields import mended, refuses
from proxy.translation.reply_losses import note_reply
from proxy.translation.spent import Round
from proxy.translation.streams import Folding, Translation, stream_of
from proxy.translation.unbinding import unbound

_ASKING = "stream_options"  # the field that asks for usage


class Prepared:
    """A request ready to be sent, and the way back.

    `stream`: the client wants a stream; `upstream_stream`: the backend was asked for one. `prewarm`: the answer is
    `immediate()` and the backend need not be asked. `body` is what to send: where `take` and its like give None, the
    answer goes on when the backend is asked again. `betas`: features that a Messages backend must be told of.
    `choices`: how many answers to it the client wants; where there are several, `fan_out.py` gives each a way back of
    its own. The server sets `context.now`, the second of the first byte, and counts in `asked` the requests that the
    backend has not refused.
    """

    __slots__ = (
        "_continuation",
        "_folding",
        "_hides_usage",
        "_keep",
        "_last",
        "_request_losses",
        "_rounds",
        "_stream",
        "_way",
        "asked",
        "backend",
        "betas",
        "body",
        "choices",
        "client",
        "context",
        "prewarm",
        "same_protocol",
        "stop",
        "stream",
        "upstream_stream",
        "usage",
    )

    def __init__(
        self,
        client: ClientProtocol,
        target: Target,
        body: bytes,
        stream: bool,
        upstream_stream: bool,
        context: ReplyContext,
        losses: LossReport,
        spelling: Spelling | None = None,
        prewarm: bool = False,
        scope: Scope = NO_SCOPE,
        emulation: Emulation | None = None,
        betas: tuple[str, ...] = (),
        choices: int = 1,
        *,
        count_usage: bool = False,
        hides_usage: bool = False,
    ) -> None:
        self.client = client
        self.betas = betas
        self.backend: BackendProtocol = target.protocol
        self.same_protocol = spelling is None
        self.body = body
        self.stream = stream
        self.upstream_stream = upstream_stream
        self.context = context
        self.prewarm = prewarm
        self.choices = choices
        self.usage: Usage | None = None
        self.stop: Stop | None = None
        self._request_losses = losses
        # What a reply loses is told, never refused: the answer has been paid for.
        self._way = WayBack(
            client,
            target.protocol,
            context,
            LossReport(losses.backend),
            spelling or Spelling(),
            target.dialect,
            target.model,
            scope,
            emulation or Emulation(),
            weighs=count_usage,
        )
        self.asked = 0
        self._hides_usage = hides_usage
        self._rounds: list[Round] = []  # answers that came whole, or that have been folded and forgotten
        self._stream: Translation | PassThrough | None = None
        self._continuation = self._begin_continuation()
        self._folding: Folding | None = None
        self._keep: Callable[[Reply], None] | None = None
        self._last: Stage | None = None

    def _begin_continuation(self) -> Continuation | None:
        emulation = self._way.emulation
        must_call = emulation.directive is not None and not self.stream
        if not emulation.pauses and not must_call:
            return None
        return Continuation(self.body, pauses=emulation.pauses, must_call=must_call)

    def of_choice(self, context: ReplyContext, keep: Callable[[Reply], None], last: Stage) -> "Prepared":
        """The same for one of several answers to the request, as nobody has begun to read it.

        `keep` gets a whole reply in place of the client, for whom there are no bytes then; `last` is a stage behind all
        others of a stream.
        """
        one = copy(self)
        one.context = context
        spelling = replace(self._way.spelling, seen=set())
        one._way = replace(self._way, context=context, spelling=spelling, remembered=Remembered())
        one._continuation = one._begin_continuation()
        one._keep = keep
        one._last = last
        one._rounds = []
        return one

    @property
    def losses(self) -> list[Loss]:
        """All losses so far, of the request and of the reply."""
        return self._request_losses.losses + self._way.losses.losses

    def unknown_fields(self) -> tuple[int, int]:
        """How many members nobody here knows, of the request and of the reply."""
        request, reply = (
            sum(loss.rule is Rule.UNKNOWN_FIELD for loss in report.losses)
            for report in (self._request_losses, self._way.losses)
        )
        return request, reply

    @property
    def scope(self) -> Scope:
        """Whose envelopes the reply brings."""
        return self._way.scope

    @property
    def remembered(self) -> Remembered:
        """The reasoning of the reply, for a Chat client that may not send it back."""
        return self._way.remembered

    def rounds(self) -> list[Round]:
        """Each answer of the backend that has come, or that may still be coming: what `used` counts."""
        stream = self._folding or self._stream
        rounds = [*self._rounds, *(stream.rounds() if stream is not None else ())]
        unheard = self.asked - len(rounds) - (stream is not None and stream.refused)
        return rounds + [Round()] * unheard

    def mended(self, body: bytes, error: Error) -> tuple[str | None, bytes] | None:
        """(field, `body` without it) when the backend's error is about one field that a translation can do without;
        (None, `body` without its thinking) when it is about thinking that no longer fits."""
        if self.same_protocol:
            return self._unasked(body, error)
        said = partial(client_name, backend=self.backend, client=self.client, limit=self.context.limit_field)
        found = mended(self.backend, body, error, self._request_losses, said)
        if found is None and (rest := unbound(self.backend, body, error, self._request_losses)) is not None:
            return None, rest
        return found

    def _unasked(self, body: bytes, error: Error) -> tuple[str, bytes] | None:
        """What the client has sent, where only what the proxy added was refused."""
        if not self._hides_usage or not refuses(body, error, _ASKING):
            return None
        rest = unasked(body)
        return (_ASKING, rest) if rest != body else None

    def reword(self, error: Error) -> None:
        """Let what the backend says of fields of its own request be about those of the client's."""
        if not self.same_protocol:
            reword(error, self.backend, self.client, self.context.limit_field)

    def reply(self, raw: bytes) -> bytes:
        """The client's whole reply for the backend's. Raises `Rejected`."""
        if self.same_protocol:
            return self._passed_reply(raw)
        return self._write(self._shown(self._read(raw)))

    def take(self, raw: bytes) -> bytes | None:
        """Like `reply`, in as many answers as it takes. Raises `Rejected`."""
        if self.same_protocol:
            return self._passed_reply(raw)
        reply = self._joined(raw)
        return self._write(reply) if reply is not None else None

    def take_streamed(self, raw: bytes) -> bytes | None:
        """The client's whole stream for a backend that answers whole. Raises `Rejected`."""
        reply = self._joined(raw)
        if reply is None:
            return None
        self._note(reply)
        return stream_of(reply, self.client, self.context, self._last)

    def _joined(self, raw: bytes) -> Reply | None:
        reply = self._read(raw)
        going_on = self._continuation
        if going_on is None:
            return self._shown(reply)
        whole = going_on.whole(reply, as_object(loads_exact(raw), ()))
        if whole is None:
            self.body = going_on.next_body()
            return None
        return self._shown(whole)

    def immediate(self) -> bytes:
        """The answer to a request that only warms a cache, where the backend has no such thing (mapping.md 7.1)."""
        reply = Reply(id="", model=self.context.model, stop=Stop("length"), usage=Usage())
        return stream_of(reply, self.client, self.context, self._last) if self.stream else self._write(reply)

    def translation(self, scrub: Scrub = str) -> Translation | PassThrough:
        """The stream on its way to a client that streams. `scrub` takes secrets out of the backend's errors."""
        if self.same_protocol:
            self._stream = PassThrough(
                self.backend,
                self.context,
                self.context.model_override,
                scrub,
                self._way.dialect,
                weighs=self._way.weighs,
                hides_usage=self._hides_usage,
            )
        else:
            self._stream = Translation(self._way, scrub, self._continuation, self._last)
        return self._stream

    def folding(self) -> Folding:
        """The stream, or what follows on one that has paused, on its way to a client that waits for the whole."""
        if self._folding is None:
            self._folding = Folding(self._way, self._continuation)
        return self._folding

    def take_folded(self, folding: Folding) -> bytes | None:
        """The client's whole reply of a stream that has ended. Raises `Rejected`."""
        reply, going_on = folding.end(), self._continuation
        if reply is None:
            self.body = folding.goes_on() or self.body
            return None
        if going_on is not None and going_on.lacks_call(reply):
            self._rounds += folding.rounds()
            self._folding = None
            return None
        return self._write(reply)

    def _decoded(self, raw: bytes) -> Reply:
        way, read = self._way, BACKENDS[self.backend].read_reply
        try:
            return read(parse_reply(raw, loads_leniently), way.spelling, way.dialect, way.losses)
        except InexactNumber:
            exact = as_object(loads_exact(raw), ())
            return read(exact, way.spelling, way.dialect, way.losses, exact=True)
        except RecursionError:
            raise Rejected(undecodable("gave an answer that is nested too deeply")) from None

    def _read(self, raw: bytes) -> Reply:
        way = self._way
        try:
            reply = self._decoded(raw)
        except Rejected as rejected:
            self.asked -= 1
            self.reword(rejected.error)
            raise
        said = said_in(reply.parts) if _lacks_output(reply.usage) else 0
        self._rounds.append(Round(reply.usage, said, over=True))
        for edit in way.edits():
            edit_reply(reply, edit)
        if way.spelling.wraps_custom:
            unwrap_reply(reply, way.emulation.patterns, way.losses)
        if self.context.prewarmed:
            # Only its own protocol's word for an answer that was not wanted tells the client that all is well.
            reply.stop = Stop("end" if self.client == "responses" else "length")
        if not self.same_protocol:
            reply = staged(reply, way.emulation.stages(way.losses))
        return reply

    def _shown(self, reply: Reply) -> Reply:
        """The whole answer, of one reply or several, as the client sees it."""
        self._way.carrying().whole(reply)
        hosting = self._way.hosting()
        if hosting is not None:
            reply = staged(reply, [hosting])
        note_reply(reply, self.client, self._way.losses)
        return reply

    def _write(self, reply: Reply) -> bytes:
        self._note(reply)
        if self._keep is not None:
            self._keep(reply)
            return b""
        return CLIENTS[self.client].write_reply(reply, self.context)

    def _note(self, reply: Reply) -> None:
        self.usage, self.stop = reply.usage, reply.stop

    def _passed_reply(self, raw: bytes) -> bytes:
        try:
            wire = parse_reply(raw)
            if is_error(wire):
                # A status of 200 around an error: the reader knows its class and raises.
                self._decoded(raw)
        except Rejected:
            self.asked -= 1
            raise
        account = BACKENDS[self.backend].account()
        account.hear_whole(wire)
        self.usage, self.stop = usage, _ = account.usage, account.stop
        if _lacks_output(usage):
            account.weigh_whole(wire)
        self._rounds.append(Round(usage, account.said, over=True))
        return named(raw, wire, self.context.model_override)


def _lacks_output(usage: Usage | None) -> bool:
    return usage is None or not usage.output
