"""OTLP exporters from the standard environment (https://opentelemetry.io/docs/specs/otel/protocol/exporter/).

Endpoint, headers, certificates, compression and time-outs are read by the exporters themselves; here it is decided
whether anything is exported at all, where `otel_endpoint` goes, and which protocol is spoken.
"""

import logging
import time
import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace.export import SpanExporter

Signal = Literal["traces", "metrics"]
type Environment = Mapping[str, str]

SERVICE_NAME = "llm-sidecar"
_QUIET_SECONDS = 60.0


class ExporterError(ValueError):
    """The environment asks for something that is not to be had; the text is one line that says what."""


def is_wanted(signal: Signal, endpoint: str | None, environment: Environment) -> bool:
    """Whether a signal has somewhere to go and nobody switched it off."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    chosen = environment.get(f"OTEL_{signal.upper()}_EXPORTER", "").strip().lower()
    if endpoint is None and chosen and "otlp" not in chosen.split(","):
        return False
    return bool(
        endpoint
        or environment.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT")
        or environment.get("OTEL_EXPORTER_OTLP_ENDPOINT")
    )


def protocol(signal: Signal, environment: Environment) -> str:
    """`http/protobuf` or `grpc`. Raises ExporterError for any other."""
    for variable in (f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        value = environment.get(variable, "").strip().lower()
        if value in ("http/protobuf", "grpc"):
            return value
        if value:
            raise ExporterError(f"{variable} is {value!r}; http/protobuf and grpc are spoken")
    return "http/protobuf"


def span_exporter(endpoint: str | None, environment: Environment) -> "SpanExporter":
    """The standard exporter. Raises ExporterError."""
    target = _target("traces", endpoint, environment)
    if protocol("traces", environment) == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter

        return _built(lambda: GrpcExporter(target), "opentelemetry.exporter.otlp.proto.grpc.exporter")
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter

    return _built(lambda: HttpExporter(target), HttpExporter.__module__)


def metric_exporter(endpoint: str | None, environment: Environment) -> "MetricExporter":
    """The standard exporter. Raises ExporterError."""
    target = _target("metrics", endpoint, environment)
    if protocol("metrics", environment) == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as GrpcExporter

        return _built(lambda: GrpcExporter(target), "opentelemetry.exporter.otlp.proto.grpc.exporter")
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter as HttpExporter

    return _built(lambda: HttpExporter(target), HttpExporter.__module__)


def _built[T](build: Callable[[], T], logger: str) -> T:
    complaints = logging.getLogger(logger)
    if not any(isinstance(found, _NowAndThen) for found in complaints.filters):
        complaints.addFilter(_NowAndThen())
    try:
        return build()
    except Exception as error:  # whatever the value of some variable makes it raise
        raise ExporterError(f"the OTLP exporter does not take its settings: {error}") from error


def _target(signal: Signal, endpoint: str | None, environment: Environment) -> str | None:
    """What the exporter is told; None where it finds the endpoint in the environment itself."""
    if endpoint is None:
        return None
    path = f"/v1/{signal}"
    base = endpoint.rstrip("/").removesuffix("/v1/traces")
    return base if protocol(signal, environment) == "grpc" else base + path


def resource(version: str) -> "Resource":
    """Who sends: from OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME, completed with what they leave out."""
    from opentelemetry.sdk.resources import Resource

    named = Resource.create()
    ours = {"service.name": SERVICE_NAME, "service.version": version, "service.instance.id": str(uuid.uuid4())}
    missing = {
        name: value
        for name, value in ours.items()
        if name not in named.attributes or str(named.attributes[name]).startswith("unknown_service")
    }
    return named.merge(Resource(missing))


class _NowAndThen(logging.Filter):
    """The same complaint at most once a minute: a collector that is down says so with every batch."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now = time.monotonic()
        if now - self._said.get(str(record.msg), -_QUIET_SECONDS) < _QUIET_SECONDS:
            return False
        self._said[str(record.msg)] = now
        return True
