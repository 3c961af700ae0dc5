"""An HTTP/2 client of one connection that can cancel a single stream, which httpx does not do on the wire."""

import asyncio
import ssl
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
            elif isinstance(event, h2.events.StreamEnded):
                self.answers[self._streams[event.stream_id]].ended = True
        await self._flush()

    async def _flush(self) -> None:
        self.writer.write(self._http.data_to_send())
        await self.writer.drain()

    def close(self) -> None:
        """Close the connection."""
        self.writer.close()
