"""Metrics over OTLP: the same numbers as /metrics under OpenTelemetry's names, histograms exponential."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_DELTA

from sidecar import metrics as m
from sidecar.analyzer import Analyzer
from sidecar.config import Settings
from sidecar.export.otel_names import attribute_of, attributes_of, name_of, unit_of
from sidecar.export.series import Series
from sidecar.export.telemetry import Telemetry, start
from sidecar.files.capture import records_of
from sidecar.metrics import METRICS, Metric
from tests.collector import Collector, attributes
from tests.corpus import captures

PROTOCOLS: dict[str, Callable[[Collector], AbstractContextManager[Collector]]] = {
    "http/protobuf": Collector.over_http,
    "grpc": Collector.over_grpc,
}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the last collection, at the end, unless a test says otherwise."""
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "3600000")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")


def telemetry_of(analyzer: Analyzer, collector: Collector, monkeypatch: pytest.MonkeyPatch) -> Telemetry:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    telemetry = start(analyzer.settings, analyzer.series, analyzer.refresh, "1.2.3")
    assert telemetry is not None
    assert telemetry.spans is None
    return telemetry


def feed(analyzer: Analyzer, connections: int = 1) -> None:
    for number, capture in enumerate(captures().values()):
        for connection in range(connections):
            analyzer.receive(1000 * connection + number, list(records_of(capture)))  # type: ignore[arg-type]  # records of the wire


