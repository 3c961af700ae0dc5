"""The Prometheus exporter: our series through prometheus-client's registry and encoders."""

import asyncio
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar as ClientExemplar

from sidecar.export.series import Exemplar, Series
from sidecar.metrics import METRICS, Metric


class SeriesCollector(Collector):
    """Hands every declared metric to prometheus-client. `refresh` brings the live gauges up to date first."""

    def __init__(self, series: Series, refresh: Callable[[], None] = lambda: None) -> None:
        self._series = series
        self._refresh = refresh

    def collect(self) -> Iterator[Family]:
        self._refresh()
        for metric in METRICS:
            yield _family(metric, self._series)


def _family(metric: Metric, series: Series) -> Family:
    if metric.kind == "histogram":
        histogram = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
        bounds = [*(str(float(bound)) for bound in metric.buckets), "+Inf"]
        for labels, distribution in series.distributions(metric):
            total = 0
            buckets: list[list[object]] = []
            for position, (bound, count) in enumerate(zip(bounds, distribution.counts, strict=True)):
                total += count
                shown = _exemplar(distribution.exemplars.get(position))
                buckets.append([bound, total] if shown is None else [bound, total, shown])
            histogram.add_metric(labels, buckets, distribution.sum)  # type: ignore[arg-type]  # the stub knows no exemplars
        return histogram
    if metric.kind == "counter":
        counter = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
        for labels, value, exemplar in series.values(metric):
            counter.add_metric(labels, value, exemplar=_exemplar(exemplar))
        return counter
    gauge = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
    for labels, value, _ in series.values(metric):
        gauge.add_metric(labels, value)
    return gauge


def _exemplar(exemplar: Exemplar | None) -> ClientExemplar | None:
    return None if exemplar is None else ClientExemplar(*exemplar)


class Exposition:
    """Renders `/metrics` in the format that the scraper asks for."""

    def __init__(self, series: Series, refresh: Callable[[], None]) -> None:
        self._series = series
        self._refresh = refresh
        self._rendering: dict[str, asyncio.Task[bytes]] = {}

    async def answer(self, accept: str) -> tuple[bytes, str]:
        """Body and content type: OpenMetrics (with exemplars) where accepted, else the classic text format.

        The values are those of this moment; they are written out in a thread, because that takes longer than records may
        wait. Who asks meanwhile gets the same answer: any number of scrapers cost no more than one.
        """
        encoder, content_type = choose_encoder(accept)
        running = self._rendering.get(content_type)
        if running is None:
            self._refresh()
            collector = SeriesCollector(self._series.snapshot())
            running = asyncio.create_task(asyncio.to_thread(_encoded, encoder, collector))
            self._rendering[content_type] = running
            running.add_done_callback(lambda _: self._rendering.pop(content_type, None))
        return await asyncio.shield(running), content_type

    def render(self, accept: str) -> tuple[bytes, str]:
        """The same, here and now."""
        encoder, content_type = choose_encoder(accept)
        return _encoded(encoder, SeriesCollector(self._series, self._refresh)), content_type


def _encoded(encoder: Callable[[CollectorRegistry], bytes], collector: SeriesCollector) -> bytes:
    registry = CollectorRegistry()
    registry.register(collector)
    return encoder(registry)
