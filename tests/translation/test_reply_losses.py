"""What an answer loses on its way to the client is recorded, whole and streamed (mapping.md P6)."""

import pytest

from proxy.canonical.events import Cite, Close, Event, Open
from proxy.canonical.loss import LossReport
from proxy.canonical.parts import Call, Citation, Extra, HostedCall, Opaque, Reasoning, ReplyPart, Text
from proxy.canonical.reply import Reply
from proxy.translation.codecs import ClientProtocol
from proxy.translation.reply_losses import note_event, note_reply

SIGNED: Extra = {"type": "thinking", "thinking": "hm", "signature": "sig"}
DOCUMENT = Citation("document", title="a")


@pytest.mark.parametrize(
    ("part", "client", "rules"),
    [
        (Reasoning("hm", native=SIGNED), "completions", ["reasoning", "foreign-reasoning"]),
        (Reasoning("hm", native={**SIGNED, "signature": ""}), "chat", []),
        (Reasoning("hm"), "completions", ["reasoning"]),
        (HostedCall("web_search", {"type": "server_tool_use"}), "responses", ["hosted-tool"]),
        (Opaque("compaction", {"type": "compaction"}), "chat", ["compaction"]),
        (Opaque("of_the_future", {"type": "of_the_future"}), "chat", ["unknown-field"]),
        (Text("a", phase="commentary"), "messages", ["phase"]),
        (Text("a", [Citation("url", "https://a.example")]), "chat", []),
        (Text("a", [DOCUMENT]), "chat", ["doc-citation"]),
        (Text("a", [DOCUMENT]), "messages", ["file-citation"]),
        (Text("a", [DOCUMENT]), "responses", ["doc-citation"]),
        (Text("a", [Citation("file", "kb-1")]), "responses", []),
        (Call("c", "f"), "chat", []),
        (Call("c", "f", "{not"), "chat", []),
        (Call("c", "f"), "messages", []),
        (Call("c", "f", "null"), "messages", []),
        (Call("c", "f", '{"a":1}'), "messages", []),
        (Call("c", "f", "any text", kind="custom"), "messages", []),
        (Call("c", "f", "{not"), "messages", ["bad-args"]),
        (Call("c", "f", "[1]"), "messages", ["bad-args"]),
    ],
)
def test_a_part_of_a_whole_reply(part: ReplyPart, client: ClientProtocol, rules: list[str]) -> None:
    losses = LossReport()
    note_reply(Reply("r", "m", [part]), client, losses)
    assert [loss.rule for loss in losses.losses] == rules


@pytest.mark.parametrize(
    ("event", "rules"),
    [
        (Open(0, HostedCall("web_search", {})), ["hosted-tool"]),
        (Open(0, Reasoning("")), []),
        (Close(0, SIGNED), []),
        (Close(0, {"type": "reasoning", "encrypted_content": None}), []),
        (Cite(0, DOCUMENT), ["doc-citation"]),
    ],
)
def test_an_event_of_a_stream(event: Event, rules: list[str]) -> None:
    losses = LossReport()
    note_event(event, "chat", losses)
    assert [loss.rule for loss in losses.losses] == rules
