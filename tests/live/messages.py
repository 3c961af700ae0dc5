"""HTTP/1.1 messages as they stood on the wire, with all that a library would tidy away: case, order, extensions."""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Message:
    """One request or response. `complete`: its end was seen."""

    start: str
    headers: tuple[tuple[str, str], ...]
    body: bytes = b""
    extensions: list[str] = field(default_factory=list)
    """Of chunks, those that have any."""
    trailers: tuple[tuple[str, str], ...] = ()
    complete: bool = True

    def header(self, name: str) -> str | None:
        """The value of a header that stands once."""
        return next((value for key, value in self.headers if key.lower() == name), None)


def messages_of(data: bytes, method: str) -> list[Message]:
    """All messages of one direction of a connection. `method` is that of the requests, for which a response has a body."""
    found: list[Message] = []
    while data:
        head, mark, data = data.partition(b"\r\n\r\n")
        start, *lines = head.decode("latin-1").split("\r\n")
        message = Message(start, _pairs(lines), complete=bool(mark))
        data = _body(message, data, method)
        found.append(message)
    return found


def _pairs(lines: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Names and values as they stand; only the blanks around the value are no part of it."""
    return tuple((name, value.strip(" \t")) for name, _, value in (line.partition(":") for line in lines))


def _body(message: Message, data: bytes, method: str) -> bytes:
    """Read the body; what is left behind it."""
    response = message.start.startswith("HTTP/")
    status = message.start.split(" ")[1] if response else ""
    if status == "101" or (method == "CONNECT" and status == "200") or message.start.startswith("CONNECT"):
        message.body = data
        return b""
    if response and (method == "HEAD" or status in ("204", "304") or status.startswith("1")):
        return data
    if (message.header("transfer-encoding") or "").lower() == "chunked":
        return _chunked(message, data)
    length = message.header("content-length")
    if length is None:
        if not response:
            if message.header("upgrade") is not None:
                message.body, data = data, b""
            return data
        message.body = data
        return b""
    message.body, rest = data[: int(length)], data[int(length) :]
    message.complete = len(message.body) == int(length)
    return rest


def _chunked(message: Message, data: bytes) -> bytes:
    while True:
        line, mark, rest = data.partition(b"\r\n")
        size, _, extension = line.decode("latin-1").partition(";")
        if not mark or not size.strip():
            message.complete = False
            return b""
        if extension:
            message.extensions.append(extension)
        length = int(size, 16)
        if length == 0:
            break
        message.body += rest[:length]
        data = rest[length + 2 :]
    lines: list[str] = []
    while True:
        line, mark, rest = rest.partition(b"\r\n")
        if not line or not mark:
            message.complete = bool(mark)
            message.trailers = _pairs(lines)
            return rest
        lines.append(line.decode("latin-1"))
