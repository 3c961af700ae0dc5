"""Raw bytes at both ends of a connection: the same conversation, direct and through the proxy, and how it differed."""

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from tests.live.messages import Message, messages_of

_READ = 1 << 16
_PATIENCE = 20.0  # seconds without a byte, after which a test has failed
_QUIET = 0.15  # seconds without a byte, after which a connection that nobody closes counts as kept open
_SLACK = 1.5  # the same, where something is missing still that came without the proxy

Ending = Literal["open", "closed", "reset"]


class LeftError(Exception):
    """The other side left before it sent what was waited for. The rest of the part is not played."""


@dataclass
class End:
    """One end of a connection. `seen`: all bytes that came. `ending`: how the other side left, if it did. `host`: the
    name and port of the upstream, which a client asks for."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    seen: bytearray = field(default_factory=bytearray)
    ending: Ending = "open"
    host: bytes = b""

    async def write(self, *pieces: bytes) -> None:
        """Write the pieces so that each is a segment of its own, as far as TCP lets one."""
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()
            if len(pieces) > 1:
                await asyncio.sleep(0.03)

    async def until(self, mark: bytes, times: int = 1) -> None:
        """Read until `mark` has come so many times."""
        while self.seen.count(mark) < times:
            if not await self._read(_PATIENCE):
                assert self.ending != "open", f"{mark!r} never came, only {bytes(self.seen[-300:])!r}"
                raise LeftError

    async def to_the_end(self) -> None:
        """Read until the other side ends its half of the connection."""
        while await self._read(_PATIENCE):
            pass

    async def rest(self, like: "End | None" = None) -> None:
        """Read until the other side ends the connection, or nothing more comes, and more patiently than that where less
        came than at the end that this one should be like."""
        while self.ending == "open":
            missing = like is not None and (len(self.seen) < len(like.seen) or like.ending != "open")
            if not await self._read(_SLACK if missing else _QUIET):
                return

    async def _read(self, patience: float) -> bool:
        try:
            data = await asyncio.wait_for(self.reader.read(_READ), patience)
        except TimeoutError:
            return False
        except (ConnectionError, ssl.SSLError):
            self.ending = "reset"
            return False
        self.seen += data
        if not data:
            self.ending = "closed"
        return bool(data)

    def reset(self) -> None:
        """Leave with RST."""
        raw = self.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


type Part = Callable[[End], Awaitable[None]]


@dataclass(frozen=True)
class Conversation:
    """What the client does and what the upstream does.

    `differs`: names of DIFFERENCES that are known to show here; none else may, and each has to.
    """

    name: str
    client: Part
    upstream: Part
    differs: frozenset[str] = frozenset()
    method: str = "POST"
    """Of the requests, which decides what may follow a response head."""
    over_tls: bool = True
    """Whether TLS has it; asyncio's TLS cannot close one half."""


@dataclass
class Seen:
    """What the client saw, and what the upstream saw on each connection that was made to it."""

    client: End
    upstream: list[End]


@dataclass
class Wire:
    """An upstream that does what the conversation of the moment says, one at a time."""

    host: str = "127.0.0.1"
    tls: ssl.SSLContext | None = None
    port: int = 0
    part: Part | None = None
    """What the upstream does on each connection."""
    _ends: list[End] = field(default_factory=list)
    _serving: set["asyncio.Task[None]"] = field(default_factory=set)
    errors: list[BaseException] = field(default_factory=list)

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else "localhost" if self.tls else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}"

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator["Wire"]:
        """Listen on a free port."""
        server = await asyncio.start_server(self._serve, self.host, 0, ssl=self.tls)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()

    async def play(
        self, talk: Conversation, address: tuple[str, int], tls: ssl.SSLContext | None = None, like: Seen | None = None
    ) -> Seen:
        """The conversation once, with a client that connects to this address. `like`: how it went without a proxy."""
        self.part, self._ends, self.errors = talk.upstream, [], []
        name = "localhost" if tls else None
        client = End(*await asyncio.open_connection(*address, ssl=tls, server_hostname=name))
        client.host = self.url.partition("//")[2].encode()
        with contextlib.suppress(LeftError, ConnectionError):
            await talk.client(client)
        await client.rest(like.client if like else None)
        client.writer.close()
        if self._serving:
            _, stuck = await asyncio.wait(set(self._serving), timeout=_PATIENCE)
            assert not stuck, "the upstream was never told that the client left"
        assert not self.errors, self.errors
        return Seen(client, self._ends)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        end, task, part = End(reader, writer), asyncio.current_task(), self.part
        assert task is not None
        assert part is not None
        self._ends.append(end)
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        try:
            await part(end)
            if end.ending == "open":
                await end.to_the_end()
        except LeftError:
            pass
        except ConnectionError:
            end.ending = "reset"
        except AssertionError as error:
            self.errors.append(error)
        finally:
            writer.close()


def differences(direct: Seen, through: Seen, method: str) -> Iterator[tuple[str, object, object]]:
    """In what the two differ: key, what was seen direct, what through the proxy."""
    sides = (
        ("response", direct.client, through.client),
        ("request", direct.upstream[0] if direct.upstream else None, through.upstream[0] if through.upstream else None),
    )
    if len(direct.upstream) != len(through.upstream):
        yield "connections to the upstream", len(direct.upstream), len(through.upstream)
    for side, one, other in sides:
        if one is None or other is None:
            continue
        if one.ending != other.ending:
            yield f"{side} ending", one.ending, other.ending
        ours, theirs = (messages_of(bytes(end.seen), method) for end in (one, other))
        if len(ours) != len(theirs):
            yield f"{side} count", [each.start for each in ours], [each.start for each in theirs]
            continue
        for left, right in zip(ours, theirs, strict=True):
            yield from _of_message(side, left, right)


def _of_message(side: str, one: Message, other: Message) -> Iterator[tuple[str, object, object]]:
    for what in ("start", "body", "extensions", "trailers", "complete"):
        left, right = getattr(one, what), getattr(other, what)
        if left != right:
            yield f"{side} {what}", left, right
    if one.headers == other.headers:
        return
    names = {name.lower() for name, _ in (*one.headers, *other.headers)}
    changed = False
    for name in sorted(names):
        left, right = ([pair for pair in each.headers if pair[0].lower() == name] for each in (one, other))
        if left != right:
            changed = True
            yield f"{side} header {name}", left, right
    if not changed:
        yield f"{side} header order", one.headers, other.headers
