"""Where the payloads of a body are: by its framing, each in its place, and the body again with filler in them."""

import re
from collections.abc import Callable, Iterator, Sequence
from struct import Struct
from zlib import crc32

from sidecar.framing.table import by_content_type, media_type, sniff
from sidecar.record.scrub.filler import fill_text, seeded
from sidecar.record.scrub.loom import Loom
from sidecar.record.scrub.payload import Payload

type Later = Callable[[], bytes]
"""Bytes with filler, of the same length; only after the loom has woven."""

_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n|$)")
_FIELD = re.compile(rb"(data|event|id|retry|)(?::[ ]?|(?=[\r\n]|$))")
_EVENT_NAME = re.compile(rb"[A-Za-z0-9_.:/-]{1,64}")
_MIXED = re.compile(rb"^(?:data:|event:|:)", re.MULTILINE)
_COMMENTS = re.compile(
    r"OPENROUTER PROCESSING|HTTP_STATUS/[0-9]+|(?:keep-?alive|heartbeat|ping|connected|ok)[ .0-9:TZ-]*", re.IGNORECASE
)
_TAGS = re.compile(
    r"<!doctype html[^>]*>|</?(?:html|head|title|body|h[1-6]|p|div|span|center|hr|br|a|pre|code|meta|script|style)\b",
    re.IGNORECASE,
)
_OPAQUE = ("audio/", "image/", "video/")
_PRELUDE = Struct(">III")
_CRC_BYTES = 4
_HEADER_NAMES = (b":event-type", b":exception-type", b":error-code", b":message-type", b":content-type")
_FORM_PART = re.compile(rb'name="([^"]*)"')
_FORM_FILE = re.compile(rb'filename="([^"]*)"')
_FORM_KEPT = frozenset(
    {b"model", b"stream", b"response_format", b"language", b"temperature", b"n", b"size", b"quality"}
)


def body(data: bytes, content_type: str, loom: Loom, origin: str) -> Later:
    """A whole body, whatever it is."""
    if not data:
        return lambda: b""
    kind = media_type(content_type)
    declared = by_content_type(content_type)
    framing = sniff(data[:4096], declared, asked_stream=True)
    name = framing.name if framing is not None else ""
    start = data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    if name == "sse":
        return _joined(list(_events(data, loom, origin)))
    if name == "eventstream":
        return _joined(list(_frames(data, loom, origin)))
    if kind == "multipart/form-data" or (start == b"-" and b"form-data" in data[:512]):
        return _joined(list(_form(data, loom)))
    if kind.startswith(_OPAQUE) and start not in (b"{", b"["):
        return _blank(data)
    if start == b"<":
        return _text(data, loom, _TAGS)
    if start in (b"{", b"["):
        return _json(data, loom, origin)
    return _blank(data) if b"\0" in data or not _is_text(data) else _joined(list(_events(data, loom, origin)))


def _joined(parts: Sequence[Later]) -> Later:
    return lambda: b"".join(part() for part in parts)


def _kept(data: bytes) -> Later:
    return lambda: data


def _is_text(data: bytes) -> bool:
    """Whether most of it is UTF-8: a character that is cut or damaged is no sign of a binary body."""
    return data.decode("utf-8", "replace").count("\ufffd") * 10 < len(data)


def _blank(data: bytes) -> Later:
    """Audio, pictures, what nobody can read: only its size, and where zeros were."""
    return _kept(data.translate(bytes([0]) + b"\xff" * 255))


def _text(data: bytes, loom: Loom, marks: re.Pattern[str] | None = None) -> Later:
    text = data.decode("latin-1")
    if not data.isascii():
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return _blank(data)
    chance = seeded(loom.key, text)
    filled = fill_text(text, chance) if marks is None else fill_text(text, chance, marks)
    return _kept(filled.encode())


def _json(data: bytes, loom: Loom, origin: str) -> Later:
    """One document, several, lines, an array; or a document with events behind it."""
    mixed = _MIXED.search(data)
    if mixed is None:
        return Payload(data, loom, origin).filled
    before = Payload(data[: mixed.start()], loom, origin).filled
    return _joined([before, *_events(data[mixed.start() :], loom, origin)])


def _events(data: bytes, loom: Loom, origin: str) -> Iterator[Later]:
    """Server-sent events, line by line; the data of one event is one payload, however many lines it has."""
    block: list[bytes] = []  # data lines of the event
    pending: list[Later | None] = []  # its lines; None where a data line is to be put in

    def flush() -> Iterator[Later]:
        if block:
            payload = Payload(b"\n".join(block), loom, origin)
            sizes = [len(line) for line in block]
            lines = iter([_Slice(payload.filled, sizes, number) for number in range(len(sizes))])
            yield from (next(lines) if part is None else part for part in pending)
        else:
            yield from (part for part in pending if part is not None)
        block.clear()
        pending.clear()

    for match in _LINE.finditer(data):
        line = match.group()
        content = line.rstrip(b"\r\n")
        if not content:
            yield from flush()
            yield _kept(line)
            continue
        bom = b"\xef\xbb\xbf" if content.startswith(b"\xef\xbb\xbf") else b""
        field = _FIELD.match(content, len(bom))
        if field is None or (not field.group(1) and content[len(bom) : len(bom) + 1] != b":"):
            pending += [Payload(content, loom, f"{origin} stray").filled, _kept(line[len(content) :])]
            continue
        name, value = field.group(1), content[field.end() :]
        pending.append(_kept(content[: field.end()]))
        if name == b"data":
            block.append(value)
            pending.append(None)
        else:
            pending.append(_field(name, value, loom))
        pending.append(_kept(line[len(content) :]))
    yield from flush()


