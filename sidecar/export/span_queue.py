"""The way of a span to its exporter: a bounded queue in front, and every span counted that got through or did not."""

import logging
from collections.abc import Sequence
from threading import Lock

from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

logger = logging.getLogger(__name__)


class Counts:
    """What became of the spans handed in. Written by two threads, read by any."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.exported = 0
        self.failed: dict[str, int] = {"export": 0, "queue_full": 0}

    def succeed(self, spans: int) -> None:
        """The collector took them."""
        with self._lock:
            self.exported += spans

    def fail(self, reason: str, spans: int) -> None:
        """They are gone."""
        with self._lock:
            self.failed[reason] = self.failed.get(reason, 0) + spans


class CountingExporter(SpanExporter):
    """Another exporter, its successes and failures counted; an exception of its own is a failure like any other.

    `taken` are the spans that have left the queue, whatever became of them.
    """

    def __init__(self, inner: SpanExporter, counts: Counts) -> None:
        self._inner = inner
        self._counts = counts
        self.taken = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.taken += len(spans)
        try:
            result = self._inner.export(spans)
        except Exception as error:  # noqa: BLE001  # not that it should; the spans are gone in any case
            logger.warning("spans could not be exported: %s", type(error).__name__)
            result = SpanExportResult.FAILURE
        if result is SpanExportResult.SUCCESS:
            self._counts.succeed(len(spans))
        else:
            self._counts.fail("export", len(spans))
        return result

    def shutdown(self) -> None:
        self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        return self._inner.force_flush(timeout_millis)


class BoundedProcessor(SpanProcessor):
    """The SDK's batch processor behind a gate of the size of its queue.

    The batch processor drops silently when its queue is full. Here a span that finds it full is counted and not handed
    on; between the queue and the exporter a batch counts as still queued, so that the gate is never too wide.
    """

    def __init__(self, exporter: CountingExporter, counts: Counts, room: int, batch: int) -> None:
        self._exporter = exporter
        self._counts = counts
        self._room = room
        self._handed = 0
        self._batches = BatchSpanProcessor(exporter, max_queue_size=room, max_export_batch_size=min(batch, room))

    @property
    def waiting(self) -> int:
        """Spans in the queue."""
        return self._handed - self._exporter.taken

    @property
    def unsettled(self) -> int:
        """Spans handed in that have neither been exported nor failed to be."""
        return self._handed - self._counts.exported - self._counts.failed["export"]

    def on_end(self, span: ReadableSpan) -> None:
        context = span.get_span_context()
        if context is None or not context.trace_flags.sampled:
            return
        if self.waiting >= self._room:
            self._counts.fail("queue_full", 1)
            return
        self._handed += 1
        self._batches.on_end(span)

    def shutdown(self) -> None:
        self._batches.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        return self._batches.force_flush(timeout_millis)
