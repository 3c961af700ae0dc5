"""OTLP metrics from the declarations and the series that `/metrics` shows; there is no second list of either.

Counters and gauges are observed from the series. Histograms become exponential ones: `Series.observe` hands each value
to the SDK, too, which aggregates it. Two kinds of distribution never exist as single values, the gaps of a stream (a
long one has thousands) and what the proxy counts itself (tee times): those go out with their declared buckets, exact.
"""

import dataclasses
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from opentelemetry.context import Context
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk import metrics as sdk
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Histogram,
    HistogramDataPoint,
    MetricExporter,
    MetricExportResult,
    MetricsData,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.metrics.export import Metric as SdkMetric
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from sidecar.export.otel_names import attributes_of, name_of, unit_of
from sidecar.export.series import Labels, Series
from sidecar.metrics import METRICS, Metric

logger = logging.getLogger(__name__)

SCOPE = "llm-sidecar"
_FRESH_SECONDS = 1.0  # one collection asks for dozens of instruments: they all read one snapshot
_DELTA = AggregationTemporality.DELTA
_PREFERENCES: Mapping[str, dict[type, AggregationTemporality]] = {
    "delta": {sdk.Counter: _DELTA, sdk.ObservableCounter: _DELTA, sdk.Histogram: _DELTA},
    "lowmemory": {sdk.Counter: _DELTA, sdk.Histogram: _DELTA},
}


class Snapshot(msgspec.Struct):
    """The series at one moment, copied in the event loop that owns them."""

    values: dict[Metric, list[tuple[Labels, float]]] = {}
    counted: dict[Metric, list[tuple[Labels, list[int], float]]] = {}
    """Histograms that exist as counts per bucket only: counts (the last one beyond the largest bound) and sum."""


def take(series: Series) -> Snapshot:
    """A copy of all that is read from the series."""
    return Snapshot(
        {
            metric: [(labels, float(value)) for labels, value, _ in series.values(metric)]
            for metric in METRICS
            if metric.kind != "histogram"
        },
        {
            metric: [(labels, list(found.counts), found.sum) for labels, found in series.distributions(metric)]
            for metric in series.counted
        },
    )


class MetricsExport:
    """Sends the metrics every OTEL_METRIC_EXPORT_INTERVAL milliseconds, from a thread of the SDK's.

    `snapshot` is called in that thread and may raise where the event loop does not answer; the last one is used then.
    """

    def __init__(
        self,
        series: Series,
        snapshot: Callable[[], Snapshot],
        exporter: MetricExporter,
        resource: Resource,
        version: str,
        environment: Mapping[str, str],
    ) -> None:
        self._series = series
        self._ask = snapshot
        self._snapshot = Snapshot()
        self._taken = -_FRESH_SECONDS
        self._attributes: dict[tuple[Metric, Labels], dict[str, str | int]] = {}
        preference = environment.get("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "").strip().lower()
        explicit = environment.get("OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION", "").strip().lower()
        exponential = View(instrument_type=sdk.Histogram, aggregation=ExponentialBucketHistogramAggregation())
        self.exporter = StoreExporter(exporter, self._counted, _PREFERENCES.get(preference, {}))
        self._provider = sdk.MeterProvider(
            [PeriodicExportingMetricReader(self.exporter)],
            resource,
            shutdown_on_exit=False,
            views=[] if explicit == "explicit_bucket_histogram" else [exponential],
        )
        meter = self._provider.get_meter(SCOPE, version)
        self._histograms = {}
        for metric in METRICS:
            name, unit = name_of(metric), unit_of(metric)
            if metric.kind == "counter":
                meter.create_observable_counter(name, [self._observer(metric)], unit, metric.help)
            elif metric.kind == "gauge":
                meter.create_observable_gauge(name, [self._observer(metric)], unit, metric.help)
            else:
                self._histograms[metric] = meter.create_histogram(
                    name, unit, metric.help, explicit_bucket_boundaries_advisory=metric.buckets
                )
        series.recorders.append(self._record)

    def _record(self, metric: Metric, labels: Labels, value: float, exemplar: dict[str, str] | None) -> None:
        histogram = self._histograms.get(metric)
        if histogram is not None and metric not in self._series.counted:
            histogram.record(value, self._named(metric, labels), _context(exemplar))

    def _named(self, metric: Metric, labels: Labels) -> dict[str, str | int]:
        key = (metric, labels)
        found = self._attributes.get(key)
        if found is None:
            found = self._attributes[key] = attributes_of(metric, labels)
        return found

    def _observer(self, metric: Metric) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_: CallbackOptions) -> Iterable[Observation]:
            rows = self._current().values.get(metric, ())
            return [Observation(value, self._named(metric, labels)) for labels, value in rows]

        return observe

    def _current(self) -> Snapshot:
        now = time.monotonic()
        if now - self._taken >= _FRESH_SECONDS:
            try:
                self._snapshot = self._ask()
            except (TimeoutError, RuntimeError) as error:  # a busy loop, or one that is closed
                logger.info("metrics are sent as they were before: %s", type(error).__name__)
            self._taken = time.monotonic()
        return self._snapshot

    def _counted(self) -> Iterable[tuple[Metric, list[tuple[dict[str, str | int], list[int], float]]]]:
        for metric, rows in self._snapshot.counted.items():  # the one that this collection has just read
            yield metric, [(self._named(metric, labels), counts, total) for labels, counts, total in rows]

    def shutdown(self) -> None:
        """Send once more, and end. Blocks."""
        self._provider.shutdown()


