"""Every metric, declared once: name, type, help with its formula, labels, buckets. Exporters read this table."""

from typing import Literal

import msgspec

from sidecar.capture.outbox import TeeTimes
from sidecar.stream.gaps import BUCKETS as GAP_BUCKETS

Kind = Literal["counter", "gauge", "histogram"]


class Metric(msgspec.Struct, frozen=True, eq=False):
    """One metric family. Base units; label values are bounded where they are made."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


STREAM_LABELS = (
    "gen_ai_operation_name",
    "gen_ai_provider_name",
    "gen_ai_request_model",
    "server_address",
    "server_port",
    "dialect",
)
"""The labels of every metric about streams: OpenTelemetry's attribute names in their Prometheus translation."""

HOP_LABELS = ("outer_server_address", "outer_server_port", "inner_server_address", "inner_server_port")
"""The labels of every metric about hops: the server behind the tap on the client's side, and on the upstream's."""

MILESTONE_BUCKETS = (
    .001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2, 2.5, 5, 7.5, 10, 15, 20, 30, 45, 60, 120, 300,
)  # fmt: skip
TOKEN_TIME_BUCKETS = (0.001, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 10)
DURATION_BUCKETS = (
    .01, .02, .04, .08, .16, .32, .64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92, 163.84, 327.68, 655.36,
)  # fmt: skip
TOKEN_BUCKETS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304)
SILENCE_BUCKETS = (0.1, 0.5, 1, 2.5, 5, 10, 15, 30, 60, 100, 120, 300, 600, 1800, 3600)
HEARTBEAT_BUCKETS = (0.5, 1, 2, 5, 10, 15, 20, 25, 30, 45, 60, 100, 120, 300)
AFTER_DISCONNECT_BUCKETS = (0.01, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
RATIO_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1.1, 1.5, 2, 5, 10)
SESSION_BUCKETS = (1, 5, 15, 30, 60, 120, 300, 600, 900, 1200, 1800, 2700, 3600, 7200)
LAG_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


def _stream(name: str, kind: Kind, help: str, *labels: str, buckets: tuple[float, ...] = ()) -> Metric:
    return Metric(name, kind, help, (*STREAM_LABELS, *labels), buckets)


def _hop(name: str, kind: Kind, help: str, *labels: str, buckets: tuple[float, ...] = ()) -> Metric:
    return Metric(name, kind, help, (*HOP_LABELS, *labels), buckets)


