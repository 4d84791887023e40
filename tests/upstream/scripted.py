"""A backend that says, byte for byte, what a test wants, and keeps what it was asked."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.upstream.listening import Listening


class Hold:
    """Wait until the other side closes the connection."""


class Cut:
    """Close the connection now."""


HOLD, CUT = Hold(), Cut()
# An event or a barrier: say no more until the test, or enough of the other answers, let this one go on.
Step = bytes | Hold | Cut | asyncio.Event | asyncio.Barrier


@dataclass
class Asked:
    """One request. `left`: the other side closed the connection while the backend held its answer."""

    line: str
    headers: dict[str, str]
    body: bytes
    connection: int
    left: asyncio.Event = field(default_factory=asyncio.Event)


def reply(status: int, body: bytes | str, content_type: str = "application/json", **headers: str) -> bytes:
    """A whole answer. `_` in a header's name stands for `-`."""
    raw = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status} Said", f"content-type: {content_type}", f"content-length: {len(raw)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + raw


def head(content_type: str = "text/event-stream", **headers: str) -> bytes:
    """The head of an answer in chunks."""
    lines = ["HTTP/1.1 200 Said", f"content-type: {content_type}", "transfer-encoding: chunked"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def chunk(body: bytes | str) -> bytes:
    """One chunk of such an answer."""
    raw = body.encode() if isinstance(body, str) else body
    return f"{len(raw):x}\r\n".encode() + raw + b"\r\n"


LAST = b"0\r\n\r\n"


def stream(*pieces: bytes | str, **headers: str) -> list[Step]:
    """A whole event stream, each piece a write of its own."""
    return [head(**headers), *map(chunk, pieces), LAST]


class Scripted(Listening):
    """`scripts`: what is said to the first request, the second, …; the last one also to all that follow."""

    def __init__(self, *scripts: Sequence[Step] | bytes) -> None:
        super().__init__()
        self._scripts: list[Sequence[Step]] = [[script] if isinstance(script, bytes) else script for script in scripts]
        self.asked: list[Asked] = []
        self.got_one = asyncio.Event()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> bool:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:] if line)
        }
        asked = Asked(lines[0], headers, await _body(reader, headers), number)
        script = self._scripts[min(len(self.asked), len(self._scripts) - 1)]
        self.asked.append(asked)
        self.got_one.set()
        for step in script:
            match step:
                case Hold():
                    while await reader.read(65536):
                        pass
                    asked.left.set()
                    return False
                case Cut():
                    writer.transport.abort()
                    return False
                case asyncio.Event() | asyncio.Barrier():
                    await step.wait()
                case _:
                    writer.write(step)
                    await writer.drain()
                    await asyncio.sleep(0)
        return headers.get("connection") != "close"


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if headers.get("transfer-encoding") != "chunked":
        return await reader.readexactly(int(headers.get("content-length", "0")))
    body = b""
    while size := int(await reader.readline(), 16):
        body += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return body
