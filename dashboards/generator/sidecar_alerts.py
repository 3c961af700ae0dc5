"""Alerts on the sidecar itself: is it there, does it keep up, does it disturb the traffic."""

from dashboards.generator.alert import SIDECAR, Alert, Group
from dashboards.generator.promql import TARGET, grew, rate, select, total
from dashboards.generator.thresholds import Thresholds
from sidecar import metrics as m


def sidecar(thresholds: Thresholds) -> Group:
    """Alerts by instance."""
    t = thresholds
    lag = rate((*TARGET, "le"), m.ANALYZER_LAG, "5m", suffix="_bucket")
    return Group(
        "llm-sidecar",
        (
            Alert(
                "LLMSidecarPassivityViolated",
                "critical",
                grew(TARGET, m.PASSIVITY_VIOLATIONS, t.violation_window),
                f"Proxy of {SIDECAR} does not pass on what the upstream sent",
                f"{{{{ $value | humanize }}}} of the exchanges that it checked in {t.violation_window} went to the client "
                "otherwise than they came. A script or another addon changes bodies, or the sidecar has a bug.",
            ),
            Alert(
                "LLMSidecarDown",
                "critical",
                f'up{{job="{t.job}"}} == 0\nor\nabsent(up{{job="{t.job}"}})',
                f"Sidecar {SIDECAR} is not scraped",
                "Prometheus gets no metrics from it, or knows no target of that job. Traffic that goes through its "
                "proxy may be down, too; if it is not, nobody watches it.",
                t.down_for,
            ),
            Alert(
                "LLMSidecarNoProxy",
                "warning",
                f"{total(TARGET, select(m.PROXIES))} == 0",
                f"No proxy feeds the analyzer {SIDECAR}",
                "The analyzer answers, but no proxy process is connected to it: it sees nothing, and everything it "
                "shows stays as it was.",
                t.no_proxy_for,
            ),
            Alert(
                "LLMSidecarDroppingTelemetry",
                "warning",
                f"{grew(TARGET, m.RECORDS_DROPPED, t.dropping_window)}\nor\n"
                f"{grew(TARGET, m.STREAMS_LOST, t.dropping_window)}",
                f"Sidecar {SIDECAR} drops telemetry",
                f"{{{{ $value | humanize }}}} records or exchanges were lost in {t.dropping_window}. Traffic is not "
                "affected, but these exchanges have the outcome lost and no verdict.",
            ),
            Alert(
                "LLMSidecarAnalyzerLag",
                "warning",
                f"histogram_quantile(0.99, {lag}) > {t.analyzer_lag_seconds:g}",
                f"Analyzer {SIDECAR} is behind",
                "What it shows is {{ $value | humanizeDuration }} old (99th percentile): live gauges and hung-stream "
                "alerts are late by as much.",
                t.lag_for,
            ),
            Alert(
                "LLMSidecarLoopLag",
                "warning",
                f"{total((*TARGET, 'worker'), f'avg_over_time({select(m.LOOP_LAG)}[5m])', function='max')}"
                f" > {t.loop_lag_seconds:g}",
                f"Proxy {{{{ $labels.worker }}}} of {SIDECAR} is overloaded",
                "Its event loop is {{ $value | humanizeDuration }} late: every stream through it is delayed by up to "
                "as much, and so are the times it measures.",
                t.lag_for,
            ),
            Alert(
                "LLMSidecarInternalFailures",
                "warning",
                f"{grew(TARGET, m.STAGE_FAILURES, t.dropping_window)}\nor\n"
                f"{grew(TARGET, m.TEE_FAILURES, t.dropping_window)}",
                f"Sidecar {SIDECAR} caught exceptions of its own",
                f"{{{{ $value | humanize }}}} in {t.dropping_window}. Each is a bug of the sidecar that cost an "
                "exchange its verdict; traffic is not affected.",
            ),
        ),
    )
