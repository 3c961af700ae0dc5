"""The whole demo on the loopback: upstream, gateway, sidecar on both sides of it, clients, and a Prometheus that watches."""

import contextlib
import socket
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from dashboards.generator.rules import rule_files
from dashboards.generator.thresholds import Thresholds
from sidecar.stream.phases import PHASES
from tests.live.monitoring import JOB, Alertmanager, Prometheus, prometheus
from tests.live.processes import Sidecar, program, sidecar_run

_STALL_SECONDS = "5"  # the defaults are long for a demo of minutes
_SCENE = (sys.executable, "-m", "sidecar.demo.scene")


@dataclass
class Stage:
    """What runs."""

    sidecar: Sidecar
    prometheus: Prometheus
    collector: str
    """URL of the trace back end."""
    recordings: Path


def _free_ports(number: int) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(number)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


@contextlib.asynccontextmanager
async def stage(
    folder: Path, thresholds: Thresholds, *, every: str, notify: Alertmanager | None = None
) -> AsyncIterator[Stage]:
    """Everything that the demo has, with all its faults, under the rules with these thresholds."""
    direct, outer, inner = _free_ports(3)  # mitmproxy takes port 0 only once; and the gateway has to know the inner one
    stalls = {f"SIDECAR_STALLS_{phase.upper()}": _STALL_SECONDS for phase in PHASES}
    async with contextlib.AsyncExitStack() as running:
        upstream = await running.enter_async_context(program("upstream", *_SCENE, "upstream", "127.0.0.1:0"))
        url = await upstream.says(r"upstream +(http://\S+)")
        gateway = await running.enter_async_context(
            program("gateway", *_SCENE, "gateway", "127.0.0.1:0", f"http://127.0.0.1:{inner}")
        )
        through = await gateway.says(r"gateway +(http://\S+)")
        modes = ((url, direct), (through, outer), (url, inner))
        flags = [flag for to, port in modes for flag in ("--mode", f"reverse:{to}@127.0.0.1:{port}")]
        collector = await running.enter_async_context(program("collector", *_SCENE, "collector", "127.0.0.1:0"))
        spans = await collector.says(r"collector +(http://\S+)")
        recordings = folder / "recordings"
        flags += ["--otel-endpoint", spans, "--record", str(recordings), "--record-total-mib", "16"]
        sidecar = await running.enter_async_context(sidecar_run(*flags, env=stalls))
        listeners = (f"http://127.0.0.1:{port}" for port in (direct, outer))
        await running.enter_async_context(program("clients", *_SCENE, "clients", *listeners))
        targets = {JOB: sidecar.metrics, "engine": f"{url}/metrics"}
        watching = prometheus(folder, targets, rule_files(thresholds), every=every, notify=notify)
        yield Stage(sidecar, await running.enter_async_context(watching), spans, recordings)
