"""A trace back end that only counts: it takes spans over OTLP/HTTP and says at `/` how many it got."""

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, HTTPError, RequestHandler


class Spans:
    """What came in so far."""

    received = 0


class _Traces(RequestHandler):
    def initialize(self, spans: Spans) -> None:
        self._spans = spans

    def post(self) -> None:
        try:
            request = ExportTraceServiceRequest.FromString(self.request.body)
        except DecodeError as error:
            raise HTTPError(400) from error
        self._spans.received += sum(len(each.spans) for found in request.resource_spans for each in found.scope_spans)
        self.set_header("Content-Type", "application/x-protobuf")  # an empty answer: all of them were taken

    def get(self) -> None:
        self.finish({"spans": self._spans.received})


def serve(host: str, port: int) -> tuple[HTTPServer, int]:
    """Listen; the server and its port. Raises OSError where the address is taken."""
    routes = [(r"/|/v1/traces", _Traces, {"spans": Spans()})]
    server = HTTPServer(Application(routes, log_function=lambda handler: None), decompress_request=True)
    sockets = bind_sockets(port, address=host)
    server.add_sockets(sockets)
    return server, int(sockets[0].getsockname()[1])
