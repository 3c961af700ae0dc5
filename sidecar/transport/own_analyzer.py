"""An analyzer that belongs to whoever starts it, on a socket that nobody else finds."""

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

    async def start(self) -> dict[str, str]:
        """Start it; its addresses. Raises ChildFailed with its own explanation where it cannot."""
        try:
            addresses = await self._child.start()
        except BaseException:
            shutil.rmtree(self._directory, ignore_errors=True)
            raise
        logger.info("sidecar: metrics at %s", addresses.get("metrics"))
        return addresses

    async def stop(self) -> None:
        """Let it finish, within a bound."""
        await self._child.stop(_SECONDS)
        shutil.rmtree(self._directory, ignore_errors=True)
