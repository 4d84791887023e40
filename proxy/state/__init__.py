"""What must outlive a request: stored responses, conversations, threads.

One small interface (`store.py`) and four stores behind it; nothing outside of this room knows which one is in use.
"""

from proxy.state.opening import open_store
from proxy.state.store import (
    Append,
    Conflict,
    Delete,
    Item,
    Key,
    Kind,
    Put,
    Record,
    Remove,
    Store,
    StoreFailed,
    Write,
)

__all__ = (
    "Append",
    "Conflict",
    "Delete",
    "Item",
    "Key",
    "Kind",
    "Put",
    "Record",
    "Remove",
    "Store",
    "StoreFailed",
    "Write",
    "open_store",
)
