"""Chat completions that a client asks to be kept, through OpenAI's own SDK."""

import json
from typing import Any

import pytest
from openai import BadRequestError, NotFoundError

from tests.harness.wire import PROTOCOLS, Protocol
from tests.server.modelled import modelled
from tests.server.serving import says_hello
from tests.server.test_stored_responses import keeping
from tests.state.test_turns import sdk

PARTS: Any = [
    {"type": "text", "text": "Look"},
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
]
TOOL: Any = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_completion_is_kept_read_changed_and_deleted(protocol: Protocol, stream: bool) -> None:
    async with modelled(protocol) as (proxy, _), sdk(proxy) as client:
        ask: Any = {"model": "m", "messages": [{"role": "user", "content": "[[parallel]] x"}], "tools": [TOOL]}
        told: Any = await client.chat.completions.create(**ask, store=True, metadata={"a": "b"}, stream=stream)
        chunks = [chunk async for chunk in told] if stream else [told]
        completion_id = chunks[0].id
        kept = await client.chat.completions.retrieve(completion_id)
        assert kept.metadata == {"a": "b"}
        calls = kept.choices[0].message.tool_calls or []
        assert [json.loads(call.function.arguments) for call in calls] == [{"city": "Lima"}, {"city": "Oslo"}]  # type: ignore[union-attr]
        if not stream:
            assert kept.choices[0].message == told.choices[0].message
        changed = await client.chat.completions.update(completion_id, metadata={"c": "d"})
        assert changed.metadata == {"c": "d"}
        messages = await client.chat.completions.messages.list(completion_id)
        assert [message.content for message in messages.data] == ["[[parallel]] x"]
        gone = await client.chat.completions.delete(completion_id)
        assert (gone.id, gone.deleted, gone.object) == (completion_id, True, "chat.completion.deleted")
        with pytest.raises(NotFoundError):
            await client.chat.completions.retrieve(completion_id)


async def test_completions_are_listed_in_pages_and_by_what_they_are() -> None:
    async with keeping("messages", says_hello("messages", streamed=False)) as (_, _, client):
        ids = []
        for number in range(5):
            metadata = {"even": str(number % 2 == 0)}
            messages: Any = [{"role": "user", "content": PARTS}]
            told = await client.chat.completions.create(model="m", messages=messages, store=True, metadata=metadata)
            ids.append(told.id)
        await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}])
        listed = [one.id async for one in client.chat.completions.list(limit=2)]
        assert listed == ids
        newest = await client.chat.completions.list(limit=2, order="desc")
        assert ([one.id for one in newest.data], newest.has_more) == (ids[:2:-1], True)
        even = [one.id async for one in client.chat.completions.list(metadata={"even": "True"})]
        assert even == ids[::2]
        assert [one.id async for one in client.chat.completions.list(model="other")] == []
        (message,) = (await client.chat.completions.messages.list(ids[0])).data
        assert (message.content, len(message.content_parts or [])) == ("Look", 2)
        with pytest.raises(BadRequestError):
            await client.chat.completions.list(limit=0)
