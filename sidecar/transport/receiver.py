"""The analyzer's end of the socket: any number of proxies, each a connection of its own."""

import asyncio
import itertools
import logging
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

from sidecar.capture.records import PAYLOADS, VERSION, Acknowledged, AnyRecord, Welcome
from sidecar.transport.wire import WireError, decode_batch, decode_hello, encode, read_message

logger = logging.getLogger(__name__)

_UNREAD = 4096  # bytes of acknowledgements that may wait for a proxy that does not read
_GOODBYE_SECONDS = 1.0

type Sink = Callable[[int, Sequence[AnyRecord]], None]
"""Takes the number of a connection and a batch of its records."""


class Receiver:
    """Listens on a unix socket that only its owner may open.

    `sink` gets every batch, `closed` the number of a connection that ended. A writer that sends what is no record is
    cut off and counted in `rejected`.
    """

    def __init__(self, path: Path, sink: Sink, closed: Callable[[int], None]) -> None:
        self._path = path
        self._sink = sink
        self._closed = closed
        self._numbers = itertools.count(1)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self.rejected = 0
        self.connections = 0

    async def start(self) -> None:
        """Bind. Raises OSError where the path cannot be bound or another analyzer listens there."""
        await remove_stale(self._path)
        old = os.umask(0o177)
        try:
            self._server = await asyncio.start_unix_server(self._serve, str(self._path))
        finally:
            os.umask(old)

    async def stop(self) -> None:
        """Stop listening, drop the connections, remove the socket."""
        if self._server is not None:
            self._server.close()
        for writer in list(self._writers):
            writer.close()
        if self._serving:  # else their tasks would be cancelled at the end of the loop, which asyncio logs as an error
            await asyncio.wait(self._serving, timeout=_GOODBYE_SECONDS)
        self._path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = next(self._numbers)
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        self.connections += 1
        self._writers.add(writer)
        try:
            await self._read(number, reader, writer)
        except WireError as error:
            self.rejected += 1
            logger.warning("dropped a writer on the records socket: %s", error)
        except (EOFError, OSError):
            pass
        finally:
            self.connections -= 1
            self._writers.discard(writer)
            self._closed(number)
            writer.close()

    async def _read(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hello = decode_hello(await read_message(reader))
        writer.write(encode(Welcome(VERSION)))
        if hello.version != VERSION:
            raise WireError(f"a proxy writes records of version {hello.version}, this analyzer reads {VERSION}")
        for batches in itertools.count(1):
            batch = decode_batch(await read_message(reader))
            self._sink(number, batch)
            # Pieces alone are nothing that a proxy waits to hear of: it would be woken for each batch. What is not said
            # now, the next acknowledgement says.
            said = any(not isinstance(record, PAYLOADS) for record in batch)
            if said and writer.transport.get_write_buffer_size() < _UNREAD:
                writer.write(encode(Acknowledged(batches)))


async def remove_stale(path: Path) -> None:
    """Remove the socket of an analyzer that was killed. Raises OSError where something else is there, or one listens."""
    try:
        mode = path.stat().st_mode  # noqa: ASYNC240  # once, before anything is served
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise FileExistsError(f"{path} exists and is no socket")
    try:
        _, writer = await asyncio.open_unix_connection(str(path))
    except OSError:
        path.unlink()  # noqa: ASYNC240  # as above
    else:
        writer.close()
        raise FileExistsError(f"another analyzer listens on {path}")
