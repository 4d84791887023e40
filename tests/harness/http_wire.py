"""The little of HTTP/1.1 that both raw ends need: heads, and bodies piece by piece."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

READ_SIZE = 65536


@dataclass
class Head:
    """The first line and the headers, in order and as they were spelled."""

    line: str
    headers: list[tuple[str, str]] = field(default_factory=list)

    def header(self, name: str) -> str:
        """The value of a header whose name is given in lower case; empty if it is not there."""
        return next((value for key, value in self.headers if key.lower() == name), "")


async def read_head(reader: asyncio.StreamReader) -> Head:
    """Raises IncompleteReadError if the connection ends first; its `partial` is empty if nothing had come."""
    head = Head((await reader.readuntil(b"\r\n")).decode("latin-1").strip())
    while line := (await reader.readuntil(b"\r\n")).decode("latin-1").strip():
        name, _, value = line.partition(":")
        head.headers.append((name, value.strip()))
    return head


async def body_pieces(reader: asyncio.StreamReader, head: Head, *, to_end: bool) -> AsyncIterator[bytes]:
    """The body as it comes in. `to_end`: one without a length lasts until the connection ends, as in replies.

    Raises IncompleteReadError if the connection ends before the body does, after what had come.
    """
    if "chunked" in head.header("transfer-encoding").lower():
        while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
            async for piece in _exactly(reader, size):
                yield piece
            await reader.readexactly(2)
        await reader.readuntil(b"\r\n")
    elif head.header("content-length"):
        async for piece in _exactly(reader, int(head.header("content-length"))):
            yield piece
    elif to_end:
        while piece := await reader.read(READ_SIZE):
            yield piece


async def _exactly(reader: asyncio.StreamReader, size: int) -> AsyncIterator[bytes]:
    while size:
        piece = await reader.read(min(size, READ_SIZE))
        if not piece:
            raise asyncio.IncompleteReadError(b"", size)
        size -= len(piece)
        yield piece
