"""The analyzer as a process: socket, clock ticks, HTTP endpoints, and an orderly end."""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Callable
from time import monotonic_ns
from typing import TYPE_CHECKING

from sidecar.analyzer import Analyzer, version_of
from sidecar.config import Settings, host_port
from sidecar.export import telemetry
from sidecar.export.access import Access, AccessError, is_loopback, read_certificate, read_token
from sidecar.export.estimate import TokenEstimator, TokenizerMissing
from sidecar.export.prometheus import Exposition
from sidecar.export.scoreboard import Scoreboard
from sidecar.export.view import View
from sidecar.export.web import serve
from sidecar.files.findings import advice, verdict
from sidecar.sources import Sources
from sidecar.start_error import StartError
from sidecar.stream.summary import Summary

if TYPE_CHECKING:
    from sidecar.record.recorder import Recorder

logger = logging.getLogger(__name__)

TICK_SECONDS = 0.25
TICKS_PER_SAVE = 40
RECORD_SECONDS = 5.0
"""How long the writing of what is left to be recorded may take at the end."""


async def run(settings: Settings, ready: Callable[[dict[str, str]], None], until: "asyncio.Future[None]") -> None:
    """Serve until `until` is done. `ready` is told the addresses once all of them answer. Raises StartError."""
    access, tls = _access(settings)
    analyzer = Analyzer(settings)
    recorder = analyzer.recorder = _recorder(settings)
    estimator = _estimator(analyzer) if settings.estimate_tokens else None
    sources = Sources(settings, analyzer)
    await sources.start()

    def refresh() -> None:
        analyzer.refresh()
        sources.refresh()
        if exports is not None:
            exports.publish()
        if recorder is not None:
            recorder.publish(analyzer.series)

    try:
        exports = telemetry.start(settings, analyzer.series, refresh, version_of("llm-sidecar"))
    except telemetry.ExporterError as error:
        await sources.stop()
        raise StartError(str(error)) from error
    if exports is not None:
        analyzer.record_span = exports.record

    scoreboard = Scoreboard()
    analyzer.listeners.append(scoreboard.add)
    view = View(
        analyzer.in_flight,
        lambda: analyzer.recent,
        analyzer.lag,
        monotonic_ns,
        analyzer.stall_policy,
        settings.ready_lag,
        analyzer.relations.hops,
        analyzer.sessions.all,
        lambda: sources.connections,
        scoreboard,
        lambda summary: (verdict(summary), advice(summary)),
    )
    host, port = host_port(settings.metrics_listen, "metrics_listen")
    if access.token is None and not access.loopback:
        logger.warning("whoever reaches %s reads metrics and page; metrics_token_file asks for a token", host)
    try:
        server, base = serve(host, port, view, Exposition(analyzer.series, refresh), access, tls)
    except OSError as error:
        await sources.stop()
        raise StartError(
            f"cannot listen on {settings.metrics_listen} for metrics: {error.strerror or error}; "
            "choose another address with --metrics-listen"
        ) from error
    ready(sources.addresses | {"page": f"{base}/", "metrics": f"{base}/metrics"})
    ticking = asyncio.create_task(_tick(analyzer, exports))
    try:
        await until
    finally:
        ticking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await ticking
        server.stop()
        await sources.stop()
        analyzer.stop()
        if recorder is not None:
            recorder.close(RECORD_SECONDS)
        if estimator is not None:
            estimator.close()
        if exports is not None:
            await exports.stop()


def _access(settings: Settings) -> tuple[Access, ssl.SSLContext | None]:
    host, _ = host_port(settings.metrics_listen, "metrics_listen")
    try:
        access = Access(read_token(settings.metrics_token_file), is_loopback(host))
        return access, read_certificate(settings.metrics_certificate)
    except AccessError as error:
        raise StartError(str(error)) from error


def _recorder(settings: Settings) -> "Recorder | None":
    if not (settings.record or settings.record_only or settings.record_scrub):
        return None
    from sidecar.record.start import RecordError, start_recorder  # only where something is asked of it

    try:
        return start_recorder(settings, version_of("llm-sidecar"))
    except RecordError as error:
        raise StartError(str(error)) from error


def _estimator(analyzer: Analyzer) -> TokenEstimator:
    """Streams without usage get an estimate; it is counted back in the event loop, which owns the series."""
    loop = asyncio.get_running_loop()

    def deliver(summary: Summary, tokens: int) -> None:
        loop.call_soon_threadsafe(analyzer.count_estimate, summary, tokens)

    try:
        estimator = TokenEstimator(deliver)
    except TokenizerMissing as error:
        raise StartError(str(error)) from error
    analyzer.listeners.append(estimator.offer)
    return estimator


async def _tick(analyzer: Analyzer, exports: telemetry.Telemetry | None) -> None:
    ticks = 0
    while True:
        await asyncio.sleep(TICK_SECONDS)
        analyzer.tick()
        if exports is not None:
            exports.tick(analyzer.in_flight(), monotonic_ns())
        ticks += 1
        if ticks % TICKS_PER_SAVE == 0:
            analyzer.memory.save()
