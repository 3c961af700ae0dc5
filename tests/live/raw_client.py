"""A client that notes every read with its time and adds nothing of its own: what came, when, and how it ended."""

import asyncio
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from time import monotonic_ns
from typing import Literal

import h11

from tests.live.exchanges import CASE, Exchange, Headers

_READ = 1 << 16

Ending = Literal["eof", "broken", "left", "hanging"]
type Address = tuple[str, int]


@dataclass
class Read:
    """Body bytes that one read of the socket brought, and when (CLOCK_MONOTONIC, nanoseconds)."""

    at: int
    data: bytes


@dataclass
class Answer:
    """What came back. `left`: the client itself closed. `hanging`: nothing more came for as long as it cared to wait."""

    status: int | None = None
    headers: Headers = ()
    reads: list[Read] = field(default_factory=list)
    ending: Ending = "broken"
    sent_at: int = 0
    """Before the first byte of the request was written."""
    head_at: int = 0
    ended_at: int = 0

    @property
    def body(self) -> bytes:
        return b"".join(read.data for read in self.reads)

    def arrived(self, size: int) -> int:
        """When the first `size` bytes of the body had come."""
        total = 0
        for read in self.reads:
            total += len(read.data)
            if total >= size:
                return read.at
        raise AssertionError(f"only {total} of {size} bytes came")


class Client:
    """A connection that is kept open between requests."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.CLIENT)

    @classmethod
    async def connect(cls, address: Address, tls: ssl.SSLContext | None = None) -> "Client":
        """Connect; with TLS the peer must show a certificate for localhost."""
        name = "localhost" if tls else None
        return cls(*await asyncio.open_connection(*address, ssl=tls, server_hostname=name))

    def close(self) -> None:
        """Leave."""
        self._writer.close()

    async def ask(
        self,
        exchange: Exchange,
        *,
        chunked: bool = False,
        on_data: Callable[[bytes], None] | None = None,
        leave_after: int | None = None,
        patience: float = 60.0,
        linger: float | None = None,
        pause_before_body: float = 0.0,
    ) -> Answer:
        """Send the request of an exchange and read the answer.

        `on_data` is told the body so far after each read; `leave_after` so many bytes of the body the client closes;
        `patience` is how long it waits for a read, and `linger` how long once all that the exchange holds has come;
        `pause_before_body` is how long it holds back the request body.
        """
        if self._http.our_state is h11.DONE:
            self._http.start_next_cycle()
        answer = Answer(sent_at=monotonic_ns())
        waits = (len(exchange.body), patience if linger is None else linger, patience)
        try:
            await self._send(exchange, chunked, pause_before_body)
            answer.ending = await self._receive(answer, on_data, leave_after, waits)
        except (ConnectionError, h11.RemoteProtocolError, ssl.SSLError):
            answer.ending = "broken"
        answer.ended_at = monotonic_ns()
        return answer

    async def _send(self, exchange: Exchange, chunked: bool, pause: float) -> None:
        framing = ("transfer-encoding", "chunked") if chunked else ("content-length", str(len(exchange.request_body)))
        headers: list[tuple[str, str]] = [("host", "localhost"), (CASE, exchange.id), *exchange.request_headers]
        if exchange.request_body or exchange.method == "POST":
            headers.append(framing)
        request = h11.Request(method=exchange.method, target=exchange.target, headers=headers)
        self._writer.write(self._http.send(request) or b"")
        await asyncio.sleep(pause)
        for start in range(0, len(exchange.request_body), _READ):
            piece = h11.Data(data=exchange.request_body[start : start + _READ])
            self._writer.write(self._http.send(piece) or b"")
            await self._writer.drain()
        self._writer.write(self._http.send(h11.EndOfMessage()) or b"")
        await self._writer.drain()

    async def _receive(
        self,
        answer: Answer,
        on_data: Callable[[bytes], None] | None,
        leave_after: int | None,
        waits: tuple[int, float, float],
    ) -> Ending:
        whole, linger, patience = waits
        size = 0
        while True:
            complete = answer.status is not None and size >= whole
            try:
                data = await asyncio.wait_for(self._reader.read(_READ), linger if complete else patience)
            except TimeoutError:
                return "hanging"
            at = monotonic_ns()
            self._http.receive_data(data)
            body, over = self._events(answer, at)
            if body:
                size += len(body)
                answer.reads.append(Read(at, body))
                if on_data is not None:
                    on_data(answer.body)
            if over:
                return "eof"
            if leave_after is not None and answer.status is not None and size >= leave_after:
                self.close()
                return "left"

    def _events(self, answer: Answer, at: int) -> tuple[bytes, bool]:
        """The body bytes of one read, and whether the answer is complete."""
        body = bytearray()
        while True:
            event = self._http.next_event()
            if isinstance(event, h11.Response):
                answer.status, answer.head_at = event.status_code, at
                answer.headers = tuple((name.decode(), value.decode("latin-1")) for name, value in event.headers)
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                return bytes(body), True
            elif event is h11.NEED_DATA or event is h11.PAUSED:
                return bytes(body), False
            elif isinstance(event, h11.ConnectionClosed):
                raise ConnectionResetError("closed before the answer was complete")


async def ask(
    address: Address,
    exchange: Exchange,
    tls: ssl.SSLContext | None = None,
    *,
    linger: float | None = None,
    pause_before_body: float = 0.0,
) -> Answer:
    """One exchange on a connection of its own, in which the client does what the exchange says of it."""
    client = await Client.connect(address, tls)
    leave_after = len(exchange.body) if exchange.end == "client_leaves" else None
    try:
        return await client.ask(exchange, leave_after=leave_after, linger=linger, pause_before_body=pause_before_body)
    finally:
        client.close()


async def ask_all(
    address: Address, exchanges: Iterable[Exchange], *, tls: ssl.SSLContext | None = None, at_once: int = 16
) -> dict[str, Answer]:
    """Many exchanges, so many at a time; the answers by case. A hanging one is left a second after its last byte."""
    room = asyncio.Semaphore(at_once)
    answers: dict[str, Answer] = {}

    async def one(exchange: Exchange) -> None:
        async with room:
            linger = 1.0 if exchange.end == "hang" else None
            answers[exchange.id] = await ask(address, exchange, tls, linger=linger)

    async with asyncio.TaskGroup() as group:
        for exchange in exchanges:
            group.create_task(one(exchange))
    return answers
