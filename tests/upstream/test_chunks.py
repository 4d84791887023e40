"""Bodies in chunks, cut by the network wherever it likes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.upstream.chunks import BrokenFraming, Chunks

PIECES = st.lists(st.binary(min_size=1, max_size=40), max_size=6)
EXTENSIONS = st.sampled_from([b"", b";a=b", b" ;x", b'; name="v"'])
TRAILERS = st.sampled_from([b"", b"x-checksum: 1\r\n", b"a: b\r\nc: d\r\n"])


def framed(pieces: list[bytes], extension: bytes = b"", trailers: bytes = b"") -> bytes:
    chunks = [b"%x%b\r\n%b\r\n" % (len(piece), extension, piece) for piece in pieces]
    return b"".join(chunks) + b"0\r\n" + trailers + b"\r\n"


@given(PIECES, EXTENSIONS, TRAILERS, st.integers(1, 50), st.sampled_from([b"", b"HTTP/1.1 200 OK\r\n"]))
def test_a_body_is_the_same_however_it_is_cut(
    pieces: list[bytes], extension: bytes, trailers: bytes, size: int, behind: bytes
) -> None:
    coded = framed(pieces, extension, trailers)
    chunks, body = Chunks(), b""
    for at in range(0, len(coded), size):
        assert not chunks.ended
        body += chunks.feed(coded[at : at + size] if at + size < len(coded) else coded[at:] + behind)
    assert (body, chunks.ended, chunks.rest) == (b"".join(pieces), True, behind)


@given(PIECES.filter(bool), st.data())
def test_what_is_cut_short_has_not_ended(pieces: list[bytes], data: st.DataObject) -> None:
    coded = framed(pieces)
    chunks = Chunks()
    body = chunks.feed(coded[: data.draw(st.integers(0, len(coded) - 1))])
    assert not chunks.ended
    assert b"".join(pieces).startswith(body)


def test_a_large_chunk_goes_on_as_it_comes() -> None:
    chunks = Chunks()
    assert chunks.feed(b"ffffff\r\nabc") == b"abc"
    assert chunks.feed(b"def") == b"def"


def test_sizes_are_read_in_either_case() -> None:
    assert Chunks().feed(b"0A\r\n0123456789\r\n0a\r\n0123456789\r\n") == b"01234567890123456789"


@pytest.mark.parametrize(
    "coded",
    [
        b"x\r\n",
        b"\r\n",
        b"-1\r\n",
        b"+1\r\na\r\n",
        b"0x1\r\na\r\n",
        b"1_0\r\n",
        b" 1\r\na\r\n",
        b";a\r\n",
        b"1 1\r\n",
        b"11111111111111111\r\n",  # more than 64 bits
        b"1\r\nab\r\n",
        b"2\r\nab\n0\r\n\r\n",
        b"1" * 9000,
        b"1;" + b"x" * 9000,
        b"0\r\n" + b"x: y\r\n" * 20_000,
    ],
)
def test_what_is_not_in_chunks_is_refused(coded: bytes) -> None:
    with pytest.raises(BrokenFraming):
        Chunks().feed(coded)
