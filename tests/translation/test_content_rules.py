"""Images, files, speech and citations, from one protocol's bytes to another's (mapping.md 4.2 to 4.7)."""

import json
import re
from base64 import b64encode
from typing import Any, ClassVar

import pytest

from proxy.canonical.errors import Rejected
from proxy.canonical.target import Target
from proxy.translation import pair
from proxy.translation.envelope import Scope
from proxy.translation.prepared import Prepared
from proxy.translation.profiles import profile_of
from proxy.upstream.dialects import PROFILES, dialect_for

Wire = dict[str, object]
PNG = "iVBORw0KGgo="
PDF = "JVBERi0xLjQ="
HI: Wire = {"role": "user", "content": "hi"}


def prepared(client: str, content: list[Wire], backend: str, dialect: str) -> Prepared:
    """A request whose user says `content`."""
    said = [{"role": "user", "content": content}]
    return asked(client, {"input" if client == "responses" else "messages": said}, backend, dialect)


def asked(client: str, body: Wire, backend: str, dialect: str) -> Prepared:
    body = {"model": "m", "max_tokens": 99, **body} if client == "messages" else {"model": "m", **body}
    target = Target(backend, "m", PROFILES[backend][dialect], profile_of("m"))  # type: ignore[arg-type,index]
    return pair.prepare(pair.peek(client, json.dumps(body).encode()), target, pair.Options())  # type: ignore[arg-type]


def content_of(request: Prepared) -> Any:
    """What the backend is told that the user said last."""
    body = json.loads(request.body)
    return body["input" if "input" in body else "messages"][-1]["content"]


def told(request: Prepared) -> list[str]:
    return [f"{loss.rule};{loss.level}" for loss in request.losses]


def refusal(client: str, content: list[Wire], backend: str, dialect: str) -> str:
    with pytest.raises(Rejected) as refused:
        prepared(client, content, backend, dialect)
    return f"{refused.value.losses[-1].rule};{refused.value.losses[-1].level}"


def file_of(name: str | None, media_type: str, text: str = "a,b") -> Wire:
    """A Responses part."""
    part: Wire = {"type": "input_file", "file_data": f"data:{media_type};base64,{b64encode(text.encode()).decode()}"}
    return part if name is None else {**part, "filename": name}


IMAGE_AT: Wire = {"type": "image_url", "image_url": {"url": "https://a/b.png"}}
DOCUMENT: Wire = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PDF}}


@pytest.mark.parametrize(
    ("backend", "dialect"),
    [
        ("messages", "bedrock"),
        ("messages", "vertex"),
        ("messages", "ollama"),
        ("messages", "llamacpp"),
        ("responses", "ollama"),
        ("responses", "llamacpp"),
    ],
)
def test_an_image_by_url_is_refused_where_the_server_fetches_none(backend: str, dialect: str) -> None:
    assert refusal("chat", [IMAGE_AT], backend, dialect) == "image;refuse"
    sent: Wire = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    assert told(prepared("chat", [sent], backend, dialect)) == []


@pytest.mark.parametrize(
    "dialect",
    ["azure", "vllm", "sglang", "ollama", "llamacpp", "deepseek", "groq", "cerebras", "together", "fireworks", "xai"],
)
def test_a_chat_server_without_files_is_sent_none(dialect: str) -> None:
    assert refusal("messages", [DOCUMENT], "chat", dialect) == "doc-type;refuse"


@pytest.mark.parametrize("backend", ["responses", "messages"])
def test_llama_cpp_takes_no_files_but_their_text(backend: str) -> None:
    client = "messages" if backend == "responses" else "responses"
    file: Wire = {"type": "input_file", "file_data": PDF, "filename": "a.pdf"}
    assert refusal(client, [DOCUMENT if client == "messages" else file], backend, "llamacpp") == "doc-type;refuse"
    text: Wire = {
        "type": "document",
        "title": "a.csv",
        "source": {"type": "text", "media_type": "text/plain", "data": "a,b"},
    }
    request = prepared(client, [text if client == "messages" else file_of("a.csv", "text/csv")], backend, "llamacpp")
    assert "Document: a.csv\\na,b" in json.dumps(content_of(request))
    assert told(request) == ["text-doc;approx"]


