"""With whose key a backend is asked."""

import hashlib
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Account:
    """`key`: None asks with what the upstream's settings hold, if anything. `header`: the one that a client's own key
    came in; None for a key that the proxy holds."""

    key: str | None = field(default=None, repr=False)
    header: str | None = None

    @property
    def of_client(self) -> bool:
        """Whether the client brought the key: then what the backend says of it is the client's to know."""
        return self.header is not None

    @property
    def digest(self) -> bytes:
        """Tells accounts apart where keys must not be kept; empty for the upstream's own."""
        if self.key is None:
            return b""
        return hashlib.blake2b(self.key.encode(errors="surrogateescape"), digest_size=16).digest()


# What the upstream's settings say.
SHARED = Account()
