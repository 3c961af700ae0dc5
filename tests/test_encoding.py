"""Content codings against the libraries' one-shot decoders, with real flushes, at every cut and with hostile bodies."""

import base64
import gzip
import json
import random
import struct
import zlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import brotli
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.encoding import MIB, RATIO_FLOOR, READ_LIMIT, ContentDecoder, content_decoder
from tests.zstandard import zstd

BODIES = Path(__file__).parent / "fixtures" / "encoding" / "bodies.jsonl"
SSE = b'data: {"choices":[{"delta":{"content":"Hello"}}]}\n\n'


class Coded(NamedTuple):
    """A coding: its name on the wire, its encoder with a flush behind each piece, and a one-shot decoder."""

    name: str
    encode: Callable[[list[bytes]], list[bytes]]
    decode: Callable[[bytes], bytes]


def zlib_pieces(window_bits: int) -> Callable[[list[bytes]], list[bytes]]:
    def encode(pieces: list[bytes]) -> list[bytes]:
        coder = zlib.compressobj(wbits=window_bits)
        return [*(coder.compress(piece) + coder.flush(zlib.Z_SYNC_FLUSH) for piece in pieces), coder.flush()]

    return encode


def brotli_pieces(pieces: list[bytes]) -> list[bytes]:
    coder = brotli.Compressor(quality=5)
    return [*(coder.process(piece) + coder.flush() for piece in pieces), coder.finish()]


def zstd_pieces(pieces: list[bytes]) -> list[bytes]:
    coder = zstd.ZstdCompressor()
    return [*(coder.compress(piece, coder.FLUSH_BLOCK) for piece in pieces), coder.flush()]


def raw_inflate(data: bytes) -> bytes:
    return zlib.decompress(data, -zlib.MAX_WBITS)


CODINGS = {
    "gzip": Coded("gzip", zlib_pieces(31), gzip.decompress),
    "x-gzip": Coded("X-GZip", zlib_pieces(31), gzip.decompress),
    "deflate": Coded("deflate", zlib_pieces(15), zlib.decompress),
    "raw deflate": Coded("deflate", zlib_pieces(-15), raw_inflate),
    "br": Coded("br", brotli_pieces, brotli.decompress),
    "zstd": Coded("zstd", zstd_pieces, zstd.decompress),
}
each_coding = pytest.mark.parametrize("coded", CODINGS.values(), ids=CODINGS)
PIECES = st.lists(st.one_of(st.just(SSE), st.binary(min_size=1, max_size=300)), max_size=6)
POINTS = st.lists(st.integers(0, 1000), max_size=12)


def byte_by_byte(body: bytes) -> list[bytes]:
    return [body[i : i + 1] for i in range(len(body))]


def cut(body: bytes, points: list[int]) -> list[bytes]:
    """Reads of a body, empty ones included."""
    edges = [0, *sorted(min(point, len(body)) for point in points), len(body)]
    return [body[start:end] for start, end in pairwise(edges)]


def decoder_of(header: str, total_limit: int | None = None) -> ContentDecoder:
    decoder = content_decoder(header) if total_limit is None else content_decoder(header, total_limit)
    assert decoder is not None
    return decoder


def decode(header: str, reads: list[bytes]) -> tuple[list[bytes], ContentDecoder]:
    """What each read made readable, the close last."""
    decoder = decoder_of(header)
    return [*(decoder.feed(read) for read in reads), decoder.close()], decoder


def oddities(decoder: ContentDecoder) -> set[str]:
    names = ("mismatched", "unknown", "corrupt", "truncated", "bomb")
    return {name for name in names if getattr(decoder, name)}


@each_coding
@given(pieces=PIECES, points=POINTS)
def test_each_flush_is_readable_at_once(coded: Coded, pieces: list[bytes], points: list[int]) -> None:
    reads = coded.encode(pieces)
    body = b"".join(reads)
    assert coded.decode(body) == b"".join(pieces)
    outputs, decoder = decode(coded.name, reads)
    assert outputs == [*pieces, b"", b""]
    assert oddities(decoder) == set()
    for again in ([body], byte_by_byte(body), cut(body, points)):
        outputs, decoder = decode(coded.name, again)
        assert b"".join(outputs) == b"".join(pieces)
        assert oddities(decoder) == set()


