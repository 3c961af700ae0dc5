"""The server: listens, plays, and says what it served."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from urllib.parse import urlsplit

import h11
import msgspec

from sidecar.files.capture import Capture
from sidecar.files.replay.connection import Connection
from sidecar.files.replay.recordings import Asked, Recordings

KEPT = 10_000


class Served(msgspec.Struct):
    """One request that came. `id` is that of the recording, None where nothing matched."""

    method: str
    path: str
    """Without query: that may hold secrets."""
    id: str | None
    body: bytes
    """What the client sent."""
    how: str = "playing"
    """How it ended: `ended`, `reset`, `cut off`, `client left`, `closed with code …`, or why nothing matched."""


class Server:
    """Serves recordings. `served` are the latest requests in the order of their coming, each there before the first byte
    of its answer is; `told` hears of each when it is over."""

    def __init__(
        self,
        recordings: Recordings,
        *,
        speed: float = 1.0,
        tls: ssl.SSLContext | None = None,
        told: Callable[[Served], None] | None = None,
    ) -> None:
        """`speed`: how many times as fast as recorded; 0 sends everything at once."""
        self.recordings = recordings
        self.served: list[Served] = []
        self.address: tuple[str, int] = ("", 0)
        self._speed = speed
        self._tls = tls
        self._told = told
        self._open: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """Where it listens, without a path."""
        host, port = self.address
        return f"{'https' if self._tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"

    @contextlib.asynccontextmanager
    async def listening(self, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator["Server"]:
        """Serve meanwhile; port 0 takes a free one. What still plays at the end is broken off. OSError where the address
        is not to be had."""
        server = await asyncio.start_server(self._connected, host, port, ssl=self._tls, backlog=1024)
        self.address = server.sockets[0].getsockname()[:2]
        try:
            yield self
        finally:
            server.close()
            for task in self._open:
                task.cancel()
            await asyncio.gather(*self._open, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        task.add_done_callback(self._open.discard)
        try:
            with contextlib.suppress(ConnectionError, h11.RemoteProtocolError, ssl.SSLError, asyncio.CancelledError):
                await Connection(reader, writer, self.recordings, self._speed, self._begin).serve()
        finally:
            writer.close()

    def _begin(self, capture: Capture | None, asked: Asked) -> Callable[[str], None]:
        path = urlsplit(asked.target).path
        served = Served(asked.method, path, None if capture is None else capture.id, asked.body)
        self.served.append(served)
        del self.served[:-KEPT]

        def over(how: str) -> None:
            served.how = how
            if self._told is not None:
                self._told(served)

        return over
