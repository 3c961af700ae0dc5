"""Which exchanges get a span. The decision falls at the end of an exchange, when all is known of it."""

from collections.abc import Mapping, Sequence

from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import Decision, ParentBasedTraceIdRatio, Sampler, SamplingResult
from opentelemetry.trace import Link, SpanKind, TraceState, get_current_span
from opentelemetry.util.types import Attributes

from sidecar.export.span_attributes import ERROR_TYPE, WORST_SEVERITY
from sidecar.quirks.quirk import Severity

_ENVIRONMENT = "OTEL_TRACES_SAMPLER"


class KeepFaults(Sampler):
    """Another sampler's choice, but failed exchanges and those with a quirk that breaks clients are always kept.

    The choice of a caller whose trace the exchange belongs to stands: an unsampled trace gets no span of ours.
    """

    def __init__(self, others: Sampler) -> None:
        self._others = others

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        result = self._others.should_sample(parent_context, trace_id, name, kind, attributes, links, trace_state)
        if result.decision.is_sampled() or get_current_span(parent_context).get_span_context().is_valid:
            return result
        known = attributes or {}
        if ERROR_TYPE in known or known.get(WORST_SEVERITY) == Severity.BREAKS_CLIENTS:
            return SamplingResult(Decision.RECORD_AND_SAMPLE, attributes, result.trace_state)
        return result

    def get_description(self) -> str:
        return f"KeepFaults{{{self._others.get_description()}}}"


def sampler(ratio: float, environment: Mapping[str, str]) -> Sampler:
    """The sampler of `otel_sample_ratio`, or the one that OTEL_TRACES_SAMPLER names, in its place.

    `always_off` and `parentbased_always_off` mean what they say: faults are not kept either.
    """
    named = environment.get(_ENVIRONMENT, "").strip().lower()
    if not named:
        return KeepFaults(ParentBasedTraceIdRatio(ratio))
    found = TracerProvider(shutdown_on_exit=False).sampler  # the SDK reads the variable and its argument
    return found if named.endswith("always_off") else KeepFaults(found)
