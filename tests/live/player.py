"""An upstream that plays exchanges over real sockets and keeps a log of what it saw and when it sent what."""

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from time import monotonic_ns

import h11

from tests.live.exchanges import CASE, Exchange, Headers

_READ = 1 << 16
_PATIENCE = 30.0  # seconds that a hanging exchange waits for its client to leave
_BEFORE_RESET = 0.05  # seconds in which the peer can read what a reset would else overtake


@dataclass
class Emission:
    """One write: `before` it, and `after` it was drained. Nanoseconds of CLOCK_MONOTONIC."""

    before: int
    after: int


@dataclass
class Play:
    """What the upstream saw and did in one exchange."""

    method: str
    target: str
    headers: Headers
    request_body: bytes = b""
    request_at: int = 0
    """When the last byte of the request had been read."""
    pieces: list[Emission] = field(default_factory=list)
    head: Emission | None = None
    end: Emission | None = None
    client_left: bool = False


@dataclass
class Player:
    """Serves exchanges by the header `x-case` of the request. Pauses are divided by `speed` and no longer than `longest`."""

    speed: float = 1.0
    longest: float = float("inf")
    tls: ssl.SSLContext | None = None
    exchanges: dict[str, Exchange] = field(default_factory=dict)
    plays: dict[str, list[Play]] = field(default_factory=dict)
    steps: dict[str, asyncio.Semaphore] = field(default_factory=dict)
    """By case: acquired before each piece, so that a test decides when the next one goes out."""
    holds: dict[str, asyncio.Event] = field(default_factory=dict)
    """By case: awaited after the last piece (before the head where there is none), so that a test decides on the end."""
    connections: int = 0
    port: int = 0
    _serving: set["asyncio.Task[None]"] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://localhost:{self.port}"

    def add(self, exchanges: Iterable[Exchange]) -> None:
        """Exchanges to be served."""
        self.exchanges |= {exchange.id: exchange for exchange in exchanges}

    def play(self, case: str) -> Play:
        """The only play of a case."""
        (play,) = self.plays[case]
        return play

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator["Player"]:
        """Listen on a free port. What is still being played at the end is broken off."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.tls, backlog=1024)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for task in self._serving:
                task.cancel()
            await asyncio.gather(*self._serving, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        connection = _Connection(reader, writer)
        ends = (ConnectionError, h11.RemoteProtocolError, ssl.SSLError, asyncio.CancelledError)
        with contextlib.suppress(*ends):
            while (play := await connection.request()) is not None:
                case = dict(play.headers)[CASE]
                self.plays.setdefault(case, []).append(play)
                await self._play(self.exchanges[case], play, connection)
                if not connection.reusable():
                    break
        writer.close()

    async def _play(self, exchange: Exchange, play: Play, connection: "_Connection") -> None:
        if exchange.end == "no_answer":
            await self._hold(exchange)
            await connection.reset()
            return
        now = 0.0
        for number, piece in enumerate(exchange.pieces):
            if exchange.id in self.steps:
                await self.steps[exchange.id].acquire()
            await self._pause(piece.at - now)
            now = piece.at
            if number == 0:
                play.head = await connection.head(exchange)
            play.pieces.append(await connection.send(h11.Data(data=piece.data)))
        await self._pause(exchange.end_at - now)
        await self._hold(exchange)
        play.head = play.head or await connection.head(exchange)
        match exchange.end:
            case "eof":
                play.end = await connection.send(h11.EndOfMessage())
            case "reset":
                await asyncio.sleep(_BEFORE_RESET)
                play.end = await connection.reset()
            case "cut":
                play.end = connection.close()
            case _:
                play.client_left = await connection.peer_left(_PATIENCE)
                await connection.reset()

    async def _hold(self, exchange: Exchange) -> None:
        if exchange.id in self.holds:
            await self.holds[exchange.id].wait()

    async def _pause(self, seconds: float) -> None:
        if seconds > 0:
            await asyncio.sleep(min(seconds / self.speed, self.longest))


class _Connection:
    """The server's end of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.SERVER)

    async def request(self) -> Play | None:
        """The next request, read to its end; None where none comes any more."""
        play: Play | None = None
        body = bytearray()
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                self._http.receive_data(await self._reader.read(_READ))
            elif isinstance(event, h11.Request):
                headers = tuple((name.decode(), value.decode("latin-1")) for name, value in event.headers)
                play = Play(event.method.decode(), event.target.decode(), headers)
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                assert play is not None
                play.request_body, play.request_at = bytes(body), monotonic_ns()
                return play
            else:
                return None

    async def head(self, exchange: Exchange) -> Emission:
        """Send the response head."""
        headers = list(exchange.headers)
        if exchange.framing == "length":
            promised = len(exchange.body) + (1000 if exchange.end in ("cut", "reset") else 0)
            headers.append(("content-length", str(promised)))
        elif exchange.framing == "close":
            self._http.their_http_version = b"1.0"  # else h11 would choose chunks
            headers.append(("connection", "close"))
        elif exchange.status not in (204, 304):
            headers.append(("transfer-encoding", "chunked"))
        return await self.send(h11.Response(status_code=exchange.status, headers=headers, reason="Whatever"))

    async def send(self, event: h11.Event) -> Emission:
        """Send one event of the protocol."""
        data = self._http.send(event)
        before = monotonic_ns()
        if data:
            self._writer.write(data)
            await self._writer.drain()
        return Emission(before, monotonic_ns())

    def close(self) -> Emission:
        """Close the connection, whatever was still to come."""
        self._http.send_failed()
        before = monotonic_ns()
        self._writer.close()
        return Emission(before, monotonic_ns())

    async def reset(self) -> Emission:
        """Break the connection with RST."""
        self._http.send_failed()
        before = monotonic_ns()
        raw = self._writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()
        return Emission(before, monotonic_ns())

    async def peer_left(self, seconds: float) -> bool:
        """Whether the peer closes the connection within so many seconds."""
        with contextlib.suppress(ConnectionError):
            try:
                return await asyncio.wait_for(self._reader.read(_READ), seconds) == b""
            except TimeoutError:
                return False
        return True

    def reusable(self) -> bool:
        """Whether another request may follow; if so, the connection is made ready for it."""
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            return True
        return False
