"""Children that are started, watched, and started again with back-off: the analyzer of a proxy, the reader of Envoys, the
proxies among which a port is shared."""

import asyncio
import contextlib
import json
import logging
import sys
from collections.abc import Callable
from urllib.parse import urlsplit

import msgspec

from sidecar.config import Settings

logger = logging.getLogger(__name__)

_FIRST_BACKOFF, _LAST_BACKOFF = 0.2, 30.0
_STEADY = 60.0  # seconds after which a child's death starts the back-off anew


class ChildFailed(RuntimeError):
    """The child could not start; the text is its own explanation, one line."""


class Child(msgspec.Struct, frozen=True):
    """`module` is what is run. `pinned` makes the settings of the next one out of those and the addresses that this one
    got, so that one that comes after it is found where this one was, also where the system chose the port."""

    name: str
    module: str
    pinned: Callable[[Settings, dict[str, str]], Settings]


def _same_metrics(settings: Settings, said: dict[str, str]) -> Settings:
    host, _, _ = settings.metrics_listen.rpartition(":")
    return msgspec.structs.replace(settings, metrics_listen=f"{host}:{urlsplit(said['metrics']).port}")


def _same_envoy(settings: Settings, said: dict[str, str]) -> Settings:
    return msgspec.structs.replace(settings, envoy_listen=said["envoy"])


ANALYZER = Child("analyzer", "sidecar.child", _same_metrics)
WORKER = Child("proxy", "sidecar.worker", lambda settings, _: settings)
READER = Child("reader of Envoys", "sidecar.envoy.reader", _same_envoy)


class Supervisor:
    """Runs a child on this socket for as long as this process lives.

    The child reads its settings from the first line of its standard input, and ends when that input does, so that
    none outlives who started it, however that dies.
    """

    def __init__(self, socket: str, settings: Settings, child: Child = ANALYZER) -> None:
        self._child = child
        self._command = [sys.executable, "-m", child.module]
        self._settings = msgspec.structs.replace(settings, socket=socket)
        self._process: asyncio.subprocess.Process | None = None
        self._watching: asyncio.Task[None] | None = None
        self._started = 0.0
        self.restarts = 0

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    async def start(self) -> dict[str, str]:
        """Start the child, wait until it is ready, and start it again whenever it dies; what it says of itself (its
        addresses).

        Raises ChildFailed with the child's explanation where it gives up.
        """
        said = await self._start()
        self._watching = asyncio.create_task(self._watch())
        return said

    async def _start(self) -> dict[str, str]:
        process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the proxy, which then ends the child in order
        )
        self._process = process
        self._started = asyncio.get_running_loop().time()
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdin.write(msgspec.json.encode(self._settings) + b"\n")
        line = await process.stdout.readline()
        try:
            said: dict[str, str] = json.loads(line)
        except ValueError:
            said = {"error": f"the {self._child.name} ended with code {await process.wait()}"}
        if "error" in said:
            await process.wait()
            raise ChildFailed(said["error"])
        self._settings = self._child.pinned(self._settings, said)
        return said

    async def _watch(self) -> None:
        backoff = _FIRST_BACKOFF
        while True:
            if self._process is not None:
                code = await self._process.wait()
                if asyncio.get_running_loop().time() - self._started > _STEADY:
                    backoff = _FIRST_BACKOFF
                logger.error("%s ended with code %s; starting it again in %.1f s", self._child.name, code, backoff)
            await asyncio.sleep(backoff)
            backoff = min(backoff * 2, _LAST_BACKOFF)
            self.restarts += 1
            try:
                await self._start()
            except (ChildFailed, OSError) as error:
                logger.error("%s cannot start: %s", self._child.name, error)

    async def stop(self, seconds: float) -> None:
        """Let the child finish (it is told by the end of its input); kill it if that takes longer than `seconds`."""
        if self._watching is not None:
            self._watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watching
        process = self._process
        if process is None or process.returncode is not None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), seconds)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
