"""The capture file: JSON Lines, one exchange a line, readable and diffable. Read here as records of the live path."""

import base64
import binascii
import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import urlsplit

import msgspec

from sidecar.capture.records import Chunk, Ended, Message, Opened, Record, RequestBody, RequestSent, ResponseHead

VERSION = 1
T0 = 1_000_000_000
"""Where t0 of a capture is put on the nanosecond clock of its records."""


def text_or_b64(data: bytes) -> tuple[str | None, str | None]:
    """Bytes as `text` where they are valid UTF-8, else as `b64`; the other one is None."""
    try:
        return data.decode(), None
    except UnicodeDecodeError:
        return None, base64.b64encode(data).decode()


class Payload(msgspec.Struct, omit_defaults=True):
    """Bytes: `text` where they are valid UTF-8, else `b64`."""

    text: str | None = None
    b64: str | None = None

    @classmethod
    def of(cls, data: bytes, **members: Any) -> Self:
        """The form that these bytes have in a file; with the other members of what holds them."""
        text, b64 = text_or_b64(data)
        return cls(text=text, b64=b64, **members)

    def data(self) -> bytes:
        """The bytes; ValueError where neither form holds any or base64 is damaged."""
        if self.text is not None:
            return self.text.encode("utf-8", "surrogatepass")
        if self.b64 is None:
            return b""
        try:
            return base64.b64decode(self.b64, validate=True)
        except binascii.Error as error:
            raise ValueError(f"bad base64: {error}") from error


class RequestPart(msgspec.Struct):
    method: str
    url: str
    http_version: str = "HTTP/1.1"
    headers: list[tuple[str, str]] = []
    body: Payload | None = None
    complete: bool = True
    """Whether its last byte was forwarded; without it there is no t0, and times count from its head."""


class ResponsePart(msgspec.Struct):
    status: int
    http_version: str = "HTTP/1.1"
    headers: list[tuple[str, str]] = []
    at_ms: float | None = None
    """When the head came; absent in captures that did not note it."""


class ChunkPart(Payload, kw_only=True):
    at_ms: float


class MessagePart(Payload, kw_only=True):
    """One message of a WebSocket."""

    at_ms: float
    sender: Literal["client", "server"] = msgspec.field(name="from")
    binary: bool = False
    """Whether it came in binary frames."""
    size: int | None = None
    """Its length in bytes where only the beginning was kept."""
    audio: list[tuple[int, int]] = []
    """Where audio was left out: byte offset in the message, and bytes."""

    def data(self) -> bytes:
        """The bytes, with silence of the same length for audio; ValueError as above, and where offsets make no sense."""
        kept = super().data()
        return with_silence(kept, self.audio) if self.audio else kept


class EndPart(msgspec.Struct):
    kind: Literal["eof", "upstream_reset", "upstream_failed", "client_disconnect", "open"]
    at_ms: float = 0.0
    error: str = ""
    code: int | None = None
    """Close code of a WebSocket."""
    reason: str = ""
    """What it was closed with."""


class RecordedPart(msgspec.Struct, omit_defaults=True):
    """What the recorder did to the exchange, and what it left out."""

    by: str
    """Name and version of what wrote it."""
    scrubbed: bool = False
    """Whether content was replaced by filler."""
    decoded: dict[Literal["request", "response"], str] = {}
    """Bodies that were compressed on the wire and are not here, with the `content-encoding` that they had."""
    cut: list[Literal["request_body", "messages"]] = []
    """Of what only the beginning was kept."""


class Capture(msgspec.Struct):
    """One line of a capture file. Times are milliseconds from t0, of a WebSocket from its upgrade request.

    A WebSocket has `messages` where others have `chunks`.
    """

    v: int
    id: str
    request: RequestPart
    end: EndPart
    started_at: str = ""
    """When t0 was, ISO 8601, as precise as the clock: it places the recordings of both sides of a hop in time."""
    response: ResponsePart | None = None
    chunks: list[ChunkPart] = []
    messages: list[MessagePart] = []
    timed: bool = True
    """False where the source did not say when chunks came: then nothing is said that only timing could show."""
    recorded: RecordedPart | None = None
    """Absent in captures that were not recorded by a sidecar."""


