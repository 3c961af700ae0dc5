"""Plays captured WebSockets between a client and an upstream, in step: a message goes out when the one before it has
arrived at the other end. Both ends note every frame they send and receive."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame
from websockets.http11 import Request, Response

from sidecar.files.capture import Capture, MessagePart
from tests.live.exchanges import CASE

_PATIENCE = 20.0
_ABNORMAL = 1006

type Noted = tuple[int, bool, bytes]
"""Opcode, whether it is the last of its message, payload after inflation."""


@dataclass
class End:
    """What one end saw."""

    sent: list[Noted] = field(default_factory=list)
    received: list[Noted] = field(default_factory=list)
    path: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    close_code: int | None = None
    close_reason: str = ""


def _note(connection: Any, end: End) -> None:
    """Let a connection write down what it sends."""
    send = connection.protocol.send_frame

    def noted(frame: Frame) -> None:
        end.sent.append((frame.opcode, frame.fin, bytes(frame.data)))
        send(frame)

    connection.protocol.send_frame = noted


class _Client(ClientConnection):
    seen: End

    def process_event(self, event: Any) -> None:
        if isinstance(event, Frame):
            self.seen.received.append((event.opcode, event.fin, bytes(event.data)))
        super().process_event(event)


class _Upstream(ServerConnection):
    seen: End

    def process_event(self, event: Any) -> None:
        if isinstance(event, Frame):
            self.seen.received.append((event.opcode, event.fin, bytes(event.data)))
        super().process_event(event)


def _client(*arguments: Any, **options: Any) -> _Client:
    connection = _Client(*arguments, **options)
    connection.seen = End()
    _note(connection, connection.seen)
    return connection


def _upstream(*arguments: Any, **options: Any) -> _Upstream:
    connection = _Upstream(*arguments, **options)
    connection.seen = End()
    _note(connection, connection.seen)
    return connection


@dataclass
class SocketPlayer:
    """An upstream of WebSockets. `refuse` are the statuses with which upgrades are answered, by case; `scripts` the
    captures whose server it plays by itself, each message of the client's awaited, whatever it says."""

    port: int = 0
    refuse: dict[str, int] = field(default_factory=dict)
    scripts: dict[str, Capture] = field(default_factory=dict)
    accepted: dict[str, "asyncio.Future[ServerConnection]"] = field(default_factory=dict)
    _leave: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}"

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator["SocketPlayer"]:
        """Listen on a free port."""
        server: Server
        async with serve(
            self._accept,
            "127.0.0.1",
            0,
            process_request=self._refuse,
            select_subprotocol=lambda connection, offered: offered[0] if offered else None,
            create_connection=_upstream,  # type: ignore[arg-type]  # a function that makes one does as well
            max_size=None,
            ping_interval=None,
        ) as server:
            self.port = next(iter(server.sockets)).getsockname()[1]
            yield self
            self._leave.set()

    def _refuse(self, connection: ServerConnection, request: Request) -> Response | None:
        status = self.refuse.get(request.headers.get(CASE, ""))
        return None if status is None else connection.respond(status, '{"error":{"message":"no","type":"refused"}}')

    async def _accept(self, connection: ServerConnection) -> None:
        assert connection.request is not None
        case = connection.request.headers[CASE]
        if case in self.scripts:
            await _act(connection, self.scripts[case])
            return
        self._future(case).set_result(connection)
        wait = asyncio.ensure_future(connection.wait_closed())
        leave = asyncio.ensure_future(self._leave.wait())
        await asyncio.wait([wait, leave], return_when=asyncio.FIRST_COMPLETED)
        leave.cancel()

    def _future(self, case: str) -> "asyncio.Future[ServerConnection]":
        return self.accepted.setdefault(case, asyncio.get_running_loop().create_future())

    @contextlib.asynccontextmanager
    async def meet(
        self,
        proxy: tuple[str, int],
        target: str,
        case: str,
        *,
        headers: Mapping[str, str] = {},
        subprotocols: Sequence[str] | None = None,
        compress: bool = True,
    ) -> AsyncIterator[tuple[ClientConnection, ServerConnection]]:
        """Both ends of one socket through the proxy."""
        async with connect(
            f"ws://{proxy[0]}:{proxy[1]}{target}",
            additional_headers={CASE: case, **headers},
            subprotocols=subprotocols,  # type: ignore[arg-type]  # they are plain strings
            compression="deflate" if compress else None,
            create_connection=_client,  # type: ignore[arg-type]  # as above
            proxy=None,
            max_size=None,
            ping_interval=None,
        ) as client:
            yield client, await asyncio.wait_for(self._future(case), _PATIENCE)

    async def play(
        self, proxy: tuple[str, int], capture: Capture, *, compress: bool = True, rough: bool = False
    ) -> tuple[End, End]:
        """One capture, from the upgrade to the close: what the client saw, and the upstream. `rough`: messages in
        fragments, and pings between them."""
        url = urlsplit(capture.request.url)
        target = url.path + (f"?{url.query}" if url.query else "")
        given = dict(capture.request.headers)
        offered = [name.strip() for name in given.get("sec-websocket-protocol", "").split(",") if name.strip()]
        kept: dict[str, str] = {
            name: given[name] for name in ("authorization", "openai-beta", "api-key") if name in given
        }
        async with self.meet(
            proxy, target, capture.id, headers=kept, subprotocols=offered or None, compress=compress
        ) as (client, upstream):
            for number, message in enumerate(capture.messages):
                sender, receiver = (client, upstream) if message.sender == "client" else (upstream, client)
                if rough and number % 3 == 1:
                    await asyncio.wait_for(await sender.ping(b"ping %d" % number), _PATIENCE)
                await _send(sender, message, pieces=2 + number % 3 if rough else 1)
                got = await asyncio.wait_for(receiver.recv(decode=False), _PATIENCE)
                assert got == message.data()
            await _close(capture, client, upstream)
        return _end_of(client), _end_of(upstream)


async def _send(connection: ClientConnection | ServerConnection, message: MessagePart, *, pieces: int) -> None:
    """One message, in so many fragments where its text allows."""
    data: str | bytes = message.data() if message.binary else message.data().decode("utf-8", "surrogatepass")
    if pieces == 1 or len(data) < pieces:
        await connection.send(data)
        return
    step = -(-len(data) // pieces)
    await connection.send([data[at : at + step] for at in range(0, len(data), step)])


async def _act(connection: ServerConnection, capture: Capture) -> None:
    """The server's part of a capture."""
    with contextlib.suppress(ConnectionClosed):
        for message in capture.messages:
            if message.sender == "client":
                await connection.recv()
            else:
                await _send(connection, message, pieces=1)
        await connection.wait_closed()


async def _close(capture: Capture, client: ClientConnection, upstream: ServerConnection) -> None:
    end = capture.end
    if end.code == _ABNORMAL:
        raw = upstream.transport.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        upstream.transport.abort()
    else:
        closer = upstream if end.kind == "eof" else client
        await closer.close(end.code or 1000, end.reason)
    with contextlib.suppress(ConnectionClosed):
        await asyncio.wait_for(client.recv(), _PATIENCE)
    await asyncio.wait_for(client.wait_closed(), _PATIENCE)
    await asyncio.wait_for(upstream.wait_closed(), _PATIENCE)


def _end_of(connection: Any) -> End:
    end: End = connection.seen
    end.path = connection.request.path
    end.headers = {name.lower(): value for name, value in connection.request.headers.raw_items()}
    end.close_code, end.close_reason = connection.close_code, connection.close_reason or ""
    return end
