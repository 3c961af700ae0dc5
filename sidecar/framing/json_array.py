"""A JSON array that is streamed element by element, as Gemini answers without `alt=sse`.

Only the array's own level is read: where its elements begin and end. What they hold is the dialect's to judge.
"""

import re
from collections.abc import Sequence

from sidecar.framing.frame import Frame, Notes

_BOM = b"\xef\xbb\xbf"
_OPENERS = b"{["
_BETWEEN = re.compile(rb"[ \t\r\n,]*+")
_SCALAR = re.compile(rb'[^ \t\r\n,\]\[{"]*+')
_STRING_REST = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_FLAT = re.compile(rb'[^"{}\[\]]*+(?:"(?:[^"\\]++|\\.)*+"[^"{}\[\]]*+)*+', re.DOTALL)
"""Text without a bracket, whole strings included. Possessive throughout: nothing is ever read twice for a retry."""
_BRACKETS = re.compile(rb"[{\[]++|[}\]]++")

DEFAULT_LIMIT = 16 * 1024 * 1024


class JsonArrayDecoder:
    """Bytes in, one Frame per element of the outermost array out.

    Objects and arrays are complete with their closing bracket, strings with their quote, other scalars with the
    delimiter behind them. Each byte is looked at once, however the body is cut. `notes.array_closed` is 1 once the
    array's own bracket came; what follows it is ignored. `limit` bounds the bytes of one element; a longer one is
    dropped as it comes, counted in `notes.oversized` and yielded without data, with its size.
    """

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self.notes = Notes()
        self._limit = limit
        self._lead = b""  # first bytes of what stands before the array
        self._opened = False
        self._inside = False  # an element
        self._depth = 0  # brackets open in it
        self._scalar = False  # it is a number, a literal, or nothing that JSON knows
        self._in_string = False
        self._escaped = False  # the read ended behind a backslash
        self._held = bytearray()
        self._dropped = 0  # bytes of an element over the bound
        self._at = 0
        self._started = 0

    @property
    def pending(self) -> bool:
        return self._inside

    def feed(self, chunk: bytes, at: int) -> Sequence[Frame]:
        """Take one read."""
        if not chunk or self.notes.array_closed:
            return ()
        start = 0
        if not self._opened:
            start = self._open(chunk)
        frames: list[Frame] = []
        while start < len(chunk):
            if not self._inside:
                start = _end(_BETWEEN, chunk, start)
                if start == len(chunk):
                    break
                if chunk[start : start + 1] == b"]":
                    self.notes.array_closed = 1
                    break
                self._started = at
                end = self._begin(chunk, start)
            else:
                end = self._element_end(chunk, start)
            self._at = at
            if end is None:
                self._hold(chunk[start:])
                break
            frames.append(self._take(chunk[start:end], complete=True))
            start = end
        return frames

    def _open(self, chunk: bytes) -> int:
        """Where the first element may begin: behind the array's bracket. What stands before that is passed over."""
        start = chunk.find(b"[")
        self._opened = start >= 0
        before = chunk[:start] if self._opened else chunk
        self._lead += before[: len(_BOM) - len(self._lead)]
        self.notes.bom = int(self._lead == _BOM)
        return start + 1 if self._opened else len(chunk)

    def _begin(self, chunk: bytes, start: int) -> int | None:
        self._inside = True
        self._in_string = chunk.startswith(b'"', start)
        self._scalar = not self._in_string and chunk[start] not in _OPENERS
        return self._element_end(chunk, start + self._in_string)

    def _element_end(self, chunk: bytes, at: int) -> int | None:
        """Where the element ends that is open at `at`; None where that is not in this read."""
        if self._scalar:
            at = _end(_SCALAR, chunk, at)
            return at if at < len(chunk) else None
        while at < len(chunk):
            if self._in_string:
                at = self._string_end(chunk, at)
                if not self._in_string and not self._depth:
                    return at
                continue
            at = _end(_FLAT, chunk, at)
            if chunk.startswith(b'"', at):  # a string that this read does not end
                self._in_string = True
                at += 1
            elif at < len(chunk):
                end = _end(_BRACKETS, chunk, at)
                if chunk[at] in _OPENERS:
                    self._depth += end - at
                elif end - at < self._depth:
                    self._depth -= end - at
                else:
                    end, self._depth = at + self._depth, 0
                    return end
                at = end
        return None

    def _string_end(self, chunk: bytes, at: int) -> int:
        """Behind the quote that ends the open string, or the end of the read."""
        if self._escaped:
            self._escaped = False
            at += 1
        at = _end(_STRING_REST, chunk, at)
        if chunk.startswith(b'"', at):
            self._in_string = False
            return at + 1
        self._escaped = at < len(chunk)  # only a backslash that is the last byte stops the match short of the end
        return len(chunk)

    def _hold(self, piece: bytes) -> None:
        if self._dropped:
            self._dropped += len(piece)
            return
        self._held += piece
        if len(self._held) > self._limit:
            self._dropped = len(self._held)
            self._held.clear()

    def _take(self, rest: bytes, *, complete: bool) -> Frame:
        """The element, `rest` being what the latest read has of it."""
        size = self._dropped + len(self._held) + len(rest)
        data = None if size > self._limit else bytes(self._held) + rest if self._held else rest
        self.notes.oversized += data is None
        self._held.clear()
        self._dropped = 0
        self._inside = False
        return Frame(data, self._at, complete=complete, started=self._started, size=size)

    def close(self) -> Sequence[Frame]:
        """The element that the body's end cut off, stamped by its last byte."""
        return (self._take(b"", complete=False),) if self._inside else ()


def _end(pattern: re.Pattern[bytes], chunk: bytes, start: int) -> int:
    """Where the match of a pattern ends that matches anything, the empty string too; `start` where it does not."""
    match = pattern.match(chunk, start)
    return match.end() if match else start
