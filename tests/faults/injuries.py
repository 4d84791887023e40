"""What can happen to an answer on its way: each kind of fault turns the bytes of a good answer into steps to carry out.

Where it strikes is drawn from the random numbers that it gets, so that a seed makes the same faults again.
"""

import gzip
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Literal

# What a connection does: say bytes, wait so many seconds, or one of its ends. `hold`: say nothing until the other side
# leaves; `half`: end what is said, and hold; `close`, `reset`: leave in peace, or not.
End = Literal["hold", "half", "close", "reset"]
Step = bytes | float | End

_MOMENT = 0.003  # seconds
_BITS = 12
_NOISE = b"\xff\xfe\x00\x80}]\xc3("
_BOMB = 3 * 2**20  # bytes; what is told by nothing else than its size is for the tests of limits


@dataclass(frozen=True)
class Good:
    """An answer as it should come: its head, without what tells its length, and its body in pieces. `streamed`: it goes
    out in chunks."""

    head: bytes
    pieces: Sequence[bytes]
    streamed: bool

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)

    @property
    def framed(self) -> list[bytes]:
        """The head and the pieces as they go over the wire."""
        if self.streamed:
            return [self.headed(b"transfer-encoding: chunked"), *map(chunk, self.pieces), LAST]
        return [self.headed(b"content-length: %d" % len(self.body)), self.body]

    @property
    def wire(self) -> bytes:
        return b"".join(self.framed)

    def headed(self, *lines: bytes) -> bytes:
        """The head with further lines, and its end."""
        return b"\r\n".join([self.head, *lines, b"", b""])


LAST = b"0\r\n\r\n"


def chunk(piece: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(piece), piece)


@dataclass(frozen=True)
class Injury:
    """`harmless`: the client must get the right answer all the same; else the right answer or an error. `fatal`: it
    must get an error. `first_only`: another try meets no fault, if the first came so far. `unread`: it strikes before
    the request has been read."""

    strike: Callable[[Good, Random], list[Step]]
    harmless: bool = False
    fatal: bool = False
    first_only: bool = False
    unread: bool = False


def _whole(good: Good, _: Random) -> list[Step]:
    return list(good.framed)


def _one_write(good: Good, _: Random) -> list[Step]:
    return [good.wire]


def _dribble(good: Good, random: Random) -> list[Step]:
    """In many bits of one byte and more."""
    wire = good.wire
    cuts = sorted({0, len(wire), *(random.randrange(len(wire)) for _ in range(_BITS)), *range(random.randrange(8))})
    return [step for start, end in pairwise(cuts) for step in (wire[start:end], 0.0)]


