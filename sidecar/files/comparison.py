"""Several files side by side: a row per endpoint."""

from collections import Counter
from collections.abc import Iterator, Sequence

from sidecar.files.markdown import code, markdown_table
from sidecar.files.plain import plain
from sidecar.quirks.quirk import Severity
from sidecar.quirks.registry import worst_first
from sidecar.stream.summary import Summary

HEAD = (
    "endpoint",
    "exchanges",
    "complete",
    "first token",
    "p99",
    "gap",
    "held back",
    "breaks_clients",
    "warning",
    "usage",
)
"""Columns. First token and gap are medians, with the 99th percentile of the first; `held back` is buffered or coalesced;
`breaks_clients` and `warning` count the exchanges with such quirks; `usage` those in which it was reported."""

type _Place = tuple[str, str]


class _Row:
    def __init__(self) -> None:
        self.exchanges = 0
        self.complete = 0
        self.held_back = 0
        self.usage = 0
        self.first_tokens: list[float] = []
        self.gaps: list[float] = []
        self.with_quirks: Counter[Severity] = Counter()
        self.notable: Counter[str] = Counter()
        """Outcomes but `complete`, and quirks above `info`."""

    def add(self, summary: Summary) -> None:
        self.exchanges += 1
        self.complete += summary.outcome == "complete"
        self.held_back += summary.buffering.verdict in ("buffered", "coalesced")
        self.usage += summary.usage_state == "reported"
        if (first := summary.milestones.get("first_token")) is not None:
            self.first_tokens.append(first)
        if summary.milestones and (gap := summary.gaps.percentile(0.5)) is not None:
            self.gaps.append(gap)
        rows = [row for row in worst_first(summary.quirks) if row.severity is not Severity.INFO]
        self.with_quirks.update({row.severity for row in rows})
        self.notable.update([*([summary.outcome] if summary.outcome != "complete" else []), *(row.id for row in rows)])


class Comparison:
    """Gathers summaries; keeps figures of them only. An endpoint is a server with the dialect it speaks there; where only
    responses are known it is the file that they came from."""

    def __init__(self) -> None:
        self._rows: dict[_Place, _Row] = {}

    def add(self, summary: Summary, source: str) -> None:
        """One exchange, out of the file `source`."""
        known = summary.server_address not in ("", "unknown")
        server = f"{summary.server_address}:{summary.server_port}" if known else source
        self._rows.setdefault((server, summary.dialect), _Row()).add(summary)

    def rows(self) -> Iterator[Sequence[str]]:
        """Cells as `HEAD` names them, in the order in which the endpoints were met; empty where nothing is known."""
        for (server, dialect), row in self._rows.items():
            counts = (row.with_quirks[severity] for severity in (Severity.BREAKS_CLIENTS, Severity.WARNING))
            yield (
                plain(f"{server} {dialect}"),
                str(row.exchanges),
                str(row.complete),
                _seconds(row.first_tokens, 0.5),
                _seconds(row.first_tokens, 0.99),
                _seconds(row.gaps, 0.5),
                str(row.held_back),
                *map(str, counts),
                str(row.usage),
            )

    def notable(self) -> Iterator[tuple[str, str]]:
        """By endpoint: outcomes but `complete`, and quirks above `info`, each with the number of exchanges."""
        for (server, dialect), row in self._rows.items():
            if row.notable:
                counted = sorted(row.notable.items(), key=lambda item: (-item[1], item[0]))
                yield plain(f"{server} {dialect}"), ", ".join(f"{name} {number}" for name, number in counted)

    def text(self) -> str:
        """For a terminal."""
        table = [HEAD, *self.rows()]
        widths = [max(len(row[column]) for row in table) for column in range(len(HEAD))]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))])
            for row in table
        ]
        return "\n".join([*lines, *(f"{endpoint}: {what}" for endpoint, what in self.notable())])

    def markdown(self) -> str:
        """For an issue."""
        lines = [f"- {code(endpoint)}: {what}" for endpoint, what in self.notable()]
        return "\n".join([markdown_table(HEAD, [*self.rows()]), *(["", *lines] if lines else [])])


def _seconds(values: list[float], share: float) -> str:
    """Nearest-rank percentile."""
    if not values:
        return ""
    rank = max(1, -(-int(share * len(values) * 100) // 100))
    return f"{sorted(values)[rank - 1]:.3f} s"
