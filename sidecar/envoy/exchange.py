"""One exchange as Envoy's external processing tells it: its messages in, records out. Knows nothing of gRPC."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import SplitResult, urlsplit

import msgspec

from sidecar.capture.interest import Chooser, Interest
from sidecar.capture.records import AnyRecord, Chunk, Ended, Lost, Opened, RequestBody, RequestSent, ResponseHead
from sidecar.capture.redaction import pseudonym, redact_headers, redact_target
from sidecar.capture.tap import REQUEST_COPY_LIMIT
from sidecar.envoy.ends import End, Key, key_of, unanswered

FILTER = "envoy.filters.http.ext_proc"
"""Under which name Envoy files the attributes that it was asked for."""
UPSTREAM = "llm-sidecar-upstream"
"""Key of the gRPC metadata in which the operator may say whom a route is for: `https://host[:port]`."""

_LATE = 5_000_000_000  # nanoseconds; more is a clock that was set meanwhile


class Context(msgspec.Struct, frozen=True):
    """What all exchanges share. `room` asks whether so many more bytes may be held, and takes them (negative: gives
    them back)."""

    chooser: Chooser
    allowed_headers: frozenset[str]
    salt: bytes
    room: Callable[[int], bool]


class EnvoyExchange:
    """Methods give the records that a message amounts to, in order. `wanted` turns False where the exchange is none of
    ours; `over` turns True with its last message.

    `same_clock`: Envoy is on this host, so that what it says of when the request began can be believed.
    """

    def __init__(self, stream: int, context: Context, upstream: str = "", *, same_clock: bool = False) -> None:
        self.key: Key | None = None
        self.wanted = True
        self.over = False
        self.opened = False
        """Whether the analyzer has heard of it."""
        self._stream = stream
        self._context = context
        self._upstream = upstream
        self._same_clock = same_clock
        self._held: list[AnyRecord] | None = None
        self._held_bytes = 0
        self._request_room = REQUEST_COPY_LIMIT
        self._sent = False
        self._answered = False
        self._failure = ""

    def take(self, message: Any, at: int, wall_ns: int) -> list[AnyRecord]:
        """A `ProcessingRequest`, read at `at` (CLOCK_MONOTONIC nanoseconds) and `wall_ns` (Unix nanoseconds)."""
        records = list(self._read(message, at, wall_ns))
        if self._held is None:
            return records
        self._held += records
        return []

    def _read(self, message: Any, at: int, wall_ns: int) -> Iterator[AnyRecord]:
        kind = message.WhichOneof("request")
        if kind == "response_body":
            yield from self._response_body(message.response_body, at)
        elif kind == "request_body":
            yield from self._request_body(message.request_body, at)
        elif kind == "request_headers":
            yield from self._request_head(message, at, wall_ns)
        elif kind == "response_headers":
            yield from self._response_head(message, at)
        elif kind == "request_trailers":
            yield from self._request_over(at)
        elif kind == "response_trailers":
            yield self._end(at)

    def _request_head(self, message: Any, at: int, wall_ns: int) -> Iterator[AnyRecord]:
        head = message.request_headers
        pseudo, fields = _split(head.headers)
        attributes = _attributes(message)
        place = _place(self._upstream) or _place(f"{pseudo.get(':scheme', 'http')}://{pseudo.get(':authority', '')}")
        method, target = pseudo.get(":method", ""), pseudo.get(":path", "")
        if place is None or not method:
            self.wanted = False
            return
        scheme, host, port = place
        upgrade = any(name == b"upgrade" for name, _ in fields) or ":protocol" in pseudo
        interest = self._context.chooser.of_request(method, host, target, upgrade=upgrade)
        if interest is Interest.NO:
            self.wanted = False
            return
        if interest is Interest.MAYBE:
            self._held = []
        source = _text(attributes, "source.address")
        self.key = key_of(source, _text(attributes, "request.time"))
        self.opened = interest is Interest.YES
        late = self._lateness(wall_ns)
        yield Opened(
            self._stream,
            at - late,
            f"envoy-{self._stream}",
            wall_ns - late,
            method,
            scheme,
            host,
            port,
            redact_target(target),
            _text(attributes, "request.protocol"),
            redact_headers(fields, self._context.allowed_headers),
            0,
            f"envoy:{_text(attributes, 'destination.address')}",
            self._client(source),
        )
        if head.end_of_stream:
            yield from self._request_over(at)

    def _lateness(self, wall_ns: int) -> int:
        """Nanoseconds since Envoy had the request: which of two taps was first depends on it."""
        if not self._same_clock or self.key is None:
            return 0
        late = wall_ns - self.key[1] * 1000
        return late if 0 < late < _LATE else 0

    def _client(self, source: str) -> str:
        host = source.rpartition(":")[0]
        return pseudonym(host, self._context.salt) if host else ""

    def _request_body(self, body: Any, at: int) -> Iterator[AnyRecord]:
        data = body.body[: self._request_room]
        if data and self._may_keep(len(data)):
            self._request_room -= len(data)
            yield RequestBody(self._stream, at, data)
        if body.end_of_stream:
            yield from self._request_over(at)

    def _may_keep(self, size: int) -> bool:
        """What is held back is bounded over all exchanges; what does not fit is dropped."""
        if self._held is None:
            return True
        if not self._context.room(size):
            return False
        self._held_bytes += size
        return True

    def _request_over(self, at: int) -> Iterator[AnyRecord]:
        if not self._sent:
            self._sent = True
            yield RequestSent(self._stream, at)

    def _response_head(self, message: Any, at: int) -> Iterator[AnyRecord]:
        head = message.response_headers
        pseudo, fields = _split(head.headers)
        attributes = _attributes(message)
        status = pseudo.get(":status", "")
        code = int(status) if status.isascii() and status.isdigit() else 0
        if 100 <= code < 200 and code != 101:
            return
        self._failure = unanswered(_number(attributes, "response.flags"), _text(attributes, "response.code_details"))
        if self._held is not None:
            kind = next((value for name, value in fields if name == b"content-type"), b"")
            self.wanted = self._context.chooser.confirmed_by(kind.decode("latin-1"))
            if not self.wanted:
                return
            yield from self._confirm()
        if code == 101:  # the bytes that follow are another protocol's
            self.wanted = False
            return
        if not self._failure:
            self._answered = True
            yield ResponseHead(self._stream, at, code, "", redact_headers(fields, self._context.allowed_headers))
        if head.end_of_stream:
            yield self._end(at)

    def _confirm(self) -> Iterator[AnyRecord]:
        held, self._held = self._held or [], None
        self.opened = True
        self.release()
        yield from held

    def _response_body(self, body: Any, at: int) -> Iterator[AnyRecord]:
        if body.body and self._answered:
            yield Chunk(self._stream, at, body.body)
        if body.end_of_stream:
            yield self._end(at)

    def _end(self, at: int) -> AnyRecord:
        self.over = True
        return Ended(self._stream, at, "upstream_failed" if self._failure else "eof", self._failure[:500])

    def broken_off(self, told: End | None, at: int) -> list[AnyRecord]:
        """Envoy tells no more of it, and had not told its end: what its log says of it, else nothing is known."""
        self.over = True
        if not self.opened:
            return []
        if told is None:
            lost = Lost(self._stream, at)
            return [lost, Ended(self._stream, at, "upstream_reset", "Envoy stopped telling")]
        kind = "upstream_failed" if told.kind == "upstream_reset" and not self._answered else told.kind
        return [Ended(self._stream, told.at, kind, told.error[:500])]

    def release(self) -> None:
        """Give back what it held; may be called again."""
        if self._held_bytes:
            self._context.room(-self._held_bytes)
            self._held_bytes = 0
        if self._held:
            self._held.clear()


def _split(headers: Any) -> tuple[dict[str, str], list[tuple[bytes, bytes]]]:
    """Pseudo-headers and the others; Envoy has their names in lower case."""
    pseudo: dict[str, str] = {}
    fields: list[tuple[bytes, bytes]] = []
    for header in headers.headers:
        value = header.raw_value or header.value.encode("utf-8", "replace")
        if header.key.startswith(":"):
            pseudo[header.key] = value.decode("latin-1")
        else:
            fields.append((header.key.encode("latin-1", "replace"), value))
    return pseudo, fields


def _attributes(message: Any) -> Mapping[str, Any]:
    """The attributes that came with a message."""
    if FILTER not in message.attributes:  # the map of protobuf makes what it is asked for
        return {}
    fields: Mapping[str, Any] = message.attributes[FILTER].fields
    return fields


def _text(attributes: Mapping[str, Any], name: str) -> str:
    return str(attributes[name].string_value) if name in attributes else ""


def _number(attributes: Mapping[str, Any], name: str) -> int:
    return int(attributes[name].number_value) if name in attributes else 0


def _place(url: str) -> tuple[str, str, int] | None:
    """Scheme, host (lower-case) and port of an origin; None where it is none."""
    try:
        parts: SplitResult = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not host:
        return None
    return parts.scheme, host.rstrip("."), port or (443 if parts.scheme == "https" else 80)
