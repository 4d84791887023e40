"""`fan_out`: several choices for a client of Chat, each an answer of a backend that gives one (mapping.md 7.4)."""

import asyncio
import json

import pytest
from openai import AsyncOpenAI

from proxy.canonical.tools import FunctionTool
from proxy.settings import ProtocolName
from tests.harness.assemble import assemble
from tests.harness.grammar import check_stream
from tests.harness.wire import Json, read_events
from tests.properties.scripts import Part, Script
from tests.properties.spoken import event_bytes, whole_bytes
from tests.server.fanning import BACKENDS, WORDS, contents, events, fanning, says, wish
from tests.server.serving import PATHS, REPLIES, REQUESTS, before, says_hello
from tests.server.test_asking import complaint
from tests.server.test_continuation import REQUESTS as WITH_TOOLS
from tests.server.test_continuation import said
from tests.server.test_reasoning_cache import ASKED, DROPPED, RESULT
from tests.translation.test_continuation import message, text
from tests.upstream.scripted import Step, chunk, head, reply, stream

STREAMED = {"stream": True, "stream_options": {"include_usage": True}}
SUM = {"input": 60 + 3 * 5, "output": 21, "cache_read": 6, "cache_write": 9, "reasoning": 12}


@pytest.mark.parametrize("client", ["chat", "completions"])
@pytest.mark.parametrize("gets_stream", [False, True])
@pytest.mark.parametrize("protocol", BACKENDS)
async def test_whole(client: str, protocol: ProtocolName, gets_stream: bool) -> None:
    """None of the answers comes before all have been asked for, so they are asked for at the same time."""
    async with fanning(protocol, *says(protocol, *WORDS, streamed=gets_stream)) as (proxy, backend):
        status, headers, body = await proxy.post(PATHS[client], wish(3, client))
        record = await proxy.record()
    assert (status, sorted(contents(body))) == (200, sorted(WORDS))
    assert {choice["finish_reason"] for choice in json.loads(body)["choices"]} == {"stop"}
    usage = json.loads(body)["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (75, 21, 96)
    assert (record["tokens"], record["outcome"], record["finish_reason"]) == (SUM, "ok", "end")
    assert "dragoman-loss" not in headers
    assert len({asked.body for asked in backend.asked}) == 1
    assert (len(backend.asked), "n" in json.loads(backend.asked[0].body)) == (3, False)


@pytest.mark.parametrize("gets_stream", [False, True])
@pytest.mark.parametrize("protocol", BACKENDS)
async def test_stream(protocol: ProtocolName, gets_stream: bool) -> None:
    async with fanning(protocol, *says(protocol, *WORDS, streamed=gets_stream)) as (proxy, backend):
        status, _, body = await proxy.post(PATHS["chat"], wish(3, **STREAMED))
        record = await proxy.record()
    assert (status, check_stream("chat", body, choices=3)) == (200, []), body
    answer = assemble("chat", read_events(body.decode()).events)
    assert sorted(choice["message"]["content"] for choice in answer["choices"]) == sorted(WORDS)
    assert (answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"]) == (75, 21)
    assert (record["tokens"], record["outcome"], record["finish_reason"]) == (SUM, "ok", "end")
    assert len(backend.asked) == 3


@pytest.mark.parametrize("protocol", BACKENDS)
async def test_usage_is_told_only_if_asked_for(protocol: ProtocolName) -> None:
    async with fanning(protocol, *says(protocol, *WORDS, streamed=True)) as (proxy, _):
        _, _, body = await proxy.post(PATHS["chat"], wish(3, stream=True))
    assert check_stream("chat", body, choices=3) == []
    assert b"usage" not in body


async def test_text_completions_stream_as_many_texts() -> None:
    async with fanning("chat", says_hello("chat", streamed=True)) as (proxy, backend):
        _, _, body = await proxy.post(PATHS["completions"], wish(2, "completions", **STREAMED))
    told = read_events(body.decode())
    texts = {0: "", 1: ""}
    for event in told.events:
        for choice in event.data["choices"]:
            texts[choice["index"]] += choice["text"]
    assert (texts, told.done) == ({0: "Hello", 1: "Hello"}, True)
    assert [event.data["usage"] is None for event in told.events] == [True] * (len(told.events) - 1) + [False]
    assert len({(event.data["id"], event.data["created"], event.data["model"]) for event in told.events}) == 1
    assert all("n" not in json.loads(asked.body) for asked in backend.asked)


async def test_chunks_leave_as_they_come() -> None:
    """Each step of the one answer waits until the client has read the step of the other."""
    one, two = (events("messages", words, number) for number, words in enumerate(("AaBb", "CcDd")))
    gates = [asyncio.Event() for _ in range(3)]
    scripts: list[list[Step]] = [
        [head(), *map(chunk, one[:4]), gates[1], *map(chunk, one[4:]), b"0\r\n\r\n"],
        [head(), gates[0], *map(chunk, two[:5]), gates[2], *map(chunk, two[5:]), b"0\r\n\r\n"],
    ]
    heard = b""
    async with (
        fanning("messages", *scripts) as (proxy, _),
        proxy.session.post(proxy.url + PATHS["chat"], json=wish(stream=True)) as response,
    ):

        async def until(content: bytes) -> bytes:
            told = b""
            while content not in told:
                told += await response.content.readany()
            return told

        heard += await until(b'"index":0,"delta":{"content":"Aa"}')
        gates[0].set()
        heard += await until(b'"index":1,"delta":{"content":"Dd"}')
        assert b'"finish_reason":"' not in heard
        gates[1].set()
        heard += await until(b'"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"')
        assert b"[DONE]" not in heard
        gates[2].set()
        heard += await response.content.read()
    assert check_stream("chat", heard, choices=2) == []


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("client", ["chat", "completions"])
async def test_more_than_the_limit_is_refused_with_it(client: str, most: int, stream: bool) -> None:
    async with fanning("messages", *says("messages", "Hi.", streamed=stream), most=most) as (proxy, backend):
        status, headers, body = await proxy.post(PATHS[client], wish(3, client, stream=stream))
    error = json.loads(body)["error"]
    assert (status, error["param"], headers["dragoman-loss"]) == (400, "n", "n;refuse")
    assert ("between 1 and 2 choices" if most == 2 else "only one choice") in error["message"]
    assert backend.asked == []


async def test_one_choice_is_one_request() -> None:
    async with fanning("messages", *says("messages", "Hi.", streamed=False)) as (proxy, backend):
        _, _, body = await proxy.post(PATHS["chat"], wish(1))
    assert (contents(body), len(backend.asked)) == (["Hi."], 1)


async def test_a_backend_that_gives_choices_is_asked_for_them() -> None:
    async with fanning("chat", reply(200, json.dumps(REPLIES["chat"]))) as (proxy, backend):
        raw = json.dumps(wish(9)).encode()
        _, _, body = await proxy.post(PATHS["chat"], raw)
    assert ([asked.body for asked in backend.asked], json.loads(body)) == ([raw], REPLIES["chat"])


async def test_without_the_setting_nothing_has_changed() -> None:
    async with before("messages", *says("messages", "Hi.", streamed=False)) as (proxy, backend):
        status, _, body = await proxy.post(PATHS["chat"], wish())
    assert (status, json.loads(body)["error"]["param"], backend.asked) == (400, "n", [])


@pytest.mark.parametrize("protocol", BACKENDS)
async def test_the_vendors_sdk_reads_them(protocol: ProtocolName) -> None:
    scripts = [
        *says(protocol, *WORDS, streamed=False),
        *says(protocol, *WORDS, streamed=True),
        *says(protocol, *WORDS[:2], streamed=True),
    ]
    request: Json = {"model": "m", "messages": [{"role": "user", "content": "Say hello."}]}
    async with (
        fanning(protocol, *scripts) as (proxy, _),
        AsyncOpenAI(base_url=proxy.url + "/v1", api_key="client-key", max_retries=0) as openai,
    ):
        whole = await openai.chat.completions.create(**request, n=3)
        assert sorted(str(choice.message.content) for choice in whole.choices) == sorted(WORDS)
        texts = ["", "", ""]
        async for part in await openai.chat.completions.create(**request, n=3, stream=True):
            for choice in part.choices:
                texts[choice.index] += choice.delta.content or ""
        assert sorted(texts) == sorted(WORDS)
        options: Json = {"include_usage": True}
        async with openai.chat.completions.stream(**request, n=2, stream_options=options) as stream:
            final = await stream.get_final_completion()
    assert sorted(str(choice.message.content) for choice in final.choices) == sorted(WORDS[:2])
    assert [(choice.index, choice.finish_reason) for choice in final.choices] == [(0, "stop"), (1, "stop")]
    assert final.usage is not None
    assert final.usage.completion_tokens == 14


@pytest.mark.parametrize("streamed", [False, True])
async def test_choices_take_their_turns_where_the_backend_has_too_few_connections(streamed: bool) -> None:
    answers = says("messages", *WORDS, streamed=streamed, meet=False)
    async with fanning("messages", *answers, max_connections=1) as (proxy, backend):
        _, _, body = await proxy.post(PATHS["chat"], wish(3, stream=streamed))
    answer = assemble("chat", read_events(body.decode()).events) if streamed else json.loads(body)
    assert [choice["message"]["content"] for choice in answer["choices"]] == list(WORDS)
    assert [asked.connection for asked in backend.asked] == [1, 1, 1]


@pytest.mark.parametrize("asks_stream", [True, False])
async def test_turns_that_pause_go_on_for_each_choice(asks_stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.translation.prepare.HostedTool", FunctionTool)
    rounds = [message([text("One ")], "pause_turn"), message([text("two.")], "end_turn", 2, 20)]
    first, second = said(*rounds, streamed=asks_stream)
    both = asyncio.Barrier(2)
    async with fanning("messages", [both, *first], [both, *first], second) as (proxy, backend):
        more = STREAMED if asks_stream else {}
        _, _, body = await proxy.post(PATHS["chat"], {**WITH_TOOLS["chat"], "n": 2, **more})
    if asks_stream:
        assert check_stream("chat", body, choices=2) == []
    answer = assemble("chat", read_events(body.decode()).events) if asks_stream else json.loads(body)
    assert [choice["message"]["content"] for choice in answer["choices"]] == ["One two.", "One two."]
    usage = answer["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (4 * 105, 2 * 30)
    assert len(backend.asked) == 4


@pytest.mark.parametrize("streamed", [False, True])
async def test_stop_strings_end_each_choice(streamed: bool) -> None:
    """Responses takes none, so that the proxy watches for them."""
    answers = says("responses", "One. Two", "Three. Four", streamed=streamed)
    async with fanning("responses", *answers) as (proxy, _):
        _, _, body = await proxy.post(PATHS["chat"], wish(stop=[". "], stream=streamed))
    if streamed:
        assert check_stream("chat", body, choices=2) == []
    answer = assemble("chat", read_events(body.decode()).events) if streamed else json.loads(body)
    assert sorted(choice["message"]["content"] for choice in answer["choices"]) == ["One", "Three"]


@pytest.mark.parametrize("streamed", [False, True])
async def test_reasoning_is_kept_for_each_choice(streamed: bool) -> None:
    """Whichever choice the client goes on with."""

    def answer(number: int) -> list[Step]:
        parts = (Part("reasoning", (f"Thought {number}.",), number), Part("call", ('{"a":"b"}',), number))
        made = Script(parts, "tool")
        return stream(*event_bytes("messages", made)) if streamed else [reply(200, whole_bytes("messages", made))]

    hello = says_hello("messages", streamed=False)
    async with fanning("messages", answer(1), answer(2), hello, reasoning_cache=True) as (proxy, backend):
        await proxy.post(PATHS["chat"], {**ASKED, "n": 2, "stream": streamed})
        for number in (1, 2):
            call = json.loads(json.dumps(DROPPED).replace("call_001", f"call_00{number}"))
            result = {**RESULT, "tool_call_id": f"call_00{number}"}
            await proxy.post(PATHS["chat"], {**ASKED, "messages": [*ASKED["messages"], call, result]})
    gone_on = [json.loads(asked.body)["messages"][1]["content"][0] for asked in backend.asked[2:]]
    assert [block["thinking"] for block in gone_on] == ["Thought 1.", "Thought 2."]


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_field_that_the_backend_refuses_is_left_out_of_each(streamed: bool) -> None:
    refusal = complaint("messages", "top_p: Extra inputs are not permitted")
    both = asyncio.Barrier(2)
    hello = says_hello("messages", streamed=streamed)
    async with fanning("messages", [both, refusal], [both, refusal], hello) as (proxy, backend):
        for _ in range(2):
            status, headers, body = await proxy.post(PATHS["chat"], wish(top_p=0.5, stream=streamed))
            assert (status, body.count(b"Hel"), headers["dragoman-loss"]) == (200, 2, "top-p;drop")
    assert ["top_p" in json.loads(asked.body) for asked in backend.asked] == [True] * 2 + [False] * 4


async def test_a_wish_to_fill_the_cache_asks_nobody_but_answers_as_often() -> None:
    async with fanning("responses", *says("responses", "Hi.", streamed=False)) as (proxy, backend):
        _, _, body = await proxy.post(PATHS["completions"], {**REQUESTS["completions"], "n": 2, "max_tokens": 0})
    assert (contents(body), backend.asked) == (["", ""], [])


@pytest.mark.parametrize(("count", "keys"), [(1, ["once"]), (3, [None, None, None])])
async def test_several_requests_are_not_the_one_that_a_client_may_repeat(count: int, keys: list[str | None]) -> None:
    answers = says("responses", *WORDS[:count], streamed=False)
    async with fanning("responses", *answers, dialect="openai") as (proxy, backend):
        await proxy.post(PATHS["chat"], wish(count), {"idempotency-key": "once"})
    assert [asked.headers.get("idempotency-key") for asked in backend.asked] == keys
