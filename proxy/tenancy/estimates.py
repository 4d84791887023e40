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
LEAST_RATIO, MOST_RATIO = 0.1, 10.0  # one odd answer must not spoil the average
MOST_KEPT = 10_000  # models; tenants and models

Key = TypeVar("Key")


class Expected(NamedTuple):
    """Tokens of a prompt and of its answer."""

    input: int
    output: int

    @property
    def tokens(self) -> int:
        """Both together, as limits count."""
        return self.input + self.output


class Estimates:
    """What answers taught: how far off a model's estimates are, and how long a tenant's answers are."""

    __slots__ = ("_outputs", "_ratios")

    def __init__(self) -> None:
        self._ratios: dict[str, float] = {}
        self._outputs: dict[tuple[str, str], float] = {}

    def reserve(self, tenant: str, model: str, input_estimate: int, most_output: int | None) -> Expected:
        """What to hold for a request. `most_output`: its `max_tokens`, however its protocol calls them."""
        expected = min(UNSAID_OUTPUT if most_output is None else most_output, MOST_OUTPUT)
        recent = self._outputs.get((tenant, model))
        if recent is not None:
            expected = min(expected, ceil(HEADROOM * recent))
        return Expected(ceil(input_estimate * self._ratios.get(model, 1.0)), expected)

    def learn(self, tenant: str, model: str, input_estimate: int, usage_prompt: int, usage_output: int) -> None:
        """From an answer whose backend told what it used. `input_estimate`: as `input_tokens` gave it."""
        if input_estimate > 0 and usage_prompt > 0:
            ratio = min(max(usage_prompt / input_estimate, LEAST_RATIO), MOST_RATIO)
            _average_in(self._ratios, model, ratio, self._ratios.get(model, 1.0))
        key = (tenant, model)
        _average_in(self._outputs, key, usage_output, self._outputs.get(key, usage_output))


def _average_in(averages: dict[Key, float], key: Key, newest: float, before: float) -> None:
    """The most recently used stay last, so that the first is the one to forget."""
    averages.pop(key, None)
    averages[key] = before + WEIGHT * (newest - before)
    if len(averages) > MOST_KEPT:
        del averages[next(iter(averages))]


def input_tokens(raw: bytes, wire: Wire) -> int:
    """Of a request's body, and the JSON in it. What an image or a document holds is not counted as text."""
    if not _may_hold_media(raw):
        return ceil(len(raw) / PROSE)
    media = _Media()
    media.walk(wire)
    return ceil(max(0, len(raw) - media.bytes) / PROSE + media.tokens)


def _may_hold_media(raw: bytes) -> bool:
    """By what a body with an image, a document or audio has in it, whatever its protocol. Most have none and aren't
    walked."""
    return b"base64" in raw or b'"source"' in raw or b"image_url" in raw or b"file_data" in raw or b"input_audio" in raw


class _Media:
    """`bytes` of the body that are no text, and the tokens that they stand for."""

    __slots__ = ("bytes", "tokens")

    def __init__(self) -> None:
        self.bytes = 0
        self.tokens = 0.0

    def walk(self, wire: Wire) -> None:
        """All of it: tool results have images too, at a depth that each protocol chooses."""
        rest: list[object] = [wire]
        while rest:
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
