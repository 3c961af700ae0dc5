"""The analyzer's HTTP endpoints: metrics, health, the live page and its JSON."""

import asyncio
import json
import re
import ssl
from collections.abc import Callable
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.iostream import IOStream
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

from sidecar.export.access import Access
from sidecar.export.events import Events
from sidecar.export.live import exchanges_in_flight, open_sockets, recent_exchanges
from sidecar.export.page import POLICY, assets
from sidecar.export.prometheus import Exposition
from sidecar.export.timeline import timeline
from sidecar.export.view import View

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
        self.set_header("Cross-Origin-Resource-Policy", "same-origin")
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


class _Stream(_Endpoint):
    """One exchange, by its id."""

    def get(self, ident: str) -> None:
        self.set_header("Content-Type", "application/json")
        found = timeline(self.view, ident)
        if found is None:
            self.set_status(404)
            found = {"error": "neither in flight nor among the recent exchanges"}
        self.finish(json.dumps(found))


class _EventStream(_Endpoint):
    """The state, again and again, until the reader leaves."""

    def initialize(self, events: Events, **shared: Any) -> None:  # type: ignore[override]  # tornado hands in what the route says
        super().initialize(**shared)
        self._events = events
        self._gone = asyncio.Event()

    async def get(self) -> None:
        if self.request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            self.send_error(403)  # another site could not read it, but would take a place
            return
        self.set_header("Content-Type", "text/event-stream")
        if not self._events.subscribe(self):
            self.set_status(503)
            self.set_header("Content-Type", "text/plain; charset=utf-8")
            self.finish("too many pages are open\n")
            return
        await self._gone.wait()
        self._events.leave(self)

    async def send(self, event: str) -> None:
        """Write one event."""
        self.write(event)
        await self.flush()

    def drop(self) -> None:
        """Close the connection, whatever is still unwritten."""
        self._gone.set()
        connection = self.request.connection
        if connection is not None:
            connection.stream.close()  # type: ignore[attr-defined]  # tornado's stubs know only the base class

    def on_connection_close(self) -> None:
        """The reader left."""
        self._gone.set()


class _Asset(_Endpoint):
    def initialize(self, content_type: str, content: bytes, **shared: Any) -> None:  # type: ignore[override]  # as above
        super().initialize(**shared)
        self._type = content_type
        self._content = content

    def get(self) -> None:
        self.set_header("Content-Type", self._type)
        self.set_header("Content-Security-Policy", POLICY)
        self.finish(self._content)


class _Server(HTTPServer):
    """Bounded in what its clients can make it hold: they are few, and their requests are short."""

    events: Events

    def handle_stream(self, stream: IOStream, address: tuple[str, int]) -> None:
        if len(self._connections) < _CONNECTIONS:
            super().handle_stream(stream, address)
        else:
            stream.close()

    def stop(self) -> None:
        super().stop()
        self.events.close()


def serve(
    host: str, port: int, view: View, exposition: Exposition, access: Access, tls: ssl.SSLContext | None = None
) -> tuple[HTTPServer, str]:
    """Listen; the server and the base URL it can be reached at. Raises OSError where the address is taken."""
    events = Events(view)
    shared = {"view": view, "exposition": exposition, "access": access}
    routes: list[tuple[str, Callable[..., Any], dict[str, Any]]] = [
        (r"/metrics", _Metrics, shared),
        (r"/healthz", _Health, shared),
        (r"/readyz", _Ready, shared),
        (r"/api/streams", _Streams, shared),
        (r"/api/streams/([^/]{1,200})", _Stream, shared),
        (r"/api/events", _EventStream, {**shared, "events": events}),
    ]
    routes += [
        (re.escape(path), _Asset, {**shared, "content_type": kind, "content": content})
        for path, (kind, content) in assets().items()
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
    server.events = events
    sockets = bind_sockets(port, address=host)
    server.add_sockets(sockets)
    bound = sockets[0].getsockname()
    shown = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
    return server, f"{'http' if tls is None else 'https'}://{shown}:{bound[1]}"
