"""The analyzer: records in, exchanges followed, summaries out. One event loop, no thread."""

import importlib.metadata
import logging
import platform
import sys
from collections import deque
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import chain
from pathlib import Path
from time import monotonic_ns
from types import TracebackType
from typing import TYPE_CHECKING

import msgspec

from sidecar import metrics as m
from sidecar.capture.records import (
    AnyRecord,
    Chunk,
    Ended,
    Health,
    Lost,
    Message,
    Opened,
    RequestBody,
    RequestSent,
    ResponseHead,
)
from sidecar.config import Settings
from sidecar.dialects.providers import provider_name
from sidecar.exchange import Exchange
from sidecar.export.estimate import TEXT_CHARS
from sidecar.export.labels import Caps, LabelValues
from sidecar.export.observe import observe
from sidecar.export.series import Series
from sidecar.failures import log_failure
from sidecar.quirks.memory import QuirkMemory, log_line
from sidecar.quirks.registry import BY_ID
from sidecar.relations import Relations
from sidecar.sessions import Sessions
from sidecar.stream.phases import StallPolicy
from sidecar.stream.summary import Summary
from sidecar.summarise import summarise
from sidecar.worker_health import Workers

if TYPE_CHECKING:
    from sidecar.record.recorder import Recorder

logger = logging.getLogger(__name__)

RECENT = 200
_LAG_WINDOW_NS = 10_000_000_000
_PACKAGE = Path(__file__).parent

type Key = tuple[int, int]
"""Connection and stream number."""


