"""Compressed bodies: decoded as they come, bounded, and refused when they lie."""

import gzip
import zlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.upstream.decoding import (
    PIECE,
    BrokenEncoding,
    Decoder,
    TooLarge,
    UnknownEncoding,
    decode_whole,
    decoder_for,
)


def raw_deflate(body: bytes) -> bytes:
    """What some servers send as `deflate`: without the header of zlib."""
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compressor.compress(body) + compressor.flush()


@pytest.mark.parametrize("compress", [gzip.compress, zlib.compress, raw_deflate])
@given(body=st.binary(min_size=1, max_size=2000), cuts=st.lists(st.integers(0, 2000), max_size=5))
def test_a_body_comes_out_as_it_went_in_however_it_is_cut(compress: object, body: bytes, cuts: list[int]) -> None:
    assert callable(compress)
    coded = compress(body)
    # The first byte pair tells the format, so a bare deflate stream is recognised only when both are there.
    edges = sorted({0, len(coded), *(cut for cut in cuts if 2 <= cut < len(coded))})
    decoder = Decoder()
    out = b""
    for start, end in pairwise(edges):
        out += decoder.feed(coded[start:end])
        while decoder.more:
            out += decoder.feed(b"")
    decoder.end()
    assert out == body


def test_one_call_gives_a_bounded_piece() -> None:
    decoder = Decoder()
    first = decoder.feed(gzip.compress(bytes(10 * PIECE)))
    assert (len(first), decoder.more) == (PIECE, True)


@pytest.mark.parametrize("pieces", [1, 2, 3])
def test_a_body_of_exactly_so_many_pieces_comes_to_its_end(pieces: int) -> None:
    decoder = Decoder()
    out = decoder.feed(gzip.compress(bytes(pieces * PIECE)))
    for _ in range(pieces):
        out += decoder.feed(b"")
    assert (out, decoder.more) == (bytes(pieces * PIECE), False)


@pytest.mark.parametrize("encoding", ["", "identity", " Identity "])
def test_identity_needs_no_decoder(encoding: str) -> None:
    assert decoder_for(encoding) is None


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, br", "aws-chunked"])
def test_an_unknown_encoding_is_named(encoding: str) -> None:
    with pytest.raises(UnknownEncoding, match=f"'{encoding}' is not supported, only gzip and deflate are"):
        decoder_for(encoding)


@pytest.mark.parametrize(
    "body",
    [
        b"not compressed at all",
        b"\x1f\x8b\x08rest",
        gzip.compress(b"x" * 100, mtime=0)[:-9],
        gzip.compress(b"x", mtime=0) * 2,
        b"",
    ],
)
def test_a_body_that_is_not_what_it_says_is_broken(body: bytes) -> None:
    with pytest.raises(BrokenEncoding):
        decode_whole("gzip", body, 1000)


def test_a_bomb_is_stopped_at_the_limit() -> None:
    with pytest.raises(TooLarge):
        decode_whole("gzip", gzip.compress(bytes(50_000_000)), 1_000_000)


def test_a_body_of_exactly_the_limit_is_fine() -> None:
    assert decode_whole("gzip", gzip.compress(bytes(1000)), 1000) == bytes(1000)
