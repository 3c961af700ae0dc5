"""What ends a process of ours in order: signals, and for a child the end of its standard input."""

import asyncio
import signal
import sys
from collections.abc import Callable


def stop_on_signals(until: "asyncio.Future[None]") -> None:
    """SIGINT and SIGTERM end the service in order."""
    loop = asyncio.get_running_loop()

    def stop() -> None:
        if not until.done():
            until.set_result(None)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)


class Stopping:
    """What SIGINT and SIGTERM do to a proxy: they call `end`, or, before there is one, break off the task that starts it."""

    def __init__(self) -> None:
        self.end: Callable[[], None] | None = None
        self.asked = False
        self._task = asyncio.current_task()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self.stop)

    def stop(self) -> None:
        """As if a signal had come."""
        self.asked = True
        if self.end is not None:
            self.end()
        elif self._task is not None:
            self._task.cancel()


async def stop_at_end_of_input(until: "asyncio.Future[None]", seconds: float = 0.0) -> None:
    """The end of standard input ends the service, `seconds` later: who started it is gone or asks for it."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while await reader.read(4096):
        pass
    await asyncio.sleep(seconds)
    if not until.done():
        until.set_result(None)
