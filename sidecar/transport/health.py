"""How a process that captures says of itself how it is: once a second, as a record among the others."""

import asyncio
import os
from collections.abc import Callable, Mapping
from time import monotonic_ns

from sidecar.capture.capture import Capture
from sidecar.capture.records import Health

_REPORT_SECONDS = 1.0
_LAG_SAMPLE_SECONDS = 0.1


class HealthReports:
    """`told`: further counts since the start, by name; whoever counts goes on doing so. `checked`: how many exchanges were
    compared, and how many of them were not the same."""

    def __init__(
        self,
        capture: Capture,
        told: Mapping[str, int] | None = None,
        checked: Callable[[], tuple[int, int]] = lambda: (0, 0),
    ) -> None:
        self._capture = capture
        self._told = {} if told is None else told
        self._checked = checked
        self._lag = 0.0

    async def measure_lag(self) -> None:
        """How late the event loop is: what every stream through this process waits in addition. Until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _LAG_SAMPLE_SECONDS
            await asyncio.sleep(_LAG_SAMPLE_SECONDS)
            self._lag = max(self._lag, loop.time() - due)

    async def keep_reporting(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(_REPORT_SECONDS)
            self._capture.tell_ends()
            self.report()

    def report(self) -> None:
        """Say it now."""
        outbox = self._capture.outbox
        lag, self._lag = self._lag, 0.0
        outbox.put_control(
            Health(
                0,
                monotonic_ns(),
                os.getpid(),
                self._capture.streams_lost,
                outbox.dropped,
                outbox.size,
                outbox.failures,
                outbox.tee.count,
                outbox.tee.seconds,
                list(outbox.tee.buckets),
                max(lag, 0.0),
                dict(self._told),
                *self._checked(),
            )
        )
