"""Captures recorded anew, without a proxy: what a recorder makes of the records of a capture."""

from collections.abc import Sequence
from pathlib import Path

from sidecar.capture.records import Opened, Record
from sidecar.files.capture import Capture, CaptureError, end_at, read_captures, records_of
from sidecar.record.draft import Draft
from sidecar.record.line import line_of
from sidecar.record.scrub.scrubber import Scrubber

KEY = b"k" * 32


def draft_of(records: Sequence[Record], stopped_at: int | None = None) -> Draft:
    """A draft that has taken these records."""
    opened = records[0]
    assert isinstance(opened, Opened)
    draft = Draft(opened)
    for record in records[1:]:
        draft.add(record)
    if stopped_at is not None:
        draft.last_at = stopped_at
    return draft


def line(capture: Capture, scrubber: Scrubber | None = None) -> bytes:
    """The line that a recorder writes of it."""
    stopped_at = end_at(capture) if capture.end.kind == "open" else None
    return line_of(draft_of(list(records_of(capture)), stopped_at), by="test", scrubber=scrubber)


def again(capture: Capture, folder: Path, scrubber: Scrubber | None = None) -> Capture:
    """The same, read back from a file."""
    file = folder / "recording.jsonl"
    file.write_bytes(line(capture, scrubber))
    (found,) = read_captures(file)
    assert not isinstance(found, CaptureError), found
    return found


def scrubbed(capture: Capture, folder: Path) -> Capture:
    """Read back, all content replaced."""
    return again(capture, folder, Scrubber(KEY))
