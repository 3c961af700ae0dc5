"""The analyzer as a child of the proxy: settings on the first line of standard input, addresses as JSON on output."""

import asyncio
import json
import logging
import sys

import msgspec

from sidecar.config import Settings
from sidecar.service import StartError, run, stop_at_end_of_input, stop_on_signals


def _say(message: dict[str, str]) -> None:
    print(json.dumps(message), flush=True)


async def _main(settings: Settings) -> None:
    until: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    stop_on_signals(until)
    watching = asyncio.create_task(stop_at_end_of_input(until))
    try:
        await run(settings, _say, until)
    finally:
        watching.cancel()


def main() -> None:
    with open(sys.stdin.fileno(), "rb", buffering=0, closefd=False) as unbuffered:  # the rest is the event loop's
        settings = msgspec.json.decode(unbuffered.readline(), type=Settings)
    logging.basicConfig(level=settings.log_level.upper(), format="%(levelname)s %(name)s %(message)s")
    try:
        asyncio.run(_main(settings))
    except StartError as error:
        _say({"error": str(error)})
        sys.exit(2)


if __name__ == "__main__":
    main()
