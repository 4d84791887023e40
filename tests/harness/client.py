"""An HTTP client that keeps the exact bytes of a reply, sees whether it was cut short, and can leave early."""

import asyncio
import gzip
import time
from dataclasses import dataclass, field

from tests.harness.http_wire import Head, body_pieces, read_head
from tests.harness.wire import read_events


@dataclass
class Reply:
    """broken: the connection ended before the body did. left_at: when the client left on purpose (monotonic)."""

    status: int | None = None
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""
    broken: bool = False
    left_at: float | None = None

    def header(self, name: str) -> str:
        return Head("", self.headers).header(name)

    @property
    def streamed(self) -> bool:
        """SDKs take a reply with an error status for an ordinary body, whatever type it claims."""
        told = self.header("content-type").lower().startswith("text/event-stream")
        return told and self.status is not None and self.status < 400


async def post(
    port: int, path: str, headers: dict[str, str], body: bytes, *, leave_after_events: int | None = None
) -> Reply:
    """Posts on a connection of its own and reads to the end of the reply, or until so many events have come."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    reply = Reply()
    try:
        writer.write(_request(port, path, headers, body))
        await _read_reply(reader, reply, leave_after_events)
    except (asyncio.IncompleteReadError, ConnectionError):
        reply.broken = True
    finally:
        writer.close()
    if reply.header("content-encoding") == "gzip":
        reply.body = gzip.decompress(reply.body)
    return reply


async def get_status(port: int, path: str) -> int | None:
    """The status of a GET, None if nobody answers."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionError:
        return None
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n\r\n".encode())
        head = await read_head(reader)
        return int(head.line.split(" ")[1])
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    finally:
        writer.close()


def _request(port: int, path: str, headers: dict[str, str], body: bytes) -> bytes:
    lines = [f"POST {path} HTTP/1.1", f"host: 127.0.0.1:{port}", f"content-length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


async def _read_reply(reader: asyncio.StreamReader, reply: Reply, leave_after_events: int | None) -> None:
    head = await read_head(reader)
    reply.status, reply.headers = int(head.line.split(" ")[1]), head.headers
    async for piece in body_pieces(reader, head, to_end=True):
        reply.body += piece
        if leave_after_events is not None and _events_in(reply.body) >= leave_after_events:
            reply.left_at = time.monotonic()
            return


def _events_in(body: bytes) -> int:
    return len(read_events(body.decode("utf-8", "replace")).events)
