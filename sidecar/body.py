"""One response body, from reads to frames: content coding, framing, and what the reads themselves show."""

import codecs
from collections.abc import Sequence

from sidecar.encoding import ContentDecoder, content_decoder
from sidecar.framing.frame import Decoder, Frame, Notes
from sidecar.framing.sse import SseDecoder
from sidecar.framing.table import BY_NAME, Framing, by_content_type, sniff
from sidecar.stream.arrivals import Arrivals

DEFAULT_EVENT_LIMIT = 16 * 1024 * 1024
_SNIFF_HELD = 4096
_BURST = 5
_SEPARATORS = (b"\xe2\x80\xa8", b"\xe2\x80\xa9", b"\xc2\x85")
_OF_TEXT = frozenset({"invalid_utf8", "nul_byte_in_stream", "utf8_split_across_reads"})
_NO_NOTES = Notes()
_NONE: frozenset[str] = frozenset()  # shared, as in `Stream`
_utf8_decoder = codecs.getincrementaldecoder("utf-8")


class Body:
    """Reads in, frames out.

    `messages`: it is no body but messages of a WebSocket, each handed in as one read. `notes` are habits of the bytes by
    their names in the quirk registry; `arrivals` says when units completed.
    """

    __slots__ = (
        "_all_units",
        "_asked_stream",
        "_binary",
        "_bursts",
        "_decoder",
        "_held",
        "_held_at",
        "_limit",
        "_lines",
        "_split",
        "_utf8",
        "arrivals",
        "coding",
        "declared",
        "framing",
        "largest_unit",
        "notes",
        "size",
    )

    def __init__(
        self,
        *,
        content_type: str,
        content_encoding: str,
        asked_stream: bool,
        whole: bool,
        lines: bool = False,
        messages: bool = False,
        limit: int = DEFAULT_EVENT_LIMIT,
    ) -> None:
        self.coding: ContentDecoder | None = content_decoder(content_encoding)
        self.declared = by_content_type(content_type)
        self.framing: Framing | None = BY_NAME["whole"] if whole else BY_NAME["message"] if messages else None
        self.notes = _NONE
        self.arrivals = Arrivals()
        self.size = 0
        self.largest_unit = 0
        self._binary = self.declared is not None and self.declared.name == "eventstream"
        self._asked_stream = asked_stream
        self._lines = lines and asked_stream
        self._limit = limit
        self._decoder: Decoder | None = self.framing.decoder(limit) if self.framing else None
        self._held = b""  # until the framing is known
        self._held_at = 0
        self._utf8: codecs.IncrementalDecoder | None = None  # until there is more than ASCII
        self._bursts = 0
        self._split = False  # a unit is unfinished between reads
        self._all_units = False  # a frame without data is a unit all the same: a wrong checksum, one too large

    @property
    def framing_notes(self) -> Notes:
        """What the framing decoder saw; all zero before it is known."""
        return self._decoder.notes if self._decoder is not None else _NO_NOTES

    @property
    def unfinished(self) -> bool:
        """Whether bytes of an unfinished unit are held."""
        return self._split

    @property
    def streams(self) -> bool:
        """Whether the body is a stream, by its declaration while nothing but blank bytes has come."""
        framing = self.framing or self.declared
        return framing is not None and framing.streamed

    @property
    def is_compressed(self) -> bool:
        """Whether a coding is named and the body is so coded."""
        return self.size > 0 and self.coding is not None and not (self.coding.mismatched or self.coding.unknown)

    @property
    def is_whole(self) -> bool:
        """Whether the body is one document."""
        return self.framing is not None and not self.framing.streamed

    @property
    def is_array(self) -> bool:
        """Whether the body is a JSON array that is streamed: its closing bracket ends it, whatever the dialect."""
        return self.framing is not None and self.framing.name == "json_array"

    @property
    def _cut_character(self) -> bytes:
        """The beginning of a character that the last read cut in two."""
        return b"" if self._utf8 is None else self._utf8.getstate()[0]

    @property
    def single_limit(self) -> int | None:
        """The largest read that `sse.single` may look at in place of `feed`; None where it may not."""
        decoder = self._decoder
        if decoder.__class__ is not SseDecoder or self.coding is not None or self._split or self._cut_character:
            return None
        return decoder.limit if decoder.is_between else None

    def take_run(self, prefix: bytes, sizes: Sequence[int], ats: Sequence[int]) -> None:
        """Reads of these sizes that were not fed: each a block of `prefix` and one line of data, which shows nothing of
        how it is written that was not seen before."""
        self.size += sum(sizes)
        decoder = self._decoder
        assert decoder.__class__ is SseDecoder
        decoder.passed(prefix, len(sizes))
        largest = max(sizes) - len(prefix) - 2
        if largest > self.largest_unit:
            self.largest_unit = largest
        self.arrivals.read(*sizes)
        self.arrivals.add(1, *ats)

    def feed(self, data: bytes, at: int) -> Sequence[Frame]:
        """One read of the wire, content coding and all."""
        self.size += len(data)
        self.arrivals.read(len(data))
        decoded = data if self.coding is None else self.coding.feed(data)
        if not decoded:
            return ()
        if self._split:
            self.notes |= {"event_split_across_reads"}
        frames = self._decode(decoded, at)
        decoder = self._decoder
        self._split = self._held.strip() not in (b"", b"[") if decoder is None else decoder.pending
        return frames

    def _decode(self, decoded: bytes, at: int) -> Sequence[Frame]:
        if not self._binary:
            if not decoded.isascii() or self._cut_character:
                self._check_text(decoded)
            if b"\0" in decoded:
                self.notes |= {"nul_byte_in_stream"}
        decoder = self._decoder
        if decoder is None:
            self._held += decoded
            self._held_at = self._held_at or at
            framing = self._sniff(self._held[:_SNIFF_HELD])
            if framing is None and len(self._held) < _SNIFF_HELD:
                return ()
            decoder = self._begin(framing)
            decoded, self._held = self._held, b""
        frames = decoder.feed(decoded, at)
        if frames:
            self._count(frames, at)
        return frames

    def _sniff(self, head: bytes) -> Framing | None:
        return sniff(head, self.declared, asked_stream=self._asked_stream, lines=self._lines)

    def _begin(self, framing: Framing | None) -> Decoder:
        self.framing = framing or self.declared or BY_NAME["whole"]
        self._binary = self.framing.name == "eventstream"
        if self._binary:
            self.notes -= _OF_TEXT  # said of the first bytes, while they might have been text
        self._all_units = self.framing.name in ("ndjson", "json_array", "eventstream")
        self._decoder = decoder = self.framing.decoder(self._limit)
        return decoder

    def _count(self, frames: Sequence[Frame], at: int) -> None:
        units = 0
        for frame in frames:
            if frame.size > self.largest_unit:
                self.largest_unit = frame.size
            data = frame.data
            if data is not None:
                units += 1
                if not data.isascii():
                    self._look_for_separators(data)
            elif self._all_units or any(line.strip() == b"[DONE]" for line in frame.stray):
                units += 1
        if units:
            self.arrivals.add(units, at)
            if units > 1:
                self.notes |= {"multiple_events_per_read"}
            if units >= _BURST:
                self._bursts += 1
                if self._bursts > 1:
                    self.notes |= {"burst_delivery"}

    def _look_for_separators(self, data: bytes) -> None:
        if has_separators(data):
            self.notes |= {"unicode_line_separator_in_data"}

    def _check_text(self, decoded: bytes) -> None:
        """Bad UTF-8 and characters cut by a read."""
        if self._utf8 is None:
            self._utf8 = _utf8_decoder("strict")
        begun = self._cut_character
        try:
            text = self._utf8.decode(decoded)
        except UnicodeDecodeError:
            self.notes |= {"invalid_utf8"}
            self._utf8 = _utf8_decoder("replace")
            self._utf8.decode(begun + decoded)  # for the character that this read may have begun
            return
        if begun and text and text[0] != "\ufffd":
            self.notes |= {"utf8_split_across_reads"}

    def close(self) -> list[Frame]:
        """The body ended, in whatever way: what was pending."""
        frames: list[Frame] = []
        if self.coding is not None:
            rest = self.coding.close()
            if rest:
                frames += self._decode(rest, self.arrivals.last)
        if self._decoder is None and self._held:
            decoder = self._begin(self._sniff(self._held))
            held, self._held = self._held, b""
            fed = list(decoder.feed(held, self._held_at))
            self._count(fed, self._held_at)
            frames += fed
        if self._decoder is not None:
            last = self._decoder.close()
            for frame in last:
                self.largest_unit = max(self.largest_unit, frame.size)
                if frame.data is not None:
                    self._look_for_separators(frame.data)
            frames += last
        return frames


def is_clean(payload: bytes) -> bool:
    """Whether a payload shows nothing of the kind that `notes` tells of its characters."""
    if payload.isascii():
        return True
    try:
        payload.decode()
    except UnicodeDecodeError:
        return False
    return not has_separators(payload)


def has_separators(data: bytes) -> bool:
    """Whether there is a character that some readers of lines take for their end."""
    return any(mark in data for mark in _SEPARATORS)
