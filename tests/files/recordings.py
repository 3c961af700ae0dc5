"""Recordings made by hand."""

import json
from typing import Any

from sidecar.files.capture import Capture, ChunkPart, EndPart, Payload, RequestPart, ResponsePart

JSON = ("content-type", "application/json")


def recording(id: str, url: str = "http://host/v1/chat/completions", *, method: str = "POST", **body: Any) -> Capture:
    """An exchange whose request has this body, or none."""
    asked = Payload(text=json.dumps(body)) if body else None
    return Capture(
        1,
        id,
        RequestPart(method, url, headers=[JSON], body=asked),
        EndPart("eof", 20.0),
        started_at="2026-01-01T00:00:00Z",
        response=ResponsePart(200, headers=[JSON]),
        chunks=[ChunkPart(text=f'{{"from":"{id}"}}', at_ms=10.0)],
    )
