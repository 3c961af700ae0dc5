"""From the outbox to the analyzer, in batches, without ever holding up the proxy's event loop."""

import asyncio
import contextlib
import logging
from typing import Any

from sidecar.capture.capture import Capture
from sidecar.capture.outbox import Item
from sidecar.capture.records import VERSION, Hello
from sidecar.transport.wire import WireError, decode_acknowledged, decode_welcome, encode, read_message

logger = logging.getLogger(__name__)

BATCH_SECONDS = 0.01
BATCH_BYTES = 256 * 1024
_BUFFER = 1024 * 1024  # bytes asyncio may hold before the sender waits
_FIRST_RETRY, _LAST_RETRY = 0.05, 2.0


class Sender:
    """Keeps a connection to the analyzer and pumps the outbox into it. While there is none, the outbox fills."""

    def __init__(self, capture: Capture, path: str, worker: int) -> None:
        self._capture = capture
        self._path = path
        self._worker = worker
        self._ready = asyncio.Event()
        self._heard = asyncio.Event()
        self.connected = False
        self.connections = 0

    async def run(self) -> None:
        """Connect, pump, and again, until cancelled."""
        loop = asyncio.get_running_loop()

        def wake() -> None:
            loop.call_later(BATCH_SECONDS, self._ready.set)

        self._capture.outbox.wake = wake
        retry = _FIRST_RETRY
        while True:
            try:
                reader, writer = await asyncio.open_unix_connection(self._path)
            except OSError:
                await asyncio.sleep(retry)
                retry = min(retry * 2, _LAST_RETRY)
                continue
            try:
                await self._serve(reader, writer)
                retry = _FIRST_RETRY
            except (OSError, EOFError) as error:
                logger.info("analyzer connection ended: %s", error or type(error).__name__)
            except WireError as error:
                logger.warning("cannot use the analyzer at %s: %s", self._path, error)
                retry = _LAST_RETRY
            finally:
                if self.connected:
                    self.connected = False
                    self._capture.analyzer_gone()
                writer.close()
            await asyncio.sleep(retry)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.set_write_buffer_limits(high=_BUFFER)
        writer.write(encode(Hello(VERSION, self._worker)))
        welcome = decode_welcome(await read_message(reader))
        if welcome.version != VERSION:
            raise WireError(
                f"it reads records of version {welcome.version}, this proxy writes version {VERSION}: "
                "run proxy and analyzer of the same release"
            )
        self.connected = True
        self.connections += 1
        self._ready.set()  # what the connection before left behind has woken nobody since
        gone = asyncio.ensure_future(self._listen(reader))
        try:
            await self._pump(writer, gone)
        finally:
            gone.cancel()
            with contextlib.suppress(asyncio.CancelledError, OSError, EOFError, WireError):
                await gone

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        """Until the analyzer goes."""
        while True:
            self._capture.acknowledged(decode_acknowledged(await read_message(reader)).batches)
            self._heard.set()

    async def _pump(self, writer: asyncio.StreamWriter, gone: "asyncio.Future[Any]") -> None:
        while not gone.done():
            if not self._ready.is_set():
                waiting: asyncio.Future[Any] = asyncio.ensure_future(self._ready.wait())
                await asyncio.wait([waiting, gone], return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                if gone.done():
                    break
            self._ready.clear()
            await self.flush(writer)
        raise EOFError("closed by the analyzer")

    async def flush(self, writer: asyncio.StreamWriter) -> None:
        """Everything in the outbox, a batch at a time; what waits for a slow analyzer stays in the outbox's bound."""
        outbox = self._capture.outbox
        while outbox.records:
            batch = outbox.take(BATCH_BYTES)
            self._capture.handed_over(batch)
            writer.write(self._encoded(batch))
            await writer.drain()

    def _encoded(self, batch: list[Item]) -> bytes:
        """A batch, less what cannot be encoded: a bug of ours, that must be no end of telemetry."""
        try:
            return encode(batch)
        except UnicodeError:
            self._capture.outbox.failures += 1
            return encode([item for item in batch if _can_be_encoded(item)])

    async def drained(self) -> None:
        """Wait until the analyzer has said that it has everything."""
        while self._capture.outbox.records or self._capture.unacknowledged:
            self._heard.clear()
            await self._heard.wait()


def _can_be_encoded(item: Item) -> bool:
    try:
        encode([item])
    except UnicodeError:
        return False
    return True
