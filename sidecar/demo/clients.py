"""The demo's traffic: real clients, each asking for one kind of stream over and over."""

import asyncio
import contextlib
import secrets
import ssl
from collections import Counter
from collections.abc import Iterable

import httpx
import openai

from sidecar.demo.upstream import PLAYS

_PAUSE = 0.5
_TIMES = (
    6  # that a client asks the same, as one that retries; if all always did, nothing could be joined by its request
)
_PATIENCE = 20.0  # seconds after which the demo's own client gives up on a hung stream and asks again
_APART = 7.0  # seconds between the starts of several clients of a kind, so that they do not march in step
IMPATIENT = "impatient"
"""A client that asks the healthy model and leaves in the middle of the answer."""
BORED = "bored"
"""A client that leaves while the slow thinker thinks."""
PATIENT = "patient"
"""A client that waits for the deep thinker as long as it takes."""
_HABITS = {IMPATIENT: ("healthy", 1.0), BORED: ("slow-thinker", 3.0), PATIENT: ("deep-thinker", 120.0)}
"""Whom they ask, and for how many seconds they listen."""
_TLS = ssl.create_default_context()  # to load the certificates again for each client takes longer than most answers


async def ask_with_sdk(base_url: str, model: str, question: str) -> None:
    """One streamed completion with the openai SDK."""
    http = openai.DefaultAsyncHttpxClient(verify=_TLS)
    async with openai.AsyncOpenAI(base_url=f"{base_url}/v1", api_key="demo", max_retries=0, http_client=http) as client:
        stream = await client.chat.completions.create(
            model=model,
            messages=[{"role": "user", "content": question}],
            stream=True,
            stream_options={"include_usage": True},
        )
        async for _ in stream:
            pass


async def ask_raw(base_url: str, model: str, question: str) -> None:
    """One streamed completion as `curl -N` would ask for it."""
    body = {"model": model, "stream": True, "messages": [{"role": "user", "content": question}]}
    async with (
        httpx.AsyncClient(verify=_TLS, timeout=None) as client,  # noqa: S113  # a hung stream is part of the show; `_ask` bounds it
        client.stream("POST", f"{base_url}/v1/chat/completions", json=body, headers=_trace_context()) as response,
    ):
        async for _ in response.aiter_raw():
            pass


def _trace_context() -> dict[str, str]:
    """As a traced application would send it: it links what the sidecar publishes to the application's trace."""
    return {"traceparent": f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"}


async def _ask(base_url: str, model: str, turn: int, question: str) -> None:
    ask = ask_with_sdk if turn % 2 == 0 else ask_raw
    model, patience = _HABITS.get(model, (model, _PATIENCE))
    with contextlib.suppress(openai.OpenAIError, httpx.HTTPError, TimeoutError):
        await asyncio.wait_for(ask(base_url, model, question), patience)


async def keep_asking(base_url: str, model: str, after: float = 0.0) -> None:
    """One model's client, from so many seconds on until cancelled."""
    await asyncio.sleep(after)
    turn, question = 0, ""
    while True:
        if turn % _TIMES == 0:
            question = f"Say something about {secrets.token_hex(4)}."
        await _ask(base_url, model, turn, question)
        turn += 1
        await asyncio.sleep(_PAUSE)


def all_clients(base_url: str, models: Iterable[str] = PLAYS) -> list["asyncio.Task[None]"]:
    """A client for every kind of stream, or as many as it is named times."""
    begun: Counter[str] = Counter()
    clients = []
    for model in models:
        clients.append(asyncio.create_task(keep_asking(base_url, model, begun[model] * _APART)))
        begun[model] += 1
    return clients
