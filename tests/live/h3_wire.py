"""Both ends of HTTP/3, which mitmproxy's own library speaks: a client that asks once, an upstream that plays exchanges."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.asyncio.server import serve
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, H3Event, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import QuicEvent, StreamReset

from tests.live.exchanges import CASE, Exchange
from tests.live.tls import Certificate

type Pairs = list[tuple[bytes, bytes]]


@dataclass
class H3Answer:
    """What came on one stream."""

    headers: Pairs = field(default_factory=list)
    body: bytes = b""
    pieces: int = 0
    asked_at: float = field(default_factory=monotonic)
    first_at: float = 0.0
    """When the first bytes of the body came."""
    ended: bool = False
    reset: int | None = None


class _Client(QuicConnectionProtocol):
    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.http = H3Connection(self._quic)
        self.answers: dict[int, H3Answer] = {}
        self.news = asyncio.Event()

    def ask(self, exchange: Exchange) -> int:
        stream = self._quic.get_next_available_stream_id()
        head = [
            (":method", exchange.method),
            (":scheme", "https"),
            (":authority", "localhost"),
            (":path", exchange.target),
            *exchange.request_headers,
            (CASE, exchange.id),
        ]
        self.answers[stream] = H3Answer()
        self.http.send_headers(stream, [(name.encode(), value.encode()) for name, value in head])
        self.http.send_data(stream, exchange.request_body, end_stream=True)
        self.transmit()
        return stream

    def quic_event_received(self, event: QuicEvent) -> None:
        if isinstance(event, StreamReset) and event.stream_id in self.answers:
            self.answers[event.stream_id].reset = event.error_code
        for each in self.http.handle_event(event):
            self._note(each)
        self.news.set()

    def _note(self, event: H3Event) -> None:
        if isinstance(event, HeadersReceived):
            self.answers[event.stream_id].headers += event.headers
            self.answers[event.stream_id].ended |= event.stream_ended
        elif isinstance(event, DataReceived):
            answer = self.answers[event.stream_id]
            answer.first_at = answer.first_at or monotonic()
            answer.body += event.data
            answer.pieces += bool(event.data)
            answer.ended |= event.stream_ended


async def ask(port: int, authority: Path, *exchanges: Exchange, seconds: float = 20.0) -> list[H3Answer]:
    """Ask them all on one connection, and wait until all have ended."""
    settings = QuicConfiguration(is_client=True, alpn_protocols=H3_ALPN, server_name="localhost")
    settings.load_verify_locations(str(authority))
    async with connect("127.0.0.1", port, configuration=settings, create_protocol=_Client) as client:
        assert isinstance(client, _Client)
        streams = [client.ask(exchange) for exchange in exchanges]
        async with asyncio.timeout(seconds):
            while not all(client.answers[stream].ended or client.answers[stream].reset for stream in streams):
                client.news.clear()
                await client.news.wait()
        return [client.answers[stream] for stream in streams]


@dataclass
class H3Upstream:
    """Plays exchanges by the header `x-case`. `requests`: by case, the head and the body that came."""

    exchanges: dict[str, Exchange]
    requests: dict[str, tuple[Pairs, bytes]] = field(default_factory=dict)
    port: int = 0

    @contextlib.asynccontextmanager
    async def serving(self, certificate: Certificate) -> AsyncIterator["H3Upstream"]:
        """Listen on a free port."""
        settings = QuicConfiguration(is_client=False, alpn_protocols=H3_ALPN)
        settings.load_cert_chain(certificate.path, certificate.path)
        upstream = self

        class Protocol(_Server):
            plays = upstream

        server = await serve("127.0.0.1", 0, configuration=settings, create_protocol=Protocol)
        assert server._transport is not None
        self.port = server._transport.get_extra_info("sockname")[1]
        try:
            yield self
        finally:
            server.close()  # type: ignore[no-untyped-call]  # aioquic has no type there


class _Server(QuicConnectionProtocol):
    plays: H3Upstream

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.http = H3Connection(self._quic)
        self.heads: dict[int, Pairs] = {}
        self.bodies: dict[int, bytes] = {}
        self.playing: set[asyncio.Task[None]] = set()

    def quic_event_received(self, event: QuicEvent) -> None:
        for each in self.http.handle_event(event):
            if isinstance(each, HeadersReceived):
                self.heads.setdefault(each.stream_id, each.headers)
            elif isinstance(each, DataReceived):
                self.bodies[each.stream_id] = self.bodies.get(each.stream_id, b"") + each.data
            if isinstance(each, (HeadersReceived, DataReceived)) and each.stream_ended:
                task = asyncio.create_task(self._play(each.stream_id))
                self.playing.add(task)
                task.add_done_callback(self.playing.discard)

    async def _play(self, stream: int) -> None:
        case = dict(self.heads[stream])[CASE.encode()].decode()
        self.plays.requests[case] = self.heads[stream], self.bodies.get(stream, b"")
        exchange = self.plays.exchanges[case]
        head = [(":status", str(exchange.status)), *exchange.headers]
        self.http.send_headers(stream, [(name.encode(), value.encode()) for name, value in head])
        now = 0.0
        for piece in exchange.pieces:
            await asyncio.sleep(piece.at - now)
            now = piece.at
            self.http.send_data(stream, piece.data, end_stream=False)
            self.transmit()
        await asyncio.sleep(exchange.end_at - now)
        if exchange.end == "reset":
            self._quic.reset_stream(stream, 0x0102)  # H3_INTERNAL_ERROR
        else:
            self.http.send_data(stream, b"", end_stream=True)
        self.transmit()
