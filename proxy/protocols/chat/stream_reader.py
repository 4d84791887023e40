"""Read the chunks of a Chat Completions stream (chat_completions.md 9, mapping.md 13.2).

Nothing but a finish reason or `[DONE]` ends an answer well, and both may be followed by usage: so parts are closed and
the stop is told only at the end. Servers deviate from OpenAI in every field (mapping.md 17.1); all of it is taken.
"""

from collections.abc import Callable

from proxy.canonical.errors import Error, ErrorClass, Reason
from proxy.canonical.events import Cite, Close, Delta, End, Event, Fail, Finish, Open, Start, UsageUpdate
from proxy.canonical.fold import broken_stream
from proxy.canonical.loss import LossReport, Path, Rule
from proxy.canonical.parts import Citation, Reasoning, Refusal, Text
from proxy.canonical.spelling import Spelling
from proxy.canonical.stop import Stop
from proxy.canonical.target import Dialect
from proxy.canonical.usage import Usage
from proxy.protocols.chat.call_fragments import CallFragments
from proxy.protocols.chat.part_reader import thinking_text
from proxy.protocols.chat.reply_citations import read_annotation, read_searches
from proxy.protocols.chat.reply_reasoning import ReasoningDetails
from proxy.protocols.chat.tables import FAILURES, STOPS
from proxy.protocols.chat.think_tags import ThinkTags
from proxy.protocols.fields import Wire, is_object
from proxy.protocols.openai_completions import read_usage
from proxy.protocols.openai_errors import read_error

_MILLISECONDS = 10**11  # a time beyond this is in milliseconds
_MESSAGE: Path = ("choices", 0, "message")  # where a loss is, in the terms of a whole reply


