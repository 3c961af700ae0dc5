"""From the summary of one exchange to the metrics: each is observed in one place, here."""

import re

from sidecar import metrics as m
from sidecar.export.labels import NONE, LabelValues
from sidecar.export.series import Series
from sidecar.stream.hop import Hop
from sidecar.stream.summary import Summary

MILESTONES = ("headers", "first_byte", "first_token", "first_visible_token", "first_audio")
LONG_SILENCES = (60.0, 100.0)
"""Seconds without a byte after which common hops cut a connection: nginx's default, some CDNs'."""
EARLY_ENDS = ("client_disconnect", "upstream_reset", "upstream_failed")
_SAMPLED = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f][13579bdf](?:-|$)")
"""A `traceparent` (https://www.w3.org/TR/trace-context/) whose sampled flag, the lowest bit, is set."""
_FAILED = ("error_event", "http_error", "upstream_reset", "upstream_failed", "truncated")


def error_type(summary: Summary) -> str | None:
    """`error.type` by the conventions: the provider's code, else the HTTP status, else our outcome; None if fine."""
    if summary.outcome not in _FAILED:
        return None
    if summary.error_type:
        return summary.error_type
    if summary.outcome == "http_error":
        return str(summary.status)
    return summary.end_cause or summary.outcome


def observe(
    summary: Summary,
    labels: tuple[str, ...],
    series: Series,
    values: LabelValues,
    span: dict[str, str] | None = None,
) -> None:
    """Count one exchange that is over, under its stream labels. A lost one is counted as such and no further.

    `span`: the ids of the span that was recorded of it; exemplars point there, else to the caller's own span.
    """
    exemplar = span or _exemplar(summary)
    series.add(m.STREAMS, (*labels, summary.outcome, str(summary.streaming).lower()), exemplar=exemplar)
    if summary.outcome == "lost":
        return
    _observe_times(summary, series, values, labels, exemplar)
    _observe_verdicts(summary, series, values, labels, exemplar)
    _observe_tokens(summary, series, labels)


def _observe_times(
    summary: Summary, series: Series, values: LabelValues, labels: tuple[str, ...], exemplar: dict[str, str] | None
) -> None:
    failure = error_type(summary)
    if "end" in summary.milestones:
        kind = NONE if failure is None else values.error_type(failure)
        series.observe(m.DURATION, (*labels, kind), summary.milestones["end"], exemplar)
    if "first_event" in summary.milestones:
        series.observe(m.FIRST_CHUNK, labels, summary.milestones["first_event"], exemplar)
    for name in MILESTONES:
        if name in summary.milestones:
            series.observe(m.MILESTONES, (*labels, name), summary.milestones[name], exemplar)
    if summary.no_first_token is not None:
        series.add(m.NO_FIRST_TOKEN, (*labels, summary.no_first_token))
    if summary.gaps.count:
        series.observe_counts(m.CHUNK_GAPS, labels, summary.gaps.bucket_counts(), summary.gaps.total / 1e9)
    if summary.time_per_output_token is not None:
        series.observe(m.TIME_PER_TOKEN, labels, summary.time_per_output_token, exemplar)
    for gap in summary.heartbeat_gaps.milliseconds():
        series.observe(m.HEARTBEAT_INTERVAL, labels, gap / 1000)
    for limit in LONG_SILENCES:
        if summary.byte_silence > limit:
            series.add(m.LONG_SILENCES, (*labels, f"{limit:g}"))
    for phase, seconds in summary.silences.items():
        series.observe(m.LONGEST_SILENCE, (*labels, phase), seconds)


def _observe_verdicts(
    summary: Summary, series: Series, values: LabelValues, labels: tuple[str, ...], exemplar: dict[str, str] | None
) -> None:
    failure = error_type(summary)
    if failure is not None:
        series.add(m.ERRORS, (*labels, values.error_type(failure)), exemplar=exemplar)
    if summary.end in EARLY_ENDS and summary.end_phase is not None:
        series.add(m.EARLY_ENDS, (*labels, summary.end, summary.end_phase))
    if summary.finish_reason is not None:
        series.add(m.FINISH_REASONS, (*labels, values.finish_reason(summary.finish_reason)))
    for quirk in summary.quirks:
        series.add(m.QUIRKS, (*labels, quirk), exemplar=exemplar)
    if summary.streaming and summary.status is not None and summary.status < 400:
        series.add(m.BUFFERING, (*labels, summary.buffering.verdict), exemplar=exemplar)
    for call in summary.tool_calls:
        series.add(m.TOOL_CALLS, (*labels, call.verdict))
    for kind, count in summary.keepalives.items():
        if count:
            series.add(m.KEEPALIVES, (*labels, kind), count)


def _observe_tokens(summary: Summary, series: Series, labels: tuple[str, ...]) -> None:
    if summary.status is not None and summary.status < 400:
        series.add(m.USAGE, (*labels, summary.usage_state))
    tokens = summary.tokens
    if tokens is None:
        return
    for kind, count in (("input", tokens.input), ("output", tokens.output)):
        if count is not None:
            series.observe(m.TOKEN_USAGE, (*labels, kind), count)
    source = summary.usage_source or "reported"
    for kind in ("input", "output", "cache_read", "cache_write", "reasoning"):
        count = getattr(tokens, kind)
        if count:
            series.add(m.TOKENS, (*labels, kind, source), count)


def observe_hop(hop: Hop, labels: tuple[str, ...], series: Series, values: LabelValues) -> None:
    """Count one stream that was seen on both sides of a hop; `labels` are those of its client's side."""
    pair = (
        *values.server(hop.outer.server_address, hop.outer.server_port),
        *values.server(hop.inner.server_address, hop.inner.server_port),
    )
    series.add(m.HOPS, (*pair, hop.evidence))
    if hop.added_first_token is not None:
        series.observe(m.HOP_FIRST_TOKEN, pair, max(hop.added_first_token, 0.0))
    if hop.request_delay is not None:
        series.observe(m.HOP_REQUEST_DELAY, pair, max(hop.request_delay, 0.0))
    if hop.gap_ratio is not None:
        series.observe(m.HOP_GAP_RATIO, pair, hop.gap_ratio)
    if hop.after_disconnect is not None:
        series.observe(m.AFTER_DISCONNECT, labels, hop.after_disconnect)
    for change in hop.changes:
        series.add(m.HOP_CHANGES, (*pair, change))
    for quirk in hop.quirks_added:
        series.add(m.HOP_QUIRKS, (*pair, quirk, "added"))
    for quirk in hop.quirks_removed:
        series.add(m.HOP_QUIRKS, (*pair, quirk, "removed"))


def _exemplar(summary: Summary) -> dict[str, str] | None:
    """Trace and span id of the request's own trace context, where it has one and that is sampled."""
    found = _SAMPLED.match(summary.traceparent or "")
    return None if found is None else {"trace_id": found.group(1), "span_id": found.group(2)}
