"""Content codings (RFC 9110, section 8.4.1), decoded read by read: what a flush made readable is returned at once.

The header is not believed blindly: gateways name a coding and send plain bytes. Nothing here raises for whatever the
bytes are, and a body that expands without end is let go, not kept.
"""

import re
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Literal, Protocol

import brotli
import msgspec

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MIB = 1024 * 1024

RATIO_OUTPUT = MIB
"""Bytes out of one read beyond which its expansion is remarkable whatever went in."""
RATIO = 200
"""Bytes out per byte in of one read beyond which its expansion is remarkable."""
RATIO_FLOOR = 16 * 1024
"""Bytes out of one read up to which the ratio is not judged: a short read of white space is no bomb."""
READ_LIMIT = 64 * MIB
"""Bytes that the codings of a body may produce from one read, all of them together."""
TOTAL_LIMIT = 256 * MIB
"""Bytes that the codings of a body may produce from all of it."""

_PIECE_COST = 4096  # what any piece costs of a read's bound: thousands of empty gzip members take time, too
_STACK_LIMIT = 5  # codings named one on another; curl draws the line here, too (CVE-2022-32206)
_SLICE = 64 * 1024  # input given at once: zlib copies what is left of it with every piece of output
_PIECE = 256 * 1024  # output asked for at once
_ZSTD_WINDOW_LOG = 23  # RFC 9659: a window of 8 MiB at most, so that a body cannot claim the memory of a decoder
_HEAD_KEPT = _SLICE  # input kept until the first output, in case it turns out to be plain or of another form

_BOM = b"\xef\xbb\xbf"
_PLAIN_STARTS = (b"data:", b"event:", b"retry:", b"<html")
_MAYBE_PLAIN_STARTS = (
    *(b"id:", b": ", b":\n", b"<!", b'{"', b"{ ", b"{\n", b"{\r", b"{}"),
    *(b'["', b"[{", b"[ ", b"[\n", b"[\r", b"[]"),
)
"""How bodies of this trade begin when they are plain. Coded data begins like that by chance only, and for two bytes
the chance is too good: of these `_TEXT_BYTES` have to be printable."""
_TEXT_BYTES = 8
_PRINTABLE = re.compile(rb"[\t\r\n -~]+")


class _Engine(Protocol):
    """A library's decompressor, one way to call them all."""

    @property
    def ended(self) -> bool:
        """Whether the end of the coded data was read."""

    @property
    def more(self) -> bool:
        """Whether there is output left without further input."""

    @property
    def rest(self) -> bytes:
        """Input behind the end."""

    def decompress(self, data: bytes) -> bytes:
        """Take input and return a piece of output, about `_PIECE` bytes of it at most."""


class _Zlib:
    """zlib, gzip or raw deflate, by zlib's own window bits."""

    def __init__(self, window_bits: int) -> None:
        self._zlib = zlib.decompressobj(window_bits)
        self.more = False

    @property
    def ended(self) -> bool:
        return self._zlib.eof

    @property
    def rest(self) -> bytes:
        return self._zlib.unused_data

    def decompress(self, data: bytes) -> bytes:
        piece = self._zlib.decompress(self._zlib.unconsumed_tail + data, _PIECE)
        # A full piece may leave output inside zlib although all the input went in.
        self.more = bool(self._zlib.unconsumed_tail) or len(piece) >= _PIECE
        return piece


class _Brotli:
    rest = b""  # what stands behind the end is an error to the library

    def __init__(self) -> None:
        self._brotli = brotli.Decompressor()
        self.more = False

    @property
    def ended(self) -> bool:
        return bool(self._brotli.is_finished())

    def decompress(self, data: bytes) -> bytes:
        piece: bytes = self._brotli.process(data, output_buffer_limit=_PIECE)
        # Only an empty piece says that there is no more: brotli 1.2 stops at 32 KiB once it has taken all the input.
        self.more = bool(piece)
        return piece


class _Zstd:
    def __init__(self) -> None:
        self._zstd = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG})

    @property
    def ended(self) -> bool:
        return self._zstd.eof

    @property
    def more(self) -> bool:
        return not self._zstd.needs_input and not self._zstd.eof

    @property
    def rest(self) -> bytes:
        return self._zstd.unused_data

    def decompress(self, data: bytes) -> bytes:
        return self._zstd.decompress(data, _PIECE)


_FAILURES = (zlib.error, brotli.error, zstd.ZstdError, EOFError)

type _Verdict = Literal["coded", "plain", "open"]
"""What the first bytes say; open while it takes more of them."""


