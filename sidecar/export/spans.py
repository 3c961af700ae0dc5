"""One CLIENT span per exchange, made when it is over: the times are the proxy's, the attributes the table's.

The wall clock is anchored once per exchange (`Opened` has both clocks); everything after that is an offset on the
monotonic clock, so that no clock step can bend a duration. Trace and span id follow from the exchange's own id: what
points to a span (exemplars, pending spans) needs nobody to remember it.
"""

from collections.abc import Mapping
from hashlib import blake2b
from weakref import WeakSet

from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    format_span_id,
    format_trace_id,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from sidecar.exchange import Exchange
from sidecar.export import span_attributes as table
from sidecar.export.labels import clean
from sidecar.export.observe import error_type
from sidecar.stream.summary import Summary

SCOPE = "llm-sidecar"
PENDING_NAME = "{} (pending)"

_contexts = TraceContextTextMapPropagator()


class ExchangeIds(IdGenerator):
    """Ids that follow from an exchange: the SDK asks for them right after they were set. 64 and 128 bits of a hash."""

    def __init__(self) -> None:
        self._trace = self._span = 1

    def use(self, trace_id: int, span_id: int) -> None:
        """The ids of the span that is started next."""
        self._trace, self._span = trace_id, span_id

    def generate_trace_id(self) -> int:
        return self._trace

    def generate_span_id(self) -> int:
        return self._span


def ids_of(exchange_id: str, wall_ns: int, what: str = "") -> tuple[int, int]:
    """Trace id, for an exchange without a parent, and span id. `what` tells further spans of it apart."""
    trace = blake2b(f"{exchange_id} {wall_ns}".encode(), digest_size=16).digest()
    span = blake2b(f"{exchange_id} {wall_ns} {what}".encode(), digest_size=8).digest()
    return int.from_bytes(trace) or 1, int.from_bytes(span) or 1


def parent_of(headers: Mapping[str, str | None]) -> Context:
    """The context that a request names in `traceparent` and `tracestate`; an empty one where it names none."""
    carrier = {name: value for name in ("traceparent", "tracestate") if (value := headers.get(name))}
    return _contexts.extract(carrier, Context())


class Spans:
    """Makes spans with a tracer provider of the caller's, which was given `ids`. For one thread.

    `content`: whether messages, tools and error texts go along.
    """

    def __init__(self, provider: TracerProvider, ids: ExchangeIds, version: str, *, content: bool = False) -> None:
        self._tracer = provider.get_tracer(SCOPE, version)
        self._sampler = provider.sampler
        self._ids = ids
        self._content = content
        self._announced: WeakSet[Exchange] = WeakSet()

    def record(self, summary: Summary) -> dict[str, str] | None:
        """Record an exchange that is over; the ids of its span for exemplars, None where it was not sampled."""
        rows = table.ALWAYS if summary.outcome == "lost" else table.SPAN
        if self._content and summary.outcome != "lost":
            rows = (*rows, *table.CONTENT)
        self._ids.use(*ids_of(summary.id, summary.wall_ns))
        span = self._tracer.start_span(
            _name(summary.operation, summary.request_model),
            parent_of({"traceparent": summary.traceparent, "tracestate": summary.tracestate}),
            SpanKind.CLIENT,
            table.of_summary(rows, summary),
            start_time=_wall(summary, summary.opened_at if summary.t0 is None else summary.t0),
        )
        context = span.get_span_context()
        if span.is_recording():
            self._add_events(span, summary)
            failure = error_type(summary)
            if failure is not None:
                span.set_status(Status(StatusCode.ERROR, summary.outcome))
            span.end(_wall(summary, summary.ended_at))
        if not context.trace_flags.sampled:
            return None
        return {"trace_id": format_trace_id(context.trace_id), "span_id": format_span_id(context.span_id)}

    def _add_events(self, span: Span, summary: Summary) -> None:
        if summary.outcome == "lost":
            return
        for event in (table.FIRST_TOKEN, table.FIRST_VISIBLE_TOKEN):
            if event.name in summary.milestones and summary.t0 is not None:
                at = summary.t0 + round(summary.milestones[event.name] * 1e9)
                span.add_event(event.name, timestamp=_wall(summary, at))
        phase, duration = table.STALL.attributes
        for stall in summary.stall_times:
            attributes: dict[str, table.Value] = {phase.name: stall.phase}
            if stall.until is not None:
                attributes[duration.name] = (stall.until - stall.since) / 1e9
            span.add_event(table.STALL.name, attributes, _wall(summary, stall.since))
        if summary.error_at is not None:
            kind, message = table.ERROR.attributes
            stated = {kind.name: table.valid(kind, summary.error_type or error_type(summary))}
            if self._content:
                stated[message.name] = table.valid(message, summary.error)
            known = {name: value for name, value in stated.items() if value is not None}
            span.add_event(table.ERROR.name, known, _wall(summary, summary.error_at))

    def announce(self, exchange: Exchange, now: int) -> bool:
        """Record, once, that an exchange is still in flight at `now`; whether a span was made.

        The marker is a span without a duration, the child of the span that the exchange will have: back ends show it
        right away, and below its parent once that has come.
        """
        if exchange in self._announced:
            return False
        self._announced.add(exchange)
        opened = exchange.opened
        parent = parent_of(exchange.head.headers)
        trace_id, span_id = ids_of(opened.id, opened.wall_ns)
        name = _name(exchange.row.operation, exchange.request.model)
        attributes = table.of_exchange((*table.ALWAYS, *table.JUDGED, *table.PENDING), exchange)
        caller = get_current_span(parent).get_span_context()
        if caller.is_valid:
            trace_id = caller.trace_id
        decided = self._sampler.should_sample(parent, trace_id, name, SpanKind.CLIENT, attributes)
        if not decided.decision.is_sampled():
            return False
        flags = TraceFlags(TraceFlags.SAMPLED)
        future = SpanContext(trace_id, span_id, is_remote=True, trace_flags=flags, trace_state=decided.trace_state)
        self._ids.use(trace_id, ids_of(opened.id, opened.wall_ns, "pending")[1])
        at = opened.wall_ns + now - opened.at
        span = self._tracer.start_span(
            PENDING_NAME.format(name),
            set_span_in_context(NonRecordingSpan(future), Context()),
            SpanKind.INTERNAL,
            attributes,
            start_time=at,
        )
        span.end(at)
        return True


def _name(operation: str, model: str | None) -> str:
    return f"{operation} {clean(model)}" if model else operation


def _wall(summary: Summary, at: int) -> int:
    """Unix nanoseconds of a moment on the proxy's monotonic clock."""
    return summary.wall_ns + at - summary.opened_at
