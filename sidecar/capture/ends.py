"""Which end of a proxied exchange went away, and how. mitmproxy's error text tells who it was for HTTP/1; for HTTP/2 it
does not: a reset by the upstream, too, reads "stream reset by client". It never tells a reset connection from a closed one.
"""

import asyncio

from mitmproxy import connection, ctx, http, websocket
from mitmproxy.proxy.layers.http import HttpLayer, HttpStream
from mitmproxy.proxy.server import ConnectionHandler
from mitmproxy.proxy.server_hooks import ServerConnectionHookData

from sidecar.capture.records import NO_CLOSE_FRAME, RESET, EndedKind
from sidecar.capture.redaction import without_quotes

_CLIENT = ("Client disconnected", "Client closed connection")
_EITHER = ("stream reset by client", "stream closed by client", "peer closed connection", "HTTP/2 ", "HTTP/3 ")


class Upstreams:
    """How exchanges ended, by what is known of the open connections to upstreams."""

    def __init__(self) -> None:
        self._readers: dict[str, asyncio.StreamReader] = {}

    def connected(self, data: ServerConnectionHookData) -> None:
        """A connection to an upstream was made."""
        handler = _handler(data.client)
        io = None if handler is None else handler.transports.get(data.server)
        if io is not None and isinstance(io.reader, asyncio.StreamReader):
            self._readers[data.server.id] = io.reader

    def disconnected(self, data: ServerConnectionHookData) -> None:
        """It is over, and so is every exchange on it."""
        self._readers.pop(data.server.id, None)

    def _was_reset(self, server: connection.Server) -> bool:
        reader = self._readers.get(server.id)
        return reader is not None and isinstance(reader.exception(), ConnectionResetError)

    def of_failure(self, flow: http.HTTPFlow) -> tuple[EndedKind, str]:
        """What an `error` hook means: the client left, or the upstream failed before or after its response head; and
        the proxy's words for it, a reset named first."""
        message = without_quotes(flow.error.msg) if flow.error is not None else ""
        if message.startswith(_CLIENT) or (message.startswith(_EITHER) and _was_the_client(flow)):
            return "client_disconnect", message
        if self._was_reset(flow.server_conn):
            message = f"{RESET}: {message}"
        return "upstream_reset" if flow.response is not None else "upstream_failed", message

    def of_end(self, flow: http.HTTPFlow) -> tuple[EndedKind, str]:
        """What a `response` hook means: the end, unless it was a reset that ended a body which only the end of the
        connection delimits."""
        response = flow.response
        if (
            response is not None
            and self._was_reset(flow.server_conn)
            and response.http_version.startswith("HTTP/1")
            and "content-length" not in response.headers
            and "transfer-encoding" not in response.headers
        ):
            return "upstream_reset", RESET
        return "eof", ""


def of_socket(socket: websocket.WebSocketData) -> EndedKind:
    """How a WebSocket that is closed ended."""
    if socket.closed_by_client:
        return "client_disconnect"
    return "upstream_reset" if socket.close_code == NO_CLOSE_FRAME else "eof"


def _was_the_client(flow: http.HTTPFlow) -> bool:
    """Of an error that either side of a multiplexed connection words alike."""
    if not _multiplexed(flow.client_conn.alpn):
        return False
    if not _multiplexed(flow.server_conn.alpn):
        return True
    stream = _stream_of(flow)
    # Marked before the hook is called if and only if it was the client whose stream broke.
    return stream is not None and stream.client_state == stream.state_errored


def _multiplexed(alpn: bytes | None) -> bool:
    return alpn is not None and alpn.startswith((b"h2", b"h3"))


def _stream_of(flow: http.HTTPFlow) -> HttpStream | None:
    """mitmproxy's own state of the exchange; None where its inner structure is not what it was in version 12."""
    handler = _handler(flow.client_conn)
    try:
        for layer in () if handler is None else handler.layer.context.layers:
            if isinstance(layer, HttpLayer):
                for stream in layer.streams.values():
                    if getattr(stream, "flow", None) is flow:
                        return stream
    except AttributeError:
        pass
    return None


def _handler(client: connection.Client) -> ConnectionHandler | None:
    """Who handles a client's connection and those made for it; None where mitmproxy does not keep them as version 12."""
    try:
        handler: ConnectionHandler = ctx.master.addons.get("proxyserver").connections[client.id]
    except (AttributeError, KeyError):
        return None
    return handler
