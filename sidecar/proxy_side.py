"""The sidecar's part in the proxy process: taps, sender, and the analyzer as a child unless one runs already."""

import asyncio
import contextlib
import logging
import os
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from time import monotonic_ns
from typing import Any

from sidecar.capture.capture import Capture
from sidecar.capture.checks import watch_http
from sidecar.capture.flows import FlowTaps
from sidecar.capture.interest import Chooser
from sidecar.capture.outbox import Outbox
from sidecar.capture.records import Health
from sidecar.config import Settings
from sidecar.transport.sender import Sender
from sidecar.transport.supervisor import AnalyzerFailed, Supervisor

logger = logging.getLogger(__name__)

_HEALTH_SECONDS = 1.0
_LAG_SAMPLE_SECONDS = 0.1
_FLUSH_SECONDS = 2.0
_CHILD_SECONDS = 10.0


class ProxySide:
    """Everything between mitmproxy's hooks and the socket. `start` and `stop` run in the proxy's event loop."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.capture = Capture(Outbox(settings.outbox_mib * 1024 * 1024))
        self.taps = FlowTaps(
            self.capture,
            Chooser(settings.include, settings.exclude),
            frozenset(name.lower() for name in settings.allow_headers),
        )
        self.supervisor: Supervisor | None = None
        self._sender: Sender | None = None
        self.addresses: dict[str, str] = {}
        self._directory: str | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._lag = 0.0
        self._stopped = False

    async def start(self) -> None:
        """Start or find the analyzer, and begin to send. Raises AnalyzerFailed where one cannot be started."""
        path = self.settings.socket
        if path is None:
            self._directory = tempfile.mkdtemp(prefix="sidecar-")  # owner-only
            path = str(Path(self._directory) / "records.sock")
            self.supervisor = Supervisor(path, self.settings)
            try:
                self.addresses = await self.supervisor.start()
            except AnalyzerFailed:
                shutil.rmtree(self._directory, ignore_errors=True)
                raise
            logger.info("sidecar: metrics at %s", self.addresses.get("metrics"))
            self._spawn(self.supervisor.watch())
        watch_http()
        self._sender = Sender(self.capture, path, os.getpid())
        self._spawn(self._sender.run())
        self._spawn(self._measure_lag())
        self._spawn(self._report_health())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.create_task(work))

    async def stop(self) -> None:
        """Exchanges in flight end, what is in the outbox goes out, the child finishes; all within a bound."""
        if self._stopped:
            return
        self._stopped = True
        self.taps.stop()
        self._report()
        if self._sender is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._sender.drained(), _FLUSH_SECONDS)
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._tasks.clear()
        if self.supervisor is not None:
            await self.supervisor.stop(_CHILD_SECONDS)
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)

    async def _measure_lag(self) -> None:
        """How late the event loop is: what every stream through this process waits in addition."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _LAG_SAMPLE_SECONDS
            await asyncio.sleep(_LAG_SAMPLE_SECONDS)
            self._lag = max(self._lag, loop.time() - due)

    async def _report_health(self) -> None:
        while True:
            await asyncio.sleep(_HEALTH_SECONDS)
            self.capture.tell_ends()
            self._report()

    def _report(self) -> None:
        outbox = self.capture.outbox
        lag, self._lag = self._lag, 0.0
        outbox.put_control(
            Health(
                0,
                monotonic_ns(),
                os.getpid(),
                self.capture.streams_lost,
                outbox.dropped,
                outbox.size,
                outbox.failures,
                outbox.tee.count,
                outbox.tee.seconds,
                list(outbox.tee.buckets),
                max(lag, 0.0),
                self.taps.checks.settled,
                self.taps.checks.violations,
            )
        )
