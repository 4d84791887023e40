"""What a backend gets back of its reasoning after a client has kept it, changed it or lost some (mapping.md 8.6)."""

import hashlib
import json
from collections.abc import Callable, Iterator

import pytest

from proxy.canonical.target import Dialect, Target
from proxy.translation import pair
from proxy.translation.envelope import Scope
from proxy.translation.prepared import Prepared
from proxy.translation.profiles import profile_of
from proxy.upstream.dialects import PROFILES
from tests.harness.assemble import assemble
from tests.harness.grammar import check_stream
from tests.harness.wire import Json, Protocol, read_events
from tests.properties.test_carriers import first_request, with_answer
from tests.translation.test_hosted_calls import message_events, response_events

SCOPE = Scope("0123456789ab", (bytes(range(32)),))
BAD = "drg1.0123456789ab.AAAA"


def target(backend: Protocol, model: str = "m", dialect: str = "generic") -> Target:
    return Target(backend, model, PROFILES[backend].get(dialect, Dialect()), profile_of(model))


def prepared(client: Protocol, request: Json, backend: Target) -> Prepared:
    return pair.prepare(pair.peek(client, json.dumps(request).encode()), backend, pair.Options(scope=SCOPE))


def history(ready: Prepared) -> list[Json]:
    """What the backend gets behind the user's first words, without the results of tools."""
    body = json.loads(ready.body)
    entries = body["input" if ready.backend == "responses" else "messages"]
    return [
        entry for entry in entries[1:] if entry.get("type") != "function_call_output" and entry.get("role") != "tool"
    ]


def losses(ready: Prepared) -> list[str]:
    return [loss.rule for loss in ready.losses]


def after(
    client: Protocol,
    backend: Target,
    reply: Json,
    change: Callable[[Json], None] | None = None,
    *,
    stream: bool = False,
) -> Prepared:
    """The request of the turn after this answer, which the client keeps, changed or not."""
    request = first_request(client, stream=stream)
    following = with_answer(client, request, answered(prepared(client, request, backend), reply))
    if change is not None:
        change(following)
    return prepared(client, following, backend)


def answered(ready: Prepared, reply: Json) -> Json:
    """The answer as the client has it in the end."""
    if not ready.stream:
        return json.loads(ready.reply(json.dumps(reply).encode()))
    translation = ready.translation()
    written = b"".join([*map(translation.feed, streamed(ready.backend, reply)), translation.end()])
    client: Protocol = ready.client  # type: ignore[assignment]
    assert check_stream(client, written) == []
    return assemble(client, read_events(written.decode()).events)


def chat_events(whole: Json) -> Iterator[Json]:
    choice = whole["choices"][0]
    message = choice["message"]
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    content = message.get("content") or []
    said: list[Json] = [
        {"content": part} for part in ([content] if isinstance(content, str) else [[e] for e in content])
    ]
    thought = [{name: message[name]} for name in ("reasoning", "reasoning_content") if name in message]
    calls = [{"tool_calls": [{"index": index, **call}]} for index, call in enumerate(message["tool_calls"])]
    for delta in [*thought, *said, *calls]:
        yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]}


EVENTS: dict[str, Callable[[Json], Iterator[Json]]] = {
    "chat": chat_events,
    "messages": message_events,
    "responses": response_events,
}


def streamed(backend: str, whole: Json) -> Iterator[bytes]:
    for event in EVENTS[backend](whole):
        yield f"data: {json.dumps(event)}\n\n".encode()


# --- what backends answer ---


def claude(*blocks: Json) -> Json:
    stop = "tool_use" if any(block["type"] == "tool_use" for block in blocks) else "end_turn"
    usage = {"input_tokens": 1, "output_tokens": 1}
    return {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": list(blocks)} | {
        "stop_reason": stop,
        "usage": usage,
    }


def thinking(text: str, signature: str) -> Json:
    return {"type": "thinking", "thinking": text, "signature": signature}


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def tool_use(call_id: str) -> Json:
    return {"type": "tool_use", "id": call_id, "name": "tool_1", "input": {"a": "b"}}


