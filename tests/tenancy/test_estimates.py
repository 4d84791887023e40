"""Tokens guessed before a request is sent."""

import base64
import struct

import pytest

from proxy.canonical.jsontext import dumps
from proxy.tenancy import estimates
from proxy.tenancy.estimates import Estimates, Expected, input_tokens

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 300, 250) + bytes(90_000)).decode()
IMAGE_TOKENS = 100  # 300 * 250 / 750
PDF = base64.b64encode(bytes(60_000)).decode()
PDF_TOKENS = 3000  # 60000 / 20
CAP = 1568

OF_IMAGE = [
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
    {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"},
]
OF_PDF = [
    {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PDF}},
    {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}},
    {"type": "input_file", "filename": "a.pdf", "file_data": PDF},
    {"type": "input_audio", "input_audio": {"data": PDF, "format": "wav"}},
]
BY_ADDRESS = [
    {"type": "image", "source": {"type": "url", "url": "https://a.example/b.png"}},
    {"type": "document", "source": {"type": "file", "file_id": "file_1"}},
    {"type": "image_url", "image_url": {"url": "https://a.example/b.png"}},
    {"type": "input_image", "image_url": "https://a.example/b.png"},
]


def request_with(part: dict[str, object]) -> dict[str, object]:
    """In a tool's result, where Messages has images too."""
    result = {"type": "tool_result", "content": [part]}
    return {"model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": "x" * 3600}, result]}]}


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        *((part, IMAGE_TOKENS) for part in OF_IMAGE),
        *((part, PDF_TOKENS) for part in OF_PDF),
        *((part, CAP) for part in BY_ADDRESS),
    ],
)
def test_media_count_as_what_they_show(part: dict[str, object], expected: int) -> None:
    wire = request_with(part)
    guessed = input_tokens(dumps(wire), wire)
    assert guessed - 1000 - expected in range(150)  # the JSON around it


def test_an_image_of_unknown_size_counts_as_the_largest() -> None:
    wire = request_with({"type": "input_image", "image_url": "data:image/png;base64,AAAA"})
    assert input_tokens(dumps(wire), wire) - 1000 - CAP in range(150)


def test_text_counts_by_its_bytes() -> None:
    assert input_tokens(b"x" * 3600, {}) == 1000
    assert input_tokens(b"x" * 3601, {}) == 1001


def test_text_that_only_speaks_of_images_counts_as_text() -> None:
    wire = {"input": "what is base64, or image_url?", "source": ["image"], "image_url": 5}
    assert input_tokens(dumps(wire), wire) == input_tokens(dumps(wire).replace(b"base64", b"base46"), wire)


def test_of_a_body_of_very_many_values_the_rest_is_text() -> None:
    image = {"type": "image_url", "image_url": "https://a.example/b.png"}
    wire = {"messages": [{"content": [image]}, *[{}] * estimates.MOST_WALKED]}
    assert input_tokens(b"image_url" * 4, wire) == 10


def test_deep_nesting_is_no_danger() -> None:
    wire: dict[str, object] = {"image_url": "https://a.example/b.png"}
    for _ in range(estimates.MOST_WALKED - 10):
        wire = {"a": wire}
    wire["type"] = "input_image"
    assert input_tokens(b"image_url", {"input": [{"content": [wire]}]}) >= CAP
    while wire:  # a deep value is taken apart by hand, since the interpreter would do it by recursion
        wire = wire.pop("a", {})


@pytest.mark.parametrize(("most", "output"), [(None, 1024), (300, 300), (32_000, 4096), (0, 0)])
def test_before_anything_was_learnt(most: int | None, output: int) -> None:
    assert Estimates().of("a", "m").expect(500, most) == Expected(500, output)


def test_output_is_held_to_what_came_lately() -> None:
    known = Estimates()
    known.of("a", "m").learn(1000, 1000, 200)
    assert known.of("a", "m").expect(1000, 32_000) == Expected(1000, 300)
    assert known.of("a", "m").expect(1000, 100) == Expected(1000, 100)
    assert known.of("b", "m").expect(1000, 32_000) == Expected(1000, 4096)
    assert known.of("a", "n").expect(1000, 32_000).tokens == 1000 + 4096


def test_averages_follow_what_is_used() -> None:
    known = Estimates()
    for _ in range(100):
        known.of("a", "m").learn(1000, 1500, 400)
    assert known.of("b", "m").expect(100, 0).input in range(149, 152)
    assert known.of("a", "m").expect(100, None).output == 600
    known.of("a", "m").learn(1000, 1500, 800)
    assert known.of("a", "m").expect(100, None).output == 660


def test_one_odd_answer_does_not_spoil_a_ratio() -> None:
    learnt = Estimates().of("a", "m")
    learnt.learn(10**9, 1, 1)
    learnt.learn(0, 5, 1)
    learnt.learn(5, 0, 1)
    assert learnt.expect(100, 0).input == 91


def test_a_prompt_that_was_not_all_in_the_request_says_nothing_of_others() -> None:
    known = Estimates()
    for _ in range(100):
        known.of("a", "m").learn(20, 100_000, 10)
    assert known.of("b", "m").expect(1000, 0).input == 1000


def test_what_is_learnt_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest are forgotten."""
    monkeypatch.setattr(estimates, "MOST_KEPT", 3)
    known = Estimates()
    for tenant in "abcd":
        known.of(tenant, "m").learn(10, 10, 10)
    outputs = {tenant: known.of(tenant, "m").expect(0, None).output for tenant in "dcba"}
    assert outputs == {"a": 1024, "b": 15, "c": 15, "d": 15}
