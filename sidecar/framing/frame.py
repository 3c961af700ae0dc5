"""What every framing decoder yields: one `Frame` per unit of the wire, and `Notes` on how it was written."""

from collections.abc import Sequence
from typing import Protocol

import msgspec


class Frame(msgspec.Struct, gc=False):
    """One unit of a framed body: an SSE block, an NDJSON line, an AWS frame, an array element, a whole body.

    `data` is the payload without its framing; None for a unit that carries none (a comment block, a bare
    `event:` line). `at` and `started` are CLOCK_MONOTONIC nanoseconds of the reads that completed and began it.
    `complete` is False for what was pending when the body ended; such a frame is stamped by its last byte.
    """

    data: bytes | None
    at: int
    event: str = ""
    complete: bool = True
    started: int = 0
    id: str = ""
    comments: int = 0
    stray: tuple[bytes, ...] = ()
    """Lines whose field name the framing does not know; the first ones only, long ones cut."""
    headers: dict[str, str] | None = None
    """Headers of the unit itself (AWS event stream); None where the framing has none."""
    lines: int = 1
    """Data lines that were joined (SSE)."""
    size: int = 0
    """Payload bytes on the wire, also where `data` was dropped for being over the bound."""
    torn: bool = False
    """The body ended in this unit before any of its data came."""


class Notes(msgspec.Struct):
    """How the units were written: counts that quirks and dashboards ask about, never used to parse."""

    lf: int = 0
    crlf: int = 0
    cr: int = 0
    split_line_endings: int = 0
    blank_lines: int = 0
    comments: int = 0
    heartbeat_comments: int = 0
    no_space_after_colon: int = 0
    bom: int = 0
    ids: int = 0
    multiline: int = 0
    control_only: int = 0
    empty_data: int = 0
    named_events: int = 0
    retry: int | None = None
    missing_final_newline: int = 0
    bad_checksums: int = 0
    oversized: int = 0
    array_closed: int = 0


class Decoder(Protocol):
    """Bytes in, frames out. No socket, no clock, no exception for whatever the bytes are."""

    notes: Notes

    @property
    def pending(self) -> bool:
        """Whether bytes of an unfinished unit are held."""

    def feed(self, chunk: bytes, at: int) -> Sequence[Frame]:
        """Take one read; `at` is its clock reading in nanoseconds."""

    def close(self) -> Sequence[Frame]:
        """The body ended: what was pending, marked incomplete."""
