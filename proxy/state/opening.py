"""From an address to a store. Libraries are loaded only where they are needed."""

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote

from proxy.state.store import Store


def open_store(url: str, keys: Sequence[bytes] = ()) -> Store | None:
    """The store at `memory:`, `sqlite:///path`, `redis://…` or `postgresql://…`; None for `none:`. Nothing is reached
    for before it is used. `keys`, of 32 bytes each, seal what is kept. Raises ValueError for another address."""
    store = _open(url)
    if store is None or not keys:
        return store
    from proxy.state.sealed import SealedStore

    return SealedStore(store, keys)


def sqlite_path(url: str) -> Path:
    """The file of `sqlite:///var/lib/state.db`, or of `sqlite:state.db` in the folder where the process runs."""
    path = unquote(url.removeprefix("sqlite:"))
    return Path(path.removeprefix("//") if path.startswith("///") else path)


def _open(url: str) -> Store | None:
    match url.partition(":")[0]:
        case "none":
            return None
        case "memory":
            from proxy.state.memory import MemoryStore

            return MemoryStore()
        case "sqlite":
            from proxy.state.sqlite import SqliteStore

            return SqliteStore(sqlite_path(url))
        case "redis" | "rediss" | "unix":
            from proxy.state.redis import RedisStore

            return RedisStore(url)
        case "postgresql" | "postgres":
            from proxy.state.postgres import PostgresStore

            return PostgresStore(url)
        case scheme:
            raise ValueError(f"there is no store for {scheme}:")
