"""The child's side of `transport/supervisor.py`: settings on the first line of standard input, addresses as JSON on
output, and an end with the end of the input."""

import asyncio
import json
import logging
import sys
from collections.abc import Awaitable, Callable

import msgspec

from sidecar.config import Settings
from sidecar.start_error import StartError
from sidecar.stopping import stop_at_end_of_input, stop_on_signals

type Service = Callable[[Settings, Callable[[dict[str, str]], None], "asyncio.Future[None]"], Awaitable[None]]
"""Serves until the future is done, and tells its addresses once all of them answer."""


def serve(
    service: Service,
    linger: float = 0.0,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> None:
    """Run a service as a child. What it says with StartError goes to who started it.

    `linger`: seconds for which it goes on after the end of its input. `loop_factory`: as of asyncio.run.
    """
    with open(sys.stdin.fileno(), "rb", buffering=0, closefd=False) as unbuffered:  # the rest is the event loop's
        settings = msgspec.json.decode(unbuffered.readline(), type=Settings)
    logging.basicConfig(level=settings.log_level.upper(), format="%(levelname)s %(name)s %(message)s")
    try:
        asyncio.run(_serve(service, settings, linger), loop_factory=loop_factory)
    except StartError as error:
        _say({"error": str(error)})
        sys.exit(2)


def _say(message: dict[str, str]) -> None:
    print(json.dumps(message), flush=True)


async def _serve(service: Service, settings: Settings, linger: float) -> None:
    until: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    stop_on_signals(until)
    watching = asyncio.create_task(stop_at_end_of_input(until, linger))
    try:
        await service(settings, _say, until)
    finally:
        watching.cancel()
