"""One exchange's timeline as JSON: arrivals, gaps, ladder, stalls, quirks explained. Without content."""

from collections.abc import Iterable
from itertools import pairwise

from sidecar.exchange import Exchange
from sidecar.export.hop import hop_object
from sidecar.export.live import ended_row, live_row
from sidecar.export.view import View
from sidecar.quirks.registry import worst_first
from sidecar.stream.arrivals import Arrivals
from sidecar.stream.gaps import Gaps
from sidecar.stream.hop import Hop
from sidecar.stream.phases import Stall
from sidecar.stream.summary import Summary
from sidecar.summarise import reached

_LONGEST = 5


def timeline(view: View, ident: str) -> dict[str, object] | None:
    """The exchange with this id, while it is in flight or among the recent ones; None where it is neither.

    Times are milliseconds from `from`: t0, or the request's head where t0 is unknown.
    """
    for exchange in view.exchanges():
        if exchange.opened.id == ident:
            return _in_flight(view, exchange)
    for summary in view.recent():
        if summary.id == ident:
            return _ended(view, summary)
    return None


def _in_flight(view: View, exchange: Exchange) -> dict[str, object]:
    now = view.clock()
    stream, base = exchange.stream, exchange.opened.at if exchange.t0 is None else exchange.t0
    notes = stream.notes | (exchange.body.notes if exchange.body is not None else set())
    return {
        "state": "in_flight",
        "exchange": live_row(view, exchange, now),
        "from": "opened" if exchange.t0 is None else exchange.t0_source or "request_sent",
        "until_ms": _ms(now - base),
        "ladder_ms": {name: _ms(at - base) for name, at in reached(exchange).items()},
        "stalls": [_stall(stall, base) for stall in stream.progress.remembered],
        "quirks": _explained(notes),
        "hop": None,
        **_arrived(exchange.body.arrivals if exchange.body is not None else None, stream.gaps, base),
    }


def _ended(view: View, summary: Summary) -> dict[str, object]:
    base = summary.opened_at if summary.t0 is None else summary.t0
    words, advice = view.told(summary)
    return {
        "state": "ended",
        "exchange": ended_row(summary, None),
        "words": words,
        "advice": advice,
        "from": "opened" if summary.t0 is None else summary.t0_source or "request_sent",
        "until_ms": _ms(summary.ended_at - base),
        "ladder_ms": {name: round(at * 1000, 3) for name, at in summary.milestones.items()},
        "stalls": [_stall(stall, base) for stall in summary.stall_times],
        "quirks": _explained(summary.quirks),
        "hop": _hop(view, summary.id),
        "status": summary.status,
        "buffering": {"verdict": summary.buffering.verdict, "why": summary.buffering.evidence.get("why", "")},
        **_arrived(None if summary.outcome == "lost" else summary.arrivals, summary.gaps, base),
    }


def _hop(view: View, ident: str) -> dict[str, object] | None:
    hop: Hop | None = view.hops.get(ident)
    if hop is None:
        hop = next((each for each in view.hops.values() if each.inner.id == ident), None)
    return None if hop is None else hop_object(hop)


def _arrived(arrivals: Arrivals | None, gaps: Gaps, base: int) -> dict[str, object]:
    """`arrivals`: pairs of milliseconds and events that came together; only the first ones of a long stream."""
    groups: list[list[float]] = []
    if arrivals is not None and arrivals.groups:
        first = (arrivals.first - base) / 1e6
        groups = [[round(first + at, 1), count] for at, count in arrivals.listed()]
        if not arrivals.complete:
            start, count = arrivals.last_group
            groups.append([_ms(start - base), count])
    silences = sorted(((after[0] - before[0], before[0]) for before, after in pairwise(groups)), reverse=True)
    complete = arrivals is None or arrivals.complete
    return {
        "arrivals": groups,
        "arrivals_complete": complete,
        "events": 0 if arrivals is None else arrivals.events,
        "reads": 0 if arrivals is None else arrivals.reads,
        "longest_gaps": [
            {"at_ms": round(at, 1), "gap_ms": round(gap, 1)} for gap, at in silences[: _LONGEST if complete else 0]
        ],
        "gaps_ms": {name: _percentile(gaps, share) for name, share in (("p50", 0.5), ("p99", 0.99))}
        | {"max": _ms(gaps.longest) if gaps.count else None},
    }


def _percentile(gaps: Gaps, share: float) -> float | None:
    found = gaps.percentile(share)
    return None if found is None else round(found * 1000, 3)


def _stall(stall: Stall, base: int) -> dict[str, object]:
    return {
        "phase": stall.phase,
        "since_ms": _ms(stall.since - base),
        "until_ms": None if stall.until is None else _ms(stall.until - base),
    }


def _explained(quirks: Iterable[str]) -> list[dict[str, str]]:
    """Rows of the registry, the worst first."""
    return [
        {
            "id": row.id,
            "severity": str(row.severity),
            "summary": row.summary,
            "breaks": row.breaks,
            "guard": row.guard,
            "reference": row.reference,
        }
        for row in worst_first(quirks)
    ]


def _ms(nanoseconds: int) -> float:
    return round(nanoseconds / 1e6, 3)
