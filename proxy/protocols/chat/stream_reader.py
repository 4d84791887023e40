"""Read the chunks of a Chat Completions stream (chat_completions.md 9, mapping.md 13.2).

Nothing but a finish reason or `[DONE]` ends an answer well, and both may be followed by usage: so parts are closed and
the stop is told only at the end. Servers deviate from OpenAI in every field (mapping.md 17.1); all of it is taken.
"""

from collections.abc import Callable

from proxy.canonical.errors import Error, ErrorClass, Reason
from proxy.canonical.events import Delta, End, Event, Fail, Finish, Start, UsageUpdate
from proxy.canonical.fold import broken_stream
from proxy.canonical.loss import LossReport, Path, Rule
from proxy.canonical.parts import Citation
from proxy.canonical.spelling import Spelling
from proxy.canonical.stop import Stop
from proxy.canonical.target import Dialect
from proxy.canonical.usage import Usage
from proxy.protocols.chat.call_fragments import CallFragments, Fragment, read_fragment
from proxy.protocols.chat.part_reader import thinking_text
from proxy.protocols.chat.prose import Prose
from proxy.protocols.chat.reply_citations import read_annotation, read_searches
from proxy.protocols.chat.tables import FAILURES, IN_CONTENT, IN_TAGS, STOPS
from proxy.protocols.chat.think_tags import ThinkTags
from proxy.protocols.fields import Wire, is_object
from proxy.protocols.openai_completions import read_usage
from proxy.protocols.openai_errors import read_error

_MILLISECONDS = 10**11  # a time beyond this is in milliseconds
_MESSAGE: Path = ("choices", 0, "message")  # where a loss is, in the terms of a whole reply


