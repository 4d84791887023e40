"""Values that whoever reads the store can't read: AES-256-GCM with a key of the operator's."""

import os
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from proxy.state.store import Append, Item, Key, Kind, Put, Record, Store, StoreFailed, Write

KEY_BYTES = 32
_SEALED = b"drgs1"  # no value that is written plainly begins so: those are JSON or events
_NONCE = 12


class SealedStore(Store):
    """Another store's values, sealed and bound to their keys: moved to another tenant or id they don't open.

    The first of `keys` seals, all open. What was written before there was a key is read as it is.
    """

    def __init__(self, store: Store, keys: Sequence[bytes]) -> None:
        super().__init__()
        self._store = store
        self._keys = [AESGCM(key) for key in keys]

    async def get(self, tenant: str, kind: Kind, ids: Sequence[str]) -> dict[str, Record]:
        found = await self._store.get(tenant, kind, ids)
        return {
            one: record._replace(value=self._open(record.value, Key(tenant, kind, one)))
            for one, record in found.items()
        }

    async def page(self, tenant: str, kind: Kind, after: str | None, limit: int, *, newest: bool) -> list[str]:
        return await self._store.page(tenant, kind, after, limit, newest=newest)

    async def commit(self, *writes: Write) -> None:
        await self._store.commit(*map(self._sealed, writes))

    async def items(self, owner: Key, after: int | None, limit: int, *, newest: bool = False) -> list[Item]:
        items = await self._store.items(owner, after, limit, newest=newest)
        return [item._replace(value=self._open(item.value, owner, item.id)) for item in items]

    async def item(self, owner: Key, item_id: str) -> Item | None:
        item = await self._store.item(owner, item_id)
        return None if item is None else item._replace(value=self._open(item.value, owner, item.id))

    async def abandoned(self, limit: int) -> list[Key]:
        return await self._store.abandoned(limit)

    async def sweep(self) -> None:
        await self._store.sweep()

    async def close(self) -> None:
        await self._store.close()

    def _sealed(self, write: Write) -> Write:
        match write:
            case Put(key, value):
                return write._replace(value=self._seal(value, key))
            case Append(owner, items):
                return write._replace(items=[(one, self._seal(value, owner, one)) for one, value in items])
            case _:
                return write

    def _seal(self, value: bytes, key: Key, item: str = "") -> bytes:
        nonce = os.urandom(_NONCE)
        return _SEALED + nonce + self._keys[0].encrypt(nonce, value, _bound(key, item))

    def _open(self, value: bytes, key: Key, item: str = "") -> bytes:
        if not value.startswith(_SEALED):
            return value
        nonce, sealed = value[len(_SEALED) :][:_NONCE], value[len(_SEALED) + _NONCE :]
        for opener in self._keys:
            try:
                return opener.decrypt(nonce, sealed, _bound(key, item))
            except InvalidTag:
                continue
        raise StoreFailed(f"a {key.kind} is sealed with a key that state.content_keys does not list")


def _bound(key: Key, item: str) -> bytes:
    return "\0".join((*key, item)).encode()