@each_coding
@given(pieces=PIECES.filter(bool), data=st.data())
def test_a_body_cut_off_gives_what_came(coded: Coded, pieces: list[bytes], data: st.DataObject) -> None:
    reads = coded.encode(pieces)
    kept = data.draw(st.integers(1, len(pieces)))
    outputs, decoder = decode(coded.name, reads[:kept])
    assert outputs == [*pieces[:kept], b""]
    assert oddities(decoder) == {"truncated"}


@each_coding
def test_an_empty_body_is_not_truncated(coded: Coded) -> None:
    outputs, decoder = decode(coded.name, [b""])
    assert outputs == [b"", b""]
    assert oddities(decoder) == set()


@pytest.mark.parametrize("line", BODIES.read_text().splitlines(), ids=lambda line: str(json.loads(line)["name"]))
def test_bodies_as_servers_send_them(line: str) -> None:
    row = json.loads(line)
    reads = [base64.b64decode(read) for read in row["reads"]]
    outputs, decoder = decode(row["content_encoding"], reads)
    assert [len(output) for output in outputs] == [*row["readable"], 0]
    expected = {"n11-gzip-truncated-reset": {"truncated"}, "n12-encoding-header-but-plain-body": {"mismatched"}}
    assert oddities(decoder) == expected.get(row["name"], set())
    assert decoder.ratio_high == (row["name"] == "n26-decompression-bomb")
    body, text = b"".join(reads), b"".join(outputs)
    if decoder.mismatched:
        assert text == body
    elif not decoder.truncated:
        assert text == CODINGS[row["content_encoding"]].decode(body)
    again, decoder = decode(row["content_encoding"], byte_by_byte(body))
    assert b"".join(again) == text
    assert oddities(decoder) == expected.get(row["name"], set())


def test_no_decoder_without_a_coding() -> None:
    assert [content_decoder(header) for header in ("", " ", "identity", "Identity, identity", ",")] == [None] * 5


@pytest.mark.parametrize(
    ("name", "encode"), [("gzip", gzip.compress), ("zstd", zstd.compress)], ids=["gzip members", "zstd frames"]
)
@given(pieces=PIECES.filter(bool), points=POINTS)
def test_coded_pieces_may_follow_one_another(
    name: str, encode: Callable[[bytes], bytes], pieces: list[bytes], points: list[int]
) -> None:
    coded = [encode(piece) for piece in pieces]
    outputs, decoder = decode(name, coded)
    assert outputs == [*pieces, b""]
    for reads in ([b"".join(coded)], byte_by_byte(b"".join(coded)), cut(b"".join(coded), points)):
        outputs, decoder = decode(name, reads)
        assert b"".join(outputs) == b"".join(pieces)
        assert oddities(decoder) == set()


def test_padding_and_skippable_frames_are_no_content() -> None:
    skippable = struct.pack("<II", 0x184D2A53, 5) + b"12345"
    for name, body in (
        ("gzip", gzip.compress(b"a") + b"\0\0\0" + gzip.compress(b"b") + b"\0\0"),
        ("zstd", skippable + zstd.compress(b"a") + skippable + zstd.compress(b"b")),
    ):
        for reads in ([body], byte_by_byte(body)):
            outputs, decoder = decode(name, reads)
            assert b"".join(outputs) == b"ab"
            assert oddities(decoder) == set()


@each_coding
def test_what_stands_behind_the_end_is_corrupt(coded: Coded) -> None:
    outputs, decoder = decode(coded.name, [*coded.encode([SSE]), b"\x80 and more", SSE])
    assert outputs == [SSE, b"", b"", b"", b""]
    assert oddities(decoder) == {"corrupt"}


def test_the_beginning_of_another_member_is_truncated() -> None:
    for name, body in (("gzip", gzip.compress(SSE) + b"\x1f"), ("zstd", zstd.compress(SSE) + b"\x28")):
        outputs, decoder = decode(name, [body])
        assert outputs == [SSE, b""]
        assert oddities(decoder) == {"truncated"}


PLAIN = [
    SSE,
    b"event: message_start\ndata: {}\n\n",
    b"id: 1\ndata: x\n\n",
    b": ping\n\n",
    b'{"error":{"message":"no"}}',
    b"{}",
    b'[{"a":1}]',
    b"[]",
    b"\xef\xbb\xbfdata: x\n\n",
    b"<html><body>502 Bad Gateway</body></html>",
    b"<!DOCTYPE html>",
    b"Internal Server Error",
    b"OK",
    b"(",
    b"Payment required",
    SSE * 5000,
]