DURATION = _stream(
    "gen_ai_client_operation_duration_seconds",
    "histogram",
    "Seconds from the last request byte forwarded to the end of the exchange; error_type only on failures.",
    "error_type",
    buckets=DURATION_BUCKETS,
)
FIRST_CHUNK = _stream(
    "gen_ai_client_operation_time_to_first_chunk_seconds",
    "histogram",
    "Seconds from the last request byte forwarded to the first event with a payload (comments do not count).",
    buckets=MILESTONE_BUCKETS,
)
CHUNK_GAPS = _stream(
    "gen_ai_client_operation_time_per_output_chunk_seconds",
    "histogram",
    "Seconds between consecutive output-bearing events by the arrival of their reads; zero gaps count.",
    buckets=GAP_BUCKETS,
)
TOKEN_USAGE = _stream(
    "gen_ai_client_token_usage",
    "histogram",
    "Tokens per exchange as reported: input includes cached tokens, output includes reasoning.",
    "gen_ai_token_type",
    buckets=TOKEN_BUCKETS,
)
MILESTONES = _stream(
    "llm_stream_milestone_seconds",
    "histogram",
    "Seconds from the last request byte forwarded to the milestone; absent milestones are not recorded.",
    "milestone",
    buckets=MILESTONE_BUCKETS,
)
TIME_PER_TOKEN = _stream(
    "llm_stream_time_per_output_token_seconds",
    "histogram",
    "(last token - first token) / (output tokens - 1), with a reported count of at least two.",
    buckets=TOKEN_TIME_BUCKETS,
)
LONGEST_SILENCE = _stream(
    "llm_stream_longest_silence_seconds",
    "histogram",
    "Longest time without progress that an exchange spent in the phase; keep-alives are no progress.",
    "phase",
    buckets=SILENCE_BUCKETS,
)
STREAMS = _stream("llm_streams_total", "counter", "Exchanges that ended, by outcome.", "outcome", "streaming")
FINISH_REASONS = _stream(
    "llm_stream_finish_reasons_total", "counter", "Finish reasons of choice 0; unusual ones count as other.", "reason"
)
QUIRKS = _stream("llm_stream_quirks_total", "counter", "Exchanges that showed the quirk, once each.", "quirk")
BUFFERING = _stream("llm_stream_buffering_total", "counter", "Buffering verdicts on streams.", "verdict")
STALLS = _stream("llm_stream_stalls_total", "counter", "Stalls that began: no progress beyond the threshold.", "phase")
NO_FIRST_TOKEN = _stream(
    "llm_stream_no_first_token_total", "counter", "Exchanges without a time to first token, by the reason.", "reason"
)
TOKENS = _stream(
    "llm_stream_tokens_total",
    "counter",
    "Tokens by type; source says whether they were reported, partial (the stream broke off) or estimated.",
    "type",
    "source",
)
USAGE = _stream(
    "llm_stream_usage_total",
    "counter",
    "Exchanges by what became of their usage: reported, partial, missing (asked for, dropped), not_requested.",
    "state",
)
TOOL_CALLS = _stream("llm_stream_tool_calls_total", "counter", "Tool calls by whether their arguments parse.", "state")
KEEPALIVES = _stream("llm_stream_keepalives_total", "counter", "Keep-alives: comments, pings, JSON heartbeats.", "kind")
ERRORS = _stream(
    "llm_stream_errors_total", "counter", "Exchanges that failed, by the provider's error type or ours.", "error_type"
)
HEARTBEAT_INTERVAL = _stream(
    "llm_stream_heartbeat_interval_seconds",
    "histogram",
    "Seconds between keep-alives of one stream (comments, pings, JSON heartbeats).",
    buckets=HEARTBEAT_BUCKETS,
)
LONG_SILENCES = _stream(
    "llm_stream_long_silences_total",
    "counter",
    "Exchanges that went longer than so many seconds without a byte: 60 is nginx's default time-out, 100 some CDNs'.",
    "seconds",
)
EARLY_ENDS = _stream(
    "llm_stream_early_ends_total",
    "counter",
    "Exchanges that the client, the upstream or the network ended early, by the phase they were in.",
    "end",
    "phase",
)
NEW_QUIRKS = _stream(
    "llm_stream_new_quirks_total",
    "counter",
    "Quirks that an upstream had not shown before, its first exchange excepted; in the memory of this analyzer.",
    "quirk",
    "severity",
)
SESSIONS_IN_FLIGHT = _stream(
    "llm_websocket_sessions_in_flight",
    "gauge",
    "WebSockets that are open. Those of an unknown dialect are counted without their address.",
)
SESSIONS = _stream(
    "llm_websocket_sessions_total",
    "counter",
    "WebSockets that were closed, by close code (1006: the connection broke, 1005: none given) and by whom.",
    "close_code",
    "closed_by",
)
SESSION_SECONDS = _stream(
    "llm_websocket_session_seconds",
    "histogram",
    "Seconds from the answer to the upgrade to the close of the WebSocket.",
    buckets=SESSION_BUCKETS,
)
IN_FLIGHT = _stream("llm_streams_in_flight", "gauge", "Exchanges in flight, by phase.", "phase")
STALLED = _stream("llm_streams_stalled", "gauge", "Exchanges that are stalled now, by phase.", "phase")
OLDEST_SILENCE = _stream(
    "llm_stream_oldest_silence_seconds", "gauge", "Longest current time without progress, by phase.", "phase"
)
RETRIES = _stream(
    "llm_stream_retries_total",
    "counter",
    "Requests that repeat a failed one of the same client soon after, by when that one failed. A failure before the "
    "first token can be retried without the user seeing it.",
    "after",
)
AFTER_DISCONNECT = _stream(
    "llm_stream_after_disconnect_seconds",
    "histogram",
    "Seconds that the upstream side of a hop went on after the client had left; needs a tap on both sides of the hop. "
    "The labels are those of the client's side.",
    buckets=AFTER_DISCONNECT_BUCKETS,
)

