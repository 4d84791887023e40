"""What every store does, whichever it is."""

import asyncio
import time

import pytest

from proxy.state import Append, Conflict, Delete, Item, Key, Put, Remove, Store

SOON = time.time() + 1000
PAST = time.time() - 1


def key(tenant: str, name: str = "resp_1") -> Key:
    return Key(tenant, "response", name)


async def test_a_record_is_there_as_it_was_written(store: Store, tenant: str) -> None:
    value = bytes(range(256)) * 5000
    await store.commit(Put(key(tenant), value, SOON))
    found = await store.get(tenant, "response", ["resp_1", "resp_2"])
    assert list(found) == ["resp_1"]
    assert (found["resp_1"].value, found["resp_1"].version) == (value, 1)
    assert abs(found["resp_1"].expires - SOON) < 0.01


async def test_many_records_are_read_at_once(store: Store, tenant: str) -> None:
    await store.commit(*(Put(key(tenant, f"resp_{n}"), b"%d" % n, SOON) for n in range(300)))
    found = await store.get(tenant, "response", [f"resp_{n}" for n in range(400)])
    assert {one: record.value for one, record in found.items()} == {f"resp_{n}": b"%d" % n for n in range(300)}


async def test_another_tenants_and_another_kinds_record_is_not_there(store: Store, tenant: str) -> None:
    await store.commit(Put(key(tenant), b"mine", SOON), Append(key(tenant), [("a", b"1")], SOON))
    assert await store.get(tenant + "x", "response", ["resp_1"]) == {}
    assert await store.get(tenant, "conversation", ["resp_1"]) == {}
    assert await store.items(key(tenant + "x"), None, 10) == []
    for write in (Delete(key(tenant + "x")), Remove(key(tenant + "x"), "a"), Append(key(tenant + "x"), [], SOON)):
        with pytest.raises(Conflict):
            await store.commit(write)


async def test_what_has_expired_is_not_there(store: Store, tenant: str) -> None:
    await store.commit(Put(key(tenant), b"old", SOON), Append(key(tenant), [("a", b"1")], SOON))
    await store.commit(Put(key(tenant), b"old", PAST))
    assert await store.get(tenant, "response", ["resp_1"]) == {}
    assert await store.items(key(tenant), None, 10) == []
    assert await store.item(key(tenant), "a") is None
    with pytest.raises(Conflict):
        await store.commit(Delete(key(tenant)))
    await store.sweep()
    await store.commit(Put(key(tenant), b"new", SOON, version=0))
    assert (await store.get(tenant, "response", ["resp_1"]))["resp_1"].version == 1
    assert await store.items(key(tenant), None, 10) == []


async def test_a_record_can_take_the_place_of_one_that_expired_and_was_not_swept(store: Store, tenant: str) -> None:
    await store.commit(Put(key(tenant), b"old", PAST))
    await store.commit(Put(key(tenant), b"new", SOON, version=0))
    assert (await store.get(tenant, "response", ["resp_1"]))["resp_1"][:2] == (b"new", 1)


async def test_a_version_that_is_not_there_is_a_conflict(store: Store, tenant: str) -> None:
    await store.commit(Put(key(tenant), b"1", SOON, version=0))
    for version in (0, 2):
        with pytest.raises(Conflict):
            await store.commit(Put(key(tenant), b"x", SOON, version=version))
    await store.commit(Put(key(tenant), b"2", SOON, version=1))
    await store.commit(Put(key(tenant), b"3", SOON))
    assert (await store.get(tenant, "response", ["resp_1"]))["resp_1"][:2] == (b"3", 3)


async def test_only_one_of_many_takes_a_version(store: Store, tenant: str) -> None:
    await store.commit(Put(key(tenant), b"0", SOON))

    async def take(number: int) -> bool:
        try:
            await store.commit(Put(key(tenant), b"%d" % number, SOON, version=1))
        except Conflict:
            return False
        return True

    taken = await asyncio.gather(*map(take, range(20)))
    assert taken.count(True) == 1
    record = (await store.get(tenant, "response", ["resp_1"]))["resp_1"]
    assert record[:2] == (b"%d" % taken.index(True), 2)


async def test_a_commit_takes_place_as_a_whole_or_not_at_all(store: Store, tenant: str) -> None:
    await store.commit(Put(key(tenant), b"1", SOON), Append(key(tenant), [("a", b"1")], SOON))
    refused = (Remove(key(tenant), "b"), Append(key(tenant, "none"), [("a", b"")], SOON), Delete(key(tenant, "none")))
    for write in refused:
        with pytest.raises(Conflict) as told:
            await store.commit(Put(key(tenant, "resp_2"), b"2", SOON), Append(key(tenant), [("c", b"3")], SOON), write)
        assert type(told.value.write) is type(write)
    assert list(await store.get(tenant, "response", ["resp_1", "resp_2"])) == ["resp_1"]
    assert [item.id for item in await store.items(key(tenant), None, 10)] == ["a"]


