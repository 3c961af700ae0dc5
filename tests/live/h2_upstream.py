"""The upstream over HTTP/2: hypercorn serving an ASGI application that plays exchanges."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from time import monotonic_ns
from typing import Any

from hypercorn.asyncio import serve
from hypercorn.config import Config

from tests.live.exchanges import CASE, Exchange
from tests.live.tls import Certificate


@dataclass
class H2Play:
    """What the application saw and when it sent what."""

    http_version: str
    connection: Any
    """The peer's address: the same for all streams of a connection."""
    request_body: bytes = b""
    request_at: int = 0
    pieces: list[tuple[int, int]] = field(default_factory=list)
    """Before and after each write."""
    client_left: bool = False
    """The peer reset the stream, or closed the connection, before the end."""


@dataclass
class H2Upstream:
    """Plays exchanges by the header `x-case`."""

    exchanges: dict[str, Exchange] = field(default_factory=dict)
    plays: dict[str, H2Play] = field(default_factory=dict)
    at_once: int = 0
    """Most exchanges that were in flight at the same time."""
    port: int = 0
    _active: int = 0

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}"

    @contextlib.asynccontextmanager
    async def serving(self, certificate: Certificate) -> AsyncIterator["H2Upstream"]:
        """Listen on a free port, HTTP/2 and HTTP/1.1 over TLS."""
        listening = socket.create_server(("127.0.0.1", 0))
        self.port = listening.getsockname()[1]
        config = Config()
        config.bind = [f"fd://{listening.detach()}"]
        config.certfile = config.keyfile = str(certificate.path)
        config.errorlog = None
        config.graceful_timeout = 0.2
        stop = asyncio.Event()

        async def stopping() -> None:
            await stop.wait()

        serving = asyncio.create_task(serve(self.application, config, shutdown_trigger=stopping))
        try:
            yield self
        finally:
            stop.set()
            await serving

    async def application(self, scope: Any, receive: Any, send: Any) -> None:
        """The ASGI application."""
        if scope["type"] != "http":
            return
        case = dict(scope["headers"])[CASE.encode()].decode()
        play = self.plays[case] = H2Play(scope["http_version"], tuple(scope["client"]))
        self._active += 1
        self.at_once = max(self.at_once, self._active)
        try:
            await self._play(self.exchanges[case], play, receive, send)
        finally:
            self._active -= 1

    async def _play(self, exchange: Exchange, play: H2Play, receive: Any, send: Any) -> None:
        more = True
        while more:
            message = await receive()
            play.request_body += message.get("body", b"")
            more = message.get("more_body", False)
        play.request_at = monotonic_ns()
        leaving = asyncio.create_task(_leaves(receive))
        try:
            await self._answer(exchange, play, send, leaving)
        finally:
            leaving.cancel()

    async def _answer(self, exchange: Exchange, play: H2Play, send: Any, leaving: "asyncio.Task[None]") -> None:
        headers = [(name.encode(), value.encode()) for name, value in exchange.headers]
        now = 0.0
        await send({"type": "http.response.start", "status": exchange.status, "headers": headers})
        for piece in exchange.pieces:
            await asyncio.wait([leaving], timeout=piece.at - now)
            now = piece.at
            if leaving.done():
                play.client_left = True
                return
            before = monotonic_ns()
            await send({"type": "http.response.body", "body": piece.data, "more_body": True})
            play.pieces.append((before, monotonic_ns()))
        await asyncio.sleep(max(exchange.end_at - now, 0))
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _leaves(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
