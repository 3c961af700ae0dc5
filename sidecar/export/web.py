"""The analyzer's HTTP endpoints: metrics, health, the live page and its JSON."""

import json
import ssl
from collections.abc import Callable
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.iostream import IOStream
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

from sidecar.export.access import Access
from sidecar.export.live import exchanges_in_flight, open_sockets, recent_exchanges
from sidecar.export.page import PAGE
from sidecar.export.prometheus import Exposition
from sidecar.export.view import View

_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)


_CONNECTIONS = 128
_IDLE_SECONDS = 75.0


class _Endpoint(RequestHandler):
    """Common headers; errors without tracebacks."""

    def initialize(self, view: View, exposition: Exposition, access: Access) -> None:
        self.view = view
        self.exposition = exposition
        self.access = access

    def prepare(self) -> None:
        headers = self.request.headers
        refused = self.access.refusal(self.request.path, headers.get("Authorization", ""), headers.get("Host", ""))
        if refused is not None:
            status, reason = refused
            self.set_status(status)
            if status == 401:
                self.set_header("WWW-Authenticate", 'Basic realm="llm-sidecar", charset="UTF-8"')
            self.set_header("Content-Type", "text/plain; charset=utf-8")
            self.finish(f"{status}: {reason}\n")

    def set_default_headers(self) -> None:
        self.set_header("Server", "llm-sidecar")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Referrer-Policy", "no-referrer")
        self.set_header("Cache-Control", "no-store")

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(f"{status_code}\n")


class _Nowhere(_Endpoint):
    def get(self) -> None:
        self.send_error(404)


class _Metrics(_Endpoint):
    async def get(self) -> None:
        body, content_type = await self.exposition.answer(self.request.headers.get("Accept", ""))
        self.set_header("Content-Type", content_type)
        self.finish(body)


class _Health(_Endpoint):
    def get(self) -> None:
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish("ok\n")


class _Ready(_Endpoint):
    """Not ready while the analyzer is behind: what it shows is then old."""

    def get(self) -> None:
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        lag, bound = self.view.lag(), self.view.ready_lag
        if lag > bound:
            self.set_status(503)
            self.finish(f"not ready: {lag:.1f} s behind, the bound is {bound:.1f} s\n")
        else:
            self.finish("ready\n")


class _Streams(_Endpoint):
    def get(self) -> None:
        self.set_header("Content-Type", "application/json")
        view = self.view
        shown = {
            "in_flight": exchanges_in_flight(view),
            "recent": recent_exchanges(view),
            "websockets": open_sockets(view),
        }
        self.finish(json.dumps(shown))


class _Page(_Endpoint):
    def get(self) -> None:
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.set_header("Content-Security-Policy", _POLICY)
        self.finish(PAGE)


class _Server(HTTPServer):
    """Bounded in what its clients can make it hold: they are few, and their requests are short."""

    def handle_stream(self, stream: IOStream, address: tuple[str, int]) -> None:
        if len(self._connections) < _CONNECTIONS:
            super().handle_stream(stream, address)
        else:
            stream.close()


def serve(
    host: str, port: int, view: View, exposition: Exposition, access: Access, tls: ssl.SSLContext | None = None
) -> tuple[HTTPServer, str]:
    """Listen; the server and the base URL it can be reached at. Raises OSError where the address is taken."""
    shared = {"view": view, "exposition": exposition, "access": access}
    routes: list[tuple[str, Callable[..., Any], dict[str, Any]]] = [
        (r"/metrics", _Metrics, shared),
        (r"/healthz", _Health, shared),
        (r"/readyz", _Ready, shared),
        (r"/api/streams", _Streams, shared),
        (r"/", _Page, shared),
    ]
    server = _Server(
        Application(
            routes, log_function=lambda handler: None, default_handler_class=_Nowhere, default_handler_args=shared
        ),
        ssl_options=tls,
        idle_connection_timeout=_IDLE_SECONDS,
        body_timeout=_IDLE_SECONDS,
        max_header_size=16 * 1024,
        max_body_size=16 * 1024,
    )
    sockets = bind_sockets(port, address=host)
    server.add_sockets(sockets)
    bound = sockets[0].getsockname()
    shown = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
    return server, f"{'http' if tls is None else 'https'}://{shown}:{bound[1]}"
