"""The analyzer as a child of the proxy: started, watched, started again with back-off."""

import asyncio
import contextlib
import json
import logging
import sys
from urllib.parse import urlsplit

import msgspec

from sidecar.config import Settings

logger = logging.getLogger(__name__)

_FIRST_BACKOFF, _LAST_BACKOFF = 0.2, 30.0
_STEADY = 60.0  # seconds after which a child's death starts the back-off anew


class AnalyzerFailed(RuntimeError):
    """The analyzer could not start; the text is its own explanation, one line."""


class Supervisor:
    """Runs an analyzer on this socket for as long as the proxy lives.

    The child reads its settings from the first line of its standard input, and ends when that input does, so that
    no analyzer outlives its proxy, however that dies.
    """

    def __init__(self, socket: str, settings: Settings) -> None:
        self._command = [sys.executable, "-m", "sidecar.child"]
        self._settings = msgspec.structs.replace(settings, socket=socket)
        self._process: asyncio.subprocess.Process | None = None
        self._started = 0.0
        self.restarts = 0

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    async def start(self) -> dict[str, str]:
        """Start the child and wait until it is ready; what it says of itself (its addresses).

        Raises AnalyzerFailed with the child's explanation where it gives up.
        """
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
            said = {"error": f"the analyzer ended with code {await process.wait()}"}
        if "error" in said:
            await process.wait()
            raise AnalyzerFailed(said["error"])
        # One that comes after it is found where this one was, also where the system chose the port.
        host, _, _ = self._settings.metrics_listen.rpartition(":")
        listen = f"{host}:{urlsplit(said['metrics']).port}"
        self._settings = msgspec.structs.replace(self._settings, metrics_listen=listen)
        return said

    async def watch(self) -> None:
        """Start the child again whenever it dies, until cancelled."""
        backoff = _FIRST_BACKOFF
        while True:
            if self._process is not None:
                code = await self._process.wait()
                if asyncio.get_running_loop().time() - self._started > _STEADY:
                    backoff = _FIRST_BACKOFF
                logger.error("analyzer ended with code %s; starting it again in %.1f s", code, backoff)
            await asyncio.sleep(backoff)
            backoff = min(backoff * 2, _LAST_BACKOFF)
            self.restarts += 1
            try:
                await self.start()
            except (AnalyzerFailed, OSError) as error:
                logger.error("analyzer cannot start: %s", error)

    async def stop(self, seconds: float) -> None:
        """Let the child finish (it is told by the end of its input); kill it if that takes longer than `seconds`."""
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