HOPS = _hop(
    "llm_hop_streams_total", "counter", "Streams seen on both sides of a hop, by what they were joined.", "evidence"
)
HOP_FIRST_TOKEN = _hop(
    "llm_hop_added_first_token_seconds",
    "histogram",
    "Seconds from the first token at the inner tap (upstream's side) to the first token at the outer one (client's side).",
    buckets=MILESTONE_BUCKETS,
)
HOP_REQUEST_DELAY = _hop(
    "llm_hop_request_delay_seconds",
    "histogram",
    "Seconds from the last request byte at the outer tap to the last request byte at the inner one.",
    buckets=MILESTONE_BUCKETS,
)
HOP_GAP_RATIO = _hop(
    "llm_hop_gap_ratio",
    "histogram",
    "Median gap between output events at the outer tap by that at the inner one; near 0: the hop buffers.",
    buckets=RATIO_BUCKETS,
)
HOP_CHANGES = _hop(
    "llm_hop_changes_total", "counter", "Streams in which the hop changed, lost or added something, by what.", "change"
)
HOP_QUIRKS = _hop(
    "llm_hop_quirks_total",
    "counter",
    "Streams that had the quirk on one side of the hop only; change is added or removed, towards the client.",
    "quirk",
    "change",
)
HOP_UNJOINED = Metric(
    "llm_hop_unjoined_total",
    "counter",
    "Exchanges not joined although they may be a side of a hop: ambiguous (several fit) or evicted (too many wait).",
    ("reason",),
)

BUILD_INFO = Metric(
    "llm_sidecar_build_info", "gauge", "Constant 1; versions as labels.", ("version", "mitmproxy", "python")
)
TEE_SECONDS = Metric(
    "llm_sidecar_tee_seconds",
    "histogram",
    "Time that a sampled call of the tee spent in the proxy's event loop.",
    ("worker",),
    TeeTimes.BOUNDS,
)
OUTBOX_BYTES = Metric("llm_sidecar_outbox_bytes", "gauge", "Bytes of records waiting in the proxy.", ("worker",))
LOOP_LAG = Metric(
    "llm_sidecar_loop_lag_seconds", "gauge", "Largest lag of the proxy's event loop in the last second.", ("worker",)
)
RECORDS_DROPPED = Metric(
    "llm_sidecar_records_dropped_total",
    "counter",
    "Records that the proxy dropped because its outbox was full.",
    ("worker",),
)
STREAMS_LOST = Metric(
    "llm_sidecar_streams_lost_total",
    "counter",
    "Exchanges without a verdict because telemetry of them was dropped, by where.",
    ("where",),
)
TEE_FAILURES = Metric(
    "llm_sidecar_tee_failures_total", "counter", "Exceptions swallowed inside the tee; always a bug.", ("worker",)
)
PASSIVITY_CHECKS = Metric(
    "llm_sidecar_passivity_checks_total",
    "counter",
    "Exchanges of which the bytes that came from the upstream were compared with those that went to the client, by hash: "
    "the first 16 that are copied, then one in 16.",
    ("worker",),
)
PASSIVITY_VIOLATIONS = Metric(
    "llm_sidecar_passivity_violations_total",
    "counter",
    "Of those, exchanges in which they were not the same: a script or another addon changes bodies, or a bug. Stays zero.",
    ("worker",),
)
RECORDS = Metric("llm_sidecar_records_total", "counter", "Records received by the analyzer.")
WRITERS_REJECTED = Metric(
    "llm_sidecar_writers_rejected_total", "counter", "Connections on the records socket that sent something else."
)
ENVOY_STREAMS = Metric(
    "llm_sidecar_envoy_streams_total",
    "counter",
    "Exchanges that Envoy began to tell of: `copied`, `passed` (none of ours), `broken_off` (copied, but nothing told of "
    "its end), `dropped` (told no further, because the outbox was full), `refused` (too many at once), `failed` (a bug).",
    ("how",),
)
PROXIES = Metric("llm_sidecar_proxies_connected", "gauge", "Proxy processes that feed this analyzer.")
ANALYZER_LAG = Metric(
    "llm_sidecar_analyzer_lag_seconds",
    "histogram",
    "Time from a record's clock reading in the proxy to its processing, the oldest record of each batch.",
    (),
    LAG_BUCKETS,
)
STAGE_FAILURES = Metric(
    "llm_sidecar_stage_failures_total", "counter", "Exceptions caught at a stage's edge; always a bug.", ("stage",)
)
FOLDED = Metric(
    "llm_sidecar_folded_label_values_total",
    "counter",
    "Observations whose label value was folded into other.",
    ("label",),
)
SPANS_EXPORTED = Metric("llm_sidecar_spans_exported_total", "counter", "Spans that the OpenTelemetry collector took.")
SPAN_EXPORT_FAILURES = Metric(
    "llm_sidecar_span_export_failures_total",
    "counter",
    "Spans that did not reach the collector: refused or timed out (export), or dropped unsent (queue_full).",
    ("reason",),
)
METRIC_EXPORT_FAILURES = Metric(
    "llm_sidecar_metric_export_failures_total", "counter", "Collections of metrics that the collector did not take."
)
RECORDINGS = Metric("llm_sidecar_recordings_total", "counter", "Exchanges written to capture files.")
RECORDINGS_DROPPED = Metric(
    "llm_sidecar_recordings_dropped_total",
    "counter",
    "Exchanges that should have been recorded and were not: larger than one may be (too_large), no memory left for them "
    "(memory), more waiting than the disk takes (queue_full), the disk full or broken (disk), telemetry of them dropped "
    "(lost), cut off in the file by a killed analyzer (torn), or a bug (failure).",
    ("reason",),
)
RECORDING_HELD_BYTES = Metric(
    "llm_sidecar_recording_held_bytes", "gauge", "Bytes of exchanges in memory that may be recorded when they are over."
)
RECORDING_DISK_BYTES = Metric(
    "llm_sidecar_recording_disk_bytes", "gauge", "Bytes of all capture files in the directory of recordings."
)
TRACKED = Metric("llm_sidecar_streams_tracked", "gauge", "Exchanges that the analyzer follows now.")

