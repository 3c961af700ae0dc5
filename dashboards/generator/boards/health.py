"""Sidecar health: is it there, does it keep up, does it disturb the traffic, does it lose telemetry."""

from dashboards.generator.board import Board, Row
from dashboards.generator.boards.queries import (
    buckets,
    in_range,
    now,
    or_zero,
    per_minute,
    per_second,
    quantile,
)
from dashboards.generator.panels import (
    BYTES,
    COUNT,
    PER_MINUTE,
    PER_SECOND,
    SECONDS,
    Column,
    Query,
    graph,
    heat,
    number,
    rows,
)
from dashboards.generator.thresholds import THRESHOLDS
from sidecar import metrics as m

_UP = f'up{{job="{THRESHOLDS.job}"}}'
_BY = ("instance",)
_WORKER = ("instance", "worker")
_LIMIT = " Above {} an alert fires."


def _sum(*exprs: str) -> str:
    return " + ".join(f"({or_zero(expr)})" for expr in exprs)


_LOST = _sum(in_range((), m.RECORDS_DROPPED), in_range((), m.STREAMS_LOST))
_FAILURES = _sum(in_range((), m.STAGE_FAILURES), in_range((), m.TEE_FAILURES))

_NOW = Row(
    "Now",
    (
        number(
            "Sidecars up",
            "Sidecars that Prometheus can scrape. Each that it cannot is an alert.",
            COUNT,
            Query(or_zero(f"sum({_UP})")),
            red_below=1,
        ),
        number(
            "Proxies connected",
            "Proxy processes that feed the analyzers. 0: nothing is seen, whatever the other panels show.",
            COUNT,
            Query(or_zero(now((), m.PROXIES))),
            red_below=1,
        ),
        number(
            "Streams followed",
            "Exchanges that the analyzers hold now; at most max_streams each.",
            COUNT,
            Query(or_zero(now((), m.TRACKED))),
        ),
        number(
            "Telemetry lost",
            "Records and exchanges lost in this time range; 0 is healthy. Traffic is not affected; the exchanges have no verdict.",
            COUNT,
            Query(_LOST),
            red=0.5,
        ),
        number(
            "Exceptions caught",
            "Exceptions of our own in this time range; 0 is healthy. Each is a bug: please report it.",
            COUNT,
            Query(_FAILURES),
            red=0.5,
        ),
        number(
            "Event loop, worst",
            "The largest lag of any proxy's event loop in the last second: what traffic waits for us."
            + _LIMIT.format("100 ms"),
            SECONDS,
            Query(or_zero(now((), m.LOOP_LAG, function="max"))),
            orange=THRESHOLDS.loop_lag_seconds / 2,
            red=THRESHOLDS.loop_lag_seconds,
        ),
    ),
)

_TRAFFIC = Row(
    "Does it disturb the traffic",
    (
        graph(
            "Lag of the event loop",
            "Largest lag within each second, by proxy process. Every stream through that process is late by up to as "
            "much: give it CPU, or fewer streams." + _LIMIT.format("100 ms on average"),
            SECONDS,
            Query(now(_WORKER, m.LOOP_LAG, function="max"), "{{instance}} process {{worker}}"),
        ),
        graph(
            "Time in the tee",
            "What the copying itself costs per read of the network, in the proxy's event loop.",
            SECONDS,
            Query(quantile(0.5, (), m.TEE_SECONDS), "p50"),
            Query(quantile(0.99, (), m.TEE_SECONDS), "p99"),
        ),
        graph(
            "Exchanges checked for passivity",
            "Per minute: exchanges (a sample) of which what came from the upstream was compared with what went to the client, "
            "and those in which it was not the same, of which 0 is healthy. One is an alert.",
            PER_MINUTE,
            Query(or_zero(per_minute((), m.PASSIVITY_CHECKS)), "compared"),
            Query(or_zero(per_minute((), m.PASSIVITY_VIOLATIONS)), "not the same"),
        ),
        graph(
            "Outbox",
            "Bytes that wait in the proxy for the analyzer. A saw tooth is normal; a plateau at outbox_mib means "
            "that telemetry is being dropped.",
            BYTES,
            Query(now(_WORKER, m.OUTBOX_BYTES), "{{instance}} process {{worker}}"),
        ),
    ),
)