class _Slice:
    """One line of a payload that has several. The payload is filled once for each, of which there are few."""

    def __init__(self, filled: Later, sizes: list[int], number: int) -> None:
        self._filled = filled
        self._begin = sum(sizes[:number]) + number
        self._end = self._begin + sizes[number]

    def __call__(self) -> bytes:
        return self._filled()[self._begin : self._end]


def _field(name: bytes, value: bytes, loom: Loom) -> Later:
    if name == b"id":
        return lambda: loom.id(value.decode("latin-1")).encode("latin-1") if value.isascii() else _blank(value)()
    if name == b"retry" and value.isdigit():
        return _kept(value)
    if name == b"event" and _EVENT_NAME.fullmatch(value):
        return _kept(value)
    if not name and _COMMENTS.fullmatch(value.decode("latin-1").strip()):
        return _kept(value)
    return _text(value, loom)


def _frames(data: bytes, loom: Loom, origin: str) -> Iterator[Later]:
    """AWS frames; what is none of them is blanked. Checksums are made anew where they were right."""
    at = 0
    while at < len(data):
        total, headers = _prelude(data, at)
        if not total:
            skipped = at + 1
            while skipped < len(data) and not _prelude(data, skipped)[0]:
                skipped += 1
            yield _kept(data[at : at + _PRELUDE.size]) if at + _PRELUDE.size >= len(data) else _blank(data[at:skipped])
            at = len(data) if at + _PRELUDE.size >= len(data) else skipped
            continue
        yield _frame(data[at : at + total], total, headers, loom, origin)
        at += total


def _prelude(data: bytes, at: int) -> tuple[int, int]:
    """Lengths of a frame and of its headers; zeros where there is none."""
    if at + _PRELUDE.size > len(data):
        return 0, 0
    total, headers, checksum = _PRELUDE.unpack_from(data, at)
    right = crc32(data[at : at + 8]) == checksum and headers <= total - _PRELUDE.size - _CRC_BYTES
    return (total, headers) if right else (0, 0)


def _frame(frame: bytes, total: int, headers: int, loom: Loom, origin: str) -> Later:
    begin = _PRELUDE.size + headers
    head = frame[: _PRELUDE.size] + _frame_headers(frame[_PRELUDE.size : begin], loom)
    if len(frame) < total:  # cut off
        payload = Payload(frame[begin:], loom, origin)
        return lambda: head + payload.filled()
    checksum = frame[-_CRC_BYTES:]
    right = crc32(frame[:-_CRC_BYTES]) == int.from_bytes(checksum)
    payload = Payload(frame[begin:-_CRC_BYTES], loom, origin if right else f"{origin} damaged")

    def filled() -> bytes:
        whole = head + payload.filled()
        return whole + (crc32(whole).to_bytes(_CRC_BYTES) if right else checksum)

    return filled


def _frame_headers(headers: bytes, loom: Loom) -> bytes:
    """The headers of a frame; strings that are not known to be the protocol's are filled."""
    found = bytearray(headers)
    at = 0
    while at < len(headers):
        name_end = at + 1 + headers[at]
        name = headers[at + 1 : name_end]
        if headers[name_end : name_end + 1] != b"\x07":
            break
        start = name_end + 3
        end = start + int.from_bytes(headers[name_end + 1 : start])
        value = headers[start:end]
        if name not in _HEADER_NAMES or not _EVENT_NAME.fullmatch(value):
            found[start:end] = _text(value, loom)()
        at = end
    return bytes(found)


def _form(data: bytes, loom: Loom) -> Iterator[Later]:
    """A form: names of its fields, and the values of those that say how to answer."""
    boundary = data.lstrip()[:200].split(b"\r\n", 1)[0].split(b"\n", 1)[0]
    for number, part in enumerate(re.split(b"(" + re.escape(boundary) + b")", data)):
        head, gap, value = part.partition(b"\r\n\r\n")
        if number % 2 or not gap:
            yield _kept(part) if number % 2 or len(part) <= 4 else _text(part, loom)
            continue
        name = _FORM_PART.search(head)
        file = _FORM_FILE.search(head)
        yield _kept(
            head if file is None else head[: file.start(1)] + _text(file.group(1), loom)() + head[file.end(1) :]
        )
        yield _kept(gap)
        if file is not None:
            yield _blank(value[:-2])
            yield _kept(value[-2:])
        elif name is not None and name.group(1) in _FORM_KEPT and _EVENT_NAME.fullmatch(value.strip()):
            yield _kept(value)
        else:
            yield _text(value, loom)
