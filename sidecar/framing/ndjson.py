"""Newline-delimited JSON (https://github.com/ndjson/ndjson-spec): one value a line, lines ended by LF or CRLF.

A lone CR ends no line: to JSON it is white space. The RS that starts a record of a JSON text sequence (RFC 7464)
is taken off, so that `application/json-seq` reads the same way.
"""

import re
from collections.abc import Sequence

from sidecar.framing.frame import Frame, Notes

_BOM = b"\xef\xbb\xbf"
_RS = b"\x1e"
_BLANKS = b" \t\r\x1e"
_NOT_BLANK = re.compile(rb"[^ \t\r\x1e]")
_SLACK = 8  # held beyond the bound: a BOM, an RS and a CR may yet turn out to be no payload

DEFAULT_LIMIT = 16 * 1024 * 1024


class NdjsonDecoder:
    """Bytes in, one Frame per line that is not blank out, without its line ending.

    `limit` bounds the bytes of one line. A longer one is dropped as it comes, counted in `notes.oversized` and
    yielded without data, with its size; reading goes on behind its LF.
    """

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self.notes = Notes()
        self._limit = limit
        self._held = bytearray()  # of the line being read; of one over the bound only its first bytes
        self._dropped = 0
        self._blank = True
        self._after_cr = False
        self._first_line = True
        self._at = 0
        self._started = 0

    @property
    def pending(self) -> bool:
        return not self._blank

    def feed(self, chunk: bytes, at: int) -> Sequence[Frame]:
        """Take one read."""
        if not chunk:
            return ()
        self._at = at
        *lines, rest = chunk.split(b"\n")
        frames: list[Frame] = []
        for line in lines:
            frame = self._line(line, at)
            if frame is not None:
                frames.append(frame)
        if rest:
            self._hold(rest, at)
        return frames

    def _line(self, line: bytes, at: int) -> Frame | None:
        """A line that has ended; `line` is what the latest read has of it."""
        dropped, started = 0, at
        crlf = line.endswith(b"\r")
        if self._held:
            if not line and self._after_cr:
                crlf = True
                self.notes.split_line_endings += 1
            self._hold(line, at)
            line, dropped, started = self._take()
        if crlf:
            self.notes.crlf += 1
            line, dropped = (line, dropped - 1) if dropped else (line[:-1], 0)
        else:
            self.notes.lf += 1
        frame = self._frame(line, dropped, at, started, complete=True)
        self.notes.blank_lines += frame is None
        return frame

    def _hold(self, piece: bytes, at: int) -> None:
        """Keep a piece of the unfinished line; once it is over the bound only its first bytes stay."""
        held = self._held
        if not held:
            self._started = at
        if piece:
            self._after_cr = piece.endswith(b"\r")
            self._blank = self._blank and _NOT_BLANK.search(piece) is None
        if self._dropped:
            self._dropped += len(piece)
            return
        held += piece
        if len(held) > self._limit + _SLACK:
            self._dropped = len(held) - _SLACK
            del held[_SLACK:]

    def _take(self) -> tuple[bytes, int, int]:
        """The line held, the bytes dropped of it, and the reading of its first byte."""
        taken = bytes(self._held), self._dropped, self._started
        self._held.clear()
        self._dropped = 0
        self._blank = True
        self._after_cr = False
        return taken

    def _frame(self, line: bytes, dropped: int, at: int, started: int, *, complete: bool) -> Frame | None:
        if self._first_line:
            self._first_line = False
            if line.startswith(_BOM):
                self.notes.bom += 1
                line = line[3:]
        line = line.removeprefix(_RS)
        size = len(line) + dropped
        if size > self._limit:
            self.notes.oversized += 1
            return Frame(None, at, complete=complete, started=started, size=size)
        if not line.strip(_BLANKS):
            return None
        return Frame(line, at, complete=complete, started=started, size=size)

    def close(self) -> Sequence[Frame]:
        """The line that no LF ended, stamped by its last byte."""
        if not self._held:
            return ()
        line, dropped, started = self._take()
        frame = self._frame(line, dropped, self._at, started, complete=False)
        if frame is None:
            return ()
        self.notes.missing_final_newline += 1
        return (frame,)