_ANALYZER = Row(
    "Does it keep up",
    (
        heat(
            "Age of records when they are read",
            "How old the oldest record of each batch was. Above a second live gauges and hung-stream alerts are late.",
            SECONDS,
            Query(buckets(m.ANALYZER_LAG), "{{le}}"),
        ),
        graph(
            "Age of records, by sidecar",
            "99th percentile." + _LIMIT.format("1 s"),
            SECONDS,
            Query(quantile(0.99, _BY, m.ANALYZER_LAG), "{{instance}}"),
        ),
        graph(
            "Records",
            "Records read per second: about one per read of the network, and a few per exchange. Where Envoy tells of "
            "exchanges, how many, by how it went; without an Envoy 0 is healthy.",
            PER_SECOND,
            Query(per_second(_BY, m.RECORDS), "{{instance}}"),
            Query(or_zero(per_second(("how",), m.ENVOY_STREAMS), "how"), "Envoy's exchanges, {{how}}"),
        ),
    ),
)

_LOSS = Row(
    "Does it lose or fold anything",
    (
        graph(
            "Records dropped and exchanges lost",
            "Per minute, by where; 0 is healthy. Outbox: the analyzer is too slow or gone. capture: a restart. analyzer_full: "
            "max_streams.",
            PER_MINUTE,
            Query(or_zero(per_minute((), m.RECORDS_DROPPED)), "records, outbox full"),
            Query(or_zero(per_minute(("where",), m.STREAMS_LOST), "where"), "exchanges, {{where}}"),
        ),
        graph(
            "Exceptions caught, by stage",
            "Per minute, by stage; 0 is healthy. Each cost one exchange its verdict. The log has the kind, at level debug the "
            "traceback.",
            PER_MINUTE,
            Query(or_zero(per_minute(("stage",), m.STAGE_FAILURES), "stage"), "{{stage}}"),
            Query(or_zero(per_minute((), m.TEE_FAILURES)), "tee"),
        ),
        graph(
            "Label values folded into other",
            "Observations per minute whose model, address or error type was beyond its cap; 0 is healthy. If it grows, list the "
            "models that matter (models) or raise max_models.",
            PER_MINUTE,
            Query(or_zero(per_minute(("label",), m.FOLDED), "label"), "{{label}}"),
        ),
        graph(
            "Spans and metrics sent over OTLP",
            "Per minute: spans that the collector took, and those that did not reach it: refused, timed out or dropped unsent. "
            "Of those, and of refused metrics, 0 is healthy.",
            PER_MINUTE,
            Query(or_zero(per_minute((), m.SPANS_EXPORTED)), "spans taken"),
            Query(or_zero(per_minute(("reason",), m.SPAN_EXPORT_FAILURES), "reason"), "spans lost, {{reason}}"),
            Query(or_zero(per_minute((), m.METRIC_EXPORT_FAILURES)), "metric collections refused"),
        ),
        graph(
            "Exchanges recorded",
            "Per minute, with --record: exchanges written to capture files, and those that should have been and were not, "
            "by reason (docs/recording.md), of which 0 is healthy.",
            PER_MINUTE,
            Query(or_zero(per_minute((), m.RECORDINGS)), "written"),
            Query(or_zero(per_minute(("reason",), m.RECORDINGS_DROPPED), "reason"), "dropped, {{reason}}"),
        ),
        graph(
            "Recordings in memory and on disk",
            "Bytes of exchanges in flight or waiting to be written (at most record_memory_mib), and of all capture files "
            "(at most record_total_mib).",
            BYTES,
            Query(or_zero(now((), m.RECORDING_HELD_BYTES)), "in memory"),
            Query(or_zero(now((), m.RECORDING_DISK_BYTES)), "on disk"),
        ),
        graph(
            "Foreign writers on the records socket",
            "Connections per minute that sent something else than our records: another version of the proxy, or another "
            "program. 0 is healthy.",
            PER_MINUTE,
            Query(or_zero(per_minute((), m.WRITERS_REJECTED)), "rejected"),
        ),
        rows(
            "Versions",
            "What runs where. Proxy and analyzer of different versions refuse each other.",
            {
                "instance": "Instance",
                "version": "Sidecar",
                "mitmproxy": "mitmproxy",
                "python": "Python",
            },
            (
                (
                    Column("Processes", COUNT),
                    now(("instance", "version", "mitmproxy", "python"), m.BUILD_INFO, function="count"),
                ),
            ),
            width=8,
            height=8,
        ),
    ),
)

HEALTH = Board(
    "llm-sidecar",
    "LLM streams: sidecar health",
    "The sidecar itself: does it keep up, does it disturb the traffic, does it lose telemetry.",
    (_NOW, _TRAFFIC, _ANALYZER, _LOSS),
    variables=(),
)
