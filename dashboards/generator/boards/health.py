"""Sidecar health: is it there, does it keep up, does it disturb the traffic, does it lose telemetry."""

from dashboards.generator.board import Board, Row
from dashboards.generator.boards.queries import RATE, or_zero
from dashboards.generator.panels import COUNT, PER_SECOND, SECONDS, Column, Query, graph, heat, number, rows
from dashboards.generator.promql import TARGET, rate, select, total
from dashboards.generator.thresholds import THRESHOLDS
from sidecar import metrics as m

_UP = f'up{{job="{THRESHOLDS.job}"}}'
_BY = ("instance",)
_WORKER = ("instance", "worker")
_LIMIT = " Above {} an alert fires."


def _sum(*exprs: str) -> str:
    return " + ".join(f"({or_zero(expr)})" for expr in exprs)


_LOST = _sum(rate((), m.RECORDS_DROPPED, RATE), rate((), m.STREAMS_LOST, RATE))
_FAILURES = _sum(rate((), m.STAGE_FAILURES, RATE), rate((), m.TEE_FAILURES, RATE))

_NOW = Row(
    "Now",
    (
        number("Sidecars up", "Sidecars that Prometheus can scrape.", COUNT, Query(or_zero(f"sum({_UP})"))),
        number(
            "Proxies connected",
            "Proxy processes that feed the analyzers. 0: nothing is seen, whatever the other panels show.",
            COUNT,
            Query(or_zero(total((), select(m.PROXIES)))),
        ),
        number(
            "Streams followed",
            "Exchanges that the analyzers hold now; at most max_streams each.",
            COUNT,
            Query(or_zero(total((), select(m.TRACKED)))),
        ),
        number(
            "Telemetry lost",
            "Records and exchanges lost per second. Traffic is not affected; the exchanges have no verdict.",
            PER_SECOND,
            Query(_LOST),
            red=0.001,
        ),
        number(
            "Exceptions caught",
            "Exceptions of our own per second. Each is a bug: please report it.",
            PER_SECOND,
            Query(_FAILURES),
            red=0.0001,
        ),
        number(
            "Event loop, worst",
            "The largest lag of any proxy's event loop in the last second: what traffic waits for us."
            + _LIMIT.format("100 ms"),
            SECONDS,
            Query(or_zero(total((), select(m.LOOP_LAG), function="max"))),
            orange=0.05,
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
            Query(total(_WORKER, select(m.LOOP_LAG), function="max"), "{{instance}} process {{worker}}"),
        ),
        graph(
            "Time in the tee",
            "What the copying itself costs per read of the network, in the proxy's event loop.",
            SECONDS,
            Query(f"histogram_quantile(0.5, {rate(('le',), m.TEE_SECONDS, RATE, suffix='_bucket')})", "p50"),
            Query(f"histogram_quantile(0.99, {rate(('le',), m.TEE_SECONDS, RATE, suffix='_bucket')})", "p99"),
        ),
        graph(
            "Outbox",
            "Bytes that wait in the proxy for the analyzer. A saw tooth is normal; a plateau at outbox_mib means "
            "that telemetry is being dropped.",
            "bytes",
            Query(total(_WORKER, select(m.OUTBOX_BYTES)), "{{instance}} process {{worker}}"),
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
            Query(rate(("le",), m.ANALYZER_LAG, RATE, suffix="_bucket"), "{{le}}"),
        ),
        graph(
            "Age of records, by sidecar",
            "99th percentile." + _LIMIT.format("1 s"),
            SECONDS,
            Query(
                f"histogram_quantile(0.99, {rate((*_BY, 'le'), m.ANALYZER_LAG, RATE, suffix='_bucket')})",
                "{{instance}}",
            ),
        ),
        graph(
            "Records",
            "Records read per second: about one per read of the network, and a few per exchange. Where Envoy tells of "
            "exchanges, how many, by how it went.",
            PER_SECOND,
            Query(rate(_BY, m.RECORDS, RATE), "{{instance}}"),
            Query(or_zero(rate(("how",), m.ENVOY_STREAMS, RATE), "how"), "Envoy's exchanges, {{how}}"),
        ),
    ),
)

_LOSS = Row(
    "Does it lose or fold anything",
    (
        graph(
            "Records dropped and exchanges lost",
            "By where: outbox (the analyzer is too slow or gone), capture (a restart), analyzer_full (max_streams).",
            PER_SECOND,
            Query(or_zero(rate((), m.RECORDS_DROPPED, RATE)), "records, outbox full"),
            Query(or_zero(rate(("where",), m.STREAMS_LOST, RATE), "where"), "exchanges, {{where}}"),
        ),
        graph(
            "Exceptions caught, by stage",
            "By stage; each cost one exchange its verdict. The log has the kind, at level debug the traceback.",
            PER_SECOND,
            Query(or_zero(rate(("stage",), m.STAGE_FAILURES, RATE), "stage"), "{{stage}}"),
            Query(or_zero(rate((), m.TEE_FAILURES, RATE)), "tee"),
        ),
        graph(
            "Label values folded into other",
            "Observations per second whose model, address or error type was beyond its cap. If it grows, list the "
            "models that matter (models) or raise max_models.",
            PER_SECOND,
            Query(or_zero(rate(("label",), m.FOLDED, RATE), "label"), "{{label}}"),
        ),
        graph(
            "Spans and metrics sent over OTLP",
            "Spans that the collector took, and those that did not reach it: refused, timed out or dropped unsent.",
            PER_SECOND,
            Query(or_zero(rate((), m.SPANS_EXPORTED, RATE)), "spans taken"),
            Query(or_zero(rate(("reason",), m.SPAN_EXPORT_FAILURES, RATE), "reason"), "spans lost, {{reason}}"),
            Query(or_zero(rate((), m.METRIC_EXPORT_FAILURES, RATE)), "metric collections refused"),
        ),
        graph(
            "Foreign writers on the records socket",
            "Connections that sent something else than our records: another version of the proxy, or another program.",
            PER_SECOND,
            Query(or_zero(rate((), m.WRITERS_REJECTED, RATE)), "rejected"),
        ),
        rows(
            "Versions",
            "What runs where. Proxy and analyzer of different versions refuse each other.",
            {
                "job": "Job",
                "instance": "Instance",
                "version": "Sidecar",
                "mitmproxy": "mitmproxy",
                "python": "Python",
            },
            (
                (
                    Column("Processes", COUNT),
                    total((*TARGET, "version", "mitmproxy", "python"), select(m.BUILD_INFO), function="count"),
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