def _interim(good: Good, random: Random) -> list[Step]:
    """Answers before the answer."""
    early = b"HTTP/1.1 103 Early Hints\r\nlink: </a>; rel=preload\r\nx-more: 1\r\n\r\n"
    interim = [random.choice((b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 102 Processing\r\n\r\n", early))]
    return [*interim * random.randint(1, 3), *good.framed]


def _switched(_: Good, __: Random) -> list[Step]:
    return [b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: nonsense\r\n\r\n", "hold"]


def _cut(end: End) -> Callable[[Good, Random], list[Step]]:
    """The end comes at any byte."""

    def strike(good: Good, random: Random) -> list[Step]:
        wire = good.wire
        cut = random.randrange(len(wire) + 1)
        before = random.randrange(cut + 1)
        return [wire[:before], 0.0, wire[before:cut], random.choice((0.0, _MOMENT)), end]

    return strike


def _at_once(end: End) -> Callable[[Good, Random], list[Step]]:
    return lambda _good, _random: [end]


def _noise(good: Good, random: Random) -> list[Step]:
    """Bytes that belong nowhere, at any byte."""
    wire = good.wire
    at = random.randrange(len(wire) + 1)
    noise = random.randbytes(random.randint(0, 40)) + _NOISE
    return [wire[:at] + noise + wire[at:], "close"]


def _only_noise(_: Good, random: Random) -> list[Step]:
    return [b"\x00" + random.randbytes(random.randint(1, 3000)), random.choice(("hold", "close", "reset"))]


def _doubled(good: Good, random: Random) -> list[Step]:
    """Some bytes come twice; fewer than a piece and its frame, since a whole piece twice is another answer."""
    wire = good.wire
    at, size = random.randrange(len(wire)), random.randint(1, 8)
    return [wire[: at + size] + wire[at:], "close"]


def _twice(good: Good, _: Random) -> list[Step]:
    """The whole answer once more, which is the answer to nothing."""
    return [good.wire + good.wire]


def _followed_by_noise(good: Good, random: Random) -> list[Step]:
    return [good.wire + random.randbytes(20)]


def _shorter(good: Good, random: Random) -> list[Step]:
    """More comes than is said."""
    said = random.randrange(len(good.body))
    return [good.headed(b"content-length: %d" % said) + good.body]


def _longer(good: Good, random: Random) -> list[Step]:
    """Less comes than is said."""
    said = len(good.body) + random.choice((1, 100, 2**40))
    return [good.headed(b"content-length: %d" % said) + good.body, random.choice(("hold", "close", "reset"))]


def _two_lengths(good: Good, random: Random) -> list[Step]:
    size = len(good.body)
    lengths = [b"content-length: %d" % size, b"content-length: %d" % random.choice((size - 1, size + 1, 0))]
    random.shuffle(lengths)
    return [good.headed(*lengths) + good.body, "close"]


def _no_length(good: Good, _: Random) -> list[Step]:
    """A number that is none."""
    return [good.headed(b"content-length: many") + good.body, "close"]


def _length_and_chunks(good: Good, random: Random) -> list[Step]:
    said = random.choice((len(good.body), 3, 10**6))
    chunks = b"".join(map(chunk, good.pieces)) + LAST
    return [good.headed(b"content-length: %d" % said, b"transfer-encoding: chunked") + chunks, "close"]


def _broken_chunk(good: Good, random: Random) -> list[Step]:
    """One chunk says another size than it has."""
    pieces = list(good.pieces)
    place = random.randrange(len(pieces))
    broken = random.choice(
        (
            b"g\r\n",
            b"-1\r\n",
            b"\r\n",
            b"fffffffffffffffff\r\n",
            b"0x10\r\n",
            b"1\r\n",
            b"%x\r\n" % (len(pieces[place]) + 7),
        )
    )
    chunks = [*map(chunk, pieces[:place]), broken + pieces[place] + b"\r\n", *map(chunk, pieces[place + 1 :]), LAST]
    head = good.headed(b"transfer-encoding: chunked")
    return [head + b"".join(chunks), random.choice(("hold", "close", "reset"))]


def _no_last_chunk(good: Good, random: Random) -> list[Step]:
    """All of the answer, and no end."""
    head = good.headed(b"transfer-encoding: chunked")
    return [head + b"".join(map(chunk, good.pieces)), random.choice(("hold", "close", "reset", "half"))]


def _odd_chunks(good: Good, random: Random) -> list[Step]:
    """What chunks may be: of any size, with extensions, and with fields behind the last."""
    body, at, chunks = good.body, 0, b""
    while at < len(body):
        size = random.choice((1, 5, 50, 1000))
        piece = body[at : at + size]
        chunks += b"%04X;name=value\r\n%s\r\n" % (len(piece), piece)
        at += size
    return [good.headed(b"transfer-encoding: chunked") + chunks + b"0\r\nx-trailer: 1\r\n\r\n"]


def _until_closed(good: Good, _: Random) -> list[Step]:
    """As of HTTP/1.0: nothing tells the length but the end."""
    return [good.headed(b"connection: close") + good.body, "close"]


def _until_cut(good: Good, random: Random) -> list[Step]:
    """The same, with an end that comes too early and looks as if it were not."""
    return [good.headed(b"connection: close") + good.body[: random.randrange(len(good.body))], "close"]


def _bomb(good: Good, random: Random) -> list[Step]:
    """Much of nothing in few bytes."""
    filler = random.choice((b" ", b"\n", b": \n", b"\x00")) * _BOMB
    bomb = gzip.compress(filler, 9, mtime=0)
    return [good.headed(b"content-encoding: gzip", b"content-length: %d" % len(bomb)) + bomb]


def _compressed(good: Good, random: Random) -> list[Step]:
    """It was not asked for, but may be."""
    packed = gzip.compress(good.body, mtime=0)
    at = random.randrange(len(packed))
    return [good.headed(b"content-encoding: gzip", b"content-length: %d" % len(packed)) + packed[:at], 0.0, packed[at:]]


def _compressed_and_cut(good: Good, random: Random) -> list[Step]:
    packed = gzip.compress(good.body, mtime=0)
    packed = packed[: random.randrange(len(packed))]
    return [good.headed(b"content-encoding: gzip", b"content-length: %d" % len(packed)) + packed]


def _not_compressed(good: Good, _: Random) -> list[Step]:
    return [good.headed(b"content-encoding: gzip", b"content-length: %d" % len(good.body)) + good.body]


def _huge_headers(good: Good, random: Random) -> list[Step]:
    lines = random.choice(([b"x-huge: " + b"x" * 300_000], [b"x-%d: 1" % number for number in range(5000)]))
    return [good.headed(*lines, b"content-length: %d" % len(good.body)) + good.body, "close"]


def _odd_status(good: Good, random: Random) -> list[Step]:
    line = random.choice((b"HTTP/1.1 999 What", b"HTTP/1.1 20 OK", b"HTTP/9.9 200 OK", b"HTTP/1.1", b"ICY 200 OK"))
    return [good.wire.replace(b"HTTP/1.1 200 OK", line, 1), "close"]


def _no_content(good: Good, random: Random) -> list[Step]:
    line = random.choice((b"HTTP/1.1 204 No Content", b"HTTP/1.1 304 Not Modified"))
    return [good.wire.replace(b"HTTP/1.1 200 OK", line, 1), "close"]


def _error_page(_: Good, random: Random) -> list[Step]:
    status = random.choice((400, 404, 408, 413, 418, 429, 500, 502, 503, 504, 529))
    page = b"<html><body>Bad luck</body></html>"
    return [b"HTTP/1.1 %d Bad\r\ncontent-type: text/html\r\ncontent-length: %d\r\n\r\n" % (status, len(page)) + page]


INJURIES: Mapping[str, Injury] = {
    "none": Injury(_whole, harmless=True),
    "one write": Injury(_one_write, harmless=True),
    "slow drip": Injury(_dribble, harmless=True),
    "interim answers": Injury(_interim, harmless=True),
    "another protocol": Injury(_switched, fatal=True),
    "reset, once": Injury(_at_once("reset"), first_only=True),
    "closed, once": Injury(_at_once("close"), first_only=True),
    "reset before the request was read": Injury(_at_once("reset"), fatal=True, unread=True),
    "silence": Injury(_at_once("hold"), fatal=True),
    "half-closed at once": Injury(_at_once("half"), fatal=True),
    "answered before the request was read": Injury(_whole, harmless=True, unread=True),
    "answered and reset before the request was read": Injury(lambda good, _: [good.wire, "reset"], unread=True),
    "reset at any byte": Injury(_cut("reset")),
    "closed at any byte": Injury(_cut("close")),
    "half-closed at any byte": Injury(_cut("half")),
    "stalled at any byte": Injury(_cut("hold")),
    "noise": Injury(_noise),
    "only noise": Injury(_only_noise, fatal=True),
    "some bytes twice": Injury(_doubled),
    "all twice": Injury(_twice, harmless=True),
    "followed by noise": Injury(_followed_by_noise),
    "longer than it says": Injury(_shorter),
    "shorter than it says": Injury(_longer),
    "two lengths": Injury(_two_lengths),
    "a length that is none": Injury(_no_length),
    "length and chunks": Injury(_length_and_chunks),
    "a broken chunk": Injury(_broken_chunk),
    "no last chunk": Injury(_no_last_chunk),
    "odd chunks": Injury(_odd_chunks, harmless=True),
    "until it closes": Injury(_until_closed, harmless=True),
    "until it is cut": Injury(_until_cut),
    "a bomb": Injury(_bomb, fatal=True),
    "compressed": Injury(_compressed, harmless=True),
    "compressed and cut": Injury(_compressed_and_cut),
    "not compressed": Injury(_not_compressed, fatal=True),
    "huge headers": Injury(_huge_headers),
    "an odd status": Injury(_odd_status),
    "no content": Injury(_no_content, fatal=True),
    "a page of an error": Injury(_error_page, fatal=True),
}
