"""An analyzer that belongs to whoever starts it, on a socket that nobody else finds."""

import asyncio
import logging
import shutil
import tempfile
from pathlib import Path

from sidecar.config import Settings
from sidecar.transport.supervisor import Supervisor

logger = logging.getLogger(__name__)

_SECONDS = 10.0
"""How long it may take to finish."""


class OwnAnalyzer:
    """`socket` is where it listens, in a directory that only its owner may enter; there from `start` to `stop`."""

    def __init__(self, settings: Settings) -> None:
        self._directory = tempfile.mkdtemp(prefix="sidecar-")  # owner-only
        self.socket = str(Path(self._directory) / "records.sock")
        self._child = Supervisor(self.socket, settings)
        self._starting: asyncio.Task[dict[str, str]] | None = None

    def begin(self) -> None:
        """Start it, for `start` to wait for: meanwhile there is something else to do, on another core."""
        if self._starting is None:
            self._starting = asyncio.create_task(self._child.start())

    async def start(self) -> dict[str, str]:
        """Start it; its addresses. Raises ChildFailed with its own explanation where it cannot."""
        self.begin()
        assert self._starting is not None
        addresses = await self._starting
        logger.info("sidecar: metrics at %s", addresses.get("metrics"))
        return addresses

    async def stop(self) -> None:
        """Let it finish, within a bound."""
        if self._starting is not None:
            await asyncio.wait([self._starting], timeout=_SECONDS)  # not broken off: who would end what is half begun?
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        await self._child.stop(_SECONDS)
        shutil.rmtree(self._directory, ignore_errors=True)