@pytest.mark.parametrize("dialect", ["openai", "generic", "openrouter", "gemini"])
def test_others_are(dialect: str) -> None:
    assert content_of(prepared("messages", [DOCUMENT], "chat", dialect)) == [
        {"type": "file", "file": {"filename": "document.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}}
    ]


@pytest.mark.parametrize("dialect", ["vllm", "openrouter", "mistral", "gemini"])
def test_images_stay_in_the_result_of_a_tool_where_they_may(dialect: str) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    result: Wire = {"type": "tool_result", "tool_use_id": "t", "content": [image]}
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    turns = [HI, {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    request = asked("messages", {"messages": turns}, "chat", dialect)
    last = json.loads(request.body)["messages"][-1]
    assert (last["role"], last["content"][0]["type"], told(request)) == ("tool", "image_url", [])


def test_a_file_id_passes_between_the_protocols_of_its_vendor() -> None:
    file: Wire = {"type": "input_file", "file_id": "file-1", "detail": "high"}
    request = prepared("responses", [file], "chat", "openai")
    assert content_of(request) == [{"type": "file", "file": {"file_id": "file-1"}}]
    assert told(request) == ["detail;drop"]
    request = prepared("chat", [{"type": "file", "file": {"file_id": "file-1"}}], "responses", "openai")
    assert content_of(request) == [{"type": "input_file", "file_id": "file-1"}]
    assert told(request) == []


@pytest.mark.parametrize(
    ("client", "backend", "dialect"),
    [
        ("responses", "chat", "openrouter"),
        ("responses", "chat", "generic"),
        ("chat", "responses", "vllm"),
        ("responses", "messages", "anthropic"),
        ("messages", "chat", "openai"),
        ("messages", "responses", "openai"),
    ],
)
def test_a_file_id_means_nothing_to_anyone_else(client: str, backend: str, dialect: str) -> None:
    files: dict[str, Wire] = {
        "chat": {"type": "file", "file": {"file_id": "file-1"}},
        "responses": {"type": "input_file", "file_id": "file-1"},
        "messages": {"type": "document", "source": {"type": "file", "file_id": "file_1"}},
    }
    assert refusal(client, [files[client]], backend, dialect) == "file-id;refuse"


@pytest.mark.parametrize(
    ("name", "media_type"),
    [
        ("a.txt", "text/plain"),
        ("a.csv", "application/octet-stream"),
        ("README.md", ""),
        ("main.py", "application/octet-stream"),
        ("a.json", "application/json"),
    ],
)
def test_a_file_of_text_is_text(name: str, media_type: str) -> None:
    request = prepared("responses", [{**file_of(name, media_type), "detail": "auto"}], "chat", "openai")
    assert content_of(request) == f"Document: {name}\na,b"
    assert told(request) == ["text-doc;approx"]
    request = prepared("responses", [file_of(name, media_type)], "messages", "anthropic")
    source = {"type": "text", "media_type": "text/plain", "data": "a,b"}
    assert content_of(request) == [{"type": "document", "source": source, "title": name}]
    assert told(request) == []


def test_a_file_that_nobody_can_read_is_refused() -> None:
    for name in ("a.docx", "a.bin", None):
        assert refusal("responses", [file_of(name, "application/octet-stream")], "messages", "anthropic") == (
            "doc-type;refuse"
        )


@pytest.mark.parametrize(
    ("media_type", "name"),
    [
        ("application/pdf", "document.pdf"),
        ("text/csv", "document.csv"),
        ("text/plain", "document.txt"),
        ("application/msword", "document.doc"),
        ("application/x-odd", "document"),
    ],
)
def test_a_file_without_a_name_gets_one_that_fits(media_type: str, name: str) -> None:
    file: Wire = {"type": "file", "file": {"file_data": f"data:{media_type};base64,AAAA"}}
    (written,) = content_of(prepared("chat", [file], "responses", "openai"))
    assert written["filename"] == name


SPOKEN: Wire = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}


def test_what_the_user_says_aloud_reaches_a_responses_server_that_hears_it() -> None:
    hears = dialect_for("responses", "http://127.0.0.1:8000", "vllm", {"audio_parts": True})
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": [SPOKEN]}]}).encode()
    request = pair.prepare(pair.peek("chat", body), Target("responses", "m", hears), pair.Options())
    assert content_of(request) == [SPOKEN]
    assert told(request) == []
    for dialect in ("vllm", "openai", "generic"):
        assert refusal("chat", [SPOKEN], "responses", dialect) == "audio-in;refuse"


@pytest.mark.parametrize("backend", ["responses", "messages"])
def test_an_earlier_spoken_answer_is_its_words(backend: str) -> None:
    spoke = {"role": "assistant", "content": None, "audio": {"id": "a1", "transcript": "spoken words"}}
    request = asked("chat", {"messages": [HI, spoke, HI]}, backend, "generic")
    body = json.loads(request.body)
    said = body["input" if backend == "responses" else "messages"][1]["content"]
    assert said in ("spoken words", [{"type": "text", "text": "spoken words"}])
    assert told(request) == ["audio;approx"]


def test_what_was_said_between_results_is_one_message_behind_them() -> None:
    calls = [{"type": "function_call", "call_id": one, "name": "f", "arguments": "{}"} for one in ("a", "b")]
    first, second = ({"type": "function_call_output", "call_id": one, "output": one} for one in ("a", "b"))
    words = [{"role": "user", "content": one} for one in ("x", "y")]
    items = [HI, *calls, first, words[0], second, words[1]]
    request = asked("responses", {"input": items}, "chat", "generic")
    assert [message["role"] for message in json.loads(request.body)["messages"]] == [
        *("user", "assistant", "tool", "tool", "user")
    ]
    assert [part["text"] for part in content_of(request)] == ["x", "y"]
    assert told(request) == ["result-order;approx"]


SEARCHED = {
    "type": "search_result_location",
    "source": "kb/12",
    "title": "T",
    "cited_text": "x",
    "search_result_index": 0,
    "start_block_index": 0,
    "end_block_index": 1,
}
USAGE = {"input_tokens": 1, "output_tokens": 1}
MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": USAGE}


def replied(client: str, citation: Wire, *, stream: bool) -> tuple[str, list[str]]:
    """What a client sees of a text that Messages cites, and what is told to be lost."""
    request = prepared(
        client, [{"type": "text" if client == "chat" else "input_text", "text": "hi"}], "messages", "anthropic"
    )
    text: Wire = {"type": "text", "text": "abc"}
    if not stream:
        said = {**MESSAGE, "content": [{**text, "citations": [citation]}], "stop_reason": "end_turn"}
        return request.reply(json.dumps(said).encode()).decode(), told(request)
    events: list[Wire] = [
        {"type": "message_start", "message": MESSAGE},
        {"type": "content_block_start", "index": 0, "content_block": {**text, "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "abc"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta", "citation": citation}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": USAGE},
        {"type": "message_stop"},
    ]
    translation = request.translation()
    sent = b"".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events)
    return (translation.feed(sent) + translation.end()).decode(), told(request)


@pytest.mark.parametrize("stream", [False, True])
def test_a_search_result_that_is_no_page_is_cited_as_a_file(stream: bool) -> None:
    shown, losses = replied("responses", SEARCHED, stream=stream)
    assert '{"type":"file_citation","file_id":"kb/12","filename":"T","index":3}' in shown
    assert losses == []
    shown, losses = replied("chat", SEARCHED, stream=stream)
    assert "kb/12" not in shown
    assert losses == ["file-citation;drop"]
    shown, losses = replied("responses", {**SEARCHED, "source": "https://a/b"}, stream=stream)
    assert '"type":"url_citation"' in shown
    assert losses == []


@pytest.mark.parametrize("client", ["chat", "messages"])
def test_a_citation_of_a_file_is_lost_once(client: str) -> None:
    request = prepared(client, [{"type": "text", "text": "hi"}], "responses", "openai")
    cited = {"type": "file_citation", "file_id": "f", "filename": "n", "index": 1}
    text = {"type": "output_text", "text": "hello", "annotations": [cited]}
    item = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [text]}
    request.reply(json.dumps({"id": "r", "status": "completed", "model": "m", "output": [item]}).encode())
    assert told(request) == ["file-citation;drop"]


def test_llama_cpp_goes_on_with_what_the_assistant_began() -> None:
    body: Wire = {"messages": [HI, {"role": "assistant", "content": "fo"}]}
    assert told(asked("messages", body, "chat", "llamacpp")) == []
    assert told(asked("messages", body, "chat", "ollama")) == ["prefill;approx"]


def tag_under(client: str, backend: str, dialect: str, *keys: bytes) -> str:
    """The tag around system text in the midst of a conversation."""
    turns: list[Wire] = [{"role": "system", "content": "lead"}, HI, {"role": "system", "content": "mid"}, HI]
    body: Wire = {"model": "m", "input" if client == "responses" else "messages": turns}
    target = Target(backend, "m", PROFILES[backend][dialect], profile_of("m"))  # type: ignore[arg-type,index]
    options = pair.Options(scope=Scope(keys=keys))
    seen = pair.peek(client, json.dumps(body).encode())  # type: ignore[arg-type]
    (tag,) = re.findall(rb"<system id=..(\w{8})", pair.prepare(seen, target, options).body)
    return str(tag, "ascii")


@pytest.mark.parametrize(
    ("client", "backend", "dialect"), [("chat", "messages", "generic"), ("responses", "chat", "vllm")]
)
def test_the_operators_key_makes_the_mark_of_system_text(client: str, backend: str, dialect: str) -> None:
    without, old, new = (
        tag_under(client, backend, dialect, *keys) for keys in ((), (b"k" * 32,), (b"n" * 32, b"k" * 32))
    )
    assert len({without, old, new}) == 3
    assert tag_under(client, backend, dialect, b"n" * 32) == new


@pytest.mark.parametrize("backend", ["responses", "messages"])
def test_a_participants_name_may_stand_before_the_words(backend: str) -> None:
    messages = [
        {"role": "system", "name": "boss", "content": "Be brief."},
        {"role": "user", "name": "Ann", "content": "Hello"},
        {"role": "assistant", "name": "bot", "content": "Hi"},
        {"role": "user", "name": "Bob", "content": [IMAGE_AT]},
    ]
    target = Target(backend, "m", PROFILES[backend]["generic"], participant_names="prefix")  # type: ignore[arg-type,index]
    body = json.dumps({"model": "m", "messages": messages}).encode()
    request = pair.prepare(pair.peek("chat", body), target, pair.Options())
    texts = set(re.findall(r'"(?:text|content)":"([^"]*)"', request.body.decode()))
    assert texts == {"boss: Be brief.", "Ann: Hello", "bot: Hi", "Bob:"}
    assert told(request) == ["participant-name;approx"] * 4


class TestOllamaOnResponses:
    """It heeds neither a tool choice nor `json_object` (mapping.md 17.2)."""

    TOOLS: ClassVar[list[Wire]] = [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in ("f", "g")
    ]

    def test_a_forced_call_is_asked_for_in_words(self) -> None:
        choice = {"type": "function", "function": {"name": "f"}}
        request = asked("chat", {"messages": [HI], "tools": self.TOOLS, "tool_choice": choice}, "responses", "ollama")
        body = json.loads(request.body)
        assert ([tool["name"] for tool in body["tools"]], body.get("tool_choice", "auto")) == (["f"], "auto")
        assert "Call the tool `f` now." in json.dumps(body["input"])
        assert told(request) == ["forced-choice;approx"]

    def test_no_call_means_no_tools(self) -> None:
        body: Wire = {"messages": [HI], "tools": self.TOOLS, "tool_choice": "none"}
        request = asked("chat", body, "responses", "ollama")
        assert {"tools", "tool_choice"}.isdisjoint(json.loads(request.body))
        assert told(request) == []

    def test_json_is_asked_for_in_words(self) -> None:
        body: Wire = {"messages": [HI], "response_format": {"type": "json_object"}}
        request = asked("chat", body, "responses", "ollama")
        sent = json.loads(request.body)
        assert "text" not in sent
        assert "Respond with a single JSON object and nothing else." in json.dumps(sent["input"])
        assert told(request) == ["json-object;approx"]


class TestCodex:
    """What a ChatGPT account answers at (mapping.md 17.2)."""

    BODY: ClassVar[Wire] = {"messages": [HI], "max_tokens": 100, "temperature": 0.5, "top_p": 0.9}

    def test_it_is_asked_for_a_stream_with_instructions_and_no_limits(self) -> None:
        request = asked("chat", self.BODY, "responses", "codex")
        assert json.loads(request.body) == {
            "model": "m",
            "instructions": "",
            "input": [{"type": "message", **HI}],
            "include": ["reasoning.encrypted_content"],
            "store": False,
            "stream": True,
        }
        assert (request.stream, request.upstream_stream) == (False, True)
        assert sorted(f"{loss.rule} {loss.path}" for loss in request.losses) == [
            "max-clamp max_tokens",
            "temperature temperature",
            "top-p top_p",
        ]

    def test_the_word_json_stays_where_it_counts(self) -> None:
        system: Wire = {"role": "system", "content": "Answer in JSON."}
        body: Wire = {"messages": [system, HI], "response_format": {"type": "json_object"}}
        sent = json.loads(asked("chat", body, "responses", "codex").body)
        assert (sent["instructions"], sent["input"][0]["content"]) == ("", "Answer in JSON.")

    @pytest.mark.parametrize("client", ["chat", "messages"])
    def test_what_leads_is_its_instructions(self, client: str) -> None:
        system: Wire = {"role": "system", "content": "Be brief."}
        body: Wire = {"messages": [system, HI]} if client == "chat" else {"system": "Be brief.", "messages": [HI]}
        sent = json.loads(asked(client, body, "responses", "codex").body)
        assert (sent["instructions"], len(sent["input"])) == ("Be brief.", 1)


def test_a_dialect_may_name_any_field_that_its_server_refuses() -> None:
    flags = {"no_fields": ["top_p", "safety_identifier", "odd"]}
    for backend, left in (("responses", {"temperature"}), ("messages", {"temperature", "metadata"})):
        target = Target(backend, "m", dialect_for(backend, "http://x", None, flags))  # type: ignore[arg-type]
        body = {"model": "m", "messages": [HI], "temperature": 0.5, "top_p": 0.9, "safety_identifier": "u"}
        request = pair.prepare(pair.peek("chat", json.dumps(body).encode()), target, pair.Options())
        fields = {"temperature", "top_p", "safety_identifier", "metadata"}
        assert json.loads(request.body).keys() & fields == left
        lost = {"top-p;drop", "safety-identifier;drop"} if backend == "responses" else {"top-p;drop"}
        assert lost <= set(told(request))


@pytest.mark.parametrize(("backend", "kinds"), [("responses", ["web_search"]), ("messages", ["web_search_20250305"])])
def test_a_server_that_is_not_known_is_asked_for_what_its_protocol_has(backend: str, kinds: list[str]) -> None:
    """Most are gateways in front of the vendor; MCP at Messages alone would take a beta of the proxy's own making."""
    if backend == "responses":
        tools: list[Wire] = [{"type": "web_search_20250305", "name": "web_search"}]
        request = asked("messages", {"messages": [HI], "tools": tools}, backend, "generic")
    else:
        request = asked("responses", {"input": "hi", "tools": [{"type": "web_search"}]}, backend, "generic")
        mcp = {"type": "mcp", "server_label": "s", "server_url": "https://s", "require_approval": "never"}
        with pytest.raises(Rejected):
            asked("responses", {"input": "hi", "tools": [mcp]}, backend, "generic")
    assert [tool["type"] for tool in json.loads(request.body)["tools"]] == kinds
    assert request.betas == ()
