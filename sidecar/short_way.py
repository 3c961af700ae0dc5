"""The short way of a response's body through mitmproxy.

A piece of a streamed body goes up from its connection to the flow and down again to the other connection, through six
layers of generators, wrapped into events and commands on the way. Where both sides speak HTTP/1.1 and nothing is there
but a body that streams, the outcome is known: the piece goes through `response.stream`, gets the frame of a chunk, and is
sent. That is done here in one step, once per read. Whatever else there is (heads, ends, trailers, errors, HTTP/2, anything
that waits) takes mitmproxy's own way; tests/test_short_way.py holds the two against each other.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import h11
from h11._readers import ChunkedReader
from h11._receivebuffer import ReceiveBuffer
from mitmproxy import connection, http
from mitmproxy.proxy import commands, events
from mitmproxy.proxy.layer import CommandGenerator
from mitmproxy.proxy.layers.http import HttpLayer, HttpStream, _http1

from sidecar.capture.checks import Check, check_of

_CHUNK_HEAD = re.compile(rb"0{0,8}([1-9A-Fa-f][0-9A-Fa-f]{0,7})\r\n")

type _ReadBody = Callable[[Any, events.Event], CommandGenerator[None]]


def shorten() -> None:
    """Take the short way from now on, in this process. What is wrapped around reading after this sees no body."""
    if not hasattr(_http1.Http1Client.read_body, "long_way"):
        setattr(_http1.Http1Client, "read_body", _shortened(_http1.Http1Client.read_body))  # noqa: B010  # mypy: a method


class _Way(NamedTuple):
    """From one upstream connection to the client, for one response."""

    layer: HttpLayer
    stream: HttpStream
    state: Any
    """That of the stream while its body streams."""
    check: Check | None
    server: _http1.Http1Server
    response: http.Response
    client: connection.Connection
    chunked: bool

    def open(self) -> bool:
        """Whether a piece of the body would pass on at once, now."""
        stream, server = self.stream, self.server
        return (
            stream.server_state is self.state
            and server.stream_id == stream.stream_id
            and self.layer.streams.get(stream.stream_id) is stream
            and stream._paused is None
            and server._paused is None
            and self.layer._paused is None
        )

    def pieces(self, data: bytes) -> Iterable[bytes]:
        """What the callable of the stream makes of a piece."""
        if not callable(self.response.stream):
            return (data,)
        made = self.response.stream(data)
        return (made,) if isinstance(made, bytes) else made


def _way(reader: _http1.Http1Client) -> _Way | None:
    """The short way for the response that is being read, if it has one now."""
    layer = next((layer for layer in reversed(reader.context.layers) if isinstance(layer, HttpLayer)), None)
    if layer is None or reader.stream_id is None or layer.debug is not None:
        return None
    stream = layer.streams.get(reader.stream_id)
    server = layer.connections.get(layer.context.client)
    if stream is None or type(server) is not _http1.Http1Server or layer.context.options.store_streamed_bodies:
        return None
    state, check = stream.server_state, check_of(stream)
    if (state if check is None else state.__wrapped__) != stream.state_stream_response_body:
        return None
    response = server.response
    if response is None or stream.flow.response is not response:
        return None
    chunked = "chunked" in response.headers.get("transfer-encoding", "").lower()
    way = _Way(layer, stream, state, check, server, response, server.conn, chunked)
    return way if way.open() else None


class _Again:
    """A body reader that says once more what it said last, to who takes it from there, and then reads on."""

    def __init__(self, last: h11.EndOfMessage | h11.ProtocolError, reader: Any) -> None:
        self._last: h11.EndOfMessage | h11.ProtocolError | None = last
        self._reader = reader
        self.trailers = getattr(reader, "trailers", None)

    def __call__(self, buf: ReceiveBuffer) -> h11.Data | h11.EndOfMessage | None:
        last, self._last = self._last, None
        if isinstance(last, h11.ProtocolError):
            raise last
        if last is not None:
            return last
        said: h11.Data | h11.EndOfMessage | None = self._reader(buf)
        return said

    def read_eof(self) -> Any:
        return self._reader.read_eof()


def _shortened(long_way: _ReadBody) -> _ReadBody:
    def read_body(self: _http1.Http1Client, event: events.Event) -> CommandGenerator[None]:
        if type(event) is events.DataReceived:
            way: _Way | None = self.__dict__.get("short_way")
            if way is None or way.response is not self.response or not way.open():
                way = self.__dict__["short_way"] = _way(self)
            if way is not None:
                out: list[bytes] = []
                try:
                    goes_on = _read(self, way, event.data, out)
                finally:
                    # All of a read in one write; before an exception of somebody's callable, what it let through.
                    if out:
                        yield commands.SendData(way.client, out[0] if len(out) == 1 else b"".join(out))
                if goes_on:
                    return
        yield from long_way(self, event)

    read_body.long_way = long_way  # type: ignore[attr-defined]
    return read_body


def _read(self: _http1.Http1Client, way: _Way, read: bytes, out: list[bytes]) -> bool:
    """Put what goes to the client into `out`. False where the body ends or breaks, which is for the long way to see."""
    reader = self.body_reader
    if isinstance(reader, ChunkedReader) and (whole := _whole_chunk(self.buf, reader, read)) is not None:
        _passed(way, whole, out)
        return True
    while True:
        said: h11.Data | h11.EndOfMessage | h11.ProtocolError | None
        try:
            said = reader(self.buf)
        except h11.ProtocolError as error:
            said = error
        if said is None:
            return True
        if not isinstance(said, h11.Data):
            self.body_reader = _Again(said, reader)  # type: ignore[assignment]  # it reads as they do
            return False
        _passed(way, bytes(said.data), out)


def _whole_chunk(buffer: ReceiveBuffer, reader: ChunkedReader, read: bytes) -> bytes | None:
    """What is in a read that is one chunk, neither more nor less, as most are; it leaves the reader as it is."""
    if reader._bytes_in_chunk or reader._bytes_to_discard or reader._reading_trailer or len(buffer) != len(read):
        return None
    head = _CHUNK_HEAD.match(read)
    if head is None or head.end() + int(head[1], 16) + 2 != len(read) or not read.endswith(b"\r\n"):
        return None
    buffer.maybe_extract_at_most(len(read))
    return read[head.end() : -2]


def _passed(way: _Way, data: bytes, out: list[bytes]) -> None:
    check = way.check
    if check is not None:
        check.piece_came(data)
    for piece in way.pieces(data):
        if check is not None:
            check.piece_went(piece)
        if way.chunked:
            out.append(b"%x\r\n%s\r\n" % (len(piece), piece))
        elif piece:
            out.append(piece)
