"""Where mitmproxy 12 changes or breaks traffic, mended as far as that is simple; docs/passivity.md has what is left.

What is mended here has no option in mitmproxy and no hook, so methods are wrapped. Each wrapper leaves everything to the
original but the one case that it is for.
"""

import asyncio
import re
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import h11
from h11._readers import ChunkedReader
from h11._receivebuffer import ReceiveBuffer
from mitmproxy import connection, ctx, http
from mitmproxy.proxy import commands, events
from mitmproxy.proxy.layer import CommandGenerator
from mitmproxy.proxy.layers.http import _events, _http1
from mitmproxy.proxy.layers.http._base import ReceiveHttp

from sidecar.passivity_http2 import MENDED

_INTERIM = re.compile(rb"HTTP/1\.1 1(?!01)\d\d(?: [^\r\n]*)?\r?\n(?:[^\r\n]+\r?\n)*\r?\n")
"""A response head before the response, like 100 and 103; 101 is a response."""
_UPSTREAM_CONNECTIONS = 1000

type _Method = Callable[[Any, Any], CommandGenerator[None]]


def mend() -> None:
    """Wrap what is to be mended, once per process."""
    if getattr(_http1, "ChunkedReader", None) is _Chunks:
        return
    _http1.ChunkedReader = _Chunks  # type: ignore[attr-defined]  # by this name it makes its body readers
    for owner, name, wrap in (
        (_http1.Http1Client, "read_headers", _pass_interim),
        (_http1.Http1Client, "read_body", _read_trailers),
        (_http1.Http1Server, "read_body", _read_trailers),
        (_http1.Http1Client, "send", _send_trailers),
        (_http1.Http1Server, "send", _send_trailers),
        (_http1.Http1Client, "send", _frame_requests),
        *MENDED,
    ):
        setattr(owner, name, wrap(getattr(owner, name)))


class _Chunks(ChunkedReader):
    """Keeps the trailers to itself; at any, mitmproxy would break off (it has not implemented them)."""

    trailers: list[tuple[bytes, bytes]] | None = None

    def __call__(self, buf: ReceiveBuffer) -> h11.Data | h11.EndOfMessage | None:
        event = super().__call__(buf)
        if isinstance(event, h11.EndOfMessage) and event.headers:
            self.trailers = event.headers.raw_items()
            return h11.EndOfMessage()
        return event


def _read_trailers(read: _Method) -> _Method:
    """Trailers are told to the other side, as those of HTTP/2 are."""

    def read_body(self: Any, event: events.Event) -> CommandGenerator[None]:
        for command in read(self, event):
            trailers = getattr(self.body_reader, "trailers", None)
            if trailers and isinstance(command, ReceiveHttp):
                stream = command.event.stream_id
                if isinstance(command.event, _events.RequestEndOfMessage):
                    yield ReceiveHttp(_events.RequestTrailers(stream, http.Headers(trailers)))
                elif isinstance(command.event, _events.ResponseEndOfMessage):
                    yield ReceiveHttp(_events.ResponseTrailers(stream, http.Headers(trailers)))
            yield command

    return read_body


def _send_trailers(send: _Method) -> _Method:
    """Trailers are written behind the last chunk. Without chunks HTTP/1.1 has no place for them."""
    ends = (_events.RequestEndOfMessage, _events.ResponseEndOfMessage)
    trailers = (_events.RequestTrailers, _events.ResponseTrailers)

    def send_with_trailers(self: Any, event: _events.HttpEvent) -> CommandGenerator[None]:
        if isinstance(event, trailers):
            self.trailers_to_send = event.trailers
            return
        for command in send(self, event):
            if (
                isinstance(event, ends)
                and isinstance(command, commands.SendData)
                and command.data == b"0\r\n\r\n"
                and (fields := self.__dict__.pop("trailers_to_send", None))
            ):
                command.data = b"0\r\n" + bytes(fields) + b"\r\n"
            yield command
        if isinstance(event, ends):
            self.__dict__.pop("trailers_to_send", None)

    return send_with_trailers


def _frame_requests(send: _Method) -> _Method:
    """A request body of HTTP/2 whose length nobody said goes on in chunks; mitmproxy sends it without any framing, so
    that the upstream takes it for no body and another request."""

    def send_framed(self: Any, event: _events.HttpEvent) -> CommandGenerator[None]:
        if isinstance(event, _events.RequestHeaders) and not event.end_stream:
            request = event.request
            framed = "content-length" in request.headers or "transfer-encoding" in request.headers
            if (request.is_http2 or request.is_http3) and not framed:
                request.headers["transfer-encoding"] = "chunked"
        yield from send(self, event)

    return send_framed


def _pass_interim(read: _Method) -> _Method:
    """Interim responses are passed on; mitmproxy takes the first one for the response and drops the real one.

    Only to clients of HTTP/1.1. To those of HTTP/2 they are dropped, which a proxy may do with what nobody asked for:
    mitmproxy answers `Expect: 100-continue` itself.
    """

    def read_headers(self: Any, event: events.Event) -> CommandGenerator[None]:
        if isinstance(event, events.DataReceived) and self.request:
            while found := _INTERIM.match(bytes(self.buf)):
                self.buf.maybe_extract_at_most(found.end())
                if self.request.http_version == "HTTP/1.1":
                    yield commands.SendData(self.context.client, found[0])
        yield from read(self, event)

    return read_headers


class HostInBrackets:
    """Writes an IPv6 address in `Host` as it is to be written; mitmproxy, as a reverse proxy, leaves the brackets out."""

    name = "host_in_brackets"

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        host = flow.request.host_header
        address = flow.server_conn.address
        if host is not None and address is not None and ":" in address[0] and host.startswith(address[0]):
            flow.request.host_header = f"[{address[0]}]{host.removeprefix(address[0])}"


class ManyUpstreamConnections:
    """Lifts the limit of five connections to one upstream per client connection.

    With a client of HTTP/2 and an upstream of HTTP/1.1 each stream has a connection of its own, and the sixth would wait
    until one of the five ends: minutes, with a slow model.
    """

    name = "many_upstream_connections"

    def client_connected(self, client: connection.Client) -> None:
        handler = ctx.master.addons.get("proxyserver").connections.get(client.id)
        if handler is not None:
            handler.max_conns = defaultdict(lambda: asyncio.Semaphore(_UPSTREAM_CONNECTIONS))
