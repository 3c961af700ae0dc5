"""HTTP/2 at both ends of a connection, as events: the same conversation, direct and through the proxy, and how it differed."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import h2.config
import h2.connection
import h2.events
from h2.errors import ErrorCodes
from hyperframe.frame import GoAwayFrame

_READ = 1 << 16
_PATIENCE = 20.0  # seconds without a byte, after which a test has failed
_QUIET = 0.4  # seconds without a byte, after which nothing more is expected
_HEADER_LIST = 1 << 22

type Fields = Sequence[tuple[str, str]]


class LeftError(Exception):
    """The other side closed the connection before what was waited for came."""


@dataclass
class Stream:
    """What came on one stream."""

    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    interim: list[list[tuple[bytes, bytes]]] = field(default_factory=list)
    data: bytes = b""
    trailers: list[tuple[bytes, bytes]] = field(default_factory=list)
    ended: bool = False
    reset: str = ""
    """Name of the code of RST_STREAM."""


@dataclass
class End:
    """One end. `streams` in the order in which they came; `goaway` is the name of the code, and the last stream."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    client: bool
    streams: dict[int, Stream] = field(default_factory=dict)
    goaway: str = ""
    closed: bool = False

    def __post_init__(self) -> None:
        self.http = h2.connection.H2Connection(
            h2.config.H2Configuration(
                client_side=self.client,
                header_encoding=False,
                validate_inbound_headers=False,
                validate_outbound_headers=False,
                normalize_inbound_headers=False,
                normalize_outbound_headers=False,
            )
        )
        self.http.decoder.max_header_list_size = _HEADER_LIST
        self.http._frame_dispatch_table[GoAwayFrame] = self._gone  # hyper-h2 would hear no more
        self.http.initiate_connection()

    def _gone(self, frame: Any) -> tuple[list[Any], list[h2.events.Event]]:
        self.goaway = ErrorCodes(frame.error_code).name
        return [], []

    async def flush(self) -> None:
        """Write what there is to say."""
        self.writer.write(self.http.data_to_send())
        await self.writer.drain()

    async def ask(self, *fields: tuple[str, str], body: bytes | None = None, end: bool = True) -> int:
        """Begin a stream with a request; its number."""
        stream = self.http.get_next_available_stream_id()
        pseudo = [(":method", "POST" if body is not None else "GET"), (":scheme", "https"), (":authority", HOST[0])]
        given = dict(field for field in fields if field[0].startswith(":"))
        pseudo = [(name, given.get(name, value)) for name, value in [*pseudo, (":path", "/v1/chat/completions")]]
        head = [*pseudo, *(field for field in fields if field[0] not in given)]
        self.http.send_headers(stream, head, end_stream=body is None)
        self.streams[stream] = Stream()
        if body is not None:
            self.http.send_data(stream, body, end_stream=end)
        await self.flush()
        return stream

    async def say(self, stream: int, *pieces: bytes, end: bool = False, trailers: Fields = ()) -> None:
        """Data on a stream, each piece on its own, and how it ends."""
        for piece in pieces:
            self.http.send_data(stream, piece)
            await self.flush()
            await asyncio.sleep(0.02)
        if trailers:
            self.http.send_headers(stream, trailers, end_stream=True)
        elif end:
            self.http.end_stream(stream)
        await self.flush()

    async def answer(self, stream: int, *fields: tuple[str, str], status: int = 200, end: bool = False) -> None:
        """The head of an answer."""
        self.http.send_headers(stream, [(":status", str(status)), *fields], end_stream=end)
        await self.flush()

    async def reset(self, stream: int, code: ErrorCodes) -> None:
        self.http.reset_stream(stream, code)
        await self.flush()

    async def leave(self, code: ErrorCodes, last: int | None = None) -> None:
        """GOAWAY; hyper-h2 would say nothing more, so that its state is left as it was."""
        state = self.http.state_machine.state
        self.http.close_connection(code, last_stream_id=last)
        self.http.state_machine.state = state
        await self.flush()

    async def request(self, number: int = 1, *, whole: bool = True) -> int:
        """Of an upstream: wait for the so-manieth request; its stream."""
        await self.until(lambda: len(self.streams) >= number)
        stream = list(self.streams)[number - 1]
        if whole:
            await self.until(lambda: self.streams[stream].ended)
        return stream

    async def until(self, found: Callable[[], bool]) -> None:
        """Read until this is so."""
        while not found():
            if not await self._read(_PATIENCE):
                assert self.closed, "it never came"
                raise LeftError

    async def over(self, stream: int) -> None:
        """Read until a stream has ended in whatever way."""
        await self.until(lambda: self.streams[stream].ended or bool(self.streams[stream].reset))

    async def rest(self) -> None:
        """Read until nothing more comes."""
        while not self.closed and await self._read(_QUIET):
            pass

    async def _read(self, patience: float) -> bool:
        try:
            data = await asyncio.wait_for(self.reader.read(_READ), patience)
        except TimeoutError:
            return False
        except (ConnectionError, ssl.SSLError):
            data = b""
        if not data:
            self.closed = True
            return False
        for event in self.http.receive_data(data):
            self._note(event)
        with contextlib.suppress(ConnectionError):
            await self.flush()
        return True

    def _note(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.RequestReceived() | h2.events.ResponseReceived():
                stream = self.streams.setdefault(event.stream_id, Stream())
                stream.headers = [(bytes(name), bytes(value)) for name, value in event.headers]
            case h2.events.InformationalResponseReceived():
                self.streams[event.stream_id].interim.append([(bytes(a), bytes(b)) for a, b in event.headers])
            case h2.events.DataReceived():
                self.streams[event.stream_id].data += event.data
                self.http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case h2.events.TrailersReceived():
                self.streams[event.stream_id].trailers = [(bytes(a), bytes(b)) for a, b in event.headers]
            case h2.events.StreamEnded():
                self.streams[event.stream_id].ended = True
            case h2.events.StreamReset():
                if event.remote_reset and event.stream_id in self.streams:
                    self.streams[event.stream_id].reset = ErrorCodes(event.error_code).name


HOST = [""]
"""Name and port of the upstream, which clients ask for with and without the proxy."""

type Part = Callable[[End], Awaitable[None]]


@dataclass(frozen=True)
class Talk:
    """What the client does and what the upstream does; `differs` as in `wire.Conversation`."""

    name: str
    client: Part
    upstream: Part
    differs: frozenset[str] = frozenset()


@dataclass
class Seen:
    client: End
    upstream: list[End]


@dataclass
class H2Wire:
    """An upstream that does what the conversation of the moment says."""

    tls: ssl.SSLContext
    port: int = 0
    part: Part | None = None
    _ends: list[End] = field(default_factory=list)
    _serving: set["asyncio.Task[None]"] = field(default_factory=set)

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator["H2Wire"]:
        self.tls.set_alpn_protocols(["h2"])
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.tls)
        self.port = server.sockets[0].getsockname()[1]
        HOST[0] = f"localhost:{self.port}"
        try:
            yield self
        finally:
            server.close()

    async def play(self, talk: Talk, port: int, tls: ssl.SSLContext) -> Seen:
        """The conversation once, with a client that connects to this port."""
        self.part, self._ends = talk.upstream, []
        tls.set_alpn_protocols(["h2"])
        client = End(*await asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname="localhost"), True)
        await client.flush()
        with contextlib.suppress(LeftError, ConnectionError):
            await talk.client(client)
        await client.rest()
        client.writer.close()
        if self._serving:
            await asyncio.wait(set(self._serving), timeout=_PATIENCE)
        return Seen(client, self._ends)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task, part = asyncio.current_task(), self.part
        assert task is not None
        assert part is not None
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        end = End(reader, writer, False)
        self._ends.append(end)
        with contextlib.suppress(LeftError, ConnectionError):
            await end.flush()
            await part(end)
        with contextlib.suppress(LeftError, ConnectionError):
            await end.until(lambda: end.closed)
        writer.close()


