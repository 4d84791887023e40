"""Conversations that the proxy keeps, through OpenAI's own SDK."""

import json

import pytest
from openai import AsyncOpenAI, BadRequestError, NotFoundError

from tests.server.serving import says_hello
from tests.server.test_stored_responses import TRANSLATED, keeping

HELLO = {"type": "message", "role": "user", "content": "My name is Ada."}


async def texts(client: AsyncOpenAI, conversation: str) -> list[str]:
    items = [item async for item in client.conversations.items.list(conversation, order="asc", limit=2)]
    return [item.content[0].text for item in items]  # type: ignore[union-attr]


@pytest.mark.parametrize("protocol", TRANSLATED)
@pytest.mark.parametrize("streamed", [False, True])
async def test_responses_become_part_of_a_conversation(protocol: str, streamed: bool) -> None:
    scripts = [says_hello(protocol, streamed=streamed) for _ in range(2)]
    async with keeping(protocol, *scripts) as (_, backend, client):  # type: ignore[arg-type]
        conversation = await client.conversations.create(items=[HELLO], metadata={"a": "b"})  # type: ignore[list-item]
        for text in ("First.", "Second."):
            told = await client.responses.create(
                model="m",
                input=text,
                conversation=conversation.id,
                stream=streamed,  # type: ignore[call-overload]
            )
            last = [event async for event in told][-1].response if streamed else told
            assert last.conversation.id == conversation.id
        sent = json.loads(backend.asked[1].body)["messages"]
        assert [message["role"] for message in sent][-3:] == ["user", "assistant", "user"]
        said = ["My name is Ada.", "First.", "Hello", "Second.", "Hello"]
        assert await texts(client, conversation.id) == said


async def test_items_are_added_read_and_removed() -> None:
    async with keeping("chat", says_hello("chat", streamed=False)) as (_, backend, client):
        conversation = await client.conversations.create()
        added = await client.conversations.items.create(
            conversation.id,
            items=[HELLO, {"role": "assistant", "content": "Hello Ada."}],  # type: ignore[list-item]
        )
        first, second = added.data
        found = await client.conversations.items.retrieve(first.id, conversation_id=conversation.id)
        assert found.model_dump() == first.model_dump()
        left = await client.conversations.items.delete(second.id, conversation_id=conversation.id)
        assert left.model_dump() == conversation.model_dump()
        assert await texts(client, conversation.id) == ["My name is Ada."]
        for gone in (
            client.conversations.items.retrieve(second.id, conversation_id=conversation.id),
            client.conversations.items.delete(second.id, conversation_id=conversation.id),
        ):
            with pytest.raises(NotFoundError):
                await gone
        await client.responses.create(model="m", input="Again.", conversation={"id": conversation.id})
        assert [m["content"] for m in json.loads(backend.asked[0].body)["messages"]] == ["My name is Ada.", "Again."]


async def test_metadata_is_changed_and_a_conversation_deleted() -> None:
    async with keeping("chat", says_hello("chat", streamed=False)) as (_, _, client):
        conversation = await client.conversations.create(metadata={"a": "b"})
        changed = await client.conversations.update(conversation.id, metadata={"c": "d"})
        assert changed.metadata == {"c": "d"}
        assert (await client.conversations.retrieve(conversation.id)).model_dump() == changed.model_dump()
        gone = await client.conversations.delete(conversation.id)
        assert (gone.id, gone.object, gone.deleted) == (conversation.id, "conversation.deleted", True)
        for call in (
            client.conversations.retrieve(conversation.id),
            client.conversations.update(conversation.id, metadata={}),
            client.conversations.delete(conversation.id),
            client.conversations.items.list(conversation.id),
            client.conversations.items.create(conversation.id, items=[HELLO]),  # type: ignore[list-item]
            client.responses.create(model="m", input="Again.", conversation=conversation.id),
        ):
            with pytest.raises(NotFoundError):
                await call  # type: ignore[misc]


async def test_a_later_turn_can_start_from_a_response_in_a_conversation() -> None:
    scripts = [says_hello("chat", streamed=False)]
    async with keeping("chat", *scripts) as (_, backend, client):
        conversation = await client.conversations.create(items=[HELLO])  # type: ignore[list-item]
        told = await client.responses.create(model="m", input="First.", conversation=conversation.id)
        await client.responses.create(model="m", input="Second.", conversation=conversation.id)
        await client.responses.create(model="m", input="Branch.", previous_response_id=told.id)
        sent = json.loads(backend.asked[2].body)["messages"]
        assert [message["content"] for message in sent] == ["My name is Ada.", "First.", "Hello", "Branch."]


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("", {"metadata": {"a": 1}}, "metadata.a"),
        ("", {"metadata": {str(number): "" for number in range(17)}}, "metadata"),
        ("", {"items": [HELLO] * 21}, "items"),
        ("", {"items": "text"}, "items"),
        ("/items", {}, "items"),
        ("/items", {"items": [{"type": "message", "role": "user"}]}, "items[0].content"),
        ("/items", {"items": [7]}, "items[0]"),
        ("!", {}, "metadata"),
    ],
)
async def test_what_can_not_be_kept_is_refused(path: str, body: dict[str, object], param: str) -> None:
    async with keeping("chat", says_hello("chat", streamed=False)) as (proxy, _, client):
        conversation = await client.conversations.create()
        at = f"/{conversation.id}{path.strip('!')}" if path else ""
        status, _, told = await proxy.post(f"/v1/conversations{at}", body)
        assert (status, json.loads(told)["error"]["param"]) == (400, param)


async def test_a_conversation_and_a_previous_response_exclude_each_other() -> None:
    async with keeping("chat", says_hello("chat", streamed=False)) as (_, backend, client):
        with pytest.raises(BadRequestError) as told:
            await client.responses.create(model="m", input="x", conversation="conv_1", previous_response_id="resp_1")
        assert told.value.param == "previous_response_id"
        assert backend.asked == []
