"""HAR files of browsers' developer tools and of mitmproxy. They hold bodies, but not when their chunks came."""

import base64
import binascii
from collections.abc import Iterator
from datetime import datetime

import msgspec

from sidecar.capture.records import EndedKind, Headers
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

_DECODED = frozenset({"content-encoding", "content-length", "transfer-encoding"})
"""Headers that are not true of a body as HAR holds it: decoded and whole."""
_CONTROL_FRAMES = 8


class _Header(msgspec.Struct):
    name: str
    value: str = ""


class _Content(msgspec.Struct):
    text: str | None = None
    encoding: str | None = None
    size: int = -1
    mimeType: str = ""  # noqa: N815


class _PostData(msgspec.Struct):
    text: str | None = None
    encoding: str | None = None


class _Request(msgspec.Struct):
    method: str
    url: str
    httpVersion: str = ""  # noqa: N815  # the format's own names, here and below
    headers: list[_Header] = []
    postData: _PostData | None = None  # noqa: N815


class _Response(msgspec.Struct):
    status: int = 0
    httpVersion: str = ""  # noqa: N815
    headers: list[_Header] = []
    content: _Content = msgspec.field(default_factory=_Content)
    error: str | None = msgspec.field(default=None, name="_error")


class _Message(msgspec.Struct):
    type: str
    time: float
    """Unix time in seconds."""
    opcode: int = 1
    data: str = ""


class _Entry(msgspec.Struct):
    request: _Request
    response: _Response
    startedDateTime: str = ""  # noqa: N815
    messages: list[_Message] = msgspec.field(default_factory=list, name="_webSocketMessages")


class _Log(msgspec.Struct):
    entries: list[msgspec.Raw]


class _Har(msgspec.Struct):
    log: _Log


_decode = msgspec.json.Decoder(_Har).decode
_decode_entry = msgspec.json.Decoder(_Entry, strict=False).decode


def read_har(data: bytes, name: str, stem: str) -> Iterator[Capture | CaptureError]:
    """The exchanges of a HAR; ids are its name and the position in it. Raises CaptureError where it is none."""
    try:
        entries = _decode(data.removeprefix(b"\xef\xbb\xbf")).log.entries
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise CaptureError(f"{name}: begins like a HAR file, but is none: {error}") from error
    for number, raw in enumerate(entries, 1):
        where = f"{name}: entry {number}"
        try:
            yield _capture(_decode_entry(raw), f"{stem}-{number}")
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            yield CaptureError(f"{where}: {error}")


def _capture(entry: _Entry, id: str) -> Capture:
    """One entry. ValueError where its body is damaged or was not saved."""
    asked, answer = entry.request, entry.response
    socket = answer.status == 101 or asked.url.startswith(("ws:", "wss:"))
    body = b"" if socket else _body(answer.content)
    sent = asked.postData
    kind = _end(answer)
    if not body and not socket and 200 <= answer.status < 300:
        raise ValueError("it has no body; export the HAR with content, and after the stream is over")
    return Capture(
        1,
        id,
        RequestPart(
            asked.method,
            asked.url,
            _version(asked.httpVersion),
            _asked_headers(asked, socket),
            None if sent is None else Payload.of(_bytes(sent.text, sent.encoding)),
        ),
        EndPart("open" if socket and kind == "eof" else kind, _last(entry), answer.error or ""),
        started_at=entry.startedDateTime,
        response=_response(answer, keep_length=socket) if answer.status else None,
        chunks=[ChunkPart.of(body, at_ms=0.0)] if body else [],
        messages=[_message(each, entry.startedDateTime) for each in entry.messages if each.opcode < _CONTROL_FRAMES],
        timed=False,
    )


def _response(answer: _Response, *, keep_length: bool) -> ResponsePart:
    headers = [pair for pair in _headers(answer.headers) if keep_length or pair[0].lower() not in _DECODED]
    return ResponsePart(answer.status, _version(answer.httpVersion), headers)


def _headers(headers: list[_Header]) -> Headers:
    return [(each.name, each.value) for each in headers if not each.name.startswith(":")]


def _asked_headers(asked: _Request, socket: bool) -> Headers:
    """Headers of the request; browsers leave out what asks for a WebSocket."""
    headers = _headers(asked.headers)
    upgrade = socket and not any(name.lower() == "upgrade" for name, _ in headers)
    return [*headers, *([("upgrade", "websocket")] if upgrade else [])]


def _version(version: str) -> str:
    return {"h2": "HTTP/2", "http/2.0": "HTTP/2", "h3": "HTTP/3"}.get(version.lower(), version.upper() or "HTTP/1.1")


def _end(answer: _Response) -> EndedKind:
    """How it ended, by the browser's error name; without one, in good order."""
    if answer.error and "ABORTED" in answer.error:
        return "client_disconnect"
    if not answer.status:
        return "upstream_failed"
    return "upstream_reset" if answer.error else "eof"


def _bytes(text: str | None, encoding: str | None) -> bytes:
    if encoding != "base64":
        return (text or "").encode("utf-8", "surrogatepass")
    try:
        return base64.b64decode(text or "", validate=True)
    except binascii.Error as error:
        raise ValueError(f"bad base64: {error}") from error


def _body(content: _Content) -> bytes:
    """A body; where bytes were written as if they were Latin-1 (mitmproxy does so without a charset) those bytes."""
    binary = content.mimeType.startswith("application/vnd.amazon.eventstream")
    data = _bytes(content.text, content.encoding)
    if content.encoding is None and content.text is not None and (binary or len(data) != content.size):
        try:
            latin = content.text.encode("latin-1")
        except UnicodeEncodeError:
            latin = b""
        if binary or len(latin) == content.size:
            if content.text and not latin:
                raise ValueError("its body is binary, and was spoiled when the HAR was written")
            return latin
    return data


def _message(message: _Message, started_at: str) -> MessagePart:
    return MessagePart.of(
        _bytes(message.data, "base64" if message.opcode == 2 else None),
        at_ms=_since(message, started_at),
        sender="client" if message.type == "send" else "server",
        binary=message.opcode == 2,
    )


def _since(message: _Message, started_at: str) -> float:
    try:
        begun = datetime.fromisoformat(started_at).timestamp()
    except ValueError:
        raise ValueError(f"startedDateTime is no date: {started_at!r}") from None
    return max(0.0, round((message.time - begun) * 1000, 3))


def _last(entry: _Entry) -> float:
    return max((_since(each, entry.startedDateTime) for each in entry.messages), default=0.0)
