"""mitmproxy's flow files (`mitmdump -w`), by mitmproxy's own reader. They hold bodies, but not when their chunks came."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import BinaryIO

from mitmproxy import http, io
from mitmproxy.exceptions import FlowReadException

from sidecar.capture.ends import Upstreams, of_socket
from sidecar.capture.records import Headers
from sidecar.files.capture import (
    Capture,
    CaptureError,
    ChunkPart,
    EndPart,
    MessagePart,
    Payload,
    RequestPart,
    ResponsePart,
)


def read_flows(file: BinaryIO, name: str) -> Iterator[Capture | CaptureError]:
    """The exchanges of a flow file; a damaged flow ends it, for where the next one begins is unknown."""
    number = 0
    try:
        for flow in io.FlowReader(file).stream():
            number += 1
            if not isinstance(flow, http.HTTPFlow):
                continue
            if _not_kept(flow):
                why = "it broke before it was complete" if flow.error else "it was streamed through the proxy"
                yield CaptureError(f"{name}: flow {number}: mitmproxy did not store its body, for {why}")
            else:
                yield _capture(flow)
    except FlowReadException as error:
        yield CaptureError(f"{name}: flow {number + 1}: {error}; the {number} before it were read")


def _not_kept(flow: http.HTTPFlow) -> bool:
    return flow.response is not None and flow.response.raw_content is None and flow.websocket is None


def _capture(flow: http.HTTPFlow) -> Capture:
    begun = flow.request.timestamp_start
    answer = flow.response
    body = (answer.raw_content or b"") if answer is not None and flow.websocket is None else b""
    return Capture(
        1,
        flow.id,
        RequestPart(
            flow.request.method,
            flow.request.url,
            flow.request.http_version,
            _headers(flow.request.headers),
            Payload.of(flow.request.raw_content or b""),
        ),
        _end(flow, begun),
        started_at=datetime.fromtimestamp(begun, UTC).isoformat(),
        response=None
        if answer is None
        else ResponsePart(answer.status_code, answer.http_version, _headers(answer.headers)),
        chunks=[ChunkPart.of(body, at_ms=0.0)] if body else [],
        messages=_messages(flow, begun),
        timed=False,
    )


def _headers(headers: http.Headers) -> Headers:
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers.fields]


def _end(flow: http.HTTPFlow, begun: float) -> EndPart:
    socket = flow.websocket
    if socket is not None:
        at = _since(socket.timestamp_end or begun, begun)
        if socket.closed_by_client is None:
            return EndPart("open", at)
        return EndPart(of_socket(socket), at, code=socket.close_code, reason=socket.close_reason or "")
    if flow.error is not None:
        kind, why = Upstreams().of_failure(flow)
        return EndPart(kind, 0.0, why)
    return EndPart("eof" if flow.response is not None else "open")


def _messages(flow: http.HTTPFlow, begun: float) -> list[MessagePart]:
    return [
        MessagePart.of(
            message.content,
            at_ms=_since(message.timestamp, begun),
            sender="client" if message.from_client else "server",
            binary=not message.is_text,
        )
        for message in (flow.websocket.messages if flow.websocket is not None else ())
    ]


def _since(at: float, begun: float) -> float:
    return max(0.0, round((at - begun) * 1000, 3))
