"""Both ends of an HTTP/2 connection that reset a single stream, which neither httpx nor hypercorn does on the wire."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import h2.config
import h2.connection
import h2.errors
import h2.events

from tests.live.exchanges import CASE, Exchange

_READ = 1 << 16


@dataclass
class H2Answer:
    """What came on one stream."""

    body: bytes = b""
    ended: bool = False
    reset: bool = False
    trailers: tuple[tuple[bytes, bytes], ...] = ()


@dataclass
class H2Client:
    """One connection. `answers` by case."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    answers: dict[str, H2Answer] = field(default_factory=dict)
    _http: h2.connection.H2Connection = field(default_factory=h2.connection.H2Connection)
    _streams: dict[int, str] = field(default_factory=dict)

    @classmethod
    async def connect(cls, address: tuple[str, int], tls: ssl.SSLContext) -> "H2Client":
        """Connect with TLS to a peer that shows a certificate for localhost and agrees to speak HTTP/2."""
        tls.set_alpn_protocols(["h2"])
        reader, writer = await asyncio.open_connection(*address, ssl=tls, server_hostname="localhost")
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "h2"
        client = cls(reader, writer)
        client._http.initiate_connection()
        await client._flush()
        return client

    async def send(self, exchange: Exchange) -> None:
        """Send a request."""
        stream = self._http.get_next_available_stream_id()
        pseudo = [
            (":method", exchange.method),
            (":scheme", "https"),
            (":authority", "localhost"),
            (":path", exchange.target),
        ]
        self._http.send_headers(stream, [*pseudo, *exchange.request_headers, (CASE, exchange.id)])
        self._http.send_data(stream, exchange.request_body, end_stream=True)
        self._streams[stream] = exchange.id
        self.answers[exchange.id] = H2Answer()
        await self._flush()

    async def cancel(self, exchange: Exchange) -> None:
        """Reset one stream."""
        stream = next(stream for stream, case in self._streams.items() if case == exchange.id)
        self._http.reset_stream(stream, h2.errors.ErrorCodes.CANCEL)
        await self._flush()

    async def receive(self) -> None:
        """One read of the socket."""
        data = await self.reader.read(_READ)
        if not data:
            raise ConnectionResetError("the peer closed the connection")
        for event in self._http.receive_data(data):
            if isinstance(event, h2.events.DataReceived):
                self.answers[self._streams[event.stream_id]].body += event.data
                self._http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2.events.TrailersReceived):
                trailers = tuple((bytes(name), bytes(value)) for name, value in event.headers)
                self.answers[self._streams[event.stream_id]].trailers = trailers
            elif isinstance(event, h2.events.StreamEnded):
                self.answers[self._streams[event.stream_id]].ended = True
            elif isinstance(event, h2.events.StreamReset):
                self.answers[self._streams[event.stream_id]].reset = True
        await self._flush()

    async def _flush(self) -> None:
        self.writer.write(self._http.data_to_send())
        await self.writer.drain()

    def close(self) -> None:
        """Close the connection."""
        self.writer.close()


@dataclass
class H2Resetter:
    """An upstream that plays exchanges and resets the stream of those that end so; the connection lives on."""

    exchanges: dict[str, Exchange] = field(default_factory=dict)
    connections: int = 0
    port: int = 0

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}"

    @contextlib.asynccontextmanager
    async def serving(self, tls: ssl.SSLContext) -> AsyncIterator["H2Resetter"]:
        """Listen on a free port."""
        tls.set_alpn_protocols(["h2"])
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        http = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        http.initiate_connection()
        cases: dict[int, str] = {}
        with contextlib.suppress(ConnectionError):
            async with asyncio.TaskGroup() as playing:
                while True:
                    writer.write(http.data_to_send())
                    data = await reader.read(_READ)
                    if not data:
                        break
                    for event in http.receive_data(data):
                        if isinstance(event, h2.events.RequestReceived):
                            cases[event.stream_id] = dict(event.headers)[CASE.encode()].decode()
                        elif isinstance(event, h2.events.StreamEnded):
                            exchange = self.exchanges[cases[event.stream_id]]
                            playing.create_task(_play(exchange, event.stream_id, http, writer))
        writer.close()


async def _play(
    exchange: Exchange, stream: int, http: h2.connection.H2Connection, writer: asyncio.StreamWriter
) -> None:
    http.send_headers(stream, [(":status", str(exchange.status)), *exchange.headers])
    now = 0.0
    for piece in exchange.pieces:
        await asyncio.sleep(piece.at - now)
        now = piece.at
        http.send_data(stream, piece.data)
        writer.write(http.data_to_send())
    await asyncio.sleep(exchange.end_at - now)
    if exchange.end == "reset":
        http.reset_stream(stream, h2.errors.ErrorCodes.INTERNAL_ERROR)
    else:
        http.end_stream(stream)
    writer.write(http.data_to_send())
