"""One of several proxies that share a port, as a child of `sidecar run --workers`."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from mitmproxy.proxy import mode_servers

from sidecar import proxy
from sidecar.config import ConfigError, Settings
from sidecar.start_error import StartError
from sidecar.starting import event_loop
from sidecar.supervised import serve


async def _listen(self: Any, host: str, port: int) -> list[asyncio.Server]:
    """In place of mitmproxy's, which lets nobody else have the port. UDP, and HTTP/3 with it, is left out: the packets
    of one connection would come to different processes."""
    return [await asyncio.start_server(self.handle_stream, host, port, reuse_port=True)]


async def _run(settings: Settings, ready: Callable[[dict[str, str]], None], until: "asyncio.Future[None]") -> None:
    setattr(mode_servers.AsyncioServerInstance, "listen", _listen)  # noqa: B010  # mypy takes no method for another

    def listening(addresses: Sequence[str], _: dict[str, str]) -> None:
        ready({f"address {number}": address for number, address in enumerate(addresses)})

    try:
        await proxy.run(settings, listening, until)
    except ConfigError as error:
        raise StartError(str(error)) from error


if __name__ == "__main__":
    serve(_run, loop_factory=event_loop())
