"""Server-Sent Events, as the WHATWG HTML standard parses them (section 9.2.6), with the oddities counted.

Differences from a browser: blocks without data are kept (a keep-alive is evidence), and so is an unterminated
last block (marked incomplete, for the dialect to judge).
"""

import re
from collections.abc import Sequence

from sidecar.framing.frame import Frame, Notes

_LINE_END = re.compile(rb"\r\n|\r|\n")
_BOM = b"\xef\xbb\xbf"
_LF = 0x0A
_CR = 0x0D
_PLAIN = b"data: "
_COLON = 0x3A
_BEGIN_EVENTS = (b"dat", b"event", b"[DONE")
_NO_HEARTBEAT = b":HTTP_STATUS/"  # DashScope states the HTTP status in a comment in front of every event
_STRAY_KEPT = 8
_FIELD_KEPT = 64 * 1024  # bytes of a line that is no data: an event name, an id, an error as a field
_SLACK = 16  # held beyond that: a BOM, a field name, its colon and space

DEFAULT_LIMIT = 16 * 1024 * 1024


class SseDecoder:
    """Bytes in, one Frame per block out.

    `limit` bounds the data bytes held for one block; the data of a longer one is dropped as it comes, counted in
    `notes.oversized`, and the block yielded without data, with its size. Lines that are no data are cut off at
    64 KiB or the limit, whichever is less. Where a read ends changes none of this.
    """

    __slots__ = (
        "_after_cr",
        "_at",
        "_comments",
        "_control",
        "_data",
        "_dropped",
        "_event",
        "_field_limit",
        "_fields",
        "_first_line",
        "_held",
        "_id",
        "_last_id",
        "_lines",
        "_more",
        "_partial",
        "_size",
        "_started",
        "_stray",
        "limit",
        "notes",
    )

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self.notes = Notes()
        self.limit = limit
        self._field_limit = min(limit, _FIELD_KEPT)
        self._partial = bytearray()  # of the line being read
        self._dropped = 0  # bytes dropped from that line's end
        self._after_cr = False
        self._first_line = True
        self._last_id = ""
        self._at = 0
        self._started = 0
        self._reset()

    def _reset(self) -> None:
        self._lines = 0  # data lines kept of this block
        self._data = b""  # the first of them
        self._more = bytearray()  # the others, each behind its LF
        self._event = b""
        self._id: str | None = None
        self._comments = 0
        self._stray: list[bytes] = []
        self._fields = 0
        self._control = 0  # event, id and retry fields
        self._held = 0  # data bytes kept of this block
        self._size = 0  # data bytes seen of this block

    @property
    def pending(self) -> bool:
        return bool(self._partial or self._fields)

    def feed(self, chunk: bytes, at: int) -> Sequence[Frame]:
        """Take one read. A CR ends its line at once: waiting for a possible LF would stamp the event late."""
        if not chunk:
            return ()
        # The common read by far: one whole `data: …` event. Tested equal to the general way on every fixture.
        data = single(chunk, _PLAIN, self.limit) if self.is_between else None
        if data is None:
            return self._general(chunk, at)
        self.passed(_PLAIN)
        self._at = at
        if not data:
            self.notes.empty_data += 1
        return (Frame(data, at, started=at, id=self._last_id, size=len(data)),)

    @property
    def is_between(self) -> bool:
        """Whether the next byte begins a block, and no earlier one has a say in how it is read."""
        return not (self._partial or self._fields or self._first_line or self._after_cr)

    def passed(self, prefix: bytes, count: int = 1) -> None:
        """Note blocks that are not fed: `single` gave their data, and they came where the decoder `is_between`."""
        self.notes.lf += 2 * count
        if prefix != _PLAIN:
            self.notes.lf += count
            self.notes.named_events += count

    def _general(self, chunk: bytes, at: int) -> list[Frame]:
        frames: list[Frame] = []
        if not self.pending:
            self._started = at
        self._at = at
        start = 0
        if self._after_cr:
            self._after_cr = False
            if chunk[0] == _LF:
                self.notes.cr -= 1
                self.notes.crlf += 1
                self.notes.split_line_endings += 1
                start = 1
        end = start
        for match in _LINE_END.finditer(chunk, start):
            line = chunk[end : match.start()]
            self._count_ending(chunk, match.start(), match.end())
            end = match.end()
            frame = self._line(*self._take_held(line)) if self._partial else self._line(line)
            if frame is not None:
                frames.append(frame)
                self._started = at
        if end < len(chunk):
            self._hold(chunk[end:])
        return frames

    def _count_ending(self, chunk: bytes, start: int, end: int) -> None:
        if end - start == 2:
            self.notes.crlf += 1
        elif chunk[start] == _LF:
            self.notes.lf += 1
        else:
            self.notes.cr += 1
            self._after_cr = end == len(chunk)

    def _hold(self, piece: bytes) -> None:
        """Keep of the unfinished line what its field could use, whatever field it turns out to be."""
        room = max(self.limit - self._held, self._field_limit) + _SLACK - len(self._partial)
        self._partial += piece[:room]
        self._dropped += max(len(piece) - room, 0)

    def _take_held(self, rest: bytes) -> tuple[bytes, int]:
        """The line held so far with its rest, and the bytes dropped from its end."""
        self._hold(rest)
        line, dropped = bytes(self._partial), self._dropped
        self._partial.clear()
        self._dropped = 0
        return line, dropped

    def _drop_data(self, size: int) -> None:
        """The block is over the bound: it loses its data, not its existence."""
        self.notes.oversized += self._held <= self.limit
        self._held = self.limit + 1
        self._size += size
        self._lines = 0
        self._data = b""
        self._more.clear()

    def _keep_data(self, value: bytes) -> None:
        self._size += len(value)
        self._held += len(value) + 1
        self._lines += 1
        if self._lines == 1:
            self._data = value
        else:  # one buffer, not a list: a block may consist of millions of empty lines
            self._more += b"\n"
            self._more += value

    def _line(self, line: bytes, dropped: int = 0) -> Frame | None:
        """A line that has ended, less the bytes dropped from its end."""
        if self._first_line:
            self._first_line = False
            if line.startswith(_BOM):
                self.notes.bom += 1
                line = line[3:]
        if not line:
            return self._dispatch()
        self._fields += 1
        if line[0] == _COLON:
            self.notes.comments += 1
            if not line.startswith(_NO_HEARTBEAT):
                self.notes.heartbeat_comments += 1
                self._comments += 1
            return None
        name, colon, value = line.partition(b":")
        spaced = value[:1] == b" "
        if spaced:
            value = value[1:]
        if name == b"data":
            if value and colon and not spaced:
                self.notes.no_space_after_colon += 1
            if self._held + len(value) + dropped > self.limit:
                self._drop_data(len(value) + dropped)
            else:
                self._keep_data(value)
        elif name == b"event":
            self._control += 1
            self._event = value[: self._field_limit]
        elif name == b"id":
            self._control += 1
            self.notes.ids += 1
            value = value[: self._field_limit]
            if b"\0" not in value:
                self._id = value.decode("utf-8", "replace")
        elif name == b"retry":
            self._control += 1
            # ASCII digits only: bytes.isdigit accepts no others.
            if value.isdigit() and len(value) + dropped < 20:
                self.notes.retry = int(value)
        elif len(self._stray) < _STRAY_KEPT:
            self._stray.append(line[: self._field_limit])
        return None

    def _dispatch(self) -> Frame | None:
        if not self._fields:
            self.notes.blank_lines += 1
            return None
        if self._id is not None:
            self._last_id = self._id
        frame = self._frame(complete=True)
        if frame.data is None:
            self.notes.control_only += bool(self._control and not frame.size)
        else:
            self.notes.empty_data += not frame.data
            self.notes.multiline += self._lines > 1
        self._reset()
        return frame

    def _frame(self, *, complete: bool) -> Frame:
        event = self._event.decode("utf-8", "replace") if self._event else ""
        self.notes.named_events += bool(event)
        data = self._data + self._more if self._more else self._data
        return Frame(
            data if self._lines else None,
            self._at,
            event,
            complete,
            self._started,
            self._last_id,
            self._comments,
            tuple(self._stray),
            None,
            self._lines or 1,
            self._size,
        )

    def close(self) -> Sequence[Frame]:
        """What was pending, its last line taken as if it had ended, stamped by its last byte."""
        if self._after_cr and self.notes.crlf:
            self.notes.cr -= 1  # the body ended within a CRLF
        torn = False
        if self._partial:
            line, dropped = self._take_held(b"")
            torn = line.startswith(b"event:")
            if any(name.startswith(line) for name in _BEGIN_EVENTS):
                torn = True  # a name cut short is another name
            elif not line.startswith((b"retry", b"id")):  # a number cut short is another number
                self._line(line, dropped)
        if not (self._fields or torn):
            return ()
        frame = self._frame(complete=False)
        frame.torn = frame.data is None and not frame.size and (torn or bool(frame.event))
        self._reset()
        return (frame,)


def single(chunk: bytes, prefix: bytes, limit: int) -> bytes | None:
    """The data of a read that is one whole block: `prefix`, which ends in `data: `, and a single line. None where it is
    anything else, or longer than `limit`."""
    # Numbers and slices: a third of the time of `startswith`, `find` and a search for b"\r".
    begin = len(prefix)
    if chunk[:begin] == prefix and len(chunk) <= limit and chunk[-1] == _LF and chunk[-2] == _LF:
        data = chunk[begin:-2]
        if _LF not in data and _CR not in data:
            return data
    return None
