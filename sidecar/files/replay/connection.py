"""One connection of a client: HTTP/1.1 by h11, so that each recorded chunk is one write and the end is ours to choose."""

import asyncio
import contextlib
import fcntl
import json
import socket
import struct
import sys
import termios
from collections.abc import Callable
from http import HTTPStatus

import h11

from sidecar.capture.records import RESET
from sidecar.files.capture import Capture
from sidecar.files.replay.clock import Clock
from sidecar.files.replay.recordings import Asked, Recordings, is_socket
from sidecar.files.replay.websocket import play_socket

READ = 1 << 16
BODY_LIMIT = 256 * 1024 * 1024
_HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_BODILESS = frozenset({204, 304})
_BEFORE_RESET = 0.05
"""Seconds in which the peer can read what a reset might overtake."""
_UNSENT_LOOKS = 100


class Refused(Exception):
    """A request that cannot be served; status and words for the client."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


class Connection:
    """The server's end of one connection. `begin` is told of each request and its recording (None where nothing matched)
    before the first byte of the answer; what it returns is told how the exchange ended."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        recordings: Recordings,
        speed: float,
        begin: Callable[[Capture | None, Asked], Callable[[str], None]],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._recordings = recordings
        self._speed = speed
        self._begin = begin
        self._http = h11.Connection(h11.SERVER)

    async def serve(self) -> None:
        """Answer requests until one of both sides is done. ConnectionError where the client leaves in the middle."""
        while True:
            try:
                asked = await self._request()
            except h11.RemoteProtocolError as error:
                await self._refuse(Refused(400, f"this is no request of HTTP/1.1: {error}"))
                return
            except Refused as refused:
                await self._refuse(refused)
                return
            if asked is None:
                return
            await self._answer(asked)
            if not (self._http.our_state is h11.DONE and self._http.their_state is h11.DONE):
                return
            self._http.start_next_cycle()

    async def _request(self) -> Asked | None:
        """The next request, read to its end; None where no more comes."""
        request: h11.Request | None = None
        body = bytearray()
        while True:
            if self._http.they_are_waiting_for_100_continue:
                await self._send(h11.InformationalResponse(status_code=100, headers=[]))
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                self._http.receive_data(await self._reader.read(READ))
            elif isinstance(event, h11.Request):
                request = event
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > BODY_LIMIT:
                    raise Refused(413, f"the request is larger than {BODY_LIMIT >> 20} MiB")
            elif isinstance(event, h11.EndOfMessage):
                assert request is not None
                return _asked(request, bytes(body))
            else:
                return None

    async def _answer(self, asked: Asked) -> None:
        capture = self._recordings.pick(asked)
        over = self._begin(capture, asked)
        if capture is None:
            words = self._recordings.why_not(asked)
            await self._json(
                404, {"error": {"message": words, "type": "no_recording"}, "recorded": self._recordings.places}
            )
            over(words)
            return
        how = "client left"
        try:
            how = await self._play(capture, asked)
        finally:
            over(how)

    async def _play(self, capture: Capture, asked: Asked) -> str:
        clock = Clock(self._speed)
        end, response = capture.end, capture.response
        if is_socket(capture):
            link = self._http, self._reader, self._writer
            how = await play_socket(capture, asked, link, clock)
            if how == "reset":
                await self._reset()
            return how
        if response is None:
            await clock.until(end.at_ms)
            return await self._hang() if end.kind in ("open", "client_disconnect") else await self._reset()
        await clock.until(response.at_ms or 0.0)
        if response.http_version == "HTTP/1.0" and not _length(response.headers):
            self._http.their_http_version = b"1.0"  # else h11 would choose chunks where the close was the end
        await self._send(
            h11.Response(
                status_code=response.status, headers=_headers(capture, asked.method), reason=_reason(response.status)
            )
        )
        if asked.method != "HEAD" and response.status not in _BODILESS:
            for chunk in capture.chunks:
                await clock.until(chunk.at_ms)
                await self._send(h11.Data(data=chunk.data()))
        await clock.until(end.at_ms)
        if end.kind == "eof":
            await self._send(h11.EndOfMessage())
            return "ended"
        if end.kind in ("open", "client_disconnect"):
            return await self._hang()
        closed = "incomplete" in end.error and not end.error.startswith(RESET)
        return await (self._cut_off() if closed else self._reset())

    async def _send(self, event: h11.Event) -> None:
        """One event of the protocol in one write."""
        data = self._http.send(event)
        if data:
            self._writer.write(data)
            await self._writer.drain()

    async def _json(self, status: int, value: dict[str, object]) -> None:
        body = json.dumps(value, indent=1).encode() + b"\n"
        headers = [("content-type", "application/json"), ("content-length", str(len(body)))]
        await self._send(h11.Response(status_code=status, headers=headers, reason=_reason(status)))
        await self._send(h11.Data(data=body))
        await self._send(h11.EndOfMessage())

    async def _refuse(self, refused: Refused) -> None:
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            await self._json(refused.status, {"error": {"message": str(refused), "type": "bad_request"}})

    async def _hang(self) -> str:
        """Stay open, silent, until the client leaves."""
        with contextlib.suppress(ConnectionError):
            while await self._reader.read(READ):
                pass
        self._http.send_failed()
        return "client left"

    async def _cut_off(self) -> str:
        """Close in good order in the middle of the body."""
        self._http.send_failed()
        return "cut off"

    async def _reset(self) -> str:
        """Break the connection with RST, when what was written has arrived: a reset throws away what has not."""
        if self._http.our_state is not h11.ERROR:
            self._http.send_failed()
        raw = self._writer.get_extra_info("socket")
        for _ in range(_UNSENT_LOOKS):
            await asyncio.sleep(_BEFORE_RESET)
            if not _unsent(raw):
                break
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()
        return "reset"


def _unsent(raw: socket.socket) -> int:
    """Bytes that the peer's kernel has not acknowledged; 0 where the system does not say."""
    if sys.platform != "linux":
        return 0
    with contextlib.suppress(OSError):
        return int.from_bytes(fcntl.ioctl(raw.fileno(), termios.TIOCOUTQ, bytes(4)), sys.byteorder)
    return 0


def _asked(request: h11.Request, body: bytes) -> Asked:
    headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers]
    upgrade = any(name == "upgrade" and "websocket" in value.lower() for name, value in headers)
    return Asked(request.method.decode("latin-1"), request.target.decode("latin-1"), headers, body, upgrade)


def _reason(status: int) -> str:
    with contextlib.suppress(ValueError):
        return HTTPStatus(status).phrase
    return ""


def _headers(capture: Capture, method: str) -> list[tuple[str, str]]:
    """Headers as recorded, without those of a hop. The length is kept where it is that of what follows."""
    assert capture.response is not None
    kept = [pair for pair in capture.response.headers if _sendable(pair)]
    length = _length(kept)
    size = sum(len(chunk.data()) for chunk in capture.chunks)
    told = length is not None and length.isdigit()
    fits = told and (size == int(length or 0) or (size < int(length or 0) and capture.end.kind != "eof"))
    if not (fits or (told and method == "HEAD")):
        kept = [(name, value) for name, value in kept if name.lower() != "content-length"]
    return kept


def _length(headers: list[tuple[str, str]]) -> str | None:
    return next((value for name, value in headers if name.lower() == "content-length"), None)


def _sendable(header: tuple[str, str]) -> bool:
    if header[0].lower() in _HOP_BY_HOP:
        return False
    try:
        h11.Response(status_code=200, headers=[header])
    except (h11.LocalProtocolError, UnicodeError):
        return False  # what no server may send; the proxy that recorded it was more lenient
    return True