def _gzip_start(head: bytes) -> _Verdict:
    return _by_magic(head, b"\x1f\x8b")


def _zstd_start(head: bytes) -> _Verdict:
    if 0x50 <= head[0] <= 0x5F:
        return _by_magic(head[1:], b"\x2a\x4d\x18")  # a skippable frame
    return _by_magic(head, b"\x28\xb5\x2f\xfd")


def _by_magic(head: bytes, magic: bytes) -> _Verdict:
    if head.startswith(magic):
        return "coded"
    return "open" if magic.startswith(head) else "plain"


def _text_start(head: bytes) -> _Verdict:
    """Of a coding that has no magic: plain where the body begins as text does, else coded until that fails."""
    if _BOM.startswith(head):
        return "open"
    text = head.removeprefix(_BOM)
    if text.startswith(_PLAIN_STARTS):
        return "plain"
    maybe = text.startswith(_MAYBE_PLAIN_STARTS)
    begun = maybe or any(start.startswith(text) for start in (*_PLAIN_STARTS, *_MAYBE_PLAIN_STARTS))
    if not begun or not _PRINTABLE.fullmatch(text, 0, _TEXT_BYTES):
        return "coded"
    return "plain" if maybe and len(text) >= _TEXT_BYTES else "open"


def _deflate_start(head: bytes) -> _Verdict:
    return "open" if len(head) < 2 else _text_start(head)


def _deflate_engines(head: bytes) -> list[Callable[[], _Engine]]:
    """With the zlib header that the standard asks for, or raw, as some servers send it."""
    raw = [lambda: _Zlib(-zlib.MAX_WBITS)]
    # RFC 1950: method 8, a window of 32 KiB at most, and a check that makes both bytes a multiple of 31.
    has_header = head[0] & 0x0F == 8 and head[0] >> 4 <= 7 and int.from_bytes(head[:2]) % 31 == 0
    return [lambda: _Zlib(zlib.MAX_WBITS), *raw] if has_header else [*raw]


class _Coding(msgspec.Struct, frozen=True):
    """A row of the table of codings."""

    start: Callable[[bytes], _Verdict]
    engines: Callable[[bytes], list[Callable[[], _Engine]]]
    """Decompressors to try, by the first bytes; the next one only where one fails before its first output."""
    repeats: bool = False
    """Whether coded pieces may follow one another."""
    padding: bytes = b""
    """Bytes that may stand between them and behind them."""


_GZIP = _Coding(_gzip_start, lambda _: [lambda: _Zlib(16 + zlib.MAX_WBITS)], repeats=True, padding=b"\0")
_CODINGS = {
    "gzip": _GZIP,
    "x-gzip": _GZIP,
    "deflate": _Coding(_deflate_start, _deflate_engines),
    "br": _Coding(_text_start, lambda _: [_Brotli]),
    "zstd": _Coding(_zstd_start, lambda _: [_Zstd], repeats=True),
}


