"""The reader: what Envoys tell, in a process of its own, so that it is read however long the analyzer takes. Envoy keeps
what nobody reads in its memory; here it fills a bounded outbox, and what does not fit is dropped and counted."""

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sidecar.capture.capture import Capture
from sidecar.capture.interest import Chooser
from sidecar.capture.outbox import Outbox
from sidecar.config import Settings
from sidecar.start_error import StartError
from sidecar.supervised import serve
from sidecar.transport.health import HealthReports
from sidecar.transport.receiver import remove_stale
from sidecar.transport.sender import Sender

if TYPE_CHECKING:
    from sidecar.envoy.server import EnvoyServer

logger = logging.getLogger(__name__)

UNIX = "unix:"
_BIND_SECONDS = 2.0
"""How long an address may be in use: by the reader of an analyzer that was killed, which notices a little later."""
_FLUSH_SECONDS = 2.0


async def run(settings: Settings, ready: Callable[[dict[str, str]], None], until: "asyncio.Future[None]") -> None:
    """Serve until `until` is done. `ready` is told the address. Raises StartError."""
    assert settings.envoy_listen is not None
    assert settings.socket is not None
    capture = Capture(Outbox(settings.outbox_mib * 1024 * 1024))
    server = _server(settings.envoy_listen, settings, capture)
    address = await _start(server, settings.envoy_listen)
    sender = Sender(capture, settings.socket, os.getpid())
    health = HealthReports(capture, server.told)
    work: tuple[Coroutine[Any, Any, None], ...] = (sender.run(), health.measure_lag(), health.keep_reporting())
    tasks = [asyncio.create_task(each) for each in work]
    ready({"envoy": address})
    try:
        await until
    finally:
        await server.stop()
        health.report()
        if sender.connected:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(sender.drained(), _FLUSH_SECONDS)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _server(target: str, settings: Settings, capture: Capture) -> "EnvoyServer":
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its core writes to standard error what we say in one line
    try:
        from sidecar.envoy.server import EnvoyServer  # an extra
    except ImportError as error:
        raise StartError(
            f"envoy_listen needs the envoy extra ({error.name or 'a package'} is missing): "
            "pip install 'llm-sidecar[envoy]', or in a checkout pip install '.[envoy]'"
        ) from error
    chooser = Chooser(settings.include, settings.exclude)
    allowed = frozenset(name.lower() for name in settings.allow_headers)
    return EnvoyServer(target, capture, chooser, allowed, max_streams=settings.max_streams)


async def _start(server: "EnvoyServer", target: str) -> str:
    """Listen; a socket is for its owner only."""
    loop = asyncio.get_running_loop()
    until = loop.time() + _BIND_SECONDS
    old = os.umask(0o177)
    try:
        while True:
            try:
                if target.startswith(UNIX):
                    await remove_stale(Path(target.removeprefix(UNIX)))
                return await server.start()
            except OSError as error:
                if loop.time() > until:
                    raise StartError(
                        f"cannot listen on {target} for Envoy: {error.strerror or error}; choose another --envoy-listen"
                    ) from error
            await asyncio.sleep(0.1)
    finally:
        os.umask(old)


def main() -> None:
    serve(run)


if __name__ == "__main__":
    main()
