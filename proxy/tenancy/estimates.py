"""How many tokens a request will use, guessed before it is sent (operations.md 9.2).

No tokenizer: bytes, corrected by what answers turned out to use. What is reserved here is only held until the answer's
own usage is known, so being near is enough and being fast is not optional.
"""

from math import ceil
from typing import NamedTuple, TypeVar

from proxy.protocols.fields import Wire
from proxy.translation import image_size
from proxy.translation.estimate import IMAGE_CAP, PDF_BYTES, PIXELS, PROSE

UNSAID_OUTPUT = 1024  # tokens, for a request that names no most
MOST_OUTPUT = 4096  # what is reserved at most: agents ask for 32000 and use 300
HEADROOM = 1.5  # over what this tenant's answers had lately
WEIGHT = 0.1  # of the newest answer in an average
LEAST_RATIO = 0.1  # one odd answer must not spoil the average
MOST_RATIO = PROSE  # a token a byte: no text has more
MOST_WALKED = 100_000  # values of a body with media in it; the last first
MOST_KEPT = 10_000  # models; tenants and models

# Where parts stand, and the kinds that are no images, documents or audio.
_PARTS = ("content", "output")
_PLAIN = frozenset(
    {
        None,
        "text",
        "input_text",
        "output_text",
        "summary_text",
        "reasoning_text",
        "refusal",
        "thinking",
        "redacted_thinking",
        "tool_use",
    }
)

Key = TypeVar("Key")
Value = TypeVar("Value")


class Expected(NamedTuple):
    """Tokens of a prompt and of its answer."""

    input: int
    output: int

    @property
    def tokens(self) -> int:
        """Both together, as limits count."""
        return self.input + self.output


class Learnt:
    """What the answers of one model to one tenant taught. `ratio`: the model's, which all tenants share."""

    __slots__ = ("_output", "_ratio")

    def __init__(self, ratio: "Ratio") -> None:
        self._ratio = ratio
        self._output: float | None = None

    def expect(self, input_estimate: int, most_output: int | None) -> Expected:
        """What to hold for a request. `most_output`: its `max_tokens`, however its protocol calls them."""
        output = UNSAID_OUTPUT if most_output is None else most_output
        if output > MOST_OUTPUT:
            output = MOST_OUTPUT
        if self._output is not None and output > (recent := ceil(HEADROOM * self._output)):
            output = recent
        return Expected(ceil(input_estimate * self._ratio.value), output)

    def learn(self, input_estimate: int, usage_prompt: int, usage_output: int) -> None:
        """From an answer whose backend told what it used. `input_estimate`: as `input_tokens` gave it."""
        before = self._output
        self._output = usage_output if before is None else before + WEIGHT * (usage_output - before)
        if input_estimate > 0 and usage_prompt > 0:
            self._ratio.learn(usage_prompt / input_estimate)


class Ratio:
    """How far off a model's estimates are: `value` times."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 1.0

    def learn(self, ratio: float) -> None:
        """From one answer. A prompt of more tokens than text can have was not all in the request, as where a vendor
        keeps a conversation or searches: that says nothing of other tenants' requests."""
        if ratio <= MOST_RATIO:
            self.value += WEIGHT * (max(ratio, LEAST_RATIO) - self.value)


class Estimates:
    """What was learnt, by model and by tenant and model. Clients choose the names, so the oldest are forgotten."""

    __slots__ = ("_learnt", "_ratios")

    def __init__(self) -> None:
        self._ratios: dict[str, Ratio] = {}
        self._learnt: dict[tuple[str, str], Learnt] = {}

    def of(self, tenant: str, model: str) -> Learnt:
        """What is known of this model's answers to this tenant."""
        key = tenant, model
        found = self._learnt.get(key)
        if found is None:
            ratio = _kept(self._ratios, model, self._ratios.get(model) or Ratio())
            found = _kept(self._learnt, key, Learnt(ratio))
        return found


def _kept(known: dict[Key, Value], key: Key, value: Value) -> Value:
    known[key] = value
    if len(known) > MOST_KEPT:
        del known[next(iter(known))]
    return value


def input_tokens(raw: bytes, wire: Wire) -> int:
    """Of a request's body, and the JSON in it. What an image or a document holds is not counted as text."""
    if not _may_hold_media(wire):
        return ceil(len(raw) / PROSE)
    media = _Media()
    media.walk(wire)
    return ceil(max(0, len(raw) - media.bytes) / PROSE + media.tokens)


def _may_hold_media(wire: Wire) -> bool:
    """Whether any part of the conversation is other than text, calls and thinking. Most have none, and aren't walked;
    to look for words in the bytes would take longer than to decode them does."""
    turns = wire.get("messages", wire.get("input"))
    return isinstance(turns, list) and any(map(_is_rich, turns))


def _is_rich(turn: object) -> bool:
    """Of a message, an item, or a tool's result."""
    if not isinstance(turn, dict):
        return False
    for name in _PARTS:
        parts = turn.get(name)
        if isinstance(parts, list):
            for part in parts:
                kind = part.get("type") if isinstance(part, dict) else None
                if kind not in _PLAIN and (kind != "tool_result" or _is_rich(part)):
                    return True
        elif isinstance(parts, dict):
            return True
    return False


class _Media:
    """`bytes` of the body that are no text, and the tokens that they stand for."""

    __slots__ = ("bytes", "tokens")

    def __init__(self) -> None:
        self.bytes = 0
        self.tokens = 0.0

    def walk(self, wire: Wire) -> None:
        """All of it: tool results have images too, at a depth that each protocol chooses. Beyond what anybody sends,
        it counts as text."""
        rest: list[object] = [wire]
        for _ in range(MOST_WALKED):
            if not rest:
                return
            value = rest.pop()
            if isinstance(value, list):
                rest.extend(value)
            elif isinstance(value, dict):
                self._look(value)
                rest.extend(value.values())

    def _look(self, part: Wire) -> None:
        source, url, file, audio = (part.get(name) for name in ("source", "image_url", "file_data", "input_audio"))
        if isinstance(source, dict):
            self._take_source(source, part.get("type"))
        if isinstance(url, dict):  # Chat's, where Responses has a text
            url = url.get("url")
        if isinstance(url, str):
            self._take_image_url(url)
        if isinstance(file, str):
            self._take_bytes(file)
        if isinstance(audio, dict) and isinstance(audio.get("data"), str):
            self._take_bytes(str(audio["data"]))

    def _take_source(self, source: Wire, kind: object) -> None:
        """Messages' images and documents."""
        encoded = source.get("data")
        if source.get("type") in ("url", "file"):
            self.tokens += IMAGE_CAP
        elif source.get("type") == "base64" and isinstance(encoded, str):
            if kind == "image":
                self._take_image(encoded)
            else:
                self._take_bytes(encoded)

    def _take_image_url(self, url: str) -> None:
        head, comma, encoded = url.partition(";base64,")
        if comma and head.startswith("data:"):
            self._take_image(encoded)
        else:
            self.tokens += IMAGE_CAP

    def _take_image(self, encoded: str) -> None:
        size = image_size.pixels(encoded)
        self.bytes += len(encoded)
        self.tokens += IMAGE_CAP if size is None else min(size[0] * size[1] / PIXELS, IMAGE_CAP)

    def _take_bytes(self, encoded: str) -> None:
        self.bytes += len(encoded)
        self.tokens += len(encoded) * 3 / 4 / PDF_BYTES