class StreamReader:
    """Chunks in, events out through `emit`. Calls stay open until the end, since their fragments may interleave."""

    __slots__ = (
        "_calls",
        "_dialect",
        "_emit",
        "_finish_reason",
        "_id",
        "_losses",
        "_over",
        "_prose",
        "_searches",
        "_sequence",
        "_started",
        "_tags",
        "_tier",
        "exact",
        "usage",
    )

    def __init__(self, emit: Callable[[Event], None], spelling: Spelling, dialect: Dialect, losses: LossReport) -> None:
        self._emit = emit
        self._dialect = dialect
        self._losses = losses
        self._prose = Prose(emit, strips=dialect.strip_leading_ws or dialect.think_tags)
        self._calls = CallFragments(emit, self._prose.begin_other, spelling, split_names=dialect.split_names)
        self._tags = ThinkTags() if dialect.think_tags else None
        self.exact = False  # whether long integers were decoded as they are
        self._id = ""
        self._started = False
        self._over = False
        self._searches: list[Citation] = []
        self._finish_reason: str | None = None
        self._sequence: str | None = None
        self._tier: str | None = None
        self.usage: Usage | None = None  # what has been told by now

    # --- the interface ---

    text_key = b'"content":'
    text_mark = b""

    def grows(self, k: int) -> bool:
        """Whether `k` is the text part that grows now."""
        prose = self._prose
        return not self._over and self._tags is None and prose.kind == "text" and k == prose.number

    def grown(self, texts: list[str]) -> None:
        """Take note of deltas that were told elsewhere."""
        self._prose.position += sum(map(len, texts))

    def feed(self, wire: object, event_name: str = "") -> None:
        """Take one chunk. What is no chunk is a failure. Raises nothing but `InexactNumber`: the same chunk is then to
        be fed again, decoded exactly.
        """
        if self._over:
            return
        if type(wire) is not dict or wire.get("error") or wire.get("object") == "error" or event_name == "error":
            self._fail(read_error(None, wire, ""))
            return
        choices = wire.get("choices")
        usage = wire.get("usage")
        told = read_usage(usage) if usage else None
        if not self._started and (choices or wire.get("id")):
            self._start(wire, told)
        if type(choices) is list:
            for choice in choices:
                if type(choice) is dict and not choice.get("index") and not self._over:
                    self._choice(choice)
        self.usage = told or self.usage
        if self._finish_reason is not None:
            self._tier = _text(wire.get("service_tier")) or self._tier
        if "x_groq" in wire:
            self._groq(wire["x_groq"])
        if "citations" in wire or "search_results" in wire:
            self._searches = read_searches(wire) or self._searches

    def done(self) -> None:
        """`data: [DONE]` came (mapping.md 13.6)."""
        if self._over:
            return
        if not self._started or (self._finish_reason is None and self._may_be_cut()):
            self._fail(broken_stream())
        else:
            self._complete()

    def end(self) -> None:
        """The input ended: well if there was a finish reason, else the answer is cut off."""
        if self._over:
            return
        if self._finish_reason is None:
            self._fail(broken_stream())
        else:
            self._complete()

    @property
    def stopped(self) -> bool:
        """Whether a finish reason came; usage and the end mark may still follow."""
        return self._finish_reason is not None

    def _may_be_cut(self) -> bool:
        """Whether an answer without a finish reason counts as cut. Half a call is no call to be made and no end either:
        toward every client it must look broken, or half a command is run and half a file written.
        """
        return self._dialect.finish_required or self._calls.cut

    # --- reading a chunk ---

    def _start(self, wire: Wire, usage: Usage | None) -> None:
        self._started = True
        self._id = _text(wire.get("id")) or ""
        self._emit(
            Start(
                self._id,
                _text(wire.get("model")) or "",
                _seconds(wire.get("created")),
                usage,
                _text(wire.get("service_tier")),
                _text(wire.get("system_fingerprint")),
            )
        )

    def _choice(self, choice: Wire) -> None:
        delta = choice.get("delta")
        if not delta:
            delta = choice.get("message")
        logprobs = choice.get("logprobs")
        if type(delta) is dict and delta:
            content = delta.get("content")
            prose = self._prose
            if len(delta) == 1 and prose.kind == "text" and type(content) is str and not logprobs and not self._tags:
                if content:  # by far the most frequent chunk
                    prose.position += len(content)
                    self._emit(Delta(prose.number, content))
            else:
                self._delta(delta, _entries(logprobs))
            if logprobs and is_object(logprobs) and logprobs.get("refusal"):
                self._losses.drop(Rule.LOGPROBS, ("choices", 0, "logprobs", "refusal"))
        reason = choice.get("finish_reason")
        if reason and type(reason) is str and not self._over:
            self._finish(reason, choice)
        if "usage" in choice:
            self.usage = read_usage(choice["usage"]) or self.usage  # Moonshot

    def _delta(self, delta: Wire, logprobs: list[object] | None) -> None:
        """A delta with anything in it; the order is that of a message, whatever that of the keys is."""
        calls, legacy = delta.get("tool_calls"), delta.get("function_call")
        # Read before anything is told: numbers in them may be in want of a better decoder.
        fragments = self._fragments(calls, legacy) if calls or legacy else ()
        self._reasoning(delta)
        content = delta.get("content")
        if content:
            self._content(content, logprobs)
        refusal = delta.get("refusal")
        if refusal and type(refusal) is str:
            self._prose.decline(refusal)
        annotations = delta.get("annotations")
        if type(annotations) is list:
            self._prose.cite([found for entry in annotations if (found := read_annotation(entry)) is not None])
        for fragment in fragments:
            self._calls.take(fragment, self._id)
        if delta.get("images"):
            self._losses.drop(Rule.IMAGE_GENERATION, (*_MESSAGE, "images"))
        if delta.get("audio"):
            self._losses.drop(Rule.AUDIO, (*_MESSAGE, "audio"))

    def _fragments(self, calls: object, legacy: object) -> list[Fragment]:
        """What there is of calls. Raises `InexactNumber`."""
        entries = calls if type(calls) is list else [calls]
        if legacy is not None:
            entries = [*entries, {"index": 0, "function": legacy} if is_object(legacy) else None]
        return [read_fragment(entry, self.exact) for entry in entries if type(entry) is dict]

    def _reasoning(self, delta: Wire) -> None:
        details = delta.get("reasoning_details")
        if type(details) is list:
            shown = [self._prose.think_in_detail(entry) for entry in details if is_object(entry)]
            if any(shown):
                return  # the plain text beside them is the same text
        plain = _text(delta.get("reasoning_content"))
        other = _text(delta.get("reasoning"))
        if plain:
            self._prose.think(plain, "reasoning_content")
        if other and other != plain:
            self._prose.think(other, "reasoning")

    def _content(self, content: object, logprobs: list[object] | None) -> None:
        if type(content) is str:
            if content:
                self._prose.position += len(content)
                self._say(content, logprobs)
            return
        for item in content if type(content) is list else ():
            if type(item) is str:
                self._content(item, None)
            elif is_object(item):
                self._content_part(item)

    def _say(self, text: str, logprobs: list[object] | None) -> None:
        """Text of the answer, which may have thinking between tags in front."""
        if self._tags is None:
            self._prose.say(text, logprobs)
            return
        self._say_pieces(self._tags.feed(text), logprobs)

    def _say_pieces(self, pieces: list[tuple[bool, str]], logprobs: list[object] | None) -> None:
        for thinking, piece in pieces:
            if thinking:
                self._prose.think(piece, IN_TAGS)
            else:
                self._prose.say(piece, logprobs)

    def _content_part(self, item: Wire) -> None:
        """A part of content that came as a list, as Mistral writes it."""
        match item.get("type"):
            case "text":
                self._content(_text(item.get("text")), None)
            case "thinking":
                thought = thinking_text(item.get("thinking"))
                if thought:
                    self._prose.think(thought, IN_CONTENT)
            case "refusal":
                declined = _text(item.get("refusal"))
                if declined:
                    self._prose.decline(declined)
            case "reference":
                self._losses.drop(Rule.CITATIONS, (*_MESSAGE, "content"))
            case _:
                self._losses.drop(Rule.UNKNOWN_FIELD, (*_MESSAGE, "content"))

    def _finish(self, reason: str, choice: Wire) -> None:
        """Remember the first finish reason; some are failures."""
        failure = FAILURES.get(reason.lower())
        if failure is not None:
            self._fail(
                Error(
                    failure,
                    f"The backend broke the answer off: {reason}.",
                    should_retry=True if reason.lower() == "malformed_function_call" else None,
                )
            )
            return
        if self._finish_reason is None:
            self._finish_reason = reason
        matched = choice.get("stop_reason") or choice.get("matched_stop")  # vLLM, SGLang; a number is a token's
        if type(matched) is str:
            self._sequence = matched

    def _groq(self, groq: object) -> None:
        """Groq's own corner: usage and errors."""
        if not is_object(groq) or self._over:
            return
        self.usage = read_usage(groq.get("usage")) or self.usage
        if groq.get("error"):
            self._fail(read_error(None, groq, ""))

    # --- the end ---

    def _fail(self, error: Error) -> None:
        self._over = True
        self._emit(Fail(error))
        self._emit(End())

    def _complete(self) -> None:
        """Close what is open, then tell usage and stop."""
        if self._tags is not None:
            self._say_pieces(self._tags.end(), None)
        if not self._calls.finish():
            nameless = "The backend called a tool without naming it."
            self._fail(Error(ErrorClass.BAD_GATEWAY, nameless, reason=Reason.UPSTREAM_ERROR))
            return
        if not self._calls.opened:
            self._prose.say_held()
        self._calls.close()
        self._prose.cite(self._searches)  # before its end: a Messages client is told of none later
        self._prose.close()
        self._prose.emit_hidden()
        if self.usage is not None:
            self._emit(UsageUpdate(self.usage))
        self._over = True
        self._emit(Finish(self._stop(), self._tier))
        self._emit(End())

    def _stop(self) -> Stop:
        """Why the answer ended; whether there are calls decides more than the word does (mapping.md 12.2)."""
        native = self._finish_reason
        word = (native or "stop").lower()
        kind, unknown = STOPS.get(word, "end"), word not in STOPS
        if kind in ("end", "tool"):
            if self._calls.opened:
                return Stop("tool", native=native, unknown=unknown)
            if self._prose.declined:
                return Stop("refusal", native=native, unknown=unknown)
            if self._sequence is not None:
                return Stop("stop_sequence", sequence=self._sequence, native=native, unknown=unknown)
            kind = "end"
        return Stop(kind, native=native, unknown=unknown)


def _text(value: object) -> str | None:
    return value if type(value) is str and value else None


def _entries(logprobs: object) -> list[object] | None:
    """The entries of `logprobs.content`."""
    content = logprobs.get("content") if is_object(logprobs) else None
    return content if type(content) is list and content else None


def _seconds(created: object) -> int | None:
    """Unix seconds; some servers give fractions or milliseconds."""
    if type(created) is float and created == created and abs(created) != float("inf"):
        created = int(created)
    if type(created) is not int or created <= 0:
        return None
    return created // 1000 if created > _MILLISECONDS else created
