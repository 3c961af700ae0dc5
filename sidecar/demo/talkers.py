"""The demo's clients that talk: a WebSocket each, a few questions, and a goodbye."""

import asyncio
import contextlib
import json
import ssl

from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import websocket_connect

from sidecar.demo.realtime import MODELS

_QUESTIONS = 3
_PAUSE = 0.5
_PATIENCE = 20.0
_TLS = ssl.create_default_context()


async def talk(base_url: str, model: str) -> None:
    """One conversation, or as much of it as the other side takes part in."""
    url = f"{base_url.replace('http', 'ws', 1)}/v1/realtime?model={model}"
    request = HTTPRequest(url, headers={"Authorization": "Bearer demo"}, ssl_options=_TLS)
    connection = await websocket_connect(request)
    try:
        for _ in range(_QUESTIONS):
            await connection.write_message(json.dumps({"type": "response.create"}))
            while (message := await connection.read_message()) is not None:
                if json.loads(message)["type"] == "response.done":
                    break
            else:
                return  # closed by the other side
            await asyncio.sleep(_PAUSE)
    finally:
        connection.close(1000, "goodbye")


async def keep_talking(base_url: str, model: str) -> None:
    """One conversation after the other, until cancelled."""
    while True:
        with contextlib.suppress(OSError, HTTPClientError, TimeoutError):
            await asyncio.wait_for(talk(base_url, model), _PATIENCE)
        await asyncio.sleep(_PAUSE)


def all_talkers(base_url: str) -> list["asyncio.Task[None]"]:
    """A client for every model that talks."""
    return [asyncio.create_task(keep_talking(base_url, model)) for model in MODELS]
