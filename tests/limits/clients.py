"""Clients that are fast, keep connections, and leave when it suits them."""

import asyncio
import re
from dataclasses import dataclass
from typing import Literal

from tests.limits.asks import PATHS, Ask, Client

# When a client leaves: with half of its request sent, with all of it sent, a moment later, after the head of the answer
# and some of its body; or not at all.
Leaves = Literal["while sending", "when sent", "soon", "while reading"]

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
_ID = re.compile(rb"\r\nx-request-id: *(\S+)\r\n", re.IGNORECASE)
_REASON = re.compile(rb"\r\ndragoman-reason: *(\S+)\r\n", re.IGNORECASE)
_CLOSES = re.compile(rb"\r\nconnection: *close\r\n", re.IGNORECASE)
_ENDS = (b"data: [DONE]", b"event: message_stop", b"event: response.completed")
_HEAD = b"\r\n\r\n"


@dataclass(frozen=True)
class Call:
    """One request to send. `soon`: seconds before a client that leaves soon does."""

    ask: Ask
    client: Client
    key: str
    body: bytes
    leaves: Leaves | None = None
    soon: float = 0.0


@dataclass(frozen=True)
class Got:
    """What came of it. `status`: None if there was none; `whole`: an answer, to its end, that is no error."""

    call: Call
    status: int | None = None
    request_id: str = ""
    reason: str = ""
    whole: bool = False
    body: bytes = b""


class NobodyListens(Exception):
    """The replica is down, or has stopped listening."""


class Caller:
    """One client with a kept connection to each replica."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}

    async def send(self, port: int, call: Call) -> Got:
        """Raises NobodyListens."""
        reader, writer = self._kept.pop(port, None) or await _connect(port)
        got, keep = Got(call), False
        try:
            head = (
                f"POST {PATHS[call.client]} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer {call.key}\r\n"
                f"content-type: application/json\r\ncontent-length: {len(call.body)}\r\n\r\n"
            )
            writer.write(head.encode() + (call.body[: len(call.body) // 2] if _unfinished(call) else call.body))
            if call.leaves in ("while sending", "when sent", "soon"):
                await asyncio.sleep(call.soon if call.leaves == "soon" else 0)
                writer.transport.abort()
            else:
                got, keep = await _read(reader, call)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            if keep:
                self._kept[port] = reader, writer
            else:
                writer.close()
                await asyncio.sleep(0)
        return got

    async def __aenter__(self) -> "Caller":
        return self

    async def __aexit__(self, *_: object) -> None:
        for _, writer in self._kept.values():
            writer.close()
        await asyncio.sleep(0)  # in which the sockets are closed


async def send_once(port: int, call: Call) -> Got:
    """On a connection of its own. Raises NobodyListens."""
    async with Caller() as caller:
        return await caller.send(port, call)


async def _connect(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    try:
        return await asyncio.open_connection("127.0.0.1", port)
    except ConnectionError as error:
        raise NobodyListens from error


def _unfinished(call: Call) -> bool:
    return call.leaves == "while sending"


async def _read(reader: asyncio.StreamReader, call: Call) -> tuple[Got, bool]:
    """What was answered, and whether the connection can be used again."""
    head = await reader.readuntil(_HEAD)
    status = int(head[9:12])
    length, reason, given = _LENGTH.search(head), _REASON.search(head), _ID.search(head)
    request_id = given[1].decode() if given is not None else ""
    body = bytearray()
    if call.leaves == "while reading":
        body += await reader.read(200)
        return Got(call, status, request_id), False
    if length is not None:
        body += await reader.readexactly(int(length[1]))
        whole = status == 200
    else:
        # A last chunk can't be mistaken: no event holds CR LF.
        while not body.endswith(b"0\r\n\r\n"):
            if not (piece := await reader.read(65536)):
                return Got(call, status, request_id, body=bytes(body)), False
            body += piece
        whole = status == 200 and (call.client == "embeddings" or any(end in body for end in _ENDS))
    told = reason[1].decode() if reason is not None else ""
    return Got(call, status, request_id, told, whole, bytes(body)), _CLOSES.search(head) is None
