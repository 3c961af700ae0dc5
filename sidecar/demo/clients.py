"""The demo's traffic: real clients, each asking for one kind of stream over and over."""

import asyncio
import contextlib
import secrets
import ssl
from collections.abc import Iterable

import httpx
import openai

from sidecar.demo.upstream import PLAYS

_PAUSE = 0.5
_PATIENCE = 20.0  # seconds after which the demo's own client gives up on a hung stream and asks again
IMPATIENT = "impatient"
"""A client that asks the healthy model and leaves in the middle of the answer."""
_IMPATIENCE = 1.0
_TLS = ssl.create_default_context()  # to load the certificates again for each client takes longer than most answers


async def ask_with_sdk(base_url: str, model: str) -> None:
    """One streamed completion with the openai SDK."""
    http = openai.DefaultAsyncHttpxClient(verify=_TLS)
    async with openai.AsyncOpenAI(base_url=f"{base_url}/v1", api_key="demo", max_retries=0, http_client=http) as client:
        stream = await client.chat.completions.create(
            model=model,
            messages=[{"role": "user", "content": "Say something."}],
            stream=True,
            stream_options={"include_usage": True},
        )
        async for _ in stream:
            pass


async def ask_raw(base_url: str, model: str) -> None:
    """One streamed completion as `curl -N` would ask for it."""
    body = {"model": model, "stream": True, "messages": [{"role": "user", "content": "Say something."}]}
    async with (
        httpx.AsyncClient(verify=_TLS, timeout=None) as client,  # noqa: S113  # a hung stream is part of the show; `_ask` bounds it
        client.stream("POST", f"{base_url}/v1/chat/completions", json=body, headers=_trace_context()) as response,
    ):
        async for _ in response.aiter_raw():
            pass


def _trace_context() -> dict[str, str]:
    """As a traced application would send it: it links what the sidecar publishes to the application's trace."""
    return {"traceparent": f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"}


async def _ask(base_url: str, model: str, turn: int) -> None:
    ask = ask_with_sdk if turn % 2 == 0 else ask_raw
    patience = _IMPATIENCE if model == IMPATIENT else _PATIENCE
    with contextlib.suppress(openai.OpenAIError, httpx.HTTPError, TimeoutError):
        await asyncio.wait_for(ask(base_url, "healthy" if model == IMPATIENT else model), patience)


async def keep_asking(base_url: str, model: str) -> None:
    """One model's client, until cancelled."""
    turn = 0
    while True:
        await _ask(base_url, model, turn)
        turn += 1
        await asyncio.sleep(_PAUSE)


def all_clients(base_url: str, models: Iterable[str] = PLAYS) -> list["asyncio.Task[None]"]:
    """A client for every kind of stream."""
    return [asyncio.create_task(keep_asking(base_url, model)) for model in models]
