"""The server that Envoy tells of its traffic: external processing, and an access log for how exchanges ended.

It answers nothing: a stream of messages is read to its end. Where an exchange is none of ours, its stream is closed at
once, which tells Envoy to send no more of it.
"""

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import AsyncIterator
from time import monotonic_ns
from typing import Any

import grpc

from sidecar.capture.capture import Capture
from sidecar.capture.interest import Chooser
from sidecar.envoy.ends import Ends, entry_of
from sidecar.envoy.exchange import UPSTREAM, Context, EnvoyExchange
from sidecar.envoy.protocol import Nothing, handlers
from sidecar.failures import log_failure

logger = logging.getLogger(__name__)

_MESSAGE = 64 * 1024 * 1024  # bytes of one message; Envoy sends what it has in its buffers
_SAME_HOST = ("unix:", "ipv4:127.", "ipv6:[::1]", "ipv6:%5B::1%5D")  # how gRPC writes a peer
_STOP = 1.0  # seconds that streams in flight get at shutdown


class EnvoyServer:
    """Puts what it is told into the outbox of `capture`. More than `max_streams` at once are refused."""

    def __init__(
        self,
        target: str,
        capture: Capture,
        chooser: Chooser,
        allowed_headers: frozenset[str],
        *,
        max_streams: int,
    ) -> None:
        self._target = target
        self._max_streams = max_streams
        self._context = Context(capture, chooser, allowed_headers, secrets.token_bytes(32))
        self.told: Counter[str] = Counter()
        """How streams went: `copied`, `passed` (none of ours), `broken_off` (copied, and nothing told of its end),
        `dropped` (copied until the outbox was full), `refused` (too many), `failed` (an exception: a bug of ours)."""
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

    async def read(self, messages: AsyncIterator[Any], upstream: str, *, same_host: bool) -> None:
        """One exchange."""
        if self.streams >= self._max_streams:
            self.told["refused"] += 1
            return
        self.streams += 1
        exchange = EnvoyExchange(self._context, upstream, same_clock=same_host)
        how = "copied"
        try:
            how = await self._follow(exchange, messages)
        except asyncio.CancelledError:  # the connection to Envoy broke
            how = self._broken_off(exchange)
            raise
        except Exception as error:  # noqa: BLE001  # a bug costs this exchange its verdict, the others go on
            how = "failed"
            log_failure(logger, "reading what Envoy tells", error)
            exchange.broken_off(None)
        finally:
            self.streams -= 1
            exchange.release()
            self.told[how] += 1

    async def _follow(self, exchange: EnvoyExchange, messages: AsyncIterator[Any]) -> str:
        async for message in messages:
            exchange.take(message)
            if exchange.over:
                return "copied"
            if exchange.lost:  # no verdict to come: no use in being told the rest
                exchange.broken_off(None)
                return "dropped"
            if not exchange.wanted:
                break
        return self._broken_off(exchange)

    def _broken_off(self, exchange: EnvoyExchange) -> str:
        if exchange.over:
            return "copied"
        told = self._ends.take(exchange.key)
        if not exchange.broken_off(told):
            return "passed"
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
