"""The sidecar's part in the proxy process: taps, sender, and the analyzer as a child unless one runs already."""

import asyncio
import contextlib
import os
from collections.abc import Coroutine
from typing import Any

from sidecar.capture.capture import Capture
from sidecar.capture.checks import watch_http
from sidecar.capture.flows import FlowTaps
from sidecar.capture.interest import Chooser
from sidecar.capture.outbox import Outbox
from sidecar.config import Settings
from sidecar.transport.health import HealthReports
from sidecar.transport.own_analyzer import OwnAnalyzer
from sidecar.transport.sender import Sender

_FLUSH_SECONDS = 2.0


class ProxySide:
    """Everything between mitmproxy's hooks and the socket. `start` and `stop` run in the proxy's event loop."""

    def __init__(self, settings: Settings, analyzer: OwnAnalyzer | None = None) -> None:
        """`analyzer` is one that has begun to start already; without it one is started, unless the settings name another's
        socket."""
        self.settings = settings
        self.capture = Capture(Outbox(settings.outbox_mib * 1024 * 1024))
        self.taps = FlowTaps(
            self.capture,
            Chooser(settings.include, settings.exclude),
            frozenset(name.lower() for name in settings.allow_headers),
        )
        self._analyzer = analyzer
        self._sender: Sender | None = None
        self.addresses: dict[str, str] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._health = HealthReports(self.capture, checked=self.taps.checks.so_far)
        self._stopped = False

    async def start(self) -> None:
        """Start or find the analyzer, and begin to send. Raises ChildFailed where one cannot be started."""
        path = self.settings.socket
        if path is None:
            if self._analyzer is None:
                self._analyzer = OwnAnalyzer(self.settings)
            self.addresses = await self._analyzer.start()
            path = self._analyzer.socket
        watch_http()
        self._sender = Sender(self.capture, path, os.getpid())
        self._spawn(self._sender.run())
        self._spawn(self._health.measure_lag())
        self._spawn(self._health.keep_reporting())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.create_task(work))

    async def stop(self) -> None:
        """Exchanges in flight end, what is in the outbox goes out, the child finishes; all within a bound."""
        if self._stopped:
            return
        self._stopped = True
        self.taps.stop()
        self._health.report()
        if self._sender is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._sender.drained(), _FLUSH_SECONDS)
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._tasks.clear()
        if self._analyzer is not None:
            await self._analyzer.stop()