class StreamReader:
    """Chunks in, events out through `emit`. One prose part (text, reasoning, refusal) is open at a time; calls stay
    open until the end, since their fragments may interleave.
    """

    __slots__ = (
        "_calls",
        "_cited",
        "_details",
        "_dialect",
        "_emit",
        "_finish_reason",
        "_held",
        "_held_logprobs",
        "_id",
        "_kind",
        "_losses",
        "_next",
        "_open",
        "_over",
        "_read",
        "_reasoned",
        "_refused",
        "_searches",
        "_sequence",
        "_spoke",
        "_started",
        "_tags",
        "_texts",
        "_tier",
        "_usage",
    )

    def __init__(self, emit: Callable[[Event], None], spelling: Spelling, dialect: Dialect, losses: LossReport) -> None:
        self._emit = emit
        self._dialect = dialect
        self._losses = losses
        self._calls = CallFragments(emit, self._begin, spelling, split_names=dialect.split_names)
        self._details = ReasoningDetails()
        self._tags = ThinkTags() if dialect.think_tags else None
        self._id = ""
        self._started = False
        self._over = False
        self._next = 0
        self._kind = ""  # of the open prose part: "text", "reasoning", "refusal" or "" for none
        self._open = -1  # its number
        self._held = ""  # whitespace that may turn out to be nothing
        self._held_logprobs: list[object] = []
        self._reasoned = False
        self._refused = False
        self._spoke = False
        self._read = 0  # characters of `content` so far, which citations count by
        self._texts: list[tuple[int, int]] = []  # number and first character of each text part
        self._cited: list[Citation] = []
        self._searches: list[Citation] = []
        self._finish_reason: str | None = None
        self._sequence: str | None = None
        self._tier: str | None = None
        self._usage: Usage | None = None

    # --- the interface ---

    def feed(self, wire: object, event_name: str = "") -> None:
        """Take one chunk. Nothing that a backend sends raises; what is no chunk is a failure."""
        if self._over:
            return
        if not is_object(wire):
            self._fail(read_error(None, wire, ""))
            return
        if wire.get("error") or event_name == "error" or wire.get("object") == "error":
            self._fail(read_error(None, wire, ""))
            return
        choices = wire.get("choices")
        if not self._started and (choices or wire.get("id")):
            self._start(wire)
        if "usage" in wire:
            self._usage = read_usage(wire["usage"]) or self._usage
        if type(choices) is list:
            for choice in choices:
                if type(choice) is dict and not choice.get("index"):
                    self._choice(choice)
        if len(wire) > _PLAIN_KEYS:
            self._extras(wire)

    def done(self) -> None:
        """`data: [DONE]` came (mapping.md 13.6)."""
        if self._over:
            return
        if not self._started or (self._finish_reason is None and self._dialect.finish_required):
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

    # --- reading a chunk ---

    def _start(self, wire: Wire) -> None:
        self._started = True
        self._id = _text(wire.get("id")) or ""
        self._emit(
            Start(
                self._id,
                _text(wire.get("model")) or "",
                _seconds(wire.get("created")),
                read_usage(wire.get("usage")),
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
            if len(delta) == 1 and self._kind == "text" and type(content) is str and not logprobs and not self._tags:
                if content:  # by far the most frequent chunk
                    self._read += len(content)
                    self._emit(Delta(self._open, content))
            else:
                self._delta(delta, _entries(logprobs))
        reason = choice.get("finish_reason")
        if reason and type(reason) is str and not self._over:
            self._finish(reason, choice)
        if "usage" in choice:
            self._usage = read_usage(choice["usage"]) or self._usage

    def _delta(self, delta: Wire, logprobs: list[object] | None) -> None:
        """A delta with anything in it; the order is that of a message, whatever that of the keys is."""
        self._reasoning(delta)
        content = delta.get("content")
        if content:
            self._content(content, logprobs)
        refusal = delta.get("refusal")
        if refusal and type(refusal) is str:
            self._refused = True
            self._prose("refusal", refusal)
        annotations = delta.get("annotations")
        if type(annotations) is list:
            self._cited += [found for entry in annotations if (found := read_annotation(entry)) is not None]
            self._cite()
        calls = delta.get("tool_calls")
        if type(calls) is list:
            for entry in calls:
                self._calls.take(entry, self._id)
        elif is_object(calls):
            self._calls.take(calls, self._id)
        legacy = delta.get("function_call")
        if is_object(legacy):
            self._calls.take({"index": 0, "function": legacy}, self._id)
        if delta.get("images"):
            self._losses.approx(Rule.IMAGE_GENERATION, (*_MESSAGE, "images"))

    def _reasoning(self, delta: Wire) -> None:
        details = delta.get("reasoning_details")
        if type(details) is list and self._read_details(details):
            return  # the plain text beside them is the same text
        plain = _text(delta.get("reasoning_content"))
        other = _text(delta.get("reasoning"))
        if plain:
            self._prose("reasoning", plain, "reasoning_content")
        if other and other != plain:
            self._prose("reasoning", other, "reasoning")

    def _read_details(self, entries: list[object]) -> bool:
        """Take the entries; whether any of them had text."""
        shown = False
        for entry in entries:
            if not is_object(entry):
                continue
            text, another = self._details.take(entry, reasoning_open=self._kind == "reasoning")
            if text:
                if another:
                    self._close_prose()
                    self._details.begin(entry)
                self._prose("reasoning", text, "reasoning_details", full=entry.get("type") != "reasoning.summary")
                shown = True
        return shown

    def _content(self, content: object, logprobs: list[object] | None) -> None:
        if type(content) is str:
            self._read += len(content)
            self._tagged(content, logprobs)
            return
        if type(content) is not list:
            return
        for item in content:
            if type(item) is str:
                self._content(item, None)
            elif is_object(item):
                self._content_part(item)

    def _content_part(self, item: Wire) -> None:
        """A part of content that came as a list, as Mistral writes it."""
        match item.get("type"):
            case "text" if type(item.get("text")) is str:
                self._content(item["text"], None)
            case "thinking":
                thought = thinking_text(item.get("thinking"))
                if thought:
                    self._prose("reasoning", thought, "content")
            case "refusal" if type(item.get("refusal")) is str:
                self._refused = True
                self._prose("refusal", str(item["refusal"]))
            case "reference":
                self._losses.approx(Rule.CITATIONS, (*_MESSAGE, "content"))
            case _:
                self._losses.approx(Rule.UNKNOWN_FIELD, (*_MESSAGE, "content"))

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

    def _extras(self, wire: Wire) -> None:
        """What only some servers send, beside the choices."""
        self._tier = _text(wire.get("service_tier")) or self._tier
        searches = read_searches(wire)
        if searches:
            self._searches = searches
        groq = wire.get("x_groq")
        if is_object(groq):
            self._usage = read_usage(groq.get("usage")) or self._usage
            if groq.get("error") and not self._over:
                self._fail(read_error(None, groq, ""))

    # --- parts ---

    def _begin(self) -> int:
        """Make room for a part that is not prose, and number it."""
        self._close_prose()
        self._held = ""  # whitespace before a call is nothing (mapping.md 13.2)
        self._held_logprobs = []
        number = self._next
        self._next += 1
        return number

    def _tagged(self, text: str, logprobs: list[object] | None) -> None:
        if self._tags is None:
            self._say(text, logprobs)
            return
        for thinking, piece in self._tags.feed(text):
            if thinking:
                self._prose("reasoning", piece, "content")
            else:
                self._say(piece, logprobs)

    def _say(self, text: str, logprobs: list[object] | None) -> None:
        """Text of the answer. Whitespace at the start of a part waits until there is something behind it."""
        if self._kind == "text":
            self._emit(Delta(self._open, text, logprobs))
            return
        self._held += text
        self._held_logprobs += logprobs or ()
        if not self._held.isspace():
            self._open_text()

    def _open_text(self) -> None:
        """Begin a text part with what was held."""
        text, logprobs = self._held, self._held_logprobs
        self._held, self._held_logprobs = "", []
        strips = self._dialect.strip_leading_ws or self._tags is not None
        if strips and self._reasoned and not self._spoke:
            text = text.lstrip()
        if not text:
            return
        self._spoke = True
        self._prose("text", "")
        self._texts.append((self._open, self._read - len(text)))
        self._emit(Delta(self._open, text, logprobs or None))
        self._cite()

    def _prose(self, kind: str, text: str, field: str | None = None, *, full: bool = True) -> None:
        """Text of one kind: into the open part if it is of this kind, else into a new one."""
        if self._kind != kind:
            self._close_prose()
            self._kind = kind
            self._open = self._next
            self._next += 1
            match kind:
                case "reasoning":
                    self._reasoned = True
                    self._emit(Open(self._open, Reasoning("", full, field=field)))
                case "refusal":
                    self._emit(Open(self._open, Refusal("")))
                case _:
                    self._emit(Open(self._open, Text("")))
        if text:
            self._emit(Delta(self._open, text))

    def _close_prose(self) -> None:
        if self._kind:
            native = self._details.complete() if self._kind == "reasoning" else None
            self._emit(Close(self._open, native))
            self._kind = ""

    def _cite(self) -> None:
        """Place the citations that came, once there is a text for them."""
        if not self._texts:
            return
        for citation in self._cited:
            number, first = self._texts[-1]
            if citation.start is not None:
                place = citation.start
                number, first = next((found for found in reversed(self._texts) if found[1] <= place), self._texts[0])
                citation.start = max(0, place - first)
                citation.end = max(0, citation.end - first) if citation.end is not None else None
            self._emit(Cite(number, citation))
        self._cited.clear()

    # --- the end ---

    def _fail(self, error: Error) -> None:
        self._over = True
        self._emit(Fail(error))
        self._emit(End())

    def _complete(self) -> None:
        """Close what is open, then tell usage and stop."""
        for thinking, piece in self._tags.end() if self._tags is not None else ():
            if thinking:
                self._prose("reasoning", piece, "content")
            else:
                self._say(piece, None)
        if not self._calls.finish():
            nameless = "The backend called a tool without naming it."
            self._fail(Error(ErrorClass.BAD_GATEWAY, nameless, reason=Reason.UPSTREAM_ERROR))
            return
        if self._held and not self._calls.opened:
            self._open_text()
        self._calls.close()
        self._close_prose()
        for native in self._details.rest():
            hidden = Reasoning("", native=native, redacted=True, field="reasoning_details")
            self._emit(Open(self._next, hidden))
            self._emit(Close(self._next, native))
            self._next += 1
        self._cited += self._searches
        self._cite()
        if self._usage is not None:
            self._emit(UsageUpdate(self._usage))
        self._over = True
        self._emit(Finish(self._stop(), self._tier))
        self._emit(End())

    def _stop(self) -> Stop:
        """Why the answer ended; whether there are calls decides more than the word does (mapping.md 12.2)."""
        native = self._finish_reason
        kind = STOPS.get((native or "stop").lower(), "end")
        if kind in ("end", "tool"):
            if self._calls.opened:
                return Stop("tool", native=native)
            if self._refused:
                return Stop("refusal", native=native)
            if self._sequence is not None:
                return Stop("stop_sequence", sequence=self._sequence, native=native)
            kind = "end"
        return Stop(kind, native=native)


_PLAIN_KEYS = 5  # id, object, created, model, choices


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
