"""How `sidecar run` comes up: mitmproxy is imported while the analyzer starts, on another core if there is one."""

import asyncio
import importlib
from collections.abc import Callable, Sequence

from sidecar.config import Settings
from sidecar.stopping import Stopping
from sidecar.transport.own_analyzer import OwnAnalyzer


def event_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """What makes the proxy's event loop: uvloop where it is to be had (it is not on Windows)."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def run(settings: Settings, ready: Callable[[Sequence[str], dict[str, str]], None]) -> None:
    """Serve until SIGINT or SIGTERM. `ready` is told the proxy's addresses and the analyzer's.

    Raises StartError or ConfigError where it cannot.
    """
    stopping = Stopping()  # before anything is begun
    analyzer = OwnAnalyzer(settings) if settings.socket is None else None
    try:
        if analyzer is not None:
            analyzer.begin()
        await asyncio.to_thread(importlib.import_module, "sidecar.proxy")
        from sidecar import proxy

        await proxy.run(settings, ready, analyzer=analyzer, stopping=stopping)
    except asyncio.CancelledError:
        if not stopping.asked:
            raise
    finally:
        if analyzer is not None:
            await analyzer.stop()
