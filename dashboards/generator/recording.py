"""Recording rules: what dashboards and alerts would else compute over and over. Named level:metric:operation."""

from dataclasses import dataclass

from dashboards.generator.promql import MODEL, SPOKEN, UPSTREAM, counted, rate, total
from dashboards.generator.thresholds import Thresholds
from sidecar import metrics as m
from sidecar.metrics import Metric

BURN_WINDOWS = ("5m", "30m", "1h", "6h")
UPSTREAM_FAULTS = "~truncated|upstream_reset|upstream_failed|error_event|empty"
"""Reasons for no first token that count against the objective: a refused request (http_error) is not a slow one."""


@dataclass(frozen=True)
class Recording:
    """One recording rule; `labels` are those its series have."""

    record: str
    expr: str
    labels: tuple[str, ...]


STREAMS_RATE = "upstream:llm_streams:rate5m"
MILESTONES_RATE = "upstream:llm_stream_milestone_seconds_bucket:rate5m"
GAPS_RATE = "upstream:gen_ai_client_operation_time_per_output_chunk_seconds_bucket:rate5m"
TOKENS_RATE = "upstream:llm_stream_tokens:rate5m"
MODEL_TOKENS_RATE = "model:llm_stream_tokens:rate5m"
MODEL_TOKENS_HOUR = "model:llm_stream_tokens:increase1h"
DISCONNECT_SHARE = "upstream:llm_streams_client_disconnect:ratio_rate15m"
DISCONNECT_SHARE_DAY = "upstream:llm_streams_client_disconnect:ratio_rate1d"


def slow(window: str) -> str:
    """Name of the share of exchanges whose first token came too late or, by the upstream's fault, never."""
    return f"upstream:llm_first_token_slow:ratio_rate{window}"


def asked(window: str) -> str:
    """Name of the number of exchanges that this is a share of."""
    return f"upstream:llm_first_token:increase{window}"


def recordings(thresholds: Thresholds) -> tuple[Recording, ...]:
    """All recording rules."""
    return (
        _rate(STREAMS_RATE, m.STREAMS, (*SPOKEN, "outcome")),
        _rate(MILESTONES_RATE, m.MILESTONES, (*SPOKEN, "milestone", "le"), suffix="_bucket"),
        _rate(GAPS_RATE, m.CHUNK_GAPS, (*SPOKEN, "le"), suffix="_bucket"),
        _rate(TOKENS_RATE, m.TOKENS, (*SPOKEN, "type", "source")),
        _rate(MODEL_TOKENS_RATE, m.TOKENS, (*MODEL, "type")),
        Recording(MODEL_TOKENS_HOUR, counted((*MODEL, "type"), m.TOKENS, "1h"), (*MODEL, "type")),
        *(_asked(window) for window in BURN_WINDOWS),
        *(_slow(thresholds, window) for window in BURN_WINDOWS),
        _disconnects(DISCONNECT_SHARE, "15m"),
        _disconnects(DISCONNECT_SHARE_DAY, "1d"),
    )


def _rate(record: str, metric: Metric, labels: tuple[str, ...], *, suffix: str = "") -> Recording:
    return Recording(record, rate(labels, metric, "5m", suffix=suffix), labels)


def _reached(window: str) -> str:
    return counted(UPSTREAM, m.MILESTONES, window, suffix="_count", milestone="first_token")


def _never(window: str) -> str:
    return counted(UPSTREAM, m.NO_FIRST_TOKEN, window, reason=UPSTREAM_FAULTS)


def _asked(window: str) -> Recording:
    """First tokens that came, and those that the upstream owes. Either may be absent, so each stands in for both."""
    both = f"(\n  {_reached(window)}\n+\n  {_never(window)}\n)"
    return Recording(asked(window), f"{both}\nor\n{_reached(window)}\nor\n{_never(window)}", UPSTREAM)


def _slow(thresholds: Thresholds, window: str) -> Recording:
    limit = f"{thresholds.first_token_seconds:g}"
    # Exposed as 5.0; what stands between us and the rule (agents, remote write) may have made it 5.
    in_time = counted(
        UPSTREAM, m.MILESTONES, window, suffix="_bucket", milestone="first_token", le=f"~{limit}(\\\\.0)?"
    )
    good = f"({in_time} or 0 * {asked(window)})"
    return Recording(slow(window), f"1 - (\n  {good}\n/\n  ({asked(window)} > 0)\n)", UPSTREAM)


def _disconnects(record: str, window: str) -> Recording:
    gone = counted(UPSTREAM, m.STREAMS, window, outcome="client_disconnect")
    all_of_them = total(UPSTREAM, f"increase({m.STREAMS.name}[{window}])")
    return Recording(record, f"{gone}\n/\n({all_of_them} > 0)", UPSTREAM)