class Analyzer:
    """Follows exchanges. `receive`, `closed` and `tick` are called from the event loop.

    `clock` gives nanoseconds on the clock of the records. An exception in a stage costs that exchange its verdict,
    is counted, and nothing else.
    """

    def __init__(self, settings: Settings, clock: Callable[[], int] = monotonic_ns) -> None:
        self.settings = settings
        self.series = Series()
        self.values = LabelValues(
            Caps(model=settings.max_models), lambda label: self.series.add(m.FOLDED, (label,)), settings.models
        )
        self.exchanges: dict[Key, Exchange] = {}
        self.recent: deque[Summary] = deque(maxlen=RECENT)
        self.listeners: list[Callable[[Summary], None]] = []
        """Called with every summary: further exporters. What they raise is counted under `export`."""
        self.recorder: Recorder | None = None
        """Records exchanges, where the operator asked for it."""
        self.record_span: Callable[[Summary], dict[str, str] | None] = lambda summary: None
        """Called with every summary before it is counted: the ids of its span, to which exemplars then point."""
        self.told: Callable[[Health], None] = lambda health: None
        """Called with what each process that captures says of itself."""
        self._limits = settings.limits
        if settings.estimate_tokens:
            self._limits = msgspec.structs.replace(
                settings.limits, text_chars=max(settings.limits.text_chars, TEXT_CHARS)
            )
        self.stall_policy = StallPolicy(settings.stalls, settings.stall_models)
        self._shortest_stall = self.stall_policy.shortest
        self.relations = Relations(settings.retry_window, RECENT, self.series, self.values)
        self.sessions = Sessions(self.series, self.values, settings.providers, self.relations.opened)
        self.memory = QuirkMemory(Path(settings.state_dir) if settings.state_dir else None)
        self._clock = clock
        self._lags: deque[tuple[int, float]] = deque()
        self._workers = Workers(self.series)
        self._gauged: set[tuple[str, ...]] = set()
        self.series.set(
            m.BUILD_INFO, (version_of("llm-sidecar"), version_of("mitmproxy"), platform.python_version()), 1.0
        )

    def receive(self, connection: int, records: Sequence[AnyRecord]) -> None:
        """A batch of one proxy's records."""
        if not records:
            return
        self.series.add(m.RECORDS, (), len(records))
        self._note_lag(records[0].at)
        recorder, exchanges = self.recorder, self.exchanges
        for record in records:
            kind = record.__class__
            if recorder is not None:
                self._recorded(recorder.take, connection, record)
            if kind is Chunk:
                exchange = exchanges.get((connection, record.stream))
                if exchange is not None:
                    try:
                        exchange.chunk(record)  # type: ignore[arg-type]  # narrowed by the class test above
                    except Exception:
                        self._failed(exchange)
            elif kind is Message:
                self._in_socket((connection, record.stream), record)  # type: ignore[arg-type]  # as above
            elif kind is Health:
                self._health(connection, record)  # type: ignore[arg-type]  # as above
            elif kind is Opened:
                self._open(connection, record)  # type: ignore[arg-type]  # as above
            else:
                self._rest(connection, record)
                if recorder is not None:
                    self._recorded(recorder.read, connection, record)

    def _recorded[*Told](self, tell: Callable[[*Told], object], *told: *Told) -> None:
        """What goes wrong in recording costs no verdict."""
        try:
            tell(*told)
        except Exception:
            self._count_failure()

    def _open(self, connection: int, record: Opened) -> None:
        if len(self.exchanges) + len(self.sessions) >= self.settings.max_streams:
            self.series.add(m.STREAMS_LOST, ("analyzer_full",))
            return
        try:
            exchange = Exchange(
                record, self._limits, salt=self.relations.salt, keep_content=self.settings.capture_content
            )
            self.exchanges[connection, record.stream] = exchange
            self.relations.opened(exchange)
            if self.recorder is not None:
                self.recorder.opened(connection, record)
        except Exception:
            self._count_failure()

    def _rest(self, connection: int, record: AnyRecord) -> None:
        key = (connection, record.stream)
        exchange = self.exchanges.get(key)
        if exchange is None:
            if isinstance(record, (Lost, Ended)):
                self._in_socket(key, record)
            return
        try:
            if isinstance(record, RequestBody):
                exchange.request_body(record)
            elif isinstance(record, RequestSent):
                exchange.request_sent(record)
                self._requested(exchange, record.at)
            elif isinstance(record, ResponseHead) and record.status == 101:
                self.relations.dropped(self.exchanges.pop(key))
                self.sessions.opened(key, exchange, record)
            elif isinstance(record, ResponseHead):
                exchange.response_head(record)
            elif isinstance(record, Lost):
                exchange.mark_lost(record)
            elif isinstance(record, Ended):
                exchange.ended(record)
        except Exception:
            self._failed(exchange)
        if isinstance(record, Ended):
            del self.exchanges[key]
            self._finish(exchange)

    def _in_socket(self, key: Key, record: Message | Lost | Ended) -> None:
        try:
            over = self.sessions.take(key, record)
        except Exception:
            self._count_failure()
            over = self.sessions.failed(key, self._clock())
        for turn in over:
            self._finish(turn)

    def in_flight(self) -> list[Exchange]:
        """What is followed now, the responses in WebSockets included, up to date with all that was read."""
        found = [*self.exchanges.values(), *self.sessions.turns()]
        for exchange in found:
            self._settle(exchange)
        return found

    def _settle(self, exchange: Exchange) -> None:
        try:
            exchange.settle()
        except Exception:
            self._failed(exchange)

    def _requested(self, exchange: Exchange, at: int) -> None:
        after = self.relations.requested(exchange, at)
        if after is not None:
            self.series.add(m.RETRIES, (*self._labels(exchange), after))

    def _failed(self, exchange: Exchange) -> None:
        """A stage raised: a bug of ours. The exchange gets no verdict and no further records."""
        self._count_failure()
        exchange.mark_lost(Lost(exchange.opened.stream, self._clock(), 1, 0))
        exchange.give_up()

    def _count_failure(self) -> None:
        error = sys.exception()
        assert error is not None
        stage = stage_of(error.__traceback__)
        self.series.add(m.STAGE_FAILURES, (stage,))
        log_failure(logger, f"stage {stage}", error)

    def _finish(self, exchange: Exchange) -> None:
        try:
            summary = summarise(exchange, self.settings.quirks, self.settings.providers)
        except Exception:
            self._count_failure()
            self.series.add(m.STREAMS_LOST, ("stage_failure",))
            self.relations.dropped(exchange)
            return
        if summary.outcome == "lost":
            self.series.add(m.STREAMS_LOST, ("capture",))
        self.recent.append(summary)
        relate: Callable[[Summary], None] = partial(self.relations.ended, exchange)
        judged = () if self.recorder is None else (self.recorder.judged,)
        for export in (self._observe, relate, *judged, *self.listeners):
            try:
                export(summary)
            except Exception:
                self._count_failure()

    def _observe(self, summary: Summary) -> None:
        labels = self.values.of_stream(summary)
        observe(summary, labels, self.series, self.values, self._span(summary))
        if summary.outcome != "lost":
            self._remember_quirks(summary, labels)

    def _span(self, summary: Summary) -> dict[str, str] | None:
        try:
            return self.record_span(summary)
        except Exception:
            self._count_failure()
            return None

    def _remember_quirks(self, summary: Summary, labels: tuple[str, ...]) -> None:
        upstream = (labels[1], labels[2], f"{labels[3]}:{labels[4]}")  # bounded, as the labels are
        for quirk in self.memory.learn(upstream, summary.quirks):
            self.series.add(m.NEW_QUIRKS, (*labels, quirk, str(BY_ID[quirk].severity)))
            logger.warning(log_line(upstream, quirk, summary.id))

    def count_estimate(self, summary: Summary, tokens: int) -> None:
        """Output tokens of a stream that reported none, estimated from its text."""
        self.series.add(m.TOKENS, (*self.values.of_stream(summary), "output", "estimated"), tokens)

    def closed(self, connection: int) -> None:
        """A proxy went away: what it had in flight ends here, without a verdict."""
        for key in [key for key in self.exchanges if key[0] == connection]:
            self._abandon(key)
        for turn in self.sessions.abandon(self._clock(), connection):
            self._finish(turn)
        self._workers.gone(connection)
        if self.recorder is not None:
            self._recorded(self.recorder.closed, connection)

    def _abandon(self, key: Key) -> None:
        exchange = self.exchanges.pop(key)
        now = self._clock()
        exchange.mark_lost(Lost(key[1], now, 0, 0))
        try:
            exchange.close(now)
        except Exception:
            self._count_failure()
        self._finish(exchange)

    def stop(self) -> None:
        """Shut down: what is still in flight is counted."""
        for key in list(self.exchanges):
            self._abandon(key)
        for turn in self.sessions.abandon(self._clock()):
            self._finish(turn)
        self.memory.save()

    def tick(self) -> None:
        """Look at the clock: streams that send nothing still stall."""
        now = self._clock()
        latest = now + self._shortest_stall
        for turn in self.sessions.settled(now):
            self._finish(turn)
        for exchange in chain(self.exchanges.values(), self.sessions.turns()):
            if now < exchange.check_at:
                continue
            self._settle(exchange)
            thresholds = self.stall_policy.of(exchange.request.model)
            progress = exchange.stream.progress
            phase = progress.check(now, thresholds)
            # No stall can be due before: not in this phase, nor in another that begins meanwhile.
            exchange.check_at = min(progress.due(thresholds), latest) if progress.stalled is None else latest
            if phase is not None:
                self.series.add(m.STALLS, (*self._labels(exchange), phase))

    def _labels(self, exchange: Exchange) -> tuple[str, ...]:
        known = (exchange.row, exchange.request.model or exchange.stream.identity.model)
        if exchange.labels is None or exchange.labels[0] != known:
            exchange.labels = (known, self._labels_of(exchange))
        return exchange.labels[1]

    def _labels_of(self, exchange: Exchange) -> tuple[str, ...]:
        opened = exchange.opened
        return self.values.base(
            exchange.row.operation,
            provider_name(opened.host, exchange.row.name, self.settings.providers),
            exchange.request.model or exchange.stream.identity.model,
            opened.host,
            opened.port,
            exchange.row.name,
        )

    def refresh(self) -> None:
        """Bring the live gauges up to date; called at a scrape."""
        now = self._clock()
        in_flight: dict[tuple[str, ...], int] = {}
        stalled: dict[tuple[str, ...], int] = {}
        oldest: dict[tuple[str, ...], float] = {}
        for exchange in self.in_flight():
            progress = exchange.stream.progress
            phase = progress.phase()
            key = (*self._labels(exchange), phase)
            silence = progress.silence(now)
            hangs = self.stall_policy.is_stalled(exchange.request.model, phase, silence)
            in_flight[key] = in_flight.get(key, 0) + 1
            stalled[key] = stalled.get(key, 0) + hangs
            oldest[key] = max(oldest.get(key, 0.0), silence / 1e9)
        # Series that were shown once go to zero instead of away: a gauge that vanishes looks like a scrape that failed.
        self._gauged.update(in_flight)
        for key in self._gauged:
            self.series.set(m.IN_FLIGHT, key, in_flight.get(key, 0))
            self.series.set(m.STALLED, key, stalled.get(key, 0))
            self.series.set(m.OLDEST_SILENCE, key, oldest.get(key, 0.0))
        self.sessions.refresh()
        self.series.set(m.TRACKED, (), len(self.exchanges) + len(self.sessions))

    def _note_lag(self, at: int) -> None:
        now = self._clock()
        lag = max(now - at, 0) / 1e9
        self.series.observe(m.ANALYZER_LAG, (), lag)
        self._lags.append((now, lag))
        while self._lags and now - self._lags[0][0] > _LAG_WINDOW_NS:
            self._lags.popleft()

    def lag(self) -> float:
        """The largest lag of the last ten seconds, in seconds."""
        horizon = self._clock() - _LAG_WINDOW_NS
        return max((lag for at, lag in self._lags if at >= horizon), default=0.0)

    def _health(self, connection: int, record: Health) -> None:
        self._workers.said(connection, record)
        self.told(record)


def stage_of(trace: TracebackType | None) -> str:
    """The stage an exception came from: the innermost module of ours on its way, by folder or file name."""
    stage = "analyzer"
    while trace is not None:
        path = Path(trace.tb_frame.f_code.co_filename)
        if path.is_relative_to(_PACKAGE):
            stage = path.relative_to(_PACKAGE).parts[0].removesuffix(".py")
        trace = trace.tb_next
    return stage


@cache
def version_of(package: str) -> str:
    """Version of an installed package."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
