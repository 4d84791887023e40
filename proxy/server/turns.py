"""What is kept of an exchange, from the moment that its request is known to the last byte of its reply.

Whoever answers tells the exchange's turn what the client is about to read: `told` while it streams, then `end_stream`,
or `end_whole`. What these give is what the client gets; when they return, it is kept.
"""

from abc import ABC, abstractmethod

from proxy.canonical.errors import Error
from proxy.translation.pair import Peek
from proxy.translation.prepared import Prepared


class Turn(ABC):
    """One exchange that leaves something. `failed`: why nothing could be kept of a stream that had to be."""

    failed: Error | None = None

    @abstractmethod
    def bind(self, seen: Peek, *, same_protocol: bool) -> None:
        """Take out of the request what is no backend's concern. `seen` may come anew for another backend."""

    @abstractmethod
    def adorn(self, prepared: Prepared) -> None:
        """Let the reply say what is kept, and as what."""

    def told(self, out: bytes) -> bytes:
        """Some whole events of a stream that goes on."""
        return out

    def parted(self, out: bytes) -> tuple[bytes, bytes]:
        """The last bytes of a stream that ended well: what may leave before anything is kept, and the rest."""
        return b"", out

    @abstractmethod
    async def end_stream(self, out: bytes) -> bytes:
        """The end of a stream that ended well, as `parted` left it; an error in its place where nothing could be kept
        that had to be."""

    @abstractmethod
    async def end_whole(self, body: bytes) -> bytes:
        """A whole reply. Raises `Rejected` where it could not be kept and had to be."""

    def left(self) -> None:  # noqa: B027  most have nothing to let go of
        """The exchange is over, whether or not anything was kept of it."""