async def test_items_keep_their_order_and_come_in_pages(store: Store, tenant: str) -> None:
    owner = Key(tenant, "conversation", "conv_1")
    await store.commit(Put(owner, b"{}", SOON))
    for first in range(0, 30, 10):
        await store.commit(Append(owner, [(f"m{n}", b"%d" % n) for n in range(first, first + 10)], SOON))
    page = await store.items(owner, None, 12)
    assert [item.id for item in page] == [f"m{n}" for n in range(12)]
    rest = await store.items(owner, page[-1].position, 100)
    assert [item.value for item in rest] == [b"%d" % n for n in range(12, 30)]
    newest = await store.items(owner, None, 3, newest=True)
    assert [item.id for item in newest] == ["m29", "m28", "m27"]
    older = await store.items(owner, newest[-1].position, 2, newest=True)
    assert [item.id for item in older] == ["m26", "m25"]
    found = await store.item(owner, "m7")
    assert isinstance(found, Item)
    assert found == page[7]
    assert await store.item(owner, "m70") is None


async def test_items_that_are_appended_at_once_are_all_there(store: Store, tenant: str) -> None:
    owner = Key(tenant, "conversation", "conv_1")
    await store.commit(Put(owner, b"{}", SOON))
    pairs = [[(f"{n}-{half}", b"") for half in "ab"] for n in range(20)]
    await asyncio.gather(*(store.commit(Append(owner, pair, SOON)) for pair in pairs))
    ids = [item.id for item in await store.items(owner, None, 100)]
    assert sorted(ids) == sorted(item for pair in pairs for item, _ in pair)
    assert all(ids[at + 1] == ids[at].replace("a", "b") for at in range(0, 40, 2))


async def test_an_item_is_added_once_and_taken_away_for_good(store: Store, tenant: str) -> None:
    owner = Key(tenant, "conversation", "conv_1")
    await store.commit(Put(owner, b"{}", SOON), Append(owner, [("a", b"1"), ("b", b"2")], SOON))
    with pytest.raises(Conflict):
        await store.commit(Append(owner, [("c", b"3"), ("a", b"4")], SOON))
    await store.commit(Remove(owner, "a"))
    with pytest.raises(Conflict):
        await store.commit(Remove(owner, "a"))
    await store.commit(Append(owner, [("a", b"5")], SOON))
    assert [(item.id, item.value) for item in await store.items(owner, None, 10)] == [("b", b"2"), ("a", b"5")]


async def test_what_is_deleted_is_gone_with_its_items(store: Store, tenant: str) -> None:
    owner = Key(tenant, "conversation", "conv_1")
    await store.commit(Put(owner, b"{}", SOON), Append(owner, [("a", b"1")], SOON))
    await store.commit(Delete(owner))
    with pytest.raises(Conflict):
        await store.commit(Delete(owner))
    await store.commit(Put(owner, b"{}", SOON, version=0))
    assert await store.items(owner, None, 10) == []


async def test_an_append_lets_a_record_live_on(store: Store, tenant: str) -> None:
    await store.commit(Put(key(tenant), b"", SOON))
    await store.commit(Append(key(tenant), [("a", b"1")], SOON + 500))
    await store.commit(Append(key(tenant), [("b", b"2")], SOON))
    expires = (await store.get(tenant, "response", ["resp_1"]))["resp_1"].expires
    assert abs(expires - SOON - 500) < 0.01


async def test_ids_come_in_pages(store: Store, tenant: str) -> None:
    await store.commit(*(Put(Key(tenant, "chat", f"c{n:02}"), b"", SOON) for n in (3, 1, 7, 5, 9)))
    await store.commit(Put(Key(tenant, "chat", "c05"), b"", PAST))
    assert await store.page(tenant, "chat", None, 2, newest=False) == ["c01", "c03"]
    assert await store.page(tenant, "chat", "c03", 9, newest=False) == ["c07", "c09"]
    assert await store.page(tenant, "chat", None, 2, newest=True) == ["c09", "c07"]
    assert await store.page(tenant, "chat", "c07", 9, newest=True) == ["c03", "c01"]
    await store.commit(Delete(Key(tenant, "chat", "c03")))
    assert await store.page(tenant, "chat", None, 9, newest=False) == ["c01", "c07", "c09"]


async def test_a_record_whose_lease_is_over_is_abandoned(store: Store, tenant: str) -> None:
    await store.commit(
        Put(key(tenant, "held"), b"", SOON, lease=SOON),
        Put(key(tenant, "left"), b"", SOON, lease=PAST),
        Put(key(tenant, "done"), b"", SOON),
    )
    assert [found for found in await store.abandoned(1000) if found.tenant == tenant] == [key(tenant, "left")]
    await store.commit(Put(key(tenant, "left"), b"", SOON))
    assert [found for found in await store.abandoned(1000) if found.tenant == tenant] == []