class CaptureError(ValueError):
    """A file or a line of it that cannot be read; the text says where and why."""


_decode = msgspec.json.Decoder(Capture, strict=False).decode


def read_captures(path: Path, name: str = "") -> Iterator[Capture | CaptureError]:
    """The exchanges of a capture file in order; a damaged line yields its error, the rest is read.

    `name` is what errors call it, its path unless given. Raises CaptureError where the file itself cannot be read.
    """
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield read_capture(line, f"{name or path}:{number}")
    except OSError as error:
        raise CaptureError(f"{name or path}: {error.strerror or error}") from error


def read_capture(line: bytes, where: str) -> Capture | CaptureError:
    """One exchange, or what is wrong with it; `where` it stands."""
    try:
        capture = _decode(line)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        version = _version_of(line)
        if version is not None and version != VERSION:
            return _version_error(where, version)
        cut_off = not line.endswith(b"\n") and "truncated" in str(error)
        why = " (cut off: what wrote it was killed, or is still writing; the rest was read)" if cut_off else ""
        return CaptureError(f"{where}: not an exchange of a capture file: {error}{why}")
    if capture.v != VERSION:
        return _version_error(where, capture.v)
    return capture


def _version_of(line: bytes) -> int | None:
    try:
        value: Any = json.loads(line)
    except (ValueError, RecursionError):
        return None
    version = value.get("v") if isinstance(value, dict) else None
    return version if isinstance(version, int) else None


def _version_error(where: str, version: int) -> CaptureError:
    return CaptureError(f"{where}: capture file version {version}, this sidecar reads version {VERSION}; upgrade it")


def records_of(capture: Capture) -> Iterator[Record]:
    """The records that the live path would have made of this exchange. Raises ValueError on damaged payloads."""
    url = urlsplit(capture.request.url)
    port = url.port or (443 if url.scheme in ("https", "wss") else 80)
    target = (url.path or "/") + (f"?{url.query}" if url.query else "")
    yield Opened(
        1,
        T0,
        capture.id,
        _unix_ns(capture.started_at),
        capture.request.method,
        url.scheme,
        url.hostname or "",
        port,
        target,
        capture.request.http_version,
        capture.request.headers,
    )
    if capture.request.body is not None:
        yield RequestBody(1, T0, capture.request.body.data())
    if capture.request.complete and (capture.timed or capture.messages):
        yield RequestSent(1, T0)
    if capture.response is not None:
        head = capture.response
        at = head.at_ms if head.at_ms is not None else 0.0
        yield ResponseHead(1, _ns(at), head.status, head.http_version, head.headers)
    for chunk in capture.chunks:
        yield Chunk(1, _ns(chunk.at_ms), chunk.data())
    for message in capture.messages:
        data = message.data()
        size = max(message.size or 0, len(data))
        yield Message(1, _ns(message.at_ms), data, message.sender == "client", not message.binary, size)
    end = capture.end
    if end.kind != "open":
        yield Ended(1, _ns(end.at_ms), end.kind, end.reason or end.error, end.code)


AUDIO_LIMIT = 64 * 1024 * 1024
"""Bytes of audio that one message may claim to have had."""


def with_silence(kept: bytes, audio: list[tuple[int, int]]) -> bytes:
    """A message with zeros where its audio was: in base64 beside JSON, plain where it was nothing but audio."""
    if sum(size for _, size in audio) > AUDIO_LIMIT:
        raise ValueError(f"a message with more than {AUDIO_LIMIT} bytes of audio")
    filler = b"A" if kept else b"\0"
    data = bytearray()
    read = 0
    for offset, size in audio:
        before = kept[read : read + offset - len(data)]
        read += len(before)
        data += before
        if len(data) != offset or size < 0:
            raise ValueError(f"audio at byte {offset} of a message that is not so long")
        data += filler * size
    return bytes(data) + kept[read:]


def end_at(capture: Capture) -> int:
    """When the recording stopped, nanoseconds on the clock of the capture's records."""
    return _ns(capture.end.at_ms)


def _ns(milliseconds: float) -> int:
    return T0 + round(milliseconds * 1_000_000)


def _unix_ns(stamp: str) -> int:
    try:
        return int(datetime.fromisoformat(stamp).timestamp() * 1e9)
    except ValueError:
        return 0
