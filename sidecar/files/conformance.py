"""Whether exchanges pass: what `--fail-on` counts."""

from collections.abc import Callable, Iterable
from typing import Literal

from sidecar.quirks.quirk import Severity
from sidecar.quirks.registry import BY_ID
from sidecar.stream.summary import Summary

Reason = Literal["warning", "breaks_clients", "outcome"]
REASONS: tuple[Reason, ...] = ("warning", "breaks_clients", "outcome")
_NAMED = 5


def _severe(*severities: Severity) -> Callable[[Summary], str]:
    def found(summary: Summary) -> str:
        return ", ".join(quirk for quirk in summary.quirks if BY_ID[quirk].severity in severities)

    return found


_WHY: dict[Reason, Callable[[Summary], str]] = {
    "warning": _severe(Severity.WARNING, Severity.BREAKS_CLIENTS),
    "breaks_clients": _severe(Severity.BREAKS_CLIENTS),
    "outcome": lambda summary: "" if summary.outcome == "complete" else summary.outcome,
}


class Conformance:
    """Counts exchanges that give one of the reasons to fail: a quirk of at least that severity, or an outcome other than
    `complete`."""

    def __init__(self, reasons: Iterable[Reason]) -> None:
        self._reasons = tuple(dict.fromkeys(reasons))
        self._failed: dict[Reason, list[str]] = {reason: [] for reason in self._reasons}

    def add(self, summary: Summary) -> None:
        """One exchange."""
        for reason in self._reasons:
            if why := _WHY[reason](summary):
                self._failed[reason].append(f"{summary.id} ({why})")

    def failures(self) -> list[str]:
        """A line per reason that anything failed for."""
        return [
            f"{len(failed)} failed on {reason}: {', '.join(failed[:_NAMED])}{', …' if len(failed) > _NAMED else ''}"
            for reason, failed in self._failed.items()
            if failed
        ]
