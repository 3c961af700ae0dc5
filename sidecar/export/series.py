"""Counts and distributions by label values: the state behind the exporters, fed once and read by each of them."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence

import msgspec

from sidecar.metrics import Metric

type Labels = tuple[str, ...]
type Exemplar = tuple[dict[str, str], float]
"""Exemplar labels and the value they go with."""
type Recorder = Callable[[Metric, Labels, float, dict[str, str] | None], None]


class Distribution(msgspec.Struct):
    """One histogram series: counts per bucket, not cumulative, the last one beyond the largest bound."""

    counts: list[int]
    sum: float = 0.0
    exemplars: dict[int, Exemplar] = {}

    def copy(self) -> "Distribution":
        """Another one of the same values."""
        return Distribution(self.counts.copy(), self.sum, self.exemplars.copy())


class Series:
    """All series of all metrics. Not thread-safe: the analyzer's event loop owns it."""

    def __init__(self) -> None:
        self._values: dict[Metric, dict[Labels, float]] = {}
        self._distributions: dict[Metric, dict[Labels, Distribution]] = {}
        self._exemplars: dict[tuple[Metric, Labels], Exemplar] = {}
        self.recorders: list[Recorder] = []
        """Told every single value of a histogram: for exporters that aggregate otherwise than in buckets."""
        self.counted: set[Metric] = set()
        """Histograms that come as counts per bucket: of these, no exporter sees single values."""

    def snapshot(self) -> "Series":
        """A copy of all values, for who reads them elsewhere while they change here."""
        copy = Series()
        copy._values = {metric: dict(values) for metric, values in self._values.items()}
        copy._exemplars = dict(self._exemplars)
        copy._distributions = {
            metric: {labels: one.copy() for labels, one in distributions.items()}
            for metric, distributions in self._distributions.items()
        }
        return copy

    def add(
        self, metric: Metric, labels: Labels = (), amount: float = 1.0, exemplar: dict[str, str] | None = None
    ) -> None:
        """Add to a counter (or gauge)."""
        values = self._values.setdefault(metric, {})
        values[labels] = values.get(labels, 0.0) + amount
        if exemplar:
            self._exemplars[metric, labels] = (exemplar, amount)

    def set(self, metric: Metric, labels: Labels, value: float) -> None:
        """Set a gauge, or a counter that is counted elsewhere."""
        self._values.setdefault(metric, {})[labels] = value

    def forget(self, metric: Metric, labels: Labels) -> None:
        """Of whom these labels tell is gone."""
        self._values.get(metric, {}).pop(labels, None)
        self._distributions.get(metric, {}).pop(labels, None)

    def observe(self, metric: Metric, labels: Labels, value: float, exemplar: dict[str, str] | None = None) -> None:
        """One value of a histogram."""
        distribution = self._distribution(metric, labels)
        bucket = bisect_left(metric.buckets, value)
        distribution.counts[bucket] += 1
        distribution.sum += value
        if exemplar:
            distribution.exemplars[bucket] = (exemplar, value)
        for record in self.recorders:
            record(metric, labels, value, exemplar)

    def observe_counts(self, metric: Metric, labels: Labels, counts: Sequence[int], total: float) -> None:
        """Many values at once, as counts per bucket (not cumulative) and their sum."""
        self.counted.add(metric)
        distribution = self._distribution(metric, labels)
        distribution.counts = [mine + theirs for mine, theirs in zip(distribution.counts, counts, strict=True)]
        distribution.sum += total

    def replace_counts(self, metric: Metric, labels: Labels, counts: Sequence[int], total: float) -> None:
        """A distribution that is counted elsewhere, as it stands now."""
        self.counted.add(metric)
        self._distributions.setdefault(metric, {})[labels] = Distribution(list(counts), total)

    def _distribution(self, metric: Metric, labels: Labels) -> Distribution:
        distributions = self._distributions.setdefault(metric, {})
        found = distributions.get(labels)
        if found is None:
            found = distributions[labels] = Distribution([0] * (len(metric.buckets) + 1))
        return found

    def values(self, metric: Metric) -> Iterator[tuple[Labels, float, Exemplar | None]]:
        """The series of a counter or gauge."""
        for labels, value in self._values.get(metric, {}).items():
            yield labels, value, self._exemplars.get((metric, labels))

    def distributions(self, metric: Metric) -> Iterator[tuple[Labels, Distribution]]:
        """The series of a histogram."""
        yield from self._distributions.get(metric, {}).items()

    def value(self, metric: Metric, labels: Labels = ()) -> float:
        """One value; zero where it was never set."""
        return self._values.get(metric, {}).get(labels, 0.0)
