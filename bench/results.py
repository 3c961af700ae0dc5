"""Results as JSON in bench/results/ (not committed), as tables on standard output, and small arithmetic of theirs."""

import json
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.machine import about

FOLDER = Path(__file__).parent / "results"


def save(name: str, results: Mapping[str, Any], command: str, notes: Sequence[str] = ()) -> None:
    """Keep the results of a bench for `python -m bench.report`."""
    FOLDER.mkdir(exist_ok=True)
    found = {"bench": name, "command": command, "about": about(), "notes": list(notes), "results": results}
    (FOLDER / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")


def load(name: str) -> dict[str, Any] | None:
    """What `save` kept; None where it kept nothing."""
    path = FOLDER / f"{name}.json"
    if not path.exists():
        return None
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def percentile(values: Sequence[float], share: float) -> float | None:
    """The value below which this share is; None where so few values say nothing of it (at least three lie beyond)."""
    if not values or (share > 0.5 and len(values) * (1 - share) < 3):
        return None
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


def milliseconds(values: Sequence[int]) -> dict[str, float | None]:
    """p50, p99 and p99.9 of nanoseconds, in milliseconds."""
    found = {name: percentile(values, share) for name, share in (("p50", 0.5), ("p99", 0.99), ("p999", 0.999))}
    return {f"{name}_ms": None if value is None else round(value / 1e6, 3) for name, value in found.items()}


def median_of(rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Of rounds of the same figures the median of each; None where no round has it."""
    found: dict[str, Any] = {}
    for name in rounds[0]:
        values = [row[name] for row in rounds if row[name] is not None]
        found[name] = round(statistics.median(values), 3) if values else None
    return found


def ratio(part: float | None, whole: float | None) -> float | None:
    """One as a multiple of the other, where that says something."""
    if part is None or whole is None or whole <= 0:
        return None
    return round(part / whole, 3)


def difference(one: float | None, other: float | None) -> float | None:
    """One less the other, and not below zero: what is less than nothing is noise."""
    return None if one is None or other is None else round(max(one - other, 0.0), 3)


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table in Markdown that can be read as it is, too."""
    cells = [[*head], *([shown(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]

    def line(row: Sequence[str]) -> str:
        first, *rest = (
            cell.ljust(width) if not column else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        return f"| {' | '.join([first, *rest])} |"

    rule = f"| {' | '.join('-' * widths[0] if not n else '-' * (w - 1) + ':' for n, w in enumerate(widths))} |"
    return "\n".join([line(cells[0]), rule, *map(line, cells[1:])])


def shown(value: Any) -> str:
    """A cell: numbers with as many digits as mean something, nothing for what is not known."""
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, int) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def told(text: str) -> None:
    """Progress, which is no result."""
    print(text, file=sys.stderr, flush=True)
