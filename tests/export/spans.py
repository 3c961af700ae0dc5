"""Spans of captures and of exchanges fed to an analyzer, caught where they would be exported."""

from collections.abc import Mapping

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from sidecar.export.sampling import sampler
from sidecar.export.spans import ExchangeIds, Spans
from sidecar.files.capture import Capture, end_at, records_of
from sidecar.files.inspect import run
from sidecar.stream.summary import Summary
from sidecar.thresholds import QuirkThresholds


class Caught:
    """A recorder of spans and the spans that it made."""

    def __init__(
        self, *, ratio: float = 1.0, content: bool = False, environment: Mapping[str, str] | None = None
    ) -> None:
        ids = ExchangeIds()
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(sampler=sampler(ratio, environment or {}), id_generator=ids, shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.spans = Spans(provider, ids, "0", content=content)

    def all(self) -> list[ReadableSpan]:
        """The spans so far, in order."""
        return list(self._exporter.get_finished_spans())

    def only(self) -> ReadableSpan:
        """The only span so far."""
        (span,) = self.all()
        return span


def summary_of(capture: Capture) -> Summary:
    """What an exporter gets to see of a capture."""
    return run(list(records_of(capture)), end_at(capture), QuirkThresholds())


def encoded(span: ReadableSpan) -> Span:
    """The span as it goes over the wire, encoded and decoded."""
    request = type(found := encode_spans([span])).FromString(found.SerializeToString())
    wire: Span = request.resource_spans[0].scope_spans[0].spans[0]
    return wire