# --- all or nothing (mapping.md 8.7) ---

TWO_THOUGHTS = claude(
    thinking("One.", "s1"),
    text("First."),
    tool_use("toolu_a"),
    thinking("Two.", "s2"),
    text("Then."),
    tool_use("toolu_b"),
)
WITHOUT = [{"role": "assistant", "content": [text("First."), tool_use("toolu_a"), text("Then."), tool_use("toolu_b")]}]


def kinds(ready: Prepared) -> list[list[str]]:
    return [[block["type"] for block in entry["content"]] for entry in history(ready) if entry["role"] == "assistant"]


@pytest.mark.parametrize("lost", [0, 1])
def test_items_that_become_one_message_keep_all_of_their_thinking_or_none(lost: int) -> None:
    def change(request: Json) -> None:
        thoughts = [item for item in request["input"] if item.get("type") == "reasoning"]
        thoughts[lost]["encrypted_content"] = BAD

    ready = after("responses", target("messages", "claude-opus-4-8"), TWO_THOUGHTS, change)
    assert [entry for entry in history(ready) if entry["role"] == "assistant"] == WITHOUT
    assert losses(ready) == ["carrier-bad"]


def test_messages_that_become_one_keep_all_of_their_thinking_or_none() -> None:
    def change(request: Json) -> None:
        details = [{"type": "reasoning.encrypted", "data": BAD, "format": "dragoman-v1"}]
        request["messages"].insert(1, {"role": "assistant", "content": "Before.", "reasoning_details": details})

    ready = after("chat", target("messages", "claude-opus-4-8"), TWO_THOUGHTS, change)
    assert kinds(ready) == [["text", "text", "tool_use", "text", "tool_use"]]
    assert losses(ready)[0] == "carrier-bad"


def test_a_budget_needs_the_thinking_of_the_whole_message() -> None:
    def change(request: Json) -> None:
        request["reasoning"] = {"effort": "high"}
        thoughts = [item for item in request["input"] if item.get("type") == "reasoning"]
        thoughts[0].pop("encrypted_content")

    ready = after("responses", target("messages", "claude-opus-4-5"), TWO_THOUGHTS, change)
    assert "thinking" not in json.loads(ready.body)
    assert [entry for entry in history(ready) if entry["role"] == "assistant"] == WITHOUT
    assert losses(ready) == ["foreign-reasoning", "thinking-missing"]


def test_a_budget_stays_where_the_whole_message_begins_with_thinking() -> None:
    def change(request: Json) -> None:
        request["reasoning"] = {"effort": "high"}

    ready = after("responses", target("messages", "claude-opus-4-5"), TWO_THOUGHTS, change)
    assert json.loads(ready.body)["thinking"]["type"] == "enabled"
    assert kinds(ready) == [["thinking", "text", "tool_use", "thinking", "text", "tool_use"]]


# --- what a Chat server said beside its text comes back where it stood (mapping.md 8.5, 8.8) ---


