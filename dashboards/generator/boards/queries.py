"""Expressions that several dashboards have in common; each obeys every variable of the dashboard that it can."""

from dashboards.generator import promql
from dashboards.generator.board import filters
from dashboards.generator.promql import counted, one_of, rate, rise, select, total
from dashboards.generator.recording import GAPS_RATE, MILESTONES_RATE, Recorded
from sidecar.metrics import Metric

RATE = "$__rate_interval"
RANGE = "$__range"
SERVER = ("gen_ai_request_model", "server_address", "server_port")
MODEL = "{{gen_ai_request_model}}"
AT = "{{gen_ai_request_model}} @ {{server_address}}:{{server_port}}"
FAILED = one_of(("truncated", "empty", "error_event", "http_error", "upstream_reset", "upstream_failed"))
"""Outcomes that a user feels as a failure, whoever caused it; leaving is the user's own."""
NONE_YET = "none yet"
"""What a legend calls the zero of a counter that has not counted anything."""


def per_second(by: tuple[str, ...], metric: Metric, **where: str) -> str:
    """How much a counter rises per second."""
    return rate(by, metric, RATE, matchers=filters(metric), **where)


def per_minute(by: tuple[str, ...], metric: Metric, **where: str) -> str:
    """How much a counter of rare things rises per minute: once in a while is a number that can be read there."""
    return f"60 * {per_second(by, metric, **where)}"


def in_range(by: tuple[str, ...], metric: Metric, **where: str) -> str:
    """How much a counter rose within the dashboard's time range."""
    return counted(by, metric, RANGE, matchers=filters(metric), **where)


def appeared_in_range(by: tuple[str, ...], metric: Metric, **where: str) -> str:
    """The same of a counter whose series come into being with the value 1, which `increase` does not see."""
    selector = select(metric, matchers=filters(metric), **where)
    most, before = f"max_over_time({selector}[{RANGE}])", f"{selector} offset {RANGE}"
    return total(by, f"({most} - {before} > 0) or ({most} unless {before})")


def now(by: tuple[str, ...], metric: Metric, *, function: str = "sum", **where: str) -> str:
    """A gauge."""
    return total(by, select(metric, matchers=filters(metric), **where), function=function)


def recorded(by: tuple[str, ...], series: Recorded, **where: str) -> str:
    """The sum of series that a recording rule writes."""
    return total(by, select(series, matchers=filters(series), **where))


def quantile(share: float, by: tuple[str, ...], metric: Metric, **where: str) -> str:
    """A quantile from the buckets of a histogram."""
    return promql.quantile(share, by, rise(metric, RATE, suffix="_bucket", matchers=filters(metric), **where))


def buckets(metric: Metric, **where: str) -> str:
    """The buckets themselves, for a heatmap."""
    return rate(("le",), metric, RATE, suffix="_bucket", matchers=filters(metric), **where)


def ladder(share: float, by: tuple[str, ...], milestone: str) -> str:
    """A quantile of a step of the recorded first-token ladder."""
    return promql.quantile(share, by, select(MILESTONES_RATE, matchers=filters(MILESTONES_RATE), milestone=milestone))


def gap(share: float, by: tuple[str, ...]) -> str:
    """A quantile of the recorded gaps between output-bearing events."""
    return promql.quantile(share, by, select(GAPS_RATE, matchers=filters(GAPS_RATE)))


def or_zero(expr: str, label: str = "", value: str = NONE_YET) -> str:
    """Zero where nothing has been counted yet: a counter of failures has no series before the first.

    `label`: the one that the series have, with the value that the zero has there.
    """
    zero = f'label_replace(vector(0), "{label}", "{value}", "", "")' if label else "vector(0)"
    return f"({expr}) or on () {zero}"
