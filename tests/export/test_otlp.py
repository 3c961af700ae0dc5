"""Export over OTLP: what a collector of the real stubs receives, what switches it on, and what bad collectors cost."""

import asyncio
import logging
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import msgspec
import pytest

from sidecar import metrics as m
from sidecar.config import Settings
from sidecar.export import otlp
from sidecar.export.series import Series
from sidecar.export.telemetry import ExporterError, Telemetry, start
from tests.collector import Collector, attributes
from tests.corpus import captures
from tests.export.spans import summary_of

HEALTHY = "n2-xai-usage-each-chunk"
QUICK = {"OTEL_BSP_SCHEDULE_DELAY": "50", "OTEL_EXPORTER_OTLP_TIMEOUT": "1"}

type Listen = Callable[[Collector], AbstractContextManager[Collector]]
PROTOCOLS: dict[str, Listen] = {"http/protobuf": Collector.over_http, "grpc": Collector.over_grpc}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Quick to send and quick to give up."""
    for name, value in QUICK.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(params=PROTOCOLS)
def listen(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Listen:
    """How the collector listens; the exporters are told the protocol."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", request.param)
    return PROTOCOLS[request.param]


def started(url: str, **settings: Any) -> tuple[Telemetry, Series]:
    series = Series()
    telemetry = start(Settings(otel_endpoint=url, **settings), series, lambda: None, "1.2.3")
    assert telemetry is not None
    return telemetry, series


def failures(telemetry: Telemetry, series: Series) -> dict[str, float]:
    telemetry.publish()
    return {reason: value for (reason,), value, _ in series.values(m.SPAN_EXPORT_FAILURES) if value}


async def until(found: Callable[[], bool], seconds: float = 15.0) -> None:
    deadline = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


async def test_a_span_arrives_with_its_values_and_its_sender(listen: Listen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=staging")
    summary = summary_of(captures()[HEALTHY])
    with listen(Collector()) as collector:
        telemetry, series = started(collector.url)
        telemetry.record(summary)
        await asyncio.to_thread(collector.wait_for, lambda found: found.spans)
        await telemetry.stop()
    (span,) = collector.spans
    said = attributes(span)
    assert said["llm_stream.milestone.end"] == summary.milestones["end"]
    assert said["gen_ai.usage.output_tokens"] == (summary.tokens.output if summary.tokens else None)
    assert span.end_time_unix_nano - span.start_time_unix_nano == round(summary.milestones["end"] * 1e9)
    sender = collector.resources[0]
    assert (sender["service.name"], sender["service.version"]) == ("llm-sidecar", "1.2.3")
    assert sender["deployment.environment.name"] == "staging"
    assert series.value(m.SPANS_EXPORTED) == 0
    telemetry.publish()
    assert series.value(m.SPANS_EXPORTED) == 1
    assert failures(telemetry, series) == {}


async def test_what_waits_is_sent_at_the_end(listen: Listen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "60000")
    with listen(Collector()) as collector:
        telemetry, _ = started(collector.url)
        for number in range(100):
            telemetry.record(msgspec.structs.replace(summary_of(captures()[HEALTHY]), id=str(number)))
        await telemetry.stop()
    assert len(collector.spans) == 100


@pytest.mark.parametrize(
    ("behaviour", "status"), [("refuse", 429), ("refuse", 503), ("refuse", 400), ("hang", 0), ("cut", 0)]
)
async def test_a_bad_collector_costs_the_spans_and_nothing_else(listen: Listen, behaviour: Any, status: int) -> None:
    with listen(Collector(behaviour, status)) as collector:
        telemetry, series = started(collector.url, otel_flush_seconds=0.5)
        begun = time.monotonic()
        for number in range(20):
            telemetry.record(msgspec.structs.replace(summary_of(captures()[HEALTHY]), id=str(number)))
        assert time.monotonic() - begun < 2
        await until(lambda: failures(telemetry, series) == {"export": 20})
        assert collector.exports
        assert not collector.spans
        begun = time.monotonic()
        await telemetry.stop()
        assert time.monotonic() - begun < 2


async def test_an_absent_collector_costs_the_spans_and_nothing_else(listen: Listen) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        telemetry, series = started(f"http://127.0.0.1:{closed.getsockname()[1]}", otel_flush_seconds=0.5)
        telemetry.record(summary_of(captures()[HEALTHY]))
        await until(lambda: failures(telemetry, series) == {"export": 1})
        await telemetry.stop()


async def test_a_collector_that_comes_back_is_used_again(listen: Listen) -> None:
    with listen(Collector("refuse")) as collector:
        telemetry, series = started(collector.url)
        telemetry.record(summary_of(captures()[HEALTHY]))
        await until(lambda: failures(telemetry, series) == {"export": 1})
        collector.behaviour = "take"
        telemetry.record(summary_of(captures()[HEALTHY]))
        await asyncio.to_thread(collector.wait_for, lambda found: found.spans)
        await telemetry.stop()


async def test_a_full_queue_drops_the_newest_and_counts_them(listen: Listen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "10")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "30")
    with listen(Collector("hang")) as collector:
        telemetry, series = started(collector.url, otel_flush_seconds=0.5)
        telemetry.record(summary_of(captures()[HEALTHY]))
        await until(lambda: collector.exports == 1)
        for _ in range(50):
            telemetry.record(summary_of(captures()[HEALTHY]))
        assert failures(telemetry, series) == {"queue_full": 40}
        begun = time.monotonic()
        await telemetry.stop()
        assert time.monotonic() - begun < 2
        assert failures(telemetry, series) == {"queue_full": 40, "shutdown": 11}


