"""Recorded exchanges that are one stream on two sides of a hop, placed in time by when each recording began."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from sidecar.export.hop import hop_object
from sidecar.files.text import hop_report
from sidecar.hops import Hops, slim
from sidecar.stream.hop import Hop
from sidecar.stream.summary import Summary

_ROUNDED = 2_000_000
"""Nanoseconds by which times out of a file may be off."""


class _Request(msgspec.Struct):
    url: str


class _Line(msgspec.Struct):
    request: _Request


_decode = msgspec.json.Decoder(_Line).decode


def several_servers(paths: Iterable[Path]) -> bool:
    """Whether the exchanges of capture files went to more than one server: only then there can be a hop in them."""
    first: str | None = None
    for path in paths:
        try:
            if not path.is_file():  # what can be read but once is left alone
                continue
            with path.open("rb") as lines:
                for line in lines:
                    server = _server_of(line)
                    first = first or server
                    if server != first and server is not None:
                        return True
        except OSError:
            continue  # whoever reads it says so
    return False


def _server_of(line: bytes) -> str | None:
    try:
        return urlsplit(_decode(line).request.url).netloc or None
    except (msgspec.MsgspecError, UnicodeError, ValueError, RecursionError):
        return None


class HeldReports:
    """Reports that cannot be shown yet: the other side of a hop may come later."""

    def __init__(self) -> None:
        self._held: list[tuple[Summary | None, dict[str, object] | str]] = []

    def add(self, summary: Summary | None, said: dict[str, object] | str) -> None:
        """A report, of which the summary is kept only as far as the comparison needs it; None where it has none."""
        self._held.append((None if summary is None else slim(summary), said))

    def with_hops(self, told: Callable[[Hop], str] = hop_report) -> Iterator[dict[str, object] | str]:
        """The reports in their order, those of the client's side of a hop with what the hop did; `told` puts that into
        words where the report is text."""
        hops = join([summary for summary, _ in self._held])
        for number, (_, said) in enumerate(self._held):
            hop = hops.get(number)
            if hop is None:
                yield said
            elif isinstance(said, str):
                yield f"{said}\n{told(hop)}"
            else:
                yield said | {"hop": hop_object(hop)}


def join(summaries: Sequence[Summary | None]) -> dict[int, Hop]:
    """What hops did, by the position of the exchange on the client's side. Those of unknown date are left out."""
    placed = {
        number: _on_wall_clock(summary) for number, summary in enumerate(summaries) if summary and summary.wall_ns
    }
    steps: list[tuple[int, int, int]] = []
    for number, summary in placed.items():
        steps += [(summary.opened_at, 0, number), (summary.ended_at, 1, number)]
    hops = Hops(lambda why, summary: None, limit=len(placed), tolerance=_ROUNDED)
    found: dict[int, Hop] = {}
    for _, ended, number in sorted(steps):
        summary = placed[number]
        if ended:
            found |= {pair.key: pair.hop for pair in hops.ended(number, summary)}
        else:
            hops.opened(number, summary.opened_at, (summary.worker, summary.listener))
            hops.requested(number, summary.traceparent, summary.body_digest)
    return found


def _on_wall_clock(summary: Summary) -> Summary:
    """Each recording has a clock of its own that begins with it; the wall clock is common to all."""
    shift = summary.wall_ns - summary.opened_at
    return msgspec.structs.replace(
        summary,
        opened_at=summary.wall_ns,
        t0=None if summary.t0 is None else summary.t0 + shift,
        ended_at=summary.ended_at + shift,
    )
