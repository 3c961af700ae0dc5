"""A gateway as it should not be. It holds answers back until it has 2 KiB, gives up on an upstream that is silent for a
minute, as nginx does unless told otherwise, and lets the upstream go on for a client that has left."""

import contextlib

import httpx
from tornado.httpserver import HTTPServer
from tornado.iostream import StreamClosedError
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

HELD_BYTES = 2048
IDLE_SECONDS = 60.0
_TIMEOUT = httpx.Timeout(None, read=IDLE_SECONDS)


class _Relay(RequestHandler):
    _left = False

    def initialize(self, upstream: str) -> None:
        self._upstream = upstream

    async def post(self) -> None:
        try:
            await self._relay()
        except httpx.TransportError as error:  # the upstream broke off or is silent, and so the gateway breaks off
            if self._left:
                return
            if self._headers_written:
                self.detach().close()
            else:
                self.send_error(504 if isinstance(error, httpx.ReadTimeout) else 502)

    async def _relay(self) -> None:
        held = bytearray()
        async with (
            httpx.AsyncClient(timeout=_TIMEOUT, trust_env=False) as client,
            client.stream("POST", self._upstream + self.request.path, content=self.request.body) as answer,
        ):
            self.set_status(answer.status_code)
            self.set_header("Content-Type", answer.headers.get("content-type", "text/event-stream"))
            async for piece in answer.aiter_bytes():
                held += piece
                if len(held) >= HELD_BYTES:
                    await self._let_out(held)
            await self._let_out(held)

    async def _let_out(self, held: bytearray) -> None:
        if not self._left:
            self.write(bytes(held))
            with contextlib.suppress(StreamClosedError):
                await self.flush()
        held.clear()

    def on_connection_close(self) -> None:
        """The client left: the answer has nowhere to go, and is read to its end all the same."""
        self._left = True


def serve(host: str, port: int, upstream: str) -> tuple[HTTPServer, int]:
    """Listen; the server and its port. Raises OSError where the address is taken."""
    server = HTTPServer(Application([(r"/.*", _Relay, {"upstream": upstream})], log_function=lambda handler: None))
    sockets = bind_sockets(port, address=host)
    server.add_sockets(sockets)
    return server, int(sockets[0].getsockname()[1])
