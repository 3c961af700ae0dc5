"""Thousands of streams in flight at one analyzer: the records that a proxy would send, over the real socket."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from time import monotonic_ns, time_ns

from sidecar.capture.capture import Capture
from sidecar.capture.outbox import Outbox
from sidecar.capture.records import Opened, ResponseHead
from sidecar.capture.tap import Tap
from sidecar.transport.sender import Sender
from tests.live.exchanges import chat_events

_EVERY = 0.5  # seconds between two chunks of each stream


@contextlib.asynccontextmanager
async def flood(socket: Path, streams: int) -> AsyncIterator[None]:
    """So many streams that go on, a chunk each twice a second, until the end."""
    capture = Capture(Outbox())
    sending = asyncio.create_task(Sender(capture, str(socket), 1).run())
    taps = [_begun(capture, number) for number in range(streams)]
    going = asyncio.create_task(_go_on(taps))
    try:
        yield
    finally:
        for task in (going, sending):
            task.cancel()
        await asyncio.gather(going, sending, return_exceptions=True)


def _begun(capture: Capture, number: int) -> Tap:
    model = f"model-{number % 40}"
    stream = capture.next_stream()
    headers = [("content-type", "application/json")]
    target, at = "/v1/chat/completions", monotonic_ns()
    head = Opened(stream, at, f"id-{number}", time_ns(), "POST", "http", "upstream", 80, target, "HTTP/1.1", headers)
    tap = capture.open(head, held=False)
    tap.request_chunk(json.dumps({"model": model, "stream": True, "messages": []}).encode())
    tap.request_chunk(b"")
    answer = [("content-type", "text/event-stream")]
    tap.response_head(ResponseHead(stream, monotonic_ns(), 200, "HTTP/1.1", answer))
    return tap


async def _go_on(taps: list[Tap]) -> None:
    event = chat_events({"content": "x"})[0]
    while True:
        for tap in taps:
            tap.response_chunk(event)
        await asyncio.sleep(_EVERY)
