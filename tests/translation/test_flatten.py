"""Parts that OpenAI's protocols can't hold become text that the model still sees (mapping.md 4.3 to 4.6)."""

import pytest

from proxy.canonical.loss import LossReport
from proxy.canonical.parts import Document, Image, Opaque, Part, Result, SearchResult, Source, Text, Turn
from proxy.canonical.request import Request
from proxy.canonical.target import Target
from proxy.translation.flatten import flatten, move_assistant_images

PNG = Image(Source("base64", "AAAA", "image/png"))


@pytest.mark.parametrize(
    ("part", "written", "losses"),
    [
        (
            Result("a", [Text("no such file")], is_error=True),
            [Result("a", [Text("[tool error] no such file")], is_error=True)],
            ["is-error"],
        ),
        (
            Result("a", [Text("Error: no such file")], is_error=True),
            [Result("a", [Text("Error: no such file")], is_error=True)],
            ["is-error"],
        ),
        (
            Result("a", [PNG], is_error=True),
            [Result("a", [Text("[tool error]"), PNG], is_error=True)],
            ["is-error"],
        ),
        (
            Result("a", [Opaque("tool_reference", {"type": "tool_reference", "tool_name": "grep"})]),
            [Result("a", [Text("grep")])],
            ["tool-reference"],
        ),
        (
            SearchResult("https://a.example", "A page", [Text("one"), Text("two")]),
            [Text("Source: A page (https://a.example)\none\ntwo")],
            ["search-result"],
        ),
        (
            Document(Source("text", "words", "text/plain"), "notes.txt", "from Tuesday", cite=True),
            [Text("Document: notes.txt\nContext: from Tuesday\nwords")],
            ["cite-request", "text-doc"],
        ),
        (
            Document(None, content=[Text("one"), PNG]),
            [Text("Document:"), Text("one"), PNG],
            ["text-doc"],
        ),
        (
            Document(Source("base64", "AAAA", "application/pdf"), "a.pdf"),
            [Document(Source("base64", "AAAA", "application/pdf"), "a.pdf")],
            [],
        ),
    ],
)
def test_parts_of_a_user_turn(part: Part, written: list[Part], losses: list[str]) -> None:
    request = Request("messages", "m", turns=[Turn("user", [part])])
    report = LossReport()
    flatten(request, Target("responses", "m"), report)
    assert request.turns == [Turn("user", written)]
    assert [loss.rule for loss in report.losses] == losses


def test_an_image_leaves_the_assistant_turn_for_the_next_user_turn() -> None:
    request = Request(
        "chat",
        "m",
        turns=[
            Turn("assistant", [Text("Here:"), PNG]),
            Turn("user", [Result("a", [Text("1")]), Text("nice")]),
        ],
    )
    report = LossReport()
    move_assistant_images(request, report)
    label = Text("The assistant's earlier answer held this:")
    assert request.turns == [
        Turn("assistant", [Text("Here:")]),
        Turn("user", [Result("a", [Text("1")]), label, PNG, Text("nice")]),
    ]
    assert [loss.level for loss in report.losses] == ["approx"]
