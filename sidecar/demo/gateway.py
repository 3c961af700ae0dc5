"""A gateway as it should not be: passes requests on and holds the answer back until it has 2 KiB of it."""

import httpx
from tornado.httpserver import HTTPServer
from tornado.iostream import StreamClosedError
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

HELD_BYTES = 2048


class _Relay(RequestHandler):
    def initialize(self, upstream: str) -> None:
        self._upstream = upstream

    async def post(self) -> None:
        try:
            await self._relay()
        except StreamClosedError:
            pass  # the client left
        except httpx.TransportError:  # the upstream broke off, and so does the gateway
            if self._headers_written:
                self.detach().close()
            else:
                self.send_error(502)

    async def _relay(self) -> None:
        held = bytearray()
        async with (
            httpx.AsyncClient(timeout=None, trust_env=False) as client,  # noqa: S113  # the client's patience is enough
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
        self.write(bytes(held))
        held.clear()
        await self.flush()


def serve(host: str, port: int, upstream: str) -> tuple[HTTPServer, int]:
    """Listen; the server and its port. Raises OSError where the address is taken."""
    server = HTTPServer(Application([(r"/.*", _Relay, {"upstream": upstream})], log_function=lambda handler: None))
    sockets = bind_sockets(port, address=host)
    server.add_sockets(sockets)
    return server, int(sockets[0].getsockname()[1])