METRICS: tuple[Metric, ...] = (
    DURATION,
    FIRST_CHUNK,
    CHUNK_GAPS,
    TOKEN_USAGE,
    MILESTONES,
    TIME_PER_TOKEN,
    LONGEST_SILENCE,
    STREAMS,
    FINISH_REASONS,
    QUIRKS,
    BUFFERING,
    STALLS,
    NO_FIRST_TOKEN,
    TOKENS,
    USAGE,
    TOOL_CALLS,
    KEEPALIVES,
    ERRORS,
    HEARTBEAT_INTERVAL,
    LONG_SILENCES,
    EARLY_ENDS,
    NEW_QUIRKS,
    SESSIONS_IN_FLIGHT,
    SESSIONS,
    SESSION_SECONDS,
    IN_FLIGHT,
    STALLED,
    OLDEST_SILENCE,
    RETRIES,
    AFTER_DISCONNECT,
    HOPS,
    HOP_FIRST_TOKEN,
    HOP_REQUEST_DELAY,
    HOP_GAP_RATIO,
    HOP_CHANGES,
    HOP_QUIRKS,
    HOP_UNJOINED,
    BUILD_INFO,
    TEE_SECONDS,
    OUTBOX_BYTES,
    LOOP_LAG,
    RECORDS_DROPPED,
    STREAMS_LOST,
    TEE_FAILURES,
    PASSIVITY_CHECKS,
    PASSIVITY_VIOLATIONS,
    RECORDS,
    WRITERS_REJECTED,
    ENVOY_STREAMS,
    PROXIES,
    ANALYZER_LAG,
    STAGE_FAILURES,
    FOLDED,
    SPANS_EXPORTED,
    SPAN_EXPORT_FAILURES,
    METRIC_EXPORT_FAILURES,
    RECORDINGS,
    RECORDINGS_DROPPED,
    RECORDING_HELD_BYTES,
    RECORDING_DISK_BYTES,
    TRACKED,
)
