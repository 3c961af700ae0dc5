"""A replay for tests that are not asynchronous: the server in a thread of its own."""

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from sidecar.files.replay.recordings import Recordings
from sidecar.files.replay.server import Served, Server
from sidecar.files.sources import captures_of

_STOP_SECONDS = 10.0


class Replay:
    """Serves the exchanges of files on a free port while it is entered.

        with Replay("tests/streams", speed=0) as replay:
            client = OpenAI(base_url=f"{replay.url}/v1", api_key="any")

    A folder stands for the files in it, as `sidecar fixtures` writes them. `speed`: how many times as fast as recorded;
    0 (the default) sends everything at once. Raises CaptureError where a file or a line of it cannot be read,
    NothingToReplay where nothing is left to serve.
    """

    def __init__(
        self,
        *files: str | Path,
        ids: Sequence[str] = (),
        speed: float = 0.0,
        loop: bool = False,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._server = Server(Recordings(captures_of(files), ids=ids, loop=loop), speed=speed, tls=tls)
        self._where = host, port
        self._failed: BaseException | None = None
        self._ready = threading.Event()
        self._thread: threading.Thread | None = None
        self._events: asyncio.AbstractEventLoop | None = None
        self._leave: asyncio.Event | None = None

    @property
    def url(self) -> str:
        """Where it listens, without a path: `http://127.0.0.1:PORT`."""
        return self._server.url

    @property
    def served(self) -> list[Served]:
        """The requests that came, in their order."""
        return list(self._server.served)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="sidecar replay", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._failed is not None:
            self._thread.join(_STOP_SECONDS)
            raise self._failed
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._events is not None
        assert self._leave is not None
        assert self._thread is not None
        with contextlib.suppress(RuntimeError):  # the loop has ended by itself
            self._events.call_soon_threadsafe(self._leave.set)
        self._thread.join(_STOP_SECONDS)

    async def _run(self) -> None:
        self._events, self._leave = asyncio.get_running_loop(), asyncio.Event()
        try:
            async with self._server.listening(*self._where):
                self._ready.set()
                await self._leave.wait()
        except Exception as error:  # noqa: BLE001  # whatever it is, the thread that waits for the server raises it
            self._failed = error
        finally:
            self._ready.set()