def chat_answer(message: Json) -> Json:
    choice = {"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", **message}}
    usage = {"prompt_tokens": 1, "completion_tokens": 1}
    return {"id": "c1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}


def tool_call(call_id: str) -> Json:
    return {"id": call_id, "type": "function", "function": {"name": "tool_1", "arguments": '{"a":"b"}'}}


def chunk(words: str) -> Json:
    return {"type": "thinking", "thinking": [text(words)]}


CONTENTS: list[Json] = [
    [chunk("Hm."), text("I'll look.")],
    [chunk("Hm.")],
    [text("Wait."), chunk("Hm."), text("I'll look.")],
]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("client", ["messages", "responses"])
def test_mistral_gets_its_list_back(client: Protocol, content: Json, stream: bool) -> None:
    reply = chat_answer({"content": content, "tool_calls": [tool_call("abcdefghi")]})
    ready = after(client, target("chat", dialect="mistral"), reply, stream=stream)
    assert history(ready) == [{"role": "assistant", "content": content, "tool_calls": [tool_call("abcdefghi")]}]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("words", ["I'll look.", ""])
@pytest.mark.parametrize("client", ["messages", "responses"])
def test_thinking_between_tags_goes_back_between_tags(client: Protocol, words: str, stream: bool) -> None:
    said = "<think>\nHm.\n</think>" + (f"\n\n{words}" if words else "")
    reply = chat_answer({"content": said, "tool_calls": [tool_call("call_a")]})
    backend = Target("chat", "m", Dialect(think_tags=True))
    ready = after(client, backend, reply, stream=stream)
    assert history(ready) == [{"role": "assistant", "content": said, "tool_calls": [tool_call("call_a")]}]


# --- text that a client does not see, or that it has changed (mapping.md 8.6) ---


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_text_that_the_client_does_not_want_to_see_comes_back(stream: bool) -> None:
    request = {**first_request("messages", stream=stream), "thinking": {"type": "adaptive", "display": "omitted"}}
    backend = target("chat", dialect="deepseek")
    reply = chat_answer({"content": None, "reasoning_content": "Hm. " * 30, "tool_calls": [tool_call("call_a")]})
    answer = answered(prepared("messages", request, backend), reply)
    assert [(block["type"], block.get("thinking")) for block in answer["content"]] == [
        ("thinking", ""),
        ("tool_use", None),
    ]
    (said,) = history(prepared("messages", with_answer("messages", request, answer), backend))
    assert said["reasoning_content"] == "Hm. " * 30


LONG = "Let me see what there is to be done about it, and who could do it, and when."


@pytest.mark.parametrize("edit", [lambda words: "Other.", lambda words: words + " And more.", lambda words: words[:-1]])
@pytest.mark.parametrize("words", ["Short.", LONG])
@pytest.mark.parametrize("client", ["chat", "responses"])
def test_thinking_whose_text_was_edited_does_not_go_to_claude(
    client: Protocol, words: str, edit: Callable[[str], str]
) -> None:
    ready = after(
        client, target("messages", "claude-opus-4-8"), claude(thinking(words, "s"), tool_use("toolu_a")), edited(edit)
    )
    assert kinds(ready) == [["tool_use"]]
    assert losses(ready) == ["foreign-reasoning"]


@pytest.mark.parametrize("words", ["Short.", LONG])
@pytest.mark.parametrize("client", ["chat", "messages"])
def test_an_item_whose_text_was_edited_goes_to_responses_without_it(client: Protocol, words: str) -> None:
    item = {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": words}]}
    output = [{**item, "encrypted_content": "e"}, function_call("call_a")]
    ready = after(client, target("responses"), response(*output), edited(lambda shown: shown + "!"))
    assert history(ready)[0] == {**item, "summary": [], "encrypted_content": "e"}


def edited(edit: Callable[[str], str]) -> Callable[[Json], None]:
    """The visible text of all reasoning in a request, changed."""

    def change(request: Json) -> None:
        for entry in request["input"] if "input" in request else request["messages"]:
            for detail in entry.get("reasoning_details") or ():
                if "text" in detail:
                    detail["text"] = edit(detail["text"])
            for part in entry.get("summary") or ():
                part["text"] = edit(part["text"])
            for block in entry["content"] if isinstance(entry.get("content"), list) else ():
                if block.get("type") == "thinking":
                    block["thinking"] = edit(block["thinking"])

    return change


def response(*output: Json) -> Json:
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    return {"id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "m"} | {
        "output": list(output),
        "usage": usage,
    }


def function_call(call_id: str) -> Json:
    return {
        "type": "function_call",
        "id": f"fc_{call_id}",
        "call_id": call_id,
        "name": "tool_1",
        "arguments": '{"a":"b"}',
    }


# --- order that the messages of a Chat client do not show (mapping.md 8.7) ---


def reasoning(name: str, *summary: str) -> Json:
    parts = [{"type": "summary_text", "text": words} for words in summary]
    return {"id": f"rs_{name}", "type": "reasoning", "summary": parts, "encrypted_content": f"enc_{name}"}


def message(words: str) -> Json:
    content = [{"type": "output_text", "text": words, "annotations": []}]
    return {"type": "message", "id": f"msg_{words}", "role": "assistant", "status": "completed", "content": content}


def order(ready: Prepared) -> list[str]:
    """What comes back, by name, in its order."""
    found: list[str] = []
    for entry in history(ready):
        if entry.get("role") == "user":
            continue
        for part in entry["content"] if ready.backend == "messages" else [entry]:
            names = [
                part.get(name)
                for name in ("encrypted_content", "signature", "data", "call_id", "id", "text", "content")
            ]
            found.append(next(name for name in names if isinstance(name, str)))
    return found


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("client", ["chat", "messages"])
def test_items_come_back_in_their_order(client: Protocol, stream: bool) -> None:
    output = [
        reasoning("a", "Hm."),
        message("First."),
        reasoning("b"),
        function_call("call_a"),
        reasoning("c", LONG),
        message("Then."),
        reasoning("d"),
        function_call("call_b"),
        function_call("call_c"),
    ]
    ready = after(client, target("responses"), response(*output), stream=stream)
    assert order(ready) == [
        *("enc_a", "First.", "enc_b", "call_a", "enc_c", "Then.", "enc_d", "call_b", "call_c"),
    ]
    assert [entry for entry in history(ready) if entry["type"] == "reasoning"] == [
        item for item in output if item["type"] == "reasoning"
    ]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("client", ["chat", "responses"])
def test_blocks_come_back_in_their_order(client: Protocol, stream: bool) -> None:
    blocks = [
        thinking(LONG, "s1"),
        {"type": "redacted_thinking", "data": "d1"},
        text("First."),
        tool_use("toolu_a"),
        thinking("Hm.", "s2"),
        tool_use("toolu_b"),
        thinking("", "s3"),
        text("Then."),
        tool_use("toolu_c"),
    ]
    ready = after(client, target("messages", "claude-opus-4-8"), claude(*blocks), stream=stream)
    assert [entry["content"] for entry in history(ready) if entry["role"] == "assistant"] == [blocks]


def test_what_a_client_cut_off_takes_no_reasoning_with_it() -> None:
    def change(request: Json) -> None:
        request["messages"][1]["content"] = "F"

    blocks = [thinking("One.", "s1"), text("First."), thinking("Two.", "s2"), tool_use("toolu_a")]
    ready = after("chat", target("messages", "claude-opus-4-8"), claude(*blocks), change)
    assert order(ready) == ["s1", "F", "s2", "toolu_a"]


# --- an item of reasoning goes with the item that it led to (mapping.md 8.6) ---


def without_call(call_id: str) -> Callable[[Json], None]:
    """The client lets go of a call and its result."""

    def change(request: Json) -> None:
        name = "input" if "input" in request else "messages"
        kept = []
        for entry in request[name]:
            if call_id in (entry.get("call_id"), entry.get("tool_call_id")):
                continue
            if entry.get("tool_calls"):
                entry["tool_calls"] = [call for call in entry["tool_calls"] if call["id"] != call_id]
            if isinstance(entry.get("content"), list):
                ids = ("id", "tool_use_id")
                entry["content"] = [b for b in entry["content"] if call_id not in (b.get(name) for name in ids)]
            kept.append(entry)
        request[name] = kept

    return change


def two_calls() -> Json:
    calls = [reasoning("b"), function_call("call_a"), reasoning("c", LONG), function_call("call_b")]
    return response(reasoning("a", "Hm."), message("First."), *calls)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("client", ["chat", "messages"])
@pytest.mark.parametrize(
    ("lost", "left"),
    [
        ("call_a", ["enc_a", "First.", "enc_c", "call_b"]),
        ("call_b", ["enc_a", "First.", "enc_b", "call_a"]),
    ],
)
def test_reasoning_goes_with_the_call_that_it_led_to(
    client: Protocol, lost: str, left: list[str], stream: bool
) -> None:
    ready = after(client, target("responses"), two_calls(), without_call(lost), stream=stream)
    assert order(ready) == left
    assert losses(ready) == ["foreign-reasoning"]


@pytest.mark.parametrize("client", ["chat", "messages"])
def test_reasoning_goes_with_the_words_that_it_led_to(client: Protocol) -> None:
    def change(request: Json) -> None:
        said = request["messages"][1]
        if client == "chat":
            said["content"] = None
        else:
            said["content"] = [block for block in said["content"] if block["type"] != "text"]

    ready = after(client, target("responses"), two_calls(), change)
    assert order(ready) == ["enc_b", "call_a", "enc_c", "call_b"]
    assert losses(ready) == ["foreign-reasoning"]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("client", ["chat", "messages"])
def test_reasoning_that_led_to_reasoning_comes_back(client: Protocol, stream: bool) -> None:
    output = [reasoning("a"), reasoning("b", "Hm."), function_call("call_a")]
    ready = after(client, target("responses"), response(*output), stream=stream)
    assert order(ready) == ["enc_a", "enc_b", "call_a"]


def test_words_behind_a_call_stay_behind_it() -> None:
    output = [reasoning("a"), function_call("call_a"), message("I asked.")]
    ready = after("chat", target("responses"), response(*output))
    assert order(ready) == ["enc_a", "call_a", "I asked."]


# --- Gemini's signatures of calls (mapping.md 8.8) ---


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("client", ["messages", "responses"])
def test_gemini_gets_the_signature_of_a_call_back_on_it(client: Protocol, stream: bool) -> None:
    signature = {"google": {"thought_signature": "c2ln" * 40}}
    calls = [{**tool_call("call_a"), "extra_content": signature}, tool_call("call_b")]
    ready = after(
        client, target("chat", dialect="gemini"), chat_answer({"content": "Hm.", "tool_calls": calls}), stream=stream
    )
    assert history(ready) == [{"role": "assistant", "content": "Hm.", "tool_calls": calls}]
    assert losses(ready) == []


def test_a_signature_may_come_behind_its_call() -> None:
    signature = {"google": {"thought_signature": "c2ln"}}
    reply = chat_answer({"content": None, "tool_calls": [tool_call("call_a")]})
    first, last = chat_events(reply)
    late = {"index": 0, "delta": {"tool_calls": [{"index": 0, "extra_content": signature}]}, "finish_reason": None}
    request = first_request("messages", stream=True)
    backend = target("chat", dialect="gemini")
    translation = prepared("messages", request, backend).translation()
    events = [first, {**first, "choices": [late]}, last]
    written = (
        b"".join([translation.feed(f"data: {json.dumps(event)}\n\n".encode()) for event in events]) + translation.end()
    )
    answer = assemble("messages", read_events(written.decode()).events)
    (said,) = history(prepared("messages", with_answer("messages", request, answer), backend))
    assert said["tool_calls"] == [{**tool_call("call_a"), "extra_content": signature}]


# --- within one protocol (mapping.md P1) ---

FOREIGN = "drg0.ffffffffffff.eJw.0123456789abcdef"
ENTRY = {"type": "reasoning.encrypted", "data": FOREIGN, "format": "dragoman-v1"}
THOUGHT = {"type": "redacted_thinking", "data": FOREIGN}


@pytest.mark.parametrize(
    ("protocol", "said", "left"),
    [
        ("messages", {"content": [THOUGHT]}, None),
        ("messages", {"content": [THOUGHT, text("So.")]}, {"content": [text("So.")]}),
        ("chat", {"content": None, "reasoning_details": [ENTRY]}, None),
        ("chat", {"content": "", "reasoning_details": [ENTRY], "annotations": []}, None),
        ("chat", {"content": "So.", "reasoning_details": [ENTRY]}, {"content": "So."}),
        (
            "chat",
            {"content": None, "reasoning_details": [ENTRY], "tool_calls": [tool_call("call_a")]},
            {"content": None, "tool_calls": [tool_call("call_a")]},
        ),
        ("chat", {"content": ""}, {"content": ""}),
    ],
)
def test_a_message_of_nothing_but_envelopes_goes(protocol: Protocol, said: Json, left: Json) -> None:
    words = {"role": "user", "content": "go"}
    request = {**first_request(protocol, stream=False), "messages": [words, {"role": "assistant", **said}, words]}
    messages = json.loads(prepared(protocol, request, target(protocol)).body)["messages"]
    assert messages == [words, *([{"role": "assistant", **left}] if left is not None else []), words]


def test_an_item_of_nothing_but_an_envelope_goes() -> None:
    item = {"type": "reasoning", "summary": [], "encrypted_content": FOREIGN}
    words = {"role": "user", "content": "go"}
    request = {**first_request("responses", stream=False), "input": [words, item, words]}
    assert json.loads(prepared("responses", request, target("responses")).body)["input"] == [words, words]


# --- what is too long for one envelope (mapping.md 8.6) ---

HUGE = "".join(hashlib.sha256(str(number).encode()).hexdigest() for number in range(9000))  # 562 KiB, hardly compressed


def envelopes(value: Json) -> list[str]:
    """All envelopes in what a client got."""
    if isinstance(value, str):
        return [value] if value.startswith("drg") else []
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [envelope for one in inner for envelope in envelopes(one)]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("client", ["chat", "responses"])
def test_what_is_too_long_for_one_envelope_comes_back_whole(client: Protocol, stream: bool) -> None:
    blocks = [{"type": "redacted_thinking", "data": HUGE}, text("So."), thinking("Hm.", "s"), tool_use("toolu_a")]
    backend = target("messages", "claude-opus-4-8")
    request = first_request(client, stream=stream)
    answer = answered(prepared(client, request, backend), claude(*blocks))
    sizes = [len(envelope) for envelope in envelopes(answer)]
    assert len(sizes) > 3
    assert max(sizes) <= 256 * 1024
    ready = prepared(client, with_answer(client, request, answer), backend)
    assert [entry["content"] for entry in history(ready) if entry["role"] == "assistant"] == [blocks]
    assert losses(ready) == []


@pytest.mark.parametrize("client", ["chat", "messages"])
@pytest.mark.parametrize("lost", [0, 1, -1])
def test_a_piece_that_is_missing_loses_the_whole_once(client: Protocol, lost: int) -> None:
    item = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": HUGE}
    backend = target("responses")
    request = first_request(client, stream=False)
    answer = answered(prepared(client, request, backend), response(item, function_call("call_a")))
    following = with_answer(client, request, answer)
    said = following["messages"][1]
    held = said["reasoning_details"] if client == "chat" else said["content"]
    pieces = [entry for entry in held if envelopes(entry)]
    held.remove(pieces[lost])
    ready = prepared(client, following, backend)
    assert order(ready) == ["call_a"]
    assert losses(ready) == ["carrier-bad"]


@pytest.mark.parametrize("cut", ["drg1.", "drg1.0123", "drg0.0123456789ab"])
def test_what_is_cut_before_it_says_whose_it_is_is_damaged(cut: str) -> None:
    def change(request: Json) -> None:
        for item in request["input"]:
            if item.get("type") == "reasoning":
                item["encrypted_content"] = cut

    ready = after("responses", target("messages"), claude(thinking("Hm.", "s"), text("So.")), change)
    assert losses(ready) == ["carrier-bad"]


@pytest.mark.parametrize("client", ["chat", "messages", "responses"])
@pytest.mark.parametrize("backend", ["messages", "responses"])
def test_a_stream_carries_what_a_whole_reply_does(client: Protocol, backend: Protocol) -> None:
    if client == backend:
        return
    replies = {"messages": TWO_THOUGHTS, "responses": two_calls()}
    carried = [
        envelopes(answered(prepared(client, first_request(client, stream=stream), target(backend)), replies[backend]))
        for stream in (False, True)
    ]
    assert carried[0] == carried[1]
    assert len(carried[0]) >= 2
