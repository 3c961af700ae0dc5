"""Expressions that several dashboards have in common, under the filters of their variables."""

from dashboards.generator.board import FILTER
from dashboards.generator.promql import counted, rate, select, total
from dashboards.generator.recording import GAPS_RATE, MILESTONES_RATE
from sidecar.metrics import Metric

RATE = "$__rate_interval"
RANGE = "$__range"
SERVER = ("gen_ai_request_model", "server_address", "server_port")
MODEL = "{{gen_ai_request_model}}"
AT = "{{gen_ai_request_model}} @ {{server_address}}:{{server_port}}"
FAILED = "~truncated|empty|error_event|http_error|upstream_reset|upstream_failed"
"""Outcomes that a user feels as a failure, whoever caused it; leaving is the user's own."""


def per_second(by: tuple[str, ...], metric: Metric, **where: str) -> str:
    """How much a counter of streams rises per second."""
    return rate(by, metric, RATE, matchers=FILTER, **where)


def in_range(by: tuple[str, ...], metric: Metric, **where: str) -> str:
    """How much a counter of streams rose within the dashboard's time range."""
    return counted(by, metric, RANGE, matchers=FILTER, **where)


def now(by: tuple[str, ...], metric: Metric, *, function: str = "sum", **where: str) -> str:
    """A gauge of streams."""
    return total(by, select(metric, matchers=FILTER, **where), function=function)


def quantile(share: float, by: tuple[str, ...], metric: Metric, **where: str) -> str:
    """A quantile from the buckets of a histogram of streams."""
    return (
        f"histogram_quantile({share:g}, {rate((*by, 'le'), metric, RATE, suffix='_bucket', matchers=FILTER, **where)})"
    )


def buckets(metric: Metric, **where: str) -> str:
    """The buckets themselves, for a heatmap."""
    return rate(("le",), metric, RATE, suffix="_bucket", matchers=FILTER, **where)


def ladder(share: float, by: tuple[str, ...], milestone: str = "") -> str:
    """A quantile of the recorded first-token ladder."""
    chosen = f'milestone="{milestone}", ' if milestone else ""
    return f"histogram_quantile({share:g}, sum by ({', '.join((*by, 'le'))}) ({MILESTONES_RATE}{{{chosen}{FILTER}}}))"


def gap(share: float, by: tuple[str, ...]) -> str:
    """A quantile of the recorded gaps between output-bearing events."""
    return f"histogram_quantile({share:g}, sum by ({', '.join((*by, 'le'))}) ({GAPS_RATE}{{{FILTER}}}))"


def or_zero(expr: str, label: str = "", value: str = "none") -> str:
    """Zero where nothing has been counted yet: a counter of failures has no series before the first.

    `label`: the one that the series have, with the value that the zero has there.
    """
    zero = f'label_replace(vector(0), "{label}", "{value}", "", "")' if label else "vector(0)"
    return f"({expr}) or on () {zero}"
