"""AWS event stream encoding, `application/vnd.amazon.eventstream`.

A frame is: total length (4 bytes), headers length (4), CRC32 of those eight (4), headers, payload, CRC32 of all
before it (4); big-endian throughout. Format and bounds: https://smithy.io/2.0/aws/amazon-eventstream.html.
"""

import re
import struct
from collections.abc import Sequence
from zlib import crc32

from sidecar.framing.frame import Frame, Notes

_PRELUDE = struct.Struct(">III")
_CRC_BYTES = 4
_OVERHEAD = _PRELUDE.size + _CRC_BYTES

_STRING = 7
_SIZED = (6, _STRING)
"""Value types with two bytes of length in front: byte array and string."""
_FIXED = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Bytes of the other value types: true, false, byte, short, integer, long, timestamp, UUID."""
_NAMES = (":event-type", ":exception-type", ":error-code")

_MAYBE_PRELUDE = re.compile(rb"(?=[\x00\x01].{3}\x00[\x00-\x02])", re.DOTALL)
"""What a search looks at before it takes a checksum. The format allows 24 MiB of payload and 128 KiB of headers, so
the upper bytes of both lengths are small. Nothing is consumed: candidates may overlap."""

DEFAULT_LIMIT = 16 * 1024 * 1024


class EventStreamDecoder:
    """Bytes in, one Frame per AWS frame out; `event` is its event type, exception type or error code.

    A frame whose own checksum is wrong is yielded without data and headers. Where a prelude is wrong its lengths
    mean nothing: the bytes are searched for the next prelude that is right, and nothing is yielded for those passed
    over. Both are counted in `notes.bad_checksums`, a lost prelude once. `limit` bounds the bytes of one frame; of a
    longer one nothing is kept, it is counted in `notes.oversized` and yielded without data, with its size.
    """

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self.notes = Notes()
        self._limit = limit
        self._held = bytearray()  # of the frame being read, or the last bytes of what was searched in vain
        self._start = 0  # of what is not read yet in it; bytes are let go once a read, not once a frame
        self._stamps: list[int] = []  # readings of the bytes held while they are fewer than a prelude
        self._searching = False
        self._total = 0  # bytes of the frame being read, 0 before its prelude is there
        self._headers = 0  # bytes of its headers
        self._passed = 0  # bytes passed over of a frame over the bound
        self._at = 0
        self._started = 0

    @property
    def pending(self) -> bool:
        return bool(self._total or (self._held and not self._searching))

    def feed(self, chunk: bytes, at: int) -> Sequence[Frame]:
        """Take one read."""
        if not chunk:
            return ()
        self._at = at
        self._held += chunk
        frames: list[Frame] = []
        while self._has_prelude():
            if self._total > self._limit:
                frame = self._passed_over()
            elif len(self._held) - self._start >= self._total:
                frame = self._frame()
            else:
                frame = None
            if frame is None:
                break
            frames.append(frame)
        self._let_go()
        return frames

    def _has_prelude(self) -> bool:
        """Whether a prelude that is right has been read; behind one that is wrong the next is searched."""
        if self._total:
            return True
        last = len(self._held) - _PRELUDE.size  # where a prelude must begin to be whole
        if not self._searching:
            if self._start > last:
                return False
            if self._accept(self._start):
                return True
            self.notes.bad_checksums += 1
            self._searching = True
            self._start += 1
        for match in _MAYBE_PRELUDE.finditer(self._held, self._start):
            if match.start() > last:
                break
            if self._accept(match.start()):
                self._searching = False
                return True
        self._start = max(self._start, last + 1)
        return False

    def _accept(self, start: int) -> bool:
        total, headers, checksum = _PRELUDE.unpack_from(self._held, start)
        if crc32(self._held[start : start + 8]) != checksum or headers > total - _OVERHEAD:
            return False
        self._start = start
        self._started = self._stamps[start] if start < len(self._stamps) else self._at
        self._total, self._headers, self._passed = total, headers, 0
        self.notes.oversized += total > self._limit
        return True

    def _passed_over(self) -> Frame | None:
        """Let go what is there of a frame over the bound; the frame, without data, once all of it is."""
        passed = min(self._total - self._passed, len(self._held) - self._start)
        self._passed += passed
        self._start += passed
        if self._passed < self._total:
            return None
        size = self._total - self._headers - _OVERHEAD
        self._total = 0
        return Frame(None, self._at, started=self._started, size=size)

    def _frame(self) -> Frame:
        message = bytes(memoryview(self._held)[self._start : self._start + self._total])
        self._start += self._total
        self._total = 0
        begin = _PRELUDE.size + self._headers
        payload = message[begin:-_CRC_BYTES]
        if crc32(message[:-_CRC_BYTES]) != int.from_bytes(message[-_CRC_BYTES:]):
            self.notes.bad_checksums += 1
            return Frame(None, self._at, started=self._started, size=len(payload))
        headers = _strings(message[_PRELUDE.size : begin])
        event = next((headers[name] for name in _NAMES if name in headers), "")
        return Frame(payload, self._at, event, started=self._started, headers=headers, size=len(payload))

    def _let_go(self) -> None:
        end = len(self._held)
        early, at = self._stamps, self._at
        kept = range(self._start, end) if end - self._start < _PRELUDE.size else ()
        self._stamps = [early[i] if i < len(early) else at for i in kept]
        del self._held[: self._start]
        self._start = 0

    def close(self) -> Sequence[Frame]:
        """A frame cut off: without payload, for no checksum vouches for what came of it; stamped by its last byte.

        Its event is named where that much of its headers came.
        """
        if not self.pending:
            return ()
        started = self._started if self._total else self._stamps[0]
        begin = _PRELUDE.size
        headers = _strings(bytes(self._held[begin : begin + self._headers])) if self._total and not self._passed else {}
        event = next((headers[name] for name in _NAMES if name in headers), "")
        self._held.clear()
        self._total = 0
        return (Frame(b"", self._at, event, complete=False, started=started),)


def _strings(headers: bytes) -> dict[str, str]:
    """The string headers of a frame; values of other types are passed over. A header that does not hold together
    ends the list: behind it nothing can be told."""
    found: dict[str, str] = {}
    at = 0
    while at < len(headers):
        name_end = at + 1 + headers[at]
        name = headers[at + 1 : name_end]
        kind = headers[name_end] if name_end < len(headers) else -1
        at = name_end + 1
        if kind in _SIZED:
            size = int.from_bytes(headers[at : at + 2])
            at += 2
        elif kind in _FIXED:
            size = _FIXED[kind]
        else:
            break
        if at + size > len(headers):
            break
        if kind == _STRING:
            found[name.decode("utf-8", "replace")] = headers[at : at + size].decode("utf-8", "replace")
        at += size
    return found
