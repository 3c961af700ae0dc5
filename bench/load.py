"""The load: an upstream and its clients in one process, as cheap as Python can make them.

Every event of a stream carries the time at which the upstream wrote it, so whatever comes out at the other end of a
proxy, re-framed or re-serialised, tells how long it was on its way. Neither side parses HTTP beyond what it needs: many
streams have to leave room on the machine for what is measured. How busy the load itself was is told beside each figure
(`load_busy`, of one core): near 1 the load was the limit, not the proxy.
"""

import asyncio
import contextlib
import gc
import random
import re
import resource
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from itertools import count
from time import monotonic_ns

type Address = tuple[str, int]

_STAMP = re.compile(rb"@(\d{16})")
_STAMP_SIZE = 17
_ID = re.compile(rb"id=(\d+)")
_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")
_EVENT = (
    b'data: {"id":"chatcmpl-AbCdEfGhIjKlMnOp","object":"chat.completion.chunk","created":1767225600,"model":"m-bench",'
    b'"choices":[{"index":0,"delta":{"content":" @%016d"},"finish_reason":null}]}\n\n'
)
_SIZE = len(_EVENT % 0)
_CHUNK = b"%x\r\n%s\r\n" % (_SIZE, _EVENT)
_FINISH = (
    b'data: {"id":"chatcmpl-AbCdEfGhIjKlMnOp","object":"chat.completion.chunk","created":1767225600,"model":"m-bench",'
    b'"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
)
_LAST = b"%x\r\n%s\r\n0\r\n\r\n" % (len(_FINISH), _FINISH)
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_END = b"\r\n0\r\n\r\n"
_OPENING = 16  # streams that are being opened at once
_PATIENCE = 60.0
_BURST = 16  # events that a flooding stream writes before others have their turn


def many_files() -> None:
    """Let this process, and those it starts, open as many sockets as they may."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@dataclass(eq=False)
class Stream:
    """One exchange, both ends of it."""

    number: int
    mode: str
    """`paced`: an event each `every` seconds. `closed`: the next when the client has the last. `flood`: as many as
    are taken. `short`: one event and the end, in one write."""
    every: float = 0.0
    sent: list[int] = field(default_factory=list)
    """When events were written; only where the load keeps logs."""
    arrived: list[int] = field(default_factory=list)
    requested: int = 0
    """When the upstream had the whole request, and below when the client began."""
    asked: int = 0
    first: "asyncio.Future[int]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    """When the client had the first event."""
    over: "asyncio.Future[int]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    source: "_Upstream | None" = None


@dataclass
class Window:
    """What happened while it was open. Latencies in nanoseconds, from the upstream's write to the client's read."""

    seconds: float = 0.0
    chunks: int = 0
    latencies: list[int] = field(default_factory=list)
    load_busy: float = 0.0


class Load:
    """Serves on `port`; asks through whatever address it is told."""

    def __init__(self, *, logs: bool = False, model: str = "m-bench", authorization: str = "") -> None:
        self.port = 0
        self.logs = logs
        self.streams: dict[int, Stream] = {}
        self.broken = 0
        self.window: Window | None = None
        self._model = model.encode()
        self._authorization = f"authorization: Bearer {authorization}\r\n".encode() if authorization else b""
        self._numbers = count(1)

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator["Load"]:
        """Listen on a free port of the loopback."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _Upstream(self), "127.0.0.1", 0, backlog=4096)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()

    async def open(self, address: Address, number: int, mode: str, every: float = 0.0) -> list[Stream]:
        """So many streams, each with its first event come."""
        free = asyncio.Semaphore(_OPENING)

        async def one() -> Stream:
            async with free:
                stream = await self.ask(address, mode, every)
                await asyncio.wait_for(stream.first, _PATIENCE)
                return stream

        return await asyncio.gather(*(one() for _ in range(number)))

    async def ask(self, address: Address, mode: str, every: float = 0.0) -> Stream:
        """Send one request on a new connection."""
        stream = Stream(next(self._numbers), mode, every)
        self.streams[stream.number] = stream
        body = b'{"model":"%s","stream":true,"messages":[{"role":"user","content":"id=%d"}]}'
        body = body % (self._model, stream.number)
        request = (
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            b"%scontent-length: %d\r\n\r\n%s"
        )
        request = request % (self._authorization, len(body), body)
        stream.asked = monotonic_ns()
        await asyncio.get_running_loop().create_connection(lambda: _Client(self, stream, request), *address)
        return stream

    async def close(self, streams: list[Stream]) -> None:
        """End them in order, and wait until their clients have it all."""
        for number, stream in enumerate(streams):
            if stream.source is not None:
                stream.source.finish()
            if number % _OPENING == _OPENING - 1:
                await asyncio.sleep(0.005)
        await asyncio.wait_for(asyncio.gather(*(stream.over for stream in streams)), _PATIENCE)
        for stream in streams:
            self.streams.pop(stream.number, None)

    async def measure(self, seconds: float) -> Window:
        """What arrives within so many seconds."""
        window = Window()
        gc.collect()
        gc.disable()
        try:
            begun, own = monotonic_ns(), time.process_time()
            self.window = window
            await asyncio.sleep(seconds)
            self.window = None
            window.seconds = (monotonic_ns() - begun) / 1e9
            window.load_busy = (time.process_time() - own) / window.seconds
        finally:
            gc.enable()
        window.chunks = len(window.latencies)
        return window

    async def probe(self, address: Address, seconds: float, pause: float) -> list[int]:
        """Nanoseconds to the first event of short requests on new connections, one after the other."""
        found = []
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            stream = await self.ask(address, "short")
            found.append(await asyncio.wait_for(stream.first, _PATIENCE) - stream.asked)
            await self.close([stream])
            await asyncio.sleep(pause)
        return found

    async def short(self, address: Address, at_once: int, seconds: float) -> Window:
        """Short requests on new connections, always so many at once; the latencies are those of whole requests."""
        window = Window()
        begun, own = monotonic_ns(), time.process_time()
        until = time.monotonic() + seconds

        async def worker() -> None:
            while time.monotonic() < until:
                stream = await self.ask(address, "short")
                window.latencies.append(await asyncio.wait_for(stream.over, _PATIENCE) - stream.asked)
                del self.streams[stream.number]

        await asyncio.gather(*(worker() for _ in range(at_once)))
        window.seconds = (monotonic_ns() - begun) / 1e9
        window.load_busy = (time.process_time() - own) / window.seconds
        window.chunks = len(window.latencies)
        return window