@pytest.fixture(params=PROTOCOLS)
async def fed(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Analyzer, Collector]]:
    """An analyzer that has seen the corpus, and a collector that got its metrics."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", request.param)
    analyzer = Analyzer(Settings(otel_metrics=True, max_models=20), lambda: 10**12)
    with PROTOCOLS[request.param](Collector()) as collector:
        telemetry = telemetry_of(analyzer, collector, monkeypatch)
        feed(analyzer)
        await telemetry.stop()
        yield analyzer, collector


def key(metric: Metric, labels: tuple[str, ...]) -> frozenset[tuple[str, Any]]:
    return frozenset(attributes_of(metric, labels).items())


async def test_the_collector_has_the_numbers_of_the_page(fed: tuple[Analyzer, Collector]) -> None:
    analyzer, collector = fed
    assert collector.resources[-1]["service.name"] == "llm-sidecar"
    seen = set()
    for metric in METRICS:
        shown = dict(numbers(analyzer.series, metric))
        if shown:
            sent = collector.latest(name_of(metric))
            assert (sent.description, sent.unit) == (metric.help, unit_of(metric))
            kind = sent.WhichOneof("data")
            assert kind is not None
            if metric.kind == "histogram":
                assert kind == ("histogram" if metric in analyzer.series.counted else "exponential_histogram"), (
                    metric.name
                )
            else:
                assert kind == ("sum" if metric.kind == "counter" else "gauge"), metric.name
                assert sent.sum.is_monotonic == (metric.kind == "counter")
            assert dict(received(getattr(sent, kind).data_points)) == shown, metric.name
            seen.add(metric)
    assert {m.DURATION, m.MILESTONES, m.STREAMS, m.CHUNK_GAPS, m.IN_FLIGHT, m.BUILD_INFO} <= seen


def numbers(series: Series, metric: Metric) -> Iterator[tuple[frozenset[tuple[str, Any]], Any]]:
    """Count and sum, or the value, of each series of a metric as /metrics shows them."""
    for labels, row in series.distributions(metric):
        yield key(metric, labels), (sum(row.counts), pytest.approx(row.sum))
    for labels, value, _ in series.values(metric):
        yield key(metric, labels), value


def received(points: Iterable[Any]) -> Iterator[tuple[frozenset[tuple[str, Any]], Any]]:
    """The same as the collector got them."""
    for point in points:
        number = hasattr(point, "as_double")
        yield frozenset(attributes(point).items()), point.as_double if number else (point.count, point.sum)


async def test_gaps_keep_their_declared_buckets(fed: tuple[Analyzer, Collector]) -> None:
    analyzer, collector = fed
    sent = {
        frozenset(attributes(point).items()): point
        for point in collector.latest("gen_ai.client.operation.time_per_output_chunk").histogram.data_points
    }
    for labels, row in analyzer.series.distributions(m.CHUNK_GAPS):
        point = sent[key(m.CHUNK_GAPS, labels)]
        assert list(point.explicit_bounds) == list(m.CHUNK_GAPS.buckets)
        assert list(point.bucket_counts) == row.counts
        assert not point.HasField("min")


async def test_delta_temporality_is_that_of_all_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "delta")
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "1500")
    analyzer = Analyzer(Settings(otel_metrics=True))
    with Collector().over_http() as collector:
        telemetry = telemetry_of(analyzer, collector, monkeypatch)
        feed(analyzer)
        await asyncio.to_thread(collector.wait_for, lambda found: found.metrics)
        feed(analyzer, connections=2)
        await telemetry.stop()
    for metric, data in ((m.CHUNK_GAPS, "histogram"), (m.DURATION, "exponential_histogram"), (m.STREAMS, "sum")):
        sent = [getattr(one, data) for one in collector.metrics if one.name == name_of(metric)]
        assert {one.aggregation_temporality for one in sent} == {AGGREGATION_TEMPORALITY_DELTA}
        points = [number for one in sent for _, number in received(one.data_points)]
        shown = [number for _, number in numbers(analyzer.series, metric)]
        assert sum(map(count_of, points)) == sum(map(count_of, shown)) > 0


def count_of(number: Any) -> float:
    """The count of a distribution, or the value."""
    return float(number[0] if isinstance(number, tuple) else number)


async def test_declared_buckets_where_the_environment_asks_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION", "explicit_bucket_histogram")
    analyzer = Analyzer(Settings(otel_metrics=True))
    with Collector().over_http() as collector:
        telemetry = telemetry_of(analyzer, collector, monkeypatch)
        feed(analyzer)
        await telemetry.stop()
    point = collector.latest(name_of(m.DURATION)).histogram.data_points[0]
    assert list(point.explicit_bounds) == list(m.DURATION.buckets)


async def test_exemplars_carry_the_span(monkeypatch: pytest.MonkeyPatch) -> None:
    analyzer = Analyzer(Settings(otel_metrics=True))
    ids = {"trace_id": "0af7651916cd43dd8448eb211c80319c", "span_id": "b7ad6b7169203331"}
    analyzer.record_span = lambda summary: ids
    with Collector().over_http() as collector:
        telemetry = telemetry_of(analyzer, collector, monkeypatch)
        feed(analyzer)
        await telemetry.stop()
    points = collector.latest(name_of(m.DURATION)).exponential_histogram.data_points
    exemplars = [exemplar for point in points for exemplar in point.exemplars]
    assert {(one.trace_id.hex(), one.span_id.hex()) for one in exemplars} == {(ids["trace_id"], ids["span_id"])}


@pytest.mark.parametrize("behaviour", ["refuse", "hang", "cut"])
async def test_failures_are_counted_and_the_end_has_a_bound(behaviour: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "100")
    analyzer = Analyzer(Settings(otel_metrics=True, otel_flush_seconds=0.5))
    with Collector(behaviour).over_http() as collector:
        telemetry = telemetry_of(analyzer, collector, monkeypatch)
        deadline = time.monotonic() + 15
        while not analyzer.series.value(m.METRIC_EXPORT_FAILURES):
            assert time.monotonic() < deadline
            telemetry.publish()
            await asyncio.sleep(0.02)
        begun = time.monotonic()
        await telemetry.stop()
        assert time.monotonic() - begun < 2


def translated(metric: Metric) -> str:
    """What https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/ makes of a name."""
    name = re.sub(r"[^a-zA-Z0-9_:]", "_", name_of(metric))
    suffix = {"s": "_seconds", "By": "_bytes"}.get(unit_of(metric), "")
    return name + ("" if name.endswith(suffix) else suffix) + ("_total" if metric.kind == "counter" else "")


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_prometheus_makes_the_names_of_the_page_of_ours(metric: Metric) -> None:
    assert translated(metric) == metric.name
    assert [attribute_of(label).replace(".", "_") for label in metric.labels] == list(metric.labels)


def test_names_of_the_conventions_are_those() -> None:
    assert [name_of(metric) for metric in (m.DURATION, m.FIRST_CHUNK, m.CHUNK_GAPS, m.TOKEN_USAGE)] == [
        "gen_ai.client.operation.duration",
        "gen_ai.client.operation.time_to_first_chunk",
        "gen_ai.client.operation.time_per_output_chunk",
        "gen_ai.client.token.usage",
    ]
    assert (unit_of(m.DURATION), unit_of(m.TOKEN_USAGE)) == ("s", "{token}")
    assert attributes_of(m.TOKEN_USAGE, ("chat", "openai", "", "h", "443", "openai.chat", "input")) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "server.address": "h",
        "server.port": 443,
        "dialect": "openai.chat",
        "gen_ai.token.type": "input",
    }
