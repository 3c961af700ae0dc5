"""What the tests of replay share: requests that name a recording, and the client of a recorded WebSocket."""

import asyncio
import dataclasses
from typing import Any
from urllib.parse import urlsplit

import msgspec
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from sidecar.files.capture import Capture
from sidecar.files.replay.recordings import BY_ID
from tests import sockets as socket_corpus
from tests.live.exchanges import Exchange


def named(exchange: Exchange) -> Exchange:
    """An exchange whose request says which recording it wants."""
    return dataclasses.replace(exchange, request_headers=(*exchange.request_headers, (BY_ID, exchange.id)))


def with_end(capture: Capture, **changes: Any) -> Capture:
    return msgspec.structs.replace(capture, end=msgspec.structs.replace(capture.end, **changes))


async def truth(value: bool) -> bool:
    return value


SOCKETS = {case: each for case, each in socket_corpus.captures().items() if each.response is not None}


async def converse(address: tuple[str, int], capture: Capture) -> tuple[list[bytes | str], int | None, str]:
    """The client's part: what came, and how the socket was closed."""
    url = urlsplit(capture.request.url)
    target = url.path + (f"?{url.query}" if url.query else "")
    offered = dict(capture.request.headers).get("sec-websocket-protocol", "")
    names: Any = [name.strip() for name in offered.split(",") if name.strip()] or None
    came: list[bytes | str] = []
    async with connect(
        f"ws://{address[0]}:{address[1]}{target}",
        additional_headers={BY_ID: capture.id},
        subprotocols=names,
        proxy=None,
        max_size=None,
    ) as client:
        try:
            for message in capture.messages:
                if message.sender == "client":
                    await client.send(message.data() if message.binary else message.data().decode())
                else:
                    came.append(await asyncio.wait_for(client.recv(), 20))
            if capture.end.kind in ("client_disconnect", "open"):
                await client.close(capture.end.code or 1000, capture.end.reason)
            else:
                came.append(await asyncio.wait_for(client.recv(), 20))
        except ConnectionClosed:
            pass
    return came, client.close_code, client.close_reason or ""