class StoreExporter(MetricExporter):
    """Another exporter, given what exists as counts per bucket besides what the SDK aggregated. Counts failures."""

    def __init__(
        self,
        inner: MetricExporter,
        counted: Callable[[], Iterable[tuple[Metric, list[tuple[dict[str, str | int], list[int], float]]]]],
        temporality: dict[type, AggregationTemporality],
    ) -> None:
        super().__init__(preferred_temporality=temporality)
        self._inner = inner
        self._counted = counted
        self._delta = temporality.get(sdk.Histogram) is _DELTA
        self._begun = self._sent_at = time.time_ns()
        self._sent: dict[tuple[Metric, frozenset[tuple[str, str | int]]], tuple[list[int], float]] = {}
        self.failures = 0

    def export(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: Any) -> MetricExportResult:
        try:
            result = self._inner.export(self._completed(metrics_data), timeout_millis, **kwargs)
        except Exception as error:  # noqa: BLE001  # as with spans: it is gone, and counted
            logger.warning("metrics could not be exported: %s", type(error).__name__)
            result = MetricExportResult.FAILURE
        self.failures += result is not MetricExportResult.SUCCESS
        return result

    def _completed(self, data: MetricsData) -> MetricsData:
        now = time.time_ns()
        more = [self._metric(metric, rows, now) for metric, rows in self._counted()]
        self._sent_at = now
        if not data.resource_metrics or not data.resource_metrics[0].scope_metrics:
            return data
        first = data.resource_metrics[0]
        scope = first.scope_metrics[0]
        scope = dataclasses.replace(scope, metrics=[*scope.metrics, *more])
        first = dataclasses.replace(first, scope_metrics=[scope, *first.scope_metrics[1:]])
        return dataclasses.replace(data, resource_metrics=[first, *data.resource_metrics[1:]])

    def _metric(self, metric: Metric, rows: list[tuple[dict[str, str | int], list[int], float]], now: int) -> SdkMetric:
        points = []
        for attributes, counts, total in rows:
            if self._delta:
                key = (metric, frozenset(attributes.items()))
                before, sum_before = self._sent.get(key, ([0] * len(counts), 0.0))
                self._sent[key] = (counts, total)
                counts = [count - earlier for count, earlier in zip(counts, before, strict=True)]
                total -= sum_before
            points.append(
                HistogramDataPoint(
                    attributes=attributes,
                    start_time_unix_nano=self._sent_at if self._delta else self._begun,
                    time_unix_nano=now,
                    count=sum(counts),
                    sum=total,
                    bucket_counts=counts,
                    explicit_bounds=metric.buckets,
                    min=None,  # type: ignore[arg-type]  # unknown, which the encoder and OTLP have a place for
                    max=None,  # type: ignore[arg-type]  # as above
                )
            )
        temporality = _DELTA if self._delta else AggregationTemporality.CUMULATIVE
        return SdkMetric(name_of(metric), metric.help, unit_of(metric), Histogram(points, temporality))

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return self._inner.force_flush(timeout_millis)

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:
        self._inner.shutdown(timeout_millis, **kwargs)


def _context(exemplar: dict[str, str] | None) -> Context | None:
    """The context from which the SDK takes an exemplar's ids."""
    if exemplar is None:
        return Context()
    ids = int(exemplar["trace_id"], 16), int(exemplar["span_id"], 16)
    span = SpanContext(*ids, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    return set_span_in_context(NonRecordingSpan(span), Context())
