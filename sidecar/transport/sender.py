"""From the outbox to the analyzer, in batches, without ever holding up the proxy's event loop."""

import asyncio
import logging

from sidecar.capture.capture import Capture
from sidecar.capture.outbox import Item
from sidecar.capture.records import VERSION, Hello
from sidecar.transport.wire import WireError, decode_acknowledged, decode_welcome, encode, read_message

logger = logging.getLogger(__name__)

BATCH_SECONDS = 0.05
BATCH_BYTES = 256 * 1024
_BUFFER = 1024 * 1024  # bytes asyncio may hold before the sender waits
_FIRST_RETRY, _LAST_RETRY = 0.05, 2.0


class Sender:
    """Keeps a connection to the analyzer and pumps the outbox into it. While there is none, the outbox fills."""

    def __init__(self, capture: Capture, path: str, worker: int) -> None:
        self._capture = capture
        self._path = path
        self._worker = worker
        self._heard = asyncio.Event()
        self._writer: asyncio.StreamWriter | None = None
        self._due: asyncio.TimerHandle | None = None
        self.connections = 0

    @property
    def connected(self) -> bool:
        """Whether an analyzer takes what is sent."""
        return self._writer is not None

    async def run(self) -> None:
        """Connect, send, and again, until cancelled."""
        self._capture.outbox.wake = self._schedule
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
            except (OSError, EOFError) as error:
                logger.info("analyzer connection ended: %s", error or type(error).__name__)
                retry = _FIRST_RETRY if self.connected else min(retry * 2, _LAST_RETRY)
            except WireError as error:
                logger.warning("cannot use the analyzer at %s: %s", self._path, error)
                retry = _LAST_RETRY
            finally:
                if self._writer is not None:
                    self._writer = None
                    self._capture.analyzer_gone()
                writer.close()
            await asyncio.sleep(retry)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Until the analyzer goes."""
        writer.write(encode(Hello(VERSION, self._worker)))
        welcome = decode_welcome(await read_message(reader))
        if welcome.version != VERSION:
            raise WireError(
                f"it reads records of version {welcome.version}, this proxy writes version {VERSION}: "
                "run proxy and analyzer of the same release"
            )
        self._writer = writer
        self.connections += 1
        self._schedule()  # what the connection before left behind has woken nobody since
        while True:
            self._capture.acknowledged(decode_acknowledged(await read_message(reader)).batches)
            self._heard.set()

    def _schedule(self) -> None:
        if self._due is None:
            self._due = asyncio.get_running_loop().call_later(BATCH_SECONDS, self._send)

    def _send(self) -> None:
        """A callback rather than a task that waits: it runs up to twenty times a second beside the traffic.

        What a slow analyzer has not taken stays in the outbox, in its bound.
        """
        self._due = None
        outbox, writer = self._capture.outbox, self._writer
        if writer is None:
            return
        while outbox.records:
            if writer.transport.get_write_buffer_size() >= _BUFFER:
                self._schedule()
                return
            batch = outbox.take(BATCH_BYTES)
            self._capture.handed_over(batch)
            writer.write(self._encoded(batch))

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
