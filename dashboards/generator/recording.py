"""Recording rules: what dashboards and alerts would else compute over and over. Named level:metric:operation."""

from dataclasses import dataclass

from dashboards.generator.promql import MODEL, SPOKEN, UPSTREAM, counted, one_of, rate
from dashboards.generator.thresholds import Thresholds
from sidecar import metrics as m
from sidecar.metrics import Metric

BURN_WINDOWS = ("5m", "30m", "1h", "6h")
UPSTREAM_FAULTS = one_of(("truncated", "upstream_reset", "upstream_failed", "error_event", "empty"))
"""Reasons for no first token that count against the objective: a refused request (http_error) is not a slow one."""


@dataclass(frozen=True)
class Recorded:
    """The series that a recording rule writes."""

    name: str
    labels: tuple[str, ...]


@dataclass(frozen=True)
class Recording:
    """One recording rule."""

    series: Recorded
    expr: str


STREAMS_RATE = Recorded("upstream:llm_streams:rate5m", (*SPOKEN, "outcome"))
MILESTONES_RATE = Recorded("upstream:llm_stream_milestone_seconds_bucket:rate5m", (*SPOKEN, "milestone", "le"))
GAPS_RATE = Recorded(f"upstream:{m.CHUNK_GAPS.name}_bucket:rate5m", (*SPOKEN, "le"))
TOKENS_RATE = Recorded("upstream:llm_stream_tokens:rate5m", (*SPOKEN, "type", "source"))
MODEL_TOKENS_RATE = Recorded("model:llm_stream_tokens:rate5m", (*MODEL, "type"))
MODEL_TOKENS_HOUR = Recorded("model:llm_stream_tokens:increase1h", (*MODEL, "type"))
DISCONNECT_SHARE = Recorded("upstream:llm_streams_client_disconnect:ratio_rate15m", UPSTREAM)
DISCONNECT_SHARE_DAY = Recorded("upstream:llm_streams_client_disconnect:ratio_rate1d", UPSTREAM)


def slow(window: str) -> Recorded:
    """The share of exchanges whose first token came too late or, by the upstream's fault, never."""
    return Recorded(f"upstream:llm_first_token_slow:ratio_rate{window}", UPSTREAM)


def asked(window: str) -> Recorded:
    """The number of exchanges that this is a share of."""
    return Recorded(f"upstream:llm_first_token:increase{window}", UPSTREAM)


def recordings(thresholds: Thresholds) -> tuple[Recording, ...]:
    """All recording rules."""
    return (
        _rate(STREAMS_RATE, m.STREAMS),
        _rate(MILESTONES_RATE, m.MILESTONES, suffix="_bucket"),
        _rate(GAPS_RATE, m.CHUNK_GAPS, suffix="_bucket"),
        _rate(TOKENS_RATE, m.TOKENS),
        _rate(MODEL_TOKENS_RATE, m.TOKENS),
        Recording(MODEL_TOKENS_HOUR, counted(MODEL_TOKENS_HOUR.labels, m.TOKENS, "1h")),
        *(_asked(window) for window in BURN_WINDOWS),
        *(_slow(thresholds, window) for window in BURN_WINDOWS),
        _disconnects(DISCONNECT_SHARE, "15m"),
        _disconnects(DISCONNECT_SHARE_DAY, "1d"),
    )


def _rate(series: Recorded, metric: Metric, *, suffix: str = "") -> Recording:
    return Recording(series, rate(series.labels, metric, "5m", suffix=suffix))


def _reached(window: str) -> str:
    return counted(UPSTREAM, m.MILESTONES, window, suffix="_count", milestone="first_token")


def _never(window: str) -> str:
    return counted(UPSTREAM, m.NO_FIRST_TOKEN, window, reason=UPSTREAM_FAULTS)


def _asked(window: str) -> Recording:
    """First tokens that came, and those that the upstream owes. Either may be absent, so each stands in for both."""
    both = f"(\n  {_reached(window)}\n+\n  {_never(window)}\n)"
    return Recording(asked(window), f"{both}\nor\n{_reached(window)}\nor\n{_never(window)}")


def _slow(thresholds: Thresholds, window: str) -> Recording:
    limit = f"{thresholds.first_token_seconds:g}"
    # Exposed as 5.0; what stands between us and the rule (agents, remote write) may have made it 5.
    in_time = counted(
        UPSTREAM, m.MILESTONES, window, suffix="_bucket", milestone="first_token", le=f"~{limit}(\\\\.0)?"
    )
    good = f"({in_time} or 0 * {asked(window).name})"
    return Recording(slow(window), f"1 - (\n  {good}\n/\n  ({asked(window).name} > 0)\n)")


def _disconnects(series: Recorded, window: str) -> Recording:
    """Zero where nobody ever left: that is the day which a first spike is compared with."""
    all_of_them = counted(UPSTREAM, m.STREAMS, window)
    gone = f"({counted(UPSTREAM, m.STREAMS, window, outcome='client_disconnect')} or 0 * {all_of_them})"
    return Recording(series, f"{gone}\n/\n({all_of_them} > 0)")
