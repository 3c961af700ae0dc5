"""Raw output of `curl -N`: a response without timing and without its request; with `-i` it has its head."""

import re

from sidecar.files.capture import Capture, ChunkPart, EndPart, Payload, RequestPart, ResponsePart
from sidecar.framing.table import sniff

ANYWHERE = "http://unknown/"
"""URL of an exchange of which only the response is known."""

_STATUS = re.compile(rb"HTTP/([\d.]+) (\d{3})[^\r\n]*\r?\n")
_HEAD_END = re.compile(rb"\r?\n\r?\n")
_TYPES = {
    "sse": "text/event-stream",
    "ndjson": "application/x-ndjson",
    "eventstream": "application/vnd.amazon.eventstream",
    "json_array": "application/json",
    "whole": "application/json",
}


def is_curl_output(start: bytes) -> bool:
    """Whether a file begins like what curl prints with `-i`."""
    return _STATUS.match(start) is not None


def read_curl(id: str, data: bytes) -> Capture:
    """The exchange, its body in one chunk; informational and redirect heads are skipped."""
    status, version, rest = 0, "HTTP/1.1", data
    headers: list[tuple[str, str]] = []
    while (match := _STATUS.match(rest)) and (end := _HEAD_END.search(rest)):
        status, version = int(match.group(2)), f"HTTP/{match.group(1).decode()}"
        headers = []
        for line in rest[match.end() : end.start()].splitlines():
            name, _, value = line.partition(b":")
            headers.append((name.decode("latin-1").strip(), value.decode("latin-1").strip()))
        rest = rest[end.end() :]
        if status >= 200 and not 300 <= status < 400:
            break
    return _capture(id, rest, ResponsePart(status, version, headers) if status else None)


def read_bare_body(id: str, data: bytes) -> Capture:
    """The exchange of which nothing but the body is known: what curl prints without `-i`."""
    return _capture(id, data, None)


def _capture(id: str, body: bytes, response: ResponsePart | None) -> Capture:
    asked = Payload(text='{"stream":true}' if response is None and body.lstrip()[:1] == b"[" else "")
    return Capture(
        1,
        id,
        RequestPart("POST", ANYWHERE, body=asked),
        EndPart("eof"),
        response=response,
        chunks=[ChunkPart.of(body, at_ms=0.0)] if body else [],
        timed=False,
    )


def is_headless(capture: Capture) -> bool:
    """Whether a body came of which the head was not kept."""
    return capture.response is None and bool(capture.chunks)


def assumed_head(body: bytes) -> ResponsePart:
    """The head that a body without one will have had, so that it can be read."""
    framing = sniff(body[:4096], None, asked_stream=True, lines=_is_lines(body))
    kind = _TYPES.get(framing.name if framing is not None else "", "application/octet-stream")
    return ResponsePart(200, "HTTP/1.1", [("content-type", kind)])


def _is_lines(body: bytes) -> bool:
    """Whether a body is several JSON objects, one a line."""
    lines = [line.strip() for line in body[: 1 << 20].split(b"\n", 3)[:2]]
    return len(lines) == 2 and all(line.startswith(b"{") and line.endswith(b"}") for line in lines)
