"""Where an analyzer gets its records from: proxies on the records socket, and Envoys, whose reader is a proxy like others."""

import logging
import shutil
import tempfile
from pathlib import Path

from sidecar import metrics as m
from sidecar.analyzer import Analyzer
from sidecar.capture.records import Health
from sidecar.config import Settings
from sidecar.export.access import is_loopback
from sidecar.start_error import StartError
from sidecar.transport.receiver import Receiver
from sidecar.transport.supervisor import READER, ChildFailed, Supervisor

logger = logging.getLogger(__name__)

_UNIX = "unix:"
_READER_SECONDS = 8.0


class Sources:
    """Opens what the settings name: `socket`, `envoy_listen` or both."""

    def __init__(self, settings: Settings, analyzer: Analyzer) -> None:
        self._settings = settings
        self._analyzer = analyzer
        self._receiver: Receiver | None = None
        self._reader: Supervisor | None = None
        self._directory: str | None = None
        self._told: tuple[int, dict[str, int]] = (0, {})
        self.addresses: dict[str, str] = {}
        """Where each of them listens."""

    @property
    def connections(self) -> int:
        """Proxies that are connected, the reader of Envoys among them: of Envoys nobody knows before they tell of
        something."""
        return 0 if self._receiver is None else self._receiver.connections

    async def start(self) -> None:
        """Listen. Raises StartError, with nothing left open."""
        path = self._settings.socket
        if path is not None:
            self.addresses["socket"] = path
        elif self._settings.envoy_listen is not None:
            self._directory = tempfile.mkdtemp(prefix="sidecar-")  # owner-only
            path = str(Path(self._directory) / "records.sock")
        if path is None:
            return
        try:
            await self._start_receiver(path)
            if self._settings.envoy_listen is not None:
                await self._start_reader(path, self._settings.envoy_listen)
        except StartError:
            await self.stop()
            raise

    async def _start_receiver(self, path: str) -> None:
        receiver = Receiver(Path(path), self._analyzer.receive, self._analyzer.closed)
        try:
            await receiver.start()
        except OSError as error:
            raise StartError(f"cannot listen on the records socket {path}: {error}") from error
        self._receiver = receiver

    async def _start_reader(self, path: str, target: str) -> None:
        self._analyzer.told = self._count
        reader = Supervisor(path, self._settings, READER)
        try:
            self.addresses |= await reader.start()
        except ChildFailed as error:
            raise StartError(str(error)) from error
        self._reader = reader
        if not target.startswith(_UNIX) and not is_loopback(target.rpartition(":")[0].strip("[]")):
            logger.warning(
                "Envoy's copies come to %s unencrypted, and whoever reaches it can make up traffic: keep others away",
                target,
            )

    def _count(self, health: Health) -> None:
        """What the reader has counted since it started: what is new of it."""
        if not health.told:
            return
        worker, before = self._told
        if worker != health.worker:
            before = {}
        self._told = (health.worker, health.told)
        series = self._analyzer.series
        for how, total in health.told.items():
            more = total - before.get(how, 0)
            if more <= 0:
                continue
            series.add(m.ENVOY_STREAMS, (how,), more)
            if how == "refused":
                series.add(m.STREAMS_LOST, ("analyzer_full",), more)
            elif how == "failed":
                series.add(m.STAGE_FAILURES, ("envoy",), more)

    def refresh(self) -> None:
        """Bring the numbers about them up to date."""
        if self._receiver is not None:
            self._analyzer.series.set(m.WRITERS_REJECTED, (), self._receiver.rejected)
            self._analyzer.series.set(m.PROXIES, (), self._receiver.connections)

    async def stop(self) -> None:
        """Stop listening."""
        if self._reader is not None:
            await self._reader.stop(_READER_SECONDS)
        if self._receiver is not None:
            await self._receiver.stop()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