def test_opentelemetry_is_imported_only_where_it_is_used() -> None:
    code = "import sys, sidecar.service; print([name for name in sys.modules if name.startswith('opentelemetry')])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


async def test_nobody_listens_and_nothing_is_configured() -> None:
    assert start(Settings(), Series(), lambda: None, "1", {}) is None


@pytest.mark.parametrize(
    ("variables", "endpoint", "wanted"),
    [
        ({}, None, False),
        ({}, "http://c:4318", True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, None, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, None, True),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c:4318/v1/metrics"}, None, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_TRACES_EXPORTER": "none"}, None, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_TRACES_EXPORTER": "console,otlp"}, None, True),
        ({"OTEL_TRACES_EXPORTER": "none"}, "http://c", True),
        ({"OTEL_SDK_DISABLED": "true"}, "http://c", False),
    ],
)
def test_an_endpoint_switches_it_on(variables: dict[str, str], endpoint: str | None, wanted: bool) -> None:
    assert otlp.is_wanted("traces", endpoint, variables) is wanted


@pytest.mark.parametrize(
    "variables",
    [
        {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"},
        {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "carrier-pigeon"},
        {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_COMPRESSION": "rot13"},
        {"OTEL_BSP_SCHEDULE_DELAY": "-5"},
        {"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "many"},
    ],
)
async def test_an_environment_that_cannot_be_served_is_one_line(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ExporterError) as raised:
        started("http://127.0.0.1:4318")
    assert "\n" not in str(raised.value)


async def test_capture_warns_at_start(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), Collector().over_http() as collector:
        telemetry, _ = started(collector.url, capture_content=True)
        await telemetry.stop()
    assert "content capture is on" in caplog.text
    with caplog.at_level(logging.WARNING):
        assert start(Settings(capture_content=True, otel_metrics=True), Series(), lambda: None, "1", {}) is None
    assert "capture_content has no effect" in caplog.text
    assert "otel_metrics has no effect" in caplog.text


def test_a_collector_that_is_down_is_not_complained_of_with_every_batch(caplog: pytest.LogCaptureFixture) -> None:
    exporter = otlp.span_exporter("http://127.0.0.1:1", {})
    logger = logging.getLogger(type(exporter).__module__)
    with caplog.at_level(logging.ERROR):
        for _ in range(5):
            logger.error("Failed to export %s", "spans")
    assert caplog.text.count("Failed to export") <= 1


@pytest.fixture(autouse=True)
def complaints() -> Iterator[None]:
    """Each test hears the exporters' first complaint anew."""
    yield
    for name in ("http.trace_exporter", "http.metric_exporter", "grpc.exporter"):
        logging.getLogger(f"opentelemetry.exporter.otlp.proto.{name}").filters.clear()
