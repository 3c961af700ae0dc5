"""Exchanges written out in a test: a request and the events that answer it, through the whole pipeline."""

import json
from typing import Any

from sidecar.files.capture import Capture, ChunkPart, EndPart, Payload, RequestPart, ResponsePart, end_at, records_of
from sidecar.files.inspect import report, run
from sidecar.thresholds import QuirkThresholds

SSE = "text/event-stream"
NDJSON = "application/x-ndjson"
JSON = "application/json"


def sse(*events: Any, named: bool = True) -> list[str]:
    """Events as SSE blocks, one a read: objects (named by their `type`), (name, object), or data as it stands."""
    blocks: list[str] = []
    for event in events:
        name, value = event if isinstance(event, tuple) else (None, event)
        data = value if isinstance(value, str) else json.dumps(value)
        if name is None and named and isinstance(value, dict):
            name = value.get("type")
        blocks.append((f"event: {name}\n" if name else "") + f"data: {data}\n\n")
    return blocks


def answer(
    target: str,
    reads: list[str] | str,
    *,
    request: Any = None,
    content_type: str = SSE,
    headers: list[tuple[str, str]] | None = None,
    end: Any = "eof",
) -> dict[str, Any]:
    """What is said of one exchange of status 200, its reads 20 ms apart."""
    body = {"stream": True} if request is None else request
    chunks = [reads] if isinstance(reads, str) else reads
    capture = Capture(
        1,
        "case",
        RequestPart("POST", f"https://host{target}", headers=headers or [], body=Payload(text=json.dumps(body))),
        EndPart(end, 20.0 * (len(chunks) + 1)),
        response=ResponsePart(200, headers=[("content-type", content_type)]),
        chunks=[ChunkPart(text=read, at_ms=20.0 * number) for number, read in enumerate(chunks, 1)],
    )
    summary = run(list(records_of(capture)), end_at(capture), QuirkThresholds())
    return report(summary, show_content=True)
