"""OpenTelemetry as the analyzer uses it: set up from settings and environment, fed, counted, ended within a bound.

Nothing here waits for a collector: spans go into a bounded queue, metrics are collected and both are sent by threads
of the SDK's. The SDK and its exporters are imported only where something is to be sent.
"""

import asyncio
import concurrent.futures
import contextlib
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from threading import Thread
from typing import TYPE_CHECKING

from sidecar import metrics as m
from sidecar.config import Settings
from sidecar.exchange import Exchange
from sidecar.export import otlp
from sidecar.export.otlp import ExporterError
from sidecar.export.series import Series
from sidecar.stream.summary import Summary

if TYPE_CHECKING:
    from sidecar.export.otlp_metrics import MetricsExport, Snapshot
    from sidecar.export.spans import Spans

__all__ = ["ExporterError", "Telemetry", "start"]

logger = logging.getLogger(__name__)

_QUEUE, _BATCH = 2048, 512  # the SDK's defaults
_LOOP_SECONDS = 5.0  # that the metrics' thread waits for the event loop


def start(
    settings: Settings,
    series: Series,
    refresh: Callable[[], None],
    version: str,
    environment: Mapping[str, str] | None = None,
) -> "Telemetry | None":
    """What the settings and the environment (the process's own by default) ask for; None where that is nothing.

    Called in the event loop that owns `series`; `refresh` brings its live gauges up to date. Raises ExporterError.
    """
    known = os.environ if environment is None else environment
    spans = otlp.is_wanted("traces", settings.otel_endpoint, known)
    metrics = settings.otel_metrics and otlp.is_wanted("metrics", settings.otel_endpoint, known)
    if settings.otel_metrics and not metrics:
        logger.warning("otel_metrics has no effect: no endpoint is configured (--otel-endpoint)")
    if settings.capture_content:
        logger.warning(
            "content capture is on: prompts, completions and tool arguments leave with the spans"
            if spans
            else "capture_content has no effect: no endpoint for spans is configured (--otel-endpoint)"
        )
    if not (spans or metrics):
        return None
    telemetry = Telemetry(settings, series)
    try:
        if spans:
            telemetry.spans = SpanPipeline(settings, version, known)
        if metrics:
            telemetry.metrics = _metrics(settings, series, refresh, version, known)
    except ExporterError:
        raise
    except ValueError as error:  # what the SDK makes of a number out of its range
        raise ExporterError(f"OpenTelemetry does not take its environment: {error}") from error
    return telemetry


class SpanPipeline:
    """From summaries to the collector: what makes the spans, the queue, and the counts."""

    def __init__(self, settings: Settings, version: str, environment: Mapping[str, str]) -> None:
        from opentelemetry.sdk.trace import TracerProvider

        from sidecar.export.sampling import sampler
        from sidecar.export.span_queue import BoundedProcessor, CountingExporter, Counts
        from sidecar.export.spans import ExchangeIds, Spans

        ids = ExchangeIds()
        self.counts = Counts()
        exporter = CountingExporter(otlp.span_exporter(settings.otel_endpoint, environment), self.counts)
        room = _number(environment, "OTEL_BSP_MAX_QUEUE_SIZE", _QUEUE)
        batch = _number(environment, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", _BATCH)
        self.queue = BoundedProcessor(exporter, self.counts, room, batch)
        self.provider = TracerProvider(
            sampler=sampler(settings.otel_sample_ratio, environment),
            resource=otlp.resource(version),
            shutdown_on_exit=False,  # it would wait for half a minute; `Telemetry.stop` has a bound
            id_generator=ids,
        )
        self.provider.add_span_processor(self.queue)
        self.spans = Spans(self.provider, ids, version, content=settings.capture_content)


class Telemetry:
    """What is exported. Used in the event loop that owns the series."""

    def __init__(self, settings: Settings, series: Series) -> None:
        self.spans: SpanPipeline | None = None
        self.metrics: MetricsExport | None = None
        self._settings = settings
        self._series = series

    def record(self, summary: Summary) -> dict[str, str] | None:
        """Record the span of an exchange; the ids that exemplars point to, None where there is no span."""
        return None if self.spans is None else self.spans.spans.record(summary)

    def tick(self, exchanges: Iterable[Exchange], now: int) -> None:
        """Announce exchanges that have been in flight for as long as the settings say."""
        after = self._settings.otel_pending_spans * 1e9
        if self.spans is None or not after:
            return
        for exchange in exchanges:
            if now - (exchange.opened.at if exchange.t0 is None else exchange.t0) >= after:
                self._announce(self.spans.spans, exchange, now)

    def _announce(self, spans: "Spans", exchange: Exchange, now: int) -> None:
        try:
            spans.announce(exchange, now)
        except Exception as error:  # noqa: BLE001  # the stage's edge: a bug costs that exchange its marker
            self._series.add(m.STAGE_FAILURES, ("export",))
            logger.error("announcing an exchange failed with %s", type(error).__name__)

    def publish(self) -> None:
        """Bring the counts of what was exported and what was not into the series."""
        series = self._series
        if self.spans is not None:
            series.set(m.SPANS_EXPORTED, (), self.spans.counts.exported)
            for reason, count in self.spans.counts.failed.copy().items():
                series.set(m.SPAN_EXPORT_FAILURES, (reason,), count)
        if self.metrics is not None:
            series.set(m.METRIC_EXPORT_FAILURES, (), self.metrics.exporter.failures)

    async def stop(self) -> None:
        """Send what is left, for at most `otel_flush_seconds`, whatever the collector does; then let go of it."""
        ends = [self.spans.provider.shutdown] if self.spans is not None else []
        ends += [self.metrics.shutdown] if self.metrics is not None else []
        endings = asyncio.gather(*(_in_thread(end) for end in ends))
        try:
            await asyncio.wait_for(endings, self._settings.otel_flush_seconds)
        except TimeoutError:
            logger.warning("the OpenTelemetry collector did not take the rest in time")
        if self.spans is not None and (left := self.spans.queue.unsettled):
            self.spans.counts.fail("shutdown", left)
            logger.warning("%d spans were not exported", left)


def _in_thread(work: Callable[[], object]) -> "asyncio.Future[None]":
    """Done when the work is. Its thread is a daemon: one that hangs does not keep the process."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def finish() -> None:
        if not done.done():
            done.set_result(None)

    def run() -> None:
        try:
            work()
        finally:
            with contextlib.suppress(RuntimeError):  # the loop is gone: nobody waits any more
                loop.call_soon_threadsafe(finish)

    Thread(target=run, name="telemetry-shutdown", daemon=True).start()
    return done


def _metrics(
    settings: Settings, series: Series, refresh: Callable[[], None], version: str, environment: Mapping[str, str]
) -> "MetricsExport":
    from sidecar.export.otlp_metrics import MetricsExport, take

    loop = asyncio.get_running_loop()

    def snapshot() -> "Snapshot":
        answer: concurrent.futures.Future[Snapshot] = concurrent.futures.Future()

        def copy() -> None:
            try:
                refresh()
                answer.set_result(take(series))
            except Exception as error:
                answer.set_exception(error)
                raise

        loop.call_soon_threadsafe(copy)
        return answer.result(_LOOP_SECONDS)

    exporter = otlp.metric_exporter(settings.otel_endpoint, environment)
    return MetricsExport(series, snapshot, exporter, otlp.resource(version), version, environment)


def _number(environment: Mapping[str, str], name: str, default: int) -> int:
    """A positive number of the environment, where there is a usable one."""
    text = environment.get(name, "").strip()
    return int(text) if text.isascii() and text.isdecimal() and int(text) > 0 else default
