"""An OTLP collector of the real protobuf and gRPC stubs, in the test's own process: it keeps what it is sent, exactly,
and can be told to misbehave."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

import grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span

Behaviour = Literal["take", "refuse", "hang", "cut"]
_HANG_SECONDS = 60.0
_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    503: grpc.StatusCode.UNAVAILABLE,
}


class Collector:
    """`refuse` answers `status` (or its gRPC code), `hang` answers nothing, `cut` closes in the middle of an export."""

    def __init__(self, behaviour: Behaviour = "take", status: int = 503) -> None:
        self.behaviour: Behaviour = behaviour
        self.status = status
        self.spans: list[Span] = []
        self.metrics: list[Metric] = []
        """Of all collections, in order."""
        self.resources: list[dict[str, Any]] = []
        self.exports = 0
        """Requests that came, whatever became of them."""
        self.url = ""
        self.released = threading.Event()
        self._grpc: grpc.Server | None = None

    def span(self, name: str) -> Span:
        """The only span of this name."""
        (found,) = (span for span in self.spans if span.name == name)
        return found

    def latest(self, name: str) -> Metric:
        """The last state of a metric that was sent."""
        return [metric for metric in self.metrics if metric.name == name][-1]

    def wait_for(self, found: Callable[["Collector"], Any], seconds: float = 15.0) -> Any:
        """Poll until something true is found. Blocks: from an event loop, call it in a thread."""
        deadline = time.monotonic() + seconds
        while not (result := found(self)):
            assert time.monotonic() < deadline, f"not within {seconds} s; {self.exports} exports came"
            time.sleep(0.02)
        return result

    def take(self, path: str, data: bytes) -> bytes:
        """Keep one export; the answer to it."""
        if path.endswith("metrics"):
            metrics = metrics_service_pb2.ExportMetricsServiceRequest.FromString(data)
            for group in metrics.resource_metrics:
                self.resources.append(attributes(group.resource))
                self.metrics += [metric for scope in group.scope_metrics for metric in scope.metrics]
            taken: bytes = metrics_service_pb2.ExportMetricsServiceResponse().SerializeToString()
            return taken
        traces = trace_service_pb2.ExportTraceServiceRequest.FromString(data)
        for spans in traces.resource_spans:
            self.resources.append(attributes(spans.resource))
            self.spans += [span for scope in spans.scope_spans for span in scope.spans]
        answer: bytes = trace_service_pb2.ExportTraceServiceResponse().SerializeToString()
        return answer

    @contextlib.contextmanager
    def over_http(self) -> Iterator["Collector"]:
        """Listen for http/protobuf."""
        collector = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                collector.exports += 1
                if collector.behaviour == "cut":
                    self.rfile.read(10)
                    self.connection.close()
                    return
                data = self.rfile.read(int(self.headers["content-length"]))
                if collector.behaviour == "hang":
                    collector.released.wait(_HANG_SECONDS)
                    return
                refused = collector.behaviour == "refuse"
                answer = b"" if refused else collector.take(self.path, data)
                self.send_response(collector.status if refused else 200)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        server.handle_error = lambda request, client_address: None  # type: ignore[method-assign]  # cut connections
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        self.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield self
        finally:
            self.released.set()
            server.shutdown()
            server.server_close()

    @contextlib.contextmanager
    def over_grpc(self) -> Iterator["Collector"]:
        """Listen for gRPC."""
        server = grpc.server(ThreadPoolExecutor(4))
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(_Traces(self), server)
        metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(_Metrics(self), server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self._grpc = server
        self.url = f"http://127.0.0.1:{port}"
        try:
            yield self
        finally:
            self.released.set()
            server.stop(0.2).wait()

    def answer(self, context: grpc.ServicerContext) -> None:
        """Misbehave over gRPC."""
        self.exports += 1
        if self.behaviour == "hang":
            self.released.wait(_HANG_SECONDS)
        elif self.behaviour == "cut":
            assert self._grpc is not None
            self._grpc.stop(0)
            context.abort(grpc.StatusCode.CANCELLED, "gone")
        elif self.behaviour == "refuse":
            context.abort(_CODES[self.status], "refused")


class _Traces(trace_service_pb2_grpc.TraceServiceServicer):
    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    def Export(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802  # the stub's name
        self._collector.answer(context)
        self._collector.take("traces", request.SerializeToString())
        return trace_service_pb2.ExportTraceServiceResponse()


class _Metrics(metrics_service_pb2_grpc.MetricsServiceServicer):
    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    def Export(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802  # the stub's name
        self._collector.answer(context)
        self._collector.take("metrics", request.SerializeToString())
        return metrics_service_pb2.ExportMetricsServiceResponse()


def attributes(holder: Any) -> dict[str, Any]:
    """The attributes of a span, an event, a resource or a data point."""
    return {pair.key: plain(pair.value) for pair in holder.attributes}


def plain(value: AnyValue) -> Any:
    """A protobuf value as Python has it."""
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [plain(one) for one in value.array_value.values]
    return None if kind is None else getattr(value, kind)


def kind_of(value: AnyValue) -> str:
    """The type of a protobuf value by the names of our table."""
    kind = value.WhichOneof("value")
    if kind == "array_value":
        (inner,) = {kind_of(one) for one in value.array_value.values}
        return f"{inner}[]"
    assert kind is not None
    return {"string_value": "string", "bool_value": "boolean", "int_value": "int", "double_value": "double"}[kind]
