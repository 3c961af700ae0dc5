"""A long load on the real proxy, and what both of its processes hold of memory and descriptors meanwhile."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.live.processes import Sidecar
from tests.live.test_websocket import memory

_BODY = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}'
_WORD = b'data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"word "},"finish_reason":null}]}\n\n'
_FINISH = b'data: {"id":"c","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
_MIB = 1024 * 1024
_CONNECTING = 32  # at once; the backlog of a listening socket is no more than a hundred


@dataclass(frozen=True)
class Point:
    """Resident memory in MiB and open descriptors of proxy and analyzer, `done` exchanges into the load, with so many slow
    ones `open`."""

    at: float
    done: int
    open: int
    proxy: float
    analyzer: float
    proxy_files: int
    analyzer_files: int


@dataclass
class Load:
    """Short streams one after the other over kept connections, and many slow ones at once."""

    sidecar: Sidecar
    done: int = 0
    open: int = 0
    broken: int = 0
    points: list[Point] = field(default_factory=list)
    _began: float = field(default_factory=time.monotonic)

    def look(self) -> Point:
        """Note what both processes hold now."""
        proxy = self.sidecar.program.process.pid
        (analyzer,) = self.sidecar.program.children
        held = [round(memory(pid) / _MIB, 1) for pid in (proxy, analyzer)]
        files = [sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir()) for pid in (proxy, analyzer)]
        point = Point(
            round(time.monotonic() - self._began, 1), self.done, self.open, held[0], held[1], files[0], files[1]
        )
        self.points.append(point)
        return point

    async def short(self, exchanges: int, at_once: int = 16) -> None:
        """So many exchanges; each connection is kept for a hundred of them."""
        left = iter(range(exchanges))

        async def ask() -> None:
            while True:
                reader, writer = await asyncio.open_connection(*self.sidecar.proxy)
                for _ in range(100):
                    if next(left, None) is None:
                        writer.close()
                        return
                    writer.write(_request(b"/v1/chat/completions"))
                    await _to_the_end(reader)
                    self.done += 1
                writer.close()

        await asyncio.gather(*(ask() for _ in range(at_once)))

    async def slow(self, streams: int, seconds: float, release: asyncio.Event) -> Point:
        """So many streams open at once, for so many seconds; what was held when the time was over. `release` is that of
        the upstream, which sends an event a second on each of them until then."""
        connecting = asyncio.Semaphore(_CONNECTING)
        release.clear()

        async def ask() -> None:
            try:
                async with connecting:
                    reader, writer = await asyncio.open_connection(*self.sidecar.proxy)
                    writer.write(_request(b"/slow/v1/chat/completions"))
                    await reader.readuntil(b"word")
                    self.open += 1
                await _to_the_end(reader)
                self.open -= 1
                self.done += 1
                writer.close()
            except (asyncio.IncompleteReadError, OSError):
                self.broken += 1

        asking = [asyncio.create_task(ask()) for _ in range(streams)]
        while self.open + self.broken < streams:
            await asyncio.sleep(0.1)
        await asyncio.sleep(seconds)
        peak = self.look()
        release.set()
        await asyncio.gather(*asking)
        return peak


def _request(target: bytes) -> bytes:
    head = b"POST %s HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    return head % (target, len(_BODY)) + _BODY


async def _to_the_end(reader: asyncio.StreamReader) -> None:
    await reader.readuntil(b"\r\n0\r\n\r\n")


@contextlib.asynccontextmanager
async def upstream(release: asyncio.Event, words: int = 10) -> AsyncIterator[str]:
    """An upstream that answers at once with so many events, or, under /slow/, with one a second until its release; its
    URL."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(len(_BODY))
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
                )
                if b"/slow/" in head:
                    while not release.is_set():
                        writer.write(_chunk(_WORD))
                        await asyncio.sleep(1)
                else:
                    writer.write(b"".join(_chunk(_WORD) for _ in range(words)))
                writer.write(_chunk(_FINISH) + b"0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=2048)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)