def differences(direct: Seen, through: Seen) -> Iterator[tuple[str, object, object]]:
    """In what the two differ: key, what was seen direct, what through the proxy."""
    one, other = ([stream for end in seen.upstream for stream in end.streams.values()] for seen in (direct, through))
    sides = (
        ("response", list(direct.client.streams.values()), list(through.client.streams.values())),
        ("request", one, other),
    )
    if direct.client.goaway != through.client.goaway:
        yield "goaway to the client", direct.client.goaway, through.client.goaway
    ours, theirs = ([end.goaway for end in seen.upstream] for seen in (direct, through))
    if ours != theirs:
        yield "goaway to the upstream", ours, theirs
    if direct.client.closed != through.client.closed:
        yield "connection of the client closed", direct.client.closed, through.client.closed
    for side, left, right in sides:
        if len(left) != len(right):
            yield f"{side} count", left, right
            continue
        for a, b in zip(left, right, strict=True):
            yield from _of_stream(side, a, b)


def _of_stream(side: str, one: Stream, other: Stream) -> Iterator[tuple[str, object, object]]:
    for what in ("interim", "data", "trailers", "ended", "reset"):
        if getattr(one, what) != getattr(other, what):
            yield (
                f"{side} {what}",
                getattr(one, what)[-200:] if what == "data" else getattr(one, what),
                getattr(other, what),
            )
    for wanted, what in ((True, "pseudo-headers"), (False, "headers")):
        left, right = ([pair for pair in each.headers if pair[0].startswith(b":") is wanted] for each in (one, other))
        if left != right:
            yield f"{side} {what}{' order' if sorted(left) == sorted(right) else ''}", left, right
