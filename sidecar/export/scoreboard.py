"""The latest exchanges by upstream, for the page. Bounded: by upstreams, and by exchanges of each."""

from collections import Counter, OrderedDict, deque
from collections.abc import Iterable

import msgspec

from sidecar.export.labels import clean
from sidecar.quirks.quirk import Severity
from sidecar.quirks.registry import BY_ID
from sidecar.stream.summary import Summary

UPSTREAMS = 50
EACH = 300
_QUIRKS_NAMED = 5


class _Entry(msgspec.Struct, frozen=True, gc=False):
    """What the scoreboard keeps of one exchange."""

    outcome: str
    first_token: float | None
    """Seconds from t0."""
    usage_state: str | None
    """None where there was nothing to report usage of."""
    buffering: str | None
    quirks: tuple[str, ...]


class Scoreboard:
    """Told of each summary. Of more than `UPSTREAMS` upstreams, those that were heard of last are kept."""

    def __init__(self) -> None:
        self._upstreams: OrderedDict[tuple[str, str], deque[_Entry]] = OrderedDict()
        self.version = 0
        """Counts what it was told."""

    def add(self, summary: Summary) -> None:
        """One exchange that is over."""
        self.version += 1
        server = f"{clean(summary.server_address)}:{summary.server_port}"
        key = (server, clean(summary.request_model or summary.response_model or ""))
        entries = self._upstreams.get(key)
        if entries is None:
            entries = self._upstreams[key] = deque(maxlen=EACH)
            if len(self._upstreams) > UPSTREAMS:
                self._upstreams.popitem(last=False)
        self._upstreams.move_to_end(key)
        entries.append(_entry(summary))

    def rows(self) -> list[dict[str, object]]:
        """One object per upstream (server and model), by name. Quirks count exchanges that show any of the severity."""
        return [
            {"server": server, "model": model, **_figures(entries)}
            for (server, model), entries in sorted(self._upstreams.items())
        ]


def _entry(summary: Summary) -> _Entry:
    answered = summary.status is not None and summary.status < 400 and summary.outcome != "lost"
    return _Entry(
        outcome=summary.outcome,
        first_token=summary.milestones.get("first_token"),
        usage_state=summary.usage_state if answered else None,
        buffering=summary.buffering.verdict if answered and summary.streaming else None,
        quirks=summary.quirks,
    )


def _figures(entries: Iterable[_Entry]) -> dict[str, object]:
    entries = list(entries)
    firsts = sorted(entry.first_token for entry in entries if entry.first_token is not None)
    severities: Counter[str] = Counter()
    named: Counter[str] = Counter()
    for entry in entries:
        found = {BY_ID[quirk].severity for quirk in entry.quirks}
        severities.update(str(severity) for severity in found)
        named.update(quirk for quirk in entry.quirks if BY_ID[quirk].severity != Severity.INFO)
    return {
        "exchanges": len(entries),
        "outcomes": dict(Counter(entry.outcome for entry in entries).most_common()),
        "first_tokens": len(firsts),
        "first_token_p50_seconds": _rank(firsts, 50),
        "first_token_p99_seconds": _rank(firsts, 99),
        "usage": dict(Counter(entry.usage_state for entry in entries if entry.usage_state).most_common()),
        "buffering": dict(Counter(entry.buffering for entry in entries if entry.buffering).most_common()),
        "quirks": {str(severity): severities[severity] for severity in Severity if severities[severity]},
        "commonest_quirks": [quirk for quirk, _ in named.most_common(_QUIRKS_NAMED)],
    }


def _rank(values: list[float], percent: int) -> float | None:
    """Nearest-rank percentile of sorted values."""
    return round(values[max(-(-percent * len(values) // 100), 1) - 1], 6) if values else None
