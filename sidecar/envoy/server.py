"""The server that Envoy tells of its traffic: external processing, and an access log for how exchanges ended.

It answers nothing: a stream of messages is read to its end. Where an exchange is none of ours, its stream is closed at
once, which tells Envoy to send no more of it.
"""

import asyncio
import itertools
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from time import monotonic_ns, time_ns
from typing import Any

import grpc

from sidecar.capture.interest import Chooser
from sidecar.capture.records import AnyRecord
from sidecar.envoy.ends import Ends, entry_of
from sidecar.envoy.exchange import UPSTREAM, Context, EnvoyExchange
from sidecar.envoy.protocol import Nothing, handlers
from sidecar.failures import log_failure

logger = logging.getLogger(__name__)

CONNECTION = -1
"""The number under which the analyzer knows what comes from Envoy; those of proxies on the records socket are positive."""
_MESSAGE = 64 * 1024 * 1024  # bytes of one message; Envoy sends what it has in its buffers
_SAME_HOST = ("unix:", "ipv4:127.", "ipv6:[::1]", "ipv6:%5B::1%5D")  # how gRPC writes a peer
_STOP = 1.0  # seconds that streams in flight get at shutdown

type Sink = Callable[[int, Sequence[AnyRecord]], None]


class EnvoyServer:
    """`sink` gets the records, `closed` the number of the connection when the server stops.

    `count` is told how each stream went: `copied`, `passed` (none of ours), `broken_off` (copied, and nothing told of
    its end), `refused` (more than `max_streams` at once), `failed` (an exception: a bug of ours).
    `held`: bytes of request bodies that are held back over all exchanges until the response says that they matter.
    """

    def __init__(
        self,
        target: str,
        chooser: Chooser,
        allowed_headers: frozenset[str],
        sink: Sink,
        closed: Callable[[int], None],
        count: Callable[[str], None],
        *,
        max_streams: int,
        held: int,
    ) -> None:
        self._target = target
        self._sink = sink
        self._closed = closed
        self._count = count
        self._max_streams = max_streams
        self._held_room = held
        self._context = Context(chooser, allowed_headers, secrets.token_bytes(32), self._room)
        self._numbers = itertools.count(1)
        self._ends = Ends()
        self._server: Any = None
        self.streams = 0
        """Exchanges that Envoy is telling of now."""

    async def start(self) -> str:
        """Listen; the address, with the port that it got. Raises OSError where it cannot be bound."""
        options = [
            ("grpc.max_receive_message_length", _MESSAGE),
            ("grpc.max_concurrent_streams", 2**31 - 1),  # those beyond our own bound are refused, and counted
            ("grpc.so_reuseport", 0),  # two analyzers on one port would share the streams unnoticed
        ]
        server = grpc.aio.server(options=options)
        server.add_generic_rpc_handlers(handlers(self._process, self._listen))
        try:
            port = server.add_insecure_port(self._target)
        except RuntimeError as error:
            raise OSError("the address is in use, or none of this host") from error
        await server.start()
        self._server = server
        return self._target if self._target.startswith("unix:") else f"{self._target.rpartition(':')[0]}:{port}"

    async def stop(self) -> None:
        """Stop listening; what is in flight ends without a verdict."""
        if self._server is not None:
            await self._server.stop(_STOP)
            await _left_behind()
            self._closed(CONNECTION)

    async def _process(self, messages: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        """One stream of external processing."""
        upstream = next((value for key, value in context.invocation_metadata() or () if key == UPSTREAM), "")
        same_host = context.peer().startswith(_SAME_HOST)
        await self.read(messages, upstream if isinstance(upstream, str) else "", same_host=same_host)
        return
        yield  # a stream of answers, with none in it

    async def _listen(self, messages: AsyncIterator[Any], context: Any) -> Any:
        """One stream of the access log."""
        async for message in messages:
            self.log(message)
        return Nothing()

    def _room(self, size: int) -> bool:
        if size > self._held_room:
            return False
        self._held_room -= size
        return True

    async def read(self, messages: AsyncIterator[Any], upstream: str, *, same_host: bool) -> None:
        """One exchange."""
        if self.streams >= self._max_streams:
            self._count("refused")
            return
        self.streams += 1
        exchange = EnvoyExchange(next(self._numbers), self._context, upstream, same_clock=same_host)
        how = "copied"
        try:
            how = await self._follow(exchange, messages)
        except asyncio.CancelledError:  # the connection to Envoy broke
            how = self._broken_off(exchange)
            raise
        except Exception as error:  # noqa: BLE001  # a bug costs this exchange its verdict, the others go on
            how = "failed"
            log_failure(logger, "reading what Envoy tells", error)
            self._sink(CONNECTION, exchange.broken_off(None, monotonic_ns()))
        finally:
            self.streams -= 1
            exchange.release()
            self._count(how)

    async def _follow(self, exchange: EnvoyExchange, messages: AsyncIterator[Any]) -> str:
        async for message in messages:
            records = exchange.take(message, monotonic_ns(), time_ns())
            if records:
                self._sink(CONNECTION, records)
            if exchange.over:
                return "copied"
            if not exchange.wanted:
                break
        return self._broken_off(exchange)

    def _broken_off(self, exchange: EnvoyExchange) -> str:
        if exchange.over:
            return "copied"
        told = self._ends.take(exchange.key)
        records = exchange.broken_off(told, monotonic_ns())
        if not records:
            return "passed"
        self._sink(CONNECTION, records)
        return "copied" if told is not None else "broken_off"

    def log(self, message: Any) -> None:
        """Entries of the access log."""
        at = monotonic_ns()
        for entry in message.http_logs.log_entry:
            found = entry_of(entry, at)
            if found is not None:
                self._ends.note(*found)


async def _left_behind() -> None:
    """Wait for what gRPC still does after its stop: tasks of its own that the end of the loop would cancel, of which it
    would then print a traceback."""
    tasks = [task for task in asyncio.all_tasks() if getattr(task.get_coro(), "__name__", "") == "_schedule_rpc_coro"]
    if tasks:
        await asyncio.wait(tasks, timeout=_STOP)
