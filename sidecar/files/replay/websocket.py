"""The server's part of a recorded WebSocket, in step with whatever client is at the other end."""

import asyncio
import contextlib
import json
from typing import Any

import h11
from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Event, Ping, TextMessage
from wsproto.utilities import LocalProtocolError, RemoteProtocolError, generate_accept_token

from sidecar.capture.records import NO_CLOSE_FRAME
from sidecar.files.capture import Capture, MessagePart
from sidecar.files.replay.clock import Clock
from sidecar.files.replay.recordings import Asked

type Link = tuple[h11.Connection, asyncio.StreamReader, asyncio.StreamWriter]

_READ = 1 << 16
_GONE = None
"""In place of a message: the client has closed or left."""
_CLOSING_SECONDS = 10.0


async def play_socket(capture: Capture, asked: Asked, link: Link, clock: Clock) -> str:
    """Accept the upgrade and play; how it ended. `reset` is left to the caller."""
    http, _, writer = link
    headers = [("upgrade", "websocket"), ("connection", "upgrade"), *_accepted(capture, asked)]
    writer.write(
        http.send(h11.InformationalResponse(status_code=101, headers=headers, reason="Switching Protocols")) or b""
    )
    await writer.drain()
    stage = _Stage(link)
    listening = asyncio.ensure_future(stage.listen())
    try:
        return await _act(capture, stage, clock)
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


def _accepted(capture: Capture, asked: Asked) -> list[tuple[str, str]]:
    """Headers of the acceptance. A subprotocol is chosen where one was; the recorded one, if the client offers it."""
    given = dict(asked.headers)
    found = [("sec-websocket-accept", generate_accept_token(given.get("sec-websocket-key", "").encode()).decode())]
    assert capture.response is not None
    recorded = next((v for n, v in capture.response.headers if n.lower() == "sec-websocket-protocol"), None)
    offered = [name.strip() for name in given.get("sec-websocket-protocol", "").split(",") if name.strip()]
    if offered and recorded is not None:
        found.append(("sec-websocket-protocol", recorded if recorded in offered else offered[0]))
    return found


class _Stage:
    """One open socket: what the client sent, and the means to answer."""

    def __init__(self, link: Link) -> None:
        http, self._reader, self._writer = link
        self._ws = Connection(ConnectionType.SERVER, trailing_data=http.trailing_data[0])
        self._came: asyncio.Queue[str | None] = asyncio.Queue()

    async def listen(self) -> None:
        """Read until the client is gone; pings are answered."""
        kind = ""
        with contextlib.suppress(ConnectionError, RemoteProtocolError):
            while True:
                for event in self._ws.events():
                    if isinstance(event, Ping):
                        await self.send(event.response())
                    elif isinstance(event, CloseConnection):
                        if self._ws.state is ConnectionState.REMOTE_CLOSING:
                            await self.send(event.response())
                        self._came.put_nowait(_GONE)
                        return
                    elif isinstance(event, TextMessage | BytesMessage):
                        kind = kind or kind_of(event.data)
                        if event.message_finished:
                            self._came.put_nowait(kind)
                            kind = ""
                data = await self._reader.read(_READ)
                self._ws.receive_data(data or None)
        self._came.put_nowait(_GONE)

    async def send(self, event: Event) -> None:
        """One event; ConnectionError where the socket is closed."""
        try:
            self._writer.write(self._ws.send(event))
        except LocalProtocolError as error:
            raise ConnectionResetError(str(error)) from error
        await self._writer.drain()

    async def message(self) -> str | None:
        """The kind of the client's next message, or None once it has gone."""
        kind = await self._came.get()
        if kind is _GONE:
            self._came.put_nowait(_GONE)
        return kind

    def gone(self) -> bool:
        """Whether the client has closed, as far as was read."""
        return self._ws.state is not ConnectionState.OPEN


async def _act(capture: Capture, stage: _Stage, clock: Clock) -> str:
    messages, number, last = capture.messages, 0, ""
    while number < len(messages):
        message = messages[number]
        if message.sender == "server":
            await clock.until(message.at_ms)
            if stage.gone():
                return "client left"
            await stage.send(_event(message))
            number += 1
            continue
        kind = await stage.message()
        if kind is _GONE:
            return "client left"
        reached = _place(messages, number, kind, last)
        if reached is not None:
            clock.set(messages[reached].at_ms)
            last, number = kind, _behind(messages, reached, kind)
    end = capture.end
    if end.kind in ("open", "client_disconnect"):
        while await stage.message() is not _GONE:
            pass
        return "client left"
    await clock.until(end.at_ms)
    if end.kind != "eof" or end.code == NO_CLOSE_FRAME:
        return "reset"
    with contextlib.suppress(ConnectionError):
        await stage.send(CloseConnection(code=end.code or 1000, reason=end.reason or None))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSING_SECONDS):
                while await stage.message() is not _GONE:
                    pass
    return f"closed with code {end.code or 1000}"


def _place(messages: list[MessagePart], number: int, kind: str, last: str) -> int | None:
    """Which of the recorded messages of the client's, from `number` to the next of the server's, one of this kind stands
    for; None where it is one more piece of what came before."""
    run = number
    while run < len(messages) and messages[run].sender == "client":
        if kind_of(messages[run].data()) == kind:
            return run
        run += 1
    return None if kind == last and _is_piece(kind) else number


def _behind(messages: list[MessagePart], reached: int, kind: str) -> int:
    """Where it goes on: behind all pieces of the same, for a client may send audio in more or fewer than recorded."""
    after = reached + 1
    while _is_piece(kind) and after < len(messages) and messages[after].sender == "client":
        if kind_of(messages[after].data()) != kind:
            break
        after += 1
    return after


def _is_piece(kind: str) -> bool:
    """Whether messages of this kind are pieces of something longer."""
    return kind in ("", "realtimeInput", "realtime_input") or kind.endswith(".append")


def kind_of(data: str | bytes | bytearray) -> str:
    """What a message is by its `type`, or the names of its fields; empty where it is no JSON object."""
    try:
        value: Any = json.loads(data)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(value, dict):
        return ""
    kind = value.get("type")
    return kind if isinstance(kind, str) else ",".join(sorted(value))


def _event(message: MessagePart) -> Event:
    data = message.data()
    if not message.binary:
        with contextlib.suppress(UnicodeDecodeError):
            return TextMessage(data=data.decode())
    return BytesMessage(data=data)
