"""The backend behind faults: it answers each request as its exchange's plan says, and notes when it is left alone."""

import asyncio
import socket
import struct
from collections.abc import Callable
from contextlib import suppress

from tests.faults.injuries import Step
from tests.harness.http_wire import Head, body_pieces, read_head
from tests.upstream.listening import Listening

_AT_ONCE = struct.pack("ii", 1, 0)


class Left(Exception):
    """The proxy has closed the connection."""


class Faulty(Listening):
    """`steps`: what a request meets, by its id and how often that has been seen before, and whether that comes before
    the request is read. `busy`: those that are being answered. `left`: when the proxy gave up an answer that was under
    way, by id (the loop's clock)."""

    def __init__(self, steps: Callable[[str, int], tuple[list[Step], bool]]) -> None:
        super().__init__()
        self._steps = steps
        self.seen: dict[str, int] = {}
        self.left: dict[str, float] = {}
        self.busy: set[str] = set()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> bool:
        head = await read_head(reader)
        asked = head.header("x-client-request-id")
        before = self.seen.get(asked, 0)
        self.seen[asked] = before + 1
        steps, unread = self._steps(asked, before)
        leaving: asyncio.Task[None] | None = None
        if not unread:
            await _read_body(reader, head)
            leaving = asyncio.create_task(_until_left(reader))
        self.busy.add(asked)
        try:
            goes_on = await _carry_out(steps, writer, leaving)
            if unread and goes_on:
                await _read_body(reader, head)
            return goes_on
        except (Left, ConnectionError):
            self.left[asked] = asyncio.get_running_loop().time()
            return False
        finally:
            self.busy.discard(asked)
            if leaving is not None:
                leaving.cancel()
                with suppress(asyncio.CancelledError):
                    await leaving


async def _read_body(reader: asyncio.StreamReader, head: Head) -> None:
    async for _ in body_pieces(reader, head, to_end=False):
        pass


async def _carry_out(steps: list[Step], writer: asyncio.StreamWriter, leaving: asyncio.Task[None] | None) -> bool:
    """Whether the connection may be used again. Raises `Left`."""
    for step in steps:
        if leaving is not None and leaving.done():
            raise Left
        match step:
            case bytes():
                writer.write(step)
                await writer.drain()
            case float():
                await asyncio.sleep(step)
            case "hold" | "half":
                if step == "half":
                    writer.write_eof()
                if leaving is not None:
                    await leaving
                raise Left
            case "close":
                return False
            case "reset":
                reset(writer)
                return False
    return True


def reset(writer: asyncio.StreamWriter) -> None:
    """End the connection so that the other side is told that it broke."""
    if (its := writer.get_extra_info("socket")) is not None:  # the other side may have been quicker
        its.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    writer.transport.abort()


async def _until_left(reader: asyncio.StreamReader) -> None:
    with suppress(ConnectionError):
        await reader.read(1)


class NoTls(Listening):
    """Where TLS is expected, and something else is met: another each time."""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> bool:
        match number % 4:
            case 0:
                reset(writer)
            case 1:
                await reader.read(1)
                writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
            case 2:
                await reader.read(1000)
                writer.write(b"\x15\x03\x03\x00\x02\x02\x28")  # a fatal alert: the handshake failed
            case 3:
                writer.write(b"\x16\x03\x03" + bytes(200))
        return False
