"""One exchange as Envoy's external processing tells it: its messages in, records into the outbox. Knows nothing of gRPC."""

from collections.abc import Mapping
from time import monotonic_ns, time_ns
from typing import Any
from urllib.parse import SplitResult, urlsplit

import msgspec

from sidecar.capture import bounds
from sidecar.capture.bounds import fitted, fitted_headers
from sidecar.capture.capture import Capture
from sidecar.capture.interest import Chooser, Interest
from sidecar.capture.records import Opened, ResponseHead
from sidecar.capture.redaction import pseudonym, redact_headers, redact_target
from sidecar.capture.tap import Tap
from sidecar.envoy.ends import End, Key, key_of, unanswered

FILTER = "envoy.filters.http.ext_proc"
"""Under which name Envoy files the attributes that it was asked for."""
UPSTREAM = "llm-sidecar-upstream"
"""Key of the gRPC metadata in which the operator may say whom a route is for: `https://host[:port]`."""

_LATE = 5_000_000_000  # nanoseconds; more is a clock that was set meanwhile


class Context(msgspec.Struct, frozen=True):
    """What all exchanges share."""

    capture: Capture
    chooser: Chooser
    allowed_headers: frozenset[str]
    salt: bytes


class EnvoyExchange:
    """`wanted` turns False where the exchange is none of ours; `over` turns True with its last message.

    `same_clock`: Envoy is on this host, so that what it says of when the request began can be believed.
    """

    def __init__(self, context: Context, upstream: str = "", *, same_clock: bool = False) -> None:
        self.key: Key | None = None
        self.wanted = True
        self.over = False
        self._context = context
        self._upstream = upstream
        self._same_clock = same_clock
        self._tap: Tap | None = None
        self._answered = False
        self._failure = ""

    @property
    def lost(self) -> bool:
        """Whether something of it was dropped: what follows is not looked at."""
        return self._tap is not None and self._tap.lost

    def take(self, message: Any) -> None:
        """A `ProcessingRequest`, just read."""
        kind = message.WhichOneof("request")
        tap = self._tap
        if tap is None:
            if kind == "request_headers":
                self._request_head(message)
            else:  # Envoy answered before the request came to it: there is nothing to judge
                self.wanted = False
        elif kind == "response_body":
            self._response_body(tap, message.response_body)
        elif kind == "request_body":
            _request_body(tap, message.request_body)
        elif kind == "response_headers":
            self._response_head(tap, message)
        elif kind == "request_trailers":
            tap.request_sent()
        elif kind == "response_trailers":
            self._end(tap)

    def _request_head(self, message: Any) -> None:
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
        source = _text(attributes, "source.address")
        self.key = key_of(source, _text(attributes, "request.time"))
        wall_ns = time_ns()
        late = self._lateness(wall_ns)
        capture = self._context.capture
        stream = capture.next_stream()
        opened = Opened(
            stream,
            monotonic_ns() - late,
            f"envoy-{stream}",
            wall_ns - late,
            fitted(method, bounds.METHOD),
            scheme,
            fitted(host, bounds.HOST),
            port,
            fitted(redact_target(target), bounds.TARGET),
            fitted(_text(attributes, "request.protocol"), bounds.VERSION),
            fitted_headers(redact_headers(fields, self._context.allowed_headers)),
            0,
            f"envoy:{_text(attributes, 'destination.address')}",
            self._client(source),
        )
        self._tap = capture.open(opened, held=interest is Interest.MAYBE)
        if head.end_of_stream:
            self._tap.request_sent()

    def _lateness(self, wall_ns: int) -> int:
        """Nanoseconds since Envoy had the request: which of two taps was first depends on it."""
        if not self._same_clock or self.key is None:
            return 0
        late = wall_ns - self.key[1] * 1000
        return late if 0 < late < _LATE else 0

    def _client(self, source: str) -> str:
        host = source.rpartition(":")[0]
        return pseudonym(host, self._context.salt) if host else ""

    def _response_head(self, tap: Tap, message: Any) -> None:
        head = message.response_headers
        pseudo, fields = _split(head.headers)
        attributes = _attributes(message)
        status = pseudo.get(":status", "")
        code = int(status) if len(status) == 3 and status.isascii() and status.isdigit() else 0
        if 100 <= code < 200 and code != 101:
            return
        self._failure = unanswered(_number(attributes, "response.flags"), _text(attributes, "response.code_details"))
        if tap.held:
            kind = next((value for name, value in fields if name == b"content-type"), b"")
            self.wanted = self._context.chooser.confirmed_by(kind.decode("latin-1"))
            if not self.wanted:
                return
            tap.confirm()
        if code == 101:  # the bytes that follow are another protocol's
            self.wanted = False
            return
        if not self._failure:
            self._answered = True
            headers = fitted_headers(redact_headers(fields, self._context.allowed_headers))
            tap.response_head(ResponseHead(tap.stream, monotonic_ns(), code, "", headers))
        if head.end_of_stream:
            self._end(tap)

    def _response_body(self, tap: Tap, body: Any) -> None:
        if body.body and self._answered:
            tap.response_chunk(body.body)
        if body.end_of_stream:
            self._end(tap)

    def _end(self, tap: Tap) -> None:
        self.over = True
        if not tap.held:
            tap.end("upstream_failed" if self._failure else "eof", self._failure)

    def broken_off(self, told: End | None) -> bool:
        """Envoy tells no more of it, and had not told its end: what its log says of it, else nothing is known. Whether
        the analyzer will hear of it."""
        self.over = True
        tap = self._tap
        if tap is None or tap.held:
            return False
        if told is None:
            tap.lost = True
            tap.end("upstream_reset", "Envoy stopped telling")
        else:
            failed = told.kind == "upstream_reset" and not self._answered
            tap.end("upstream_failed" if failed else told.kind, told.error, told.at)
        return True

    def release(self) -> None:
        """Give back what was held of an exchange that turned out not to matter."""
        if self._tap is not None and self._tap.held:
            self._context.capture.forget(self._tap)


def _request_body(tap: Tap, body: Any) -> None:
    if body.body:
        tap.request_chunk(body.body)
    if body.end_of_stream:
        tap.request_sent()


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