@pytest.mark.parametrize("name", ["gzip", "deflate", "br", "zstd"])
@pytest.mark.parametrize("body", PLAIN, ids=lambda body: repr(body[:10]))
def test_plain_bytes_under_the_name_of_a_coding_are_passed_on_whole(name: str, body: bytes) -> None:
    for reads in ([body], byte_by_byte(body[:400]), cut(body, [1, 2, 3, 7, 70_000])):
        outputs, decoder = decode(name, reads)
        assert b"".join(outputs) == b"".join(reads)
        assert oddities(decoder) == {"mismatched"}
        assert not decoder.ratio_high


def test_plain_events_under_the_name_of_a_coding_are_not_held_back() -> None:
    for name in ("gzip", "deflate", "br", "zstd"):
        outputs, _ = decode(name, [SSE, SSE])
        assert outputs == [SSE, SSE, b""]


def test_coded_bytes_that_begin_like_text() -> None:
    body = b":\n\0\0\0\xff\xff\x03\0"
    assert raw_inflate(body) == b"\xc5"
    for reads in ([body], byte_by_byte(body)):
        outputs, decoder = decode("deflate", reads)
        assert b"".join(outputs) == b"\xc5"
        assert oddities(decoder) == set()


def test_binary_bytes_that_are_of_no_coding() -> None:
    assert decode("gzip", [b"\x00\x01", b"\x02"])[0] == [b"\x00\x01", b"\x02", b""]
    assert decode("gzip", [b"\x1f", b"\x00"])[0] == [b"", b"\x1f\x00", b""]
    outputs, decoder = decode("br", [b"\xff" * 50, SSE])
    assert outputs == [b"", b"", b""]
    assert oddities(decoder) == {"corrupt"}


def test_a_zlib_header_that_is_none_is_raw_deflate() -> None:
    """`x^` is a zlib header, and as raw deflate a stored block, if an odd one."""
    stored = b"\x78\x5e"
    body = stored[:1] + struct.pack("<HH", 0x5E, 0xFFFF ^ 0x5E) + b"y" * 0x5E + b"\x03\x00"
    assert body.startswith(stored)
    assert raw_inflate(body) == b"y" * 0x5E
    for reads in ([body], byte_by_byte(body)):
        outputs, decoder = decode("deflate", reads)
        assert b"".join(outputs) == b"y" * 0x5E
        assert oddities(decoder) == set()


@each_coding
@given(data=st.data(), points=POINTS)
def test_a_wrong_byte_ends_the_output_and_raises_nothing(coded: Coded, data: st.DataObject, points: list[int]) -> None:
    pieces = [SSE, random.Random(1).randbytes(200), SSE]
    body = bytearray(b"".join(coded.encode(pieces)))
    body[data.draw(st.integers(0, len(body) - 1))] ^= data.draw(st.integers(1, 255))
    for reads in ([bytes(body)], byte_by_byte(bytes(body)), cut(bytes(body), points)):
        decoder = decoder_of(coded.name)
        ended = False
        for read in reads:
            output = decoder.feed(read)
            assert not (ended and output)
            ended = decoder.corrupt
        assert decoder.close() == b"" or decoder.mismatched


@given(
    header=st.lists(st.sampled_from(["gzip", "br", "zstd", "deflate", "identity", "x", ""]), max_size=4).map(",".join),
    reads=st.lists(
        st.one_of(st.binary(max_size=60), st.sampled_from([gzip.compress(SSE), brotli.compress(SSE), SSE, b"\x1f\x8b"]))
    ),
)
def test_any_bytes_under_any_header(header: str, reads: list[bytes]) -> None:
    decoder = content_decoder(header)
    if decoder is not None:
        output = b"".join([*(decoder.feed(read) for read in reads), decoder.close()])
        if decoder.unknown and decoder.names[-1] == "x":
            assert output == b"".join(reads)


def test_a_stack_is_undone_in_reverse() -> None:
    reads = [coded for piece in brotli_pieces(zlib_pieces(31)([SSE, SSE])) for coded in cut(piece, [3])]
    outputs, decoder = decode("gzip, BR", reads)
    assert b"".join(outputs) == SSE * 2
    assert decoder.names == ("gzip", "br")
    assert oddities(decoder) == set()
    outputs, decoder = decode("gzip, identity, gzip", [gzip.compress(gzip.compress(SSE))])
    assert (outputs, decoder.names) == ([SSE, b""], ("gzip", "gzip"))


