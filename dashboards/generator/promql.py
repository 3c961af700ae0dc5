"""Expressions from declared metrics: a name or label that nothing publishes is an error here."""

from collections.abc import Iterable
from typing import Protocol

from sidecar.metrics import Metric

MODEL = ("gen_ai_provider_name", "gen_ai_request_model")
UPSTREAM = (*MODEL, "server_address", "server_port")
"""What an alert about streams is about: one model at one address."""
SPOKEN = (*UPSTREAM, "dialect")
TARGET = ("job", "instance")
"""What an alert about a sidecar is about; Prometheus adds these labels to everything it scrapes."""


class Series(Protocol):
    """What can be selected: a metric of the sidecar, or what a recording rule makes of one."""

    @property
    def name(self) -> str: ...
    @property
    def labels(self) -> tuple[str, ...]: ...


class UnknownLabel(ValueError):
    """A matcher or grouping uses a label that the series do not have."""


def select(series: Series, *, suffix: str = "", matchers: str = "", **where: str) -> str:
    """A selector. Values that begin with `~` are regular expressions, with `!` exclusions.

    `matchers` is appended as it stands (a dashboard's variables). Raises UnknownLabel.
    """
    known = (*series.labels, *TARGET, "le") if suffix == "_bucket" else (*series.labels, *TARGET)
    unknown = sorted(where.keys() - set(known))
    if unknown:
        raise UnknownLabel(f"{series.name}{suffix} has no label {', '.join(unknown)}")
    parts = [_matcher(label, value) for label, value in where.items()]
    parts += [matchers] if matchers else []
    inside = "{" + ", ".join(parts) + "}" if parts else ""
    return f"{series.name}{suffix}{inside}"


def _matcher(label: str, value: str) -> str:
    for mark, operator in (("!~", "!~"), ("~", "=~"), ("!", "!=")):
        if value.startswith(mark):
            return f'{label}{operator}"{value.removeprefix(mark)}"'
    return f'{label}="{value}"'


def total(by: tuple[str, ...], inside: str, *, function: str = "sum") -> str:
    """`sum by (...) (...)`; over everything where `by` is empty."""
    return f"{function} by ({', '.join(by)}) ({inside})" if by else f"{function}({inside})"


def one_of(values: Iterable[str]) -> str:
    """A matcher's value: any of these, which are plain names."""
    return "~" + "|".join(values)


def counted(by: tuple[str, ...], metric: Metric, window: str, *, suffix: str = "", **where: str) -> str:
    """How much a counter rose within a window."""
    return total(by, f"increase({select(metric, suffix=suffix, **where)}[{window}])")


def rate(by: tuple[str, ...], metric: Metric, window: str, *, suffix: str = "", **where: str) -> str:
    """How much a counter rises per second."""
    return total(by, rise(metric, window, suffix=suffix, **where))


def rise(metric: Metric, window: str, *, suffix: str = "", **where: str) -> str:
    """The same of each series for itself."""
    return f"rate({select(metric, suffix=suffix, **where)}[{window}])"


def grew(by: tuple[str, ...], metric: Metric, window: str, **where: str) -> str:
    """Whether a counter rose within a window, its first appearance included.

    `increase` does not see a series that comes into being with the value 1, as rare counters do.
    """
    selector = select(metric, **where)
    born = total(by, f"{selector} unless {selector} offset {window}")
    return f"{counted(by, metric, window, **where)} > 0\nor\n{born} > 0"


def ratio(part: str, whole: str) -> str:
    """A part of a whole; absent, not NaN, where there is no whole."""
    return f"{part} / ({whole} > 0)"


def quantile(share: float, by: tuple[str, ...], buckets: str) -> str:
    """A quantile by these labels, of the rates of buckets."""
    return f"histogram_quantile({share:g}, {total((*by, 'le'), buckets)})"


def share(part: str, whole: str, above: float, at_least: int) -> str:
    """Whether a part is more than a share of the whole, where the whole is large enough to tell."""
    return f"(\n  {part}\n/\n  {whole}\n) > {above:g}\nand\n{whole} >= {at_least}"
