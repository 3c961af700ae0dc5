"""What there is to be served, as lines of text."""

from collections.abc import Iterable, Iterator
from urllib.parse import urlsplit

from sidecar.files.capture import Capture
from sidecar.files.plain import plain

_ENDS = {
    "eof": "ends",
    "upstream_reset": "reset",
    "upstream_failed": "no answer, reset",
    "client_disconnect": "stays open (its client left)",
    "open": "stays open (hung)",
}


def listing(captures: Iterable[Capture]) -> Iterator[str]:
    """A line per exchange: id, request without its query, answer, duration, end."""
    rows = [_row(capture) for capture in captures]
    widths = [max(len(row[column]) for row in rows) for column in range(4)] if rows else []
    for row in rows:
        yield "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]])


def _row(capture: Capture) -> tuple[str, str, str, str, str]:
    count = f"{len(capture.messages)} messages" if capture.messages else f"{len(capture.chunks)} chunks"
    status = str(capture.response.status) if capture.response is not None else "-"
    return (
        plain(capture.id),
        plain(f"{capture.request.method} {urlsplit(capture.request.url).path or '/'}"),
        f"{status}, {count}",
        f"{capture.end.at_ms / 1000:.3f} s" if capture.timed else "untimed",
        _ENDS[capture.end.kind],
    )