def test_a_flush_through_a_stack_is_readable_at_once() -> None:
    inner, outer = zlib.compressobj(wbits=31), zlib.compressobj(wbits=31)
    decoder = decoder_of("gzip, gzip")
    for _ in range(3):
        coded = inner.compress(SSE) + inner.flush(zlib.Z_SYNC_FLUSH)
        assert decoder.feed(outer.compress(coded) + outer.flush(zlib.Z_SYNC_FLUSH)) == SSE


def test_an_unknown_coding_is_passed_on() -> None:
    outputs, decoder = decode("compress", [b"\x1f\x9d", SSE])
    assert outputs == [b"\x1f\x9d", SSE, b""]
    assert oddities(decoder) == {"unknown"}
    assert not decoder.ratio_high
    outputs, decoder = decode("what, gzip", [gzip.compress(b"what's left")])
    assert outputs == [b"what's left", b""]
    assert oddities(decoder) == {"unknown"}
    assert "unknown" in oddities(decode(",".join(["gzip"] * 1000), [b""])[1])


def test_expansion_that_is_remarkable() -> None:
    """Over 1 MiB from one read, or over 200 to 1 with over 16 KiB."""
    noise = random.Random(2).randbytes(MIB + 1)
    assert decode("gzip", [gzip.compress(noise)])[1].ratio_high
    assert not decode("gzip", [gzip.compress(noise[:-1])])[1].ratio_high
    assert decode("gzip", [gzip.compress(b" " * (RATIO_FLOOR + 1))])[1].ratio_high
    assert not decode("gzip", [gzip.compress(b" " * RATIO_FLOOR)])[1].ratio_high
    slow = zlib_pieces(31)([SSE] * 1000)
    assert not decode("gzip", slow)[1].ratio_high
    assert not decode("gzip", [noise, noise])[1].ratio_high


@each_coding
def test_output_beyond_the_total_is_a_bomb(coded: Coded) -> None:
    decoder = decoder_of(coded.name, total_limit=3 * MIB)
    first, second, third, end = coded.encode([b"a" * MIB, b"b" * 2 * MIB, b"c"])
    assert decoder.feed(first) == b"a" * MIB
    assert decoder.feed(second) == b"b" * 2 * MIB
    assert not decoder.bomb
    assert decoder.feed(third) == b""
    assert decoder.bomb
    assert decoder.feed(end) == decoder.close() == b""
    assert oddities(decoder) == {"bomb"}


@each_coding
def test_one_read_produces_no_more_than_its_bound(coded: Coded) -> None:
    body = b"".join(coded.encode([b"\0" * MIB] * 80))
    decoder = decoder_of(coded.name)
    assert len(decoder.feed(body)) == READ_LIMIT
    assert decoder.bomb
    assert decoder.ratio_high
    assert decoder.feed(body) == b""


@each_coding
def test_a_piece_is_bounded_whatever_it_could_be(coded: Coded) -> None:
    """64 MiB in one read come in pieces: a decoder asked for a few bytes has not made all of them."""
    decoder = decoder_of(coded.name, total_limit=10)
    (layer,) = decoder._layers
    pieces = layer.feed(b"".join(coded.encode([b"\0" * MIB] * 64)))
    sizes = [len(piece) for piece in pieces]
    assert sum(sizes) == 64 * MIB
    assert max(sizes) <= 2 * MIB


def test_a_bomb_within_a_bomb() -> None:
    """What lies between the layers counts, too, although it holds nothing to read."""
    decoder = decoder_of("gzip, gzip")
    assert decoder.feed(gzip.compress(gzip.compress(b"") + b"\0" * READ_LIMIT)) == b""
    assert decoder.bomb


def test_members_without_content_are_not_endless() -> None:
    decoder = decoder_of("gzip")
    assert decoder.feed(gzip.compress(b"") * 10_000 + gzip.compress(SSE)) == SSE
    assert not decoder.bomb
    decoder = decoder_of("gzip")
    assert decoder.feed(gzip.compress(b"") * 20_000 + gzip.compress(SSE)) == b""
    assert decoder.bomb


def test_a_zstd_window_beyond_the_web_s_is_refused() -> None:
    options: dict[int, int] = {zstd.CompressionParameter.window_log: 27}
    coder = zstd.ZstdCompressor(options=options)
    body = coder.compress(SSE, coder.FLUSH_BLOCK)
    outputs, decoder = decode("zstd", [body])
    assert outputs == [b"", b""]
    assert oddities(decoder) == {"corrupt"}