class _Upstream(asyncio.Protocol):
    """The server's end of a connection: any number of requests, one after the other."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._loop = asyncio.get_running_loop()
        self._buffer = b""
        self._stream: Stream | None = None
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, mark, body = self._buffer.partition(b"\r\n\r\n")
        if not mark:
            return
        length = _LENGTH.search(head)
        if length is not None:
            if len(body) < int(length[1]):
                return
        elif head.startswith(b"POST") and not body.endswith(b"0\r\n\r\n"):
            return
        self._buffer = b""
        found = _ID.search(body)
        stream = self._load.streams.get(int(found[1])) if found else None
        if stream is None:
            self._transport.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
            return
        stream.requested = monotonic_ns()
        stream.source = self
        self._stream = stream
        self._begin(stream)

    def _begin(self, stream: Stream) -> None:
        if stream.mode == "short":
            self._stream = None
            self._transport.write(_HEAD + self._event(stream) + _LAST)
            return
        self._transport.write(_HEAD + self._event(stream))
        if stream.mode == "paced":
            self._due = self._loop.time() + stream.every * random.uniform(0.5, 1.5)  # so that they do not march in step
            self._timer = self._loop.call_at(self._due, self._tick, stream)
        elif stream.mode == "flood":
            self._loop.call_soon(self._pour, stream)

    def _event(self, stream: Stream) -> bytes:
        now = monotonic_ns()
        if self._load.logs:
            stream.sent.append(now)
        return _CHUNK % now

    def _tick(self, stream: Stream) -> None:
        self._due += stream.every
        self._timer = self._loop.call_at(self._due, self._tick, stream)
        self._transport.write(self._event(stream))

    def _pour(self, stream: Stream) -> None:
        for _ in range(_BURST):
            if self._paused or self._stream is not stream:
                return
            self._transport.write(self._event(stream))
        self._loop.call_soon(self._pour, stream)

    def next(self) -> None:
        """One more event of a closed loop."""
        if self._stream is not None:
            self._transport.write(self._event(self._stream))

    def finish(self) -> None:
        """The end of the response."""
        if self._timer is not None:
            self._timer.cancel()
        if self._stream is not None:
            self._stream = None
            self._transport.write(_LAST)

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        if self._stream is not None and self._stream.mode == "flood":
            self._pour(self._stream)

    def connection_lost(self, error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._stream is not None:
            self._load.broken += 1


class _Client(asyncio.Protocol):
    """The client's end: one request."""

    def __init__(self, load: Load, stream: Stream, request: bytes) -> None:
        self._load = load
        self._stream = stream
        self._request = request
        self._tail = b""
        self._head = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        at = monotonic_ns()
        if not self._head:
            if not data.startswith(b"HTTP/1.1 200"):
                self._fail(f"the answer begins with {data[:300]!r}")
                return
            self._head = True
        text = self._tail + data
        stream, load, end = self._stream, self._load, 0
        for found in _STAMP.finditer(text):
            end = found.end()
            if load.window is not None:
                load.window.latencies.append(at - int(found[1]))
            if load.logs:
                stream.arrived.append(at)
            if stream.mode == "closed" and stream.source is not None:
                stream.source.next()
        if end and not stream.first.done():
            stream.first.set_result(at)
        self._tail = text[end:][-_STAMP_SIZE:]
        if self._tail.endswith(_END):
            if not stream.over.done():
                stream.over.set_result(at)
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if not self._stream.over.done():
            self._fail(f"the connection ended early: {error or 'closed'}")

    def _fail(self, why: str) -> None:
        self._load.broken += 1
        for future in (self._stream.first, self._stream.over):
            if not future.done():
                future.set_exception(ConnectionError(why))
                future.exception()  # whoever waits is told; nobody has to
        self._transport.close()