class _Layer:
    """One coding of the stack. `mismatched`: the bytes are not so coded and are passed on as they are."""

    def __init__(self, coding: _Coding) -> None:
        self.mismatched = False
        self.corrupt = False
        self.truncated = False
        self._coding = coding
        self._engine: _Engine | None = None
        self._engines: list[Callable[[], _Engine]] = []
        self._first = True
        self._head = b""  # all input so far, while there is no engine or the first one has produced nothing

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Decoded pieces of bounded size, each made when it is asked for."""
        for start in range(0, len(data), _SLICE):
            if self.mismatched:
                yield data[start:]
                return
            if self.corrupt:
                return
            yield from self._decode(data[start : start + _SLICE])

    def _decode(self, data: bytes) -> Iterator[bytes]:
        if self._engine is not None and self._head:
            self._head = self._head + data if len(self._head) + len(data) <= _HEAD_KEPT else b""
        while True:
            if self._engine is None:
                data = self._begin(data)
            if self._engine is not None:
                try:
                    piece = self._engine.decompress(data)
                except _FAILURES:
                    data = self._fail()
                    if self._engine is not None:
                        continue
            if self._engine is None:
                if self.mismatched:
                    yield data
                return
            more, data = self._engine.more, b""
            if piece or self._engine.ended:
                self._head = b""
            if self._engine.ended:
                data, self._engine = self._engine.rest, None
                more = bool(data)
            yield piece  # an empty one, too: it took time
            if not more:
                return

    def _begin(self, data: bytes) -> bytes:
        """Choose an engine by the first bytes, of the body or behind a coded piece; what to give to it."""
        head = self._head + data
        if not self._first:
            head = head.lstrip(self._coding.padding) if self._coding.padding else head
            if not head:
                return b""
            if not self._coding.repeats:
                self.corrupt = True
                return b""
        verdict = self._coding.start(head)
        self._head = head if verdict == "open" or (verdict == "coded" and self._first) else b""
        if verdict == "coded":
            self._first = False
            self._engines = self._coding.engines(head)
            self._engine = self._engines.pop(0)()
        elif verdict == "plain":
            self.mismatched = self._first
            self.corrupt = not self._first
        return head

    def _fail(self) -> bytes:
        """The engine refused its input: go on with another form of the coding, with plain text, or not at all."""
        head, self._head, self._engine = self._head, b"", None
        if head and self._engines:
            self._head, self._engine = head, self._engines.pop(0)()
        elif head and _PRINTABLE.fullmatch(head, 0, 16):
            self.mismatched = True
        else:
            self.corrupt = True
        return head

    def close(self) -> bytes:
        """The body ended; plain bytes that were held for being too few to tell."""
        head, self._head = self._head, b""
        if head and (self._first or self._engine is not None) and _PRINTABLE.fullmatch(head):
            self.mismatched = True
            return head
        self.truncated = bool(head or self._engine is not None)
        return b""


class ContentDecoder:
    """The codings of one body, undone read by read. `names` as the header lists them, the one applied last, last.

    `unknown`: it names a coding nobody here knows; what lies under that is passed on as it is.
    `ratio_high`: a read expanded beyond `RATIO_OUTPUT` or `RATIO`. `bomb`: it expanded beyond `READ_LIMIT`, or the body
    beyond its total, and nothing more is produced. `truncated` is known once closed.
    """

    def __init__(self, names: tuple[str, ...], total_limit: int = TOTAL_LIMIT) -> None:
        self.names = names
        self.unknown = len(names) > _STACK_LIMIT
        self.ratio_high = False
        self.bomb = False
        self._layers: list[_Layer] = []
        for name in reversed(names[-_STACK_LIMIT:]):
            coding = _CODINGS.get(name)
            if coding is None:
                self.unknown = True
                break
            self._layers.append(_Layer(coding))
        self._left = total_limit
        self._read_left = 0

    @property
    def mismatched(self) -> bool:
        """Whether bytes came that are not of the coding named; they are passed on as they are."""
        return any(layer.mismatched for layer in self._layers)

    @property
    def corrupt(self) -> bool:
        """Whether the coded data broke off in an error; nothing is produced behind it."""
        return any(layer.corrupt for layer in self._layers)

    @property
    def truncated(self) -> bool:
        """Whether the body ended before its coding did."""
        return not self.bomb and any(layer.truncated for layer in self._layers)

    def feed(self, data: bytes) -> bytes:
        """Take one read; the bytes that are readable now."""
        if self.bomb:
            return b""
        self._read_left = READ_LIMIT
        output = b"".join(self._through(data, 0))
        size = len(output)
        if size > RATIO_FLOOR and not all(layer.mismatched for layer in self._layers):
            self.ratio_high = self.ratio_high or size > RATIO_OUTPUT or size > RATIO * len(data)
        return output

    def close(self) -> bytes:
        """The body ended; what was held for being too short to tell coded from plain."""
        self._read_left = READ_LIMIT
        output: list[bytes] = []
        for depth, layer in enumerate(self._layers):
            output += self._through(layer.close(), depth + 1)
        return b"".join(output)

    def _through(self, data: bytes, depth: int) -> Iterator[bytes]:
        """Through the layers from `depth` on, piece by piece: what lies between two layers is never there whole."""
        if depth == len(self._layers):
            yield data
            return
        layer = self._layers[depth]
        for piece in layer.feed(data):
            if self.bomb:
                return
            yield from self._through(piece if layer.mismatched else self._charge(piece), depth + 1)

    def _charge(self, piece: bytes) -> bytes:
        """Take a piece from what may still be produced; what is left of it where there is too little."""
        room = min(self._left, self._read_left)
        kept = piece[:room]
        self._left -= len(kept)
        self._read_left -= max(len(kept), _PIECE_COST)
        self.bomb = len(kept) < len(piece) or self._read_left < 0
        return kept


def content_decoder(header: str, total_limit: int = TOTAL_LIMIT) -> ContentDecoder | None:
    """The decoder for a Content-Encoding header; None where it is absent, empty or `identity`."""
    tokens = (token.strip().lower() for token in header.split(","))
    names = tuple(token for token in tokens if token not in ("", "identity"))
    return ContentDecoder(names, total_limit) if names else None
