"""From the records of one exchange to its line in a capture file."""

from datetime import UTC, datetime
from typing import Any, Protocol

import msgspec

from sidecar.capture.records import Headers
from sidecar.capture.tap import REQUEST_COPY_LIMIT
from sidecar.encoding import content_decoder
from sidecar.files.capture import VERSION, text_or_b64
from sidecar.record.draft import Draft, Said
from sidecar.record.folder import TooLargeError
from sidecar.record.secrets import redact_pieces, redact_secrets

_CODED = frozenset({"content-encoding", "content-length"})
_DEFAULT_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}


DECODED_LIMIT = 64 * 1024 * 1024
"""Bytes of one body without its compression."""
SCRUBBED_LIMIT = 8 * 1024 * 1024
"""Bytes of all bodies of an exchange that is scrubbed; it takes twenty times as much memory for a moment."""


class Bodies(msgspec.Struct):
    """What of an exchange may hold content, for a scrubber to change. Lengths stay as they are."""

    target: str
    request_headers: Headers
    request: bytes
    response_headers: Headers
    chunks: list[bytes]
    messages: list[Said]
    reason: str = ""
    """What a WebSocket was closed with."""


class Scrubs(Protocol):
    """Replaces content by filler."""

    def scrub(self, bodies: Bodies) -> None:
        """Change the bodies in place."""


def line_of(draft: Draft, *, by: str, scrubber: Scrubs | None = None) -> bytes:
    """The exchange as JSON, its line break included. Credentials are gone; with a `scrubber` all content is.

    Compressed bodies are kept as they came, unless something inside has to be replaced: then they are kept decoded.
    Raises TooLargeError where it takes more memory than it may.
    """
    head, opened = draft.head, draft.opened
    recorded: dict[str, Any] = {"by": by}
    bodies = Bodies(
        opened.target,
        opened.headers,
        b"".join(draft.body),
        head.headers if head is not None else [],
        [data for _, data in draft.chunks],
        draft.messages,
        draft.ended.error if draft.ended is not None and draft.is_socket else "",
    )
    decoded = _decode(bodies, whatever=scrubber is not None)
    if scrubber is not None:
        recorded["scrubbed"] = True
        pieces = (bodies.request, *bodies.chunks, *(said.data for said in bodies.messages))
        if sum(map(len, pieces)) > SCRUBBED_LIMIT:
            raise TooLargeError
        scrubber.scrub(bodies)
    bodies.request = redact_secrets(bodies.request)
    bodies.chunks = redact_pieces(bodies.chunks)
    if decoded:
        recorded["decoded"] = decoded
    cut = ["request_body"] * (sum(map(len, draft.body)) >= REQUEST_COPY_LIMIT)
    cut += ["messages"] * any(said.size > REQUEST_COPY_LIMIT for said in draft.messages)
    if cut:
        recorded["cut"] = cut
    line = msgspec.json.encode(_exchange(draft, bodies) | {"recorded": recorded}) + b"\n"
    # Readers that take these for line ends would tear the line apart.
    for mark, escaped in ((b"\xe2\x80\xa8", rb"\u2028"), (b"\xe2\x80\xa9", rb"\u2029"), (b"\xc2\x85", rb"\u0085")):
        line = line.replace(mark, escaped)
    return line


def _decode(bodies: Bodies, *, whatever: bool) -> dict[str, str]:
    """Undo the compression of bodies in which something has to be replaced (or of all); which ones, and how they were."""
    decoded = {}
    request = _decoded([bodies.request], bodies.request_headers, whatever=whatever)
    if request is not None:
        decoded["request"] = _coding(bodies.request_headers)
        (bodies.request,), bodies.request_headers = request, _uncoded(bodies.request_headers)
    response = _decoded(bodies.chunks, bodies.response_headers, whatever=whatever)
    if response is not None:
        decoded["response"] = _coding(bodies.response_headers)
        bodies.chunks, bodies.response_headers = response, _uncoded(bodies.response_headers)
    return decoded


def _decoded(pieces: list[bytes], headers: Headers, *, whatever: bool) -> list[bytes] | None:
    """The pieces of a compressed body without its coding; None where they may stay as they are."""
    coding = content_decoder(_coding(headers))
    if coding is None or not any(pieces):
        return None
    plain: list[bytes] = []
    size = 0
    for piece in pieces:
        plain.append(coding.feed(piece))
        size += len(plain[-1])
        if size > DECODED_LIMIT:
            raise TooLargeError
    plain[-1] += coding.close()
    if coding.mismatched or coding.unknown:
        return None  # it was plain all the time, or nobody can read it
    return plain if whatever or redact_pieces(plain) is not plain else None


def _coding(headers: Headers) -> str:
    return ", ".join(value for name, value in headers if name.lower() == "content-encoding")


def _uncoded(headers: Headers) -> Headers:
    return [(name, value) for name, value in headers if name.lower() not in _CODED]


def _exchange(draft: Draft, bodies: Bodies) -> dict[str, Any]:
    opened, head, ended = draft.opened, draft.head, draft.ended
    t0 = opened.at if draft.sent_at is None else draft.sent_at
    port = "" if _DEFAULT_PORTS.get(opened.scheme) == opened.port else f":{opened.port}"
    host = f"[{opened.host}]" if ":" in opened.host else opened.host
    request: dict[str, Any] = {
        "method": opened.method,
        "url": f"{opened.scheme}://{host}{port}{bodies.target}",
        "http_version": opened.http_version,
        "headers": bodies.request_headers,
    }
    if bodies.request:
        request["body"] = _payload(bodies.request)
    if draft.sent_at is None:
        request["complete"] = False
    found: dict[str, Any] = {"v": VERSION, "id": opened.id, "started_at": _stamp(opened.wall_ns + t0 - opened.at)}
    found["request"] = request
    if head is not None:
        found["response"] = {
            "status": head.status,
            "http_version": head.http_version,
            "headers": bodies.response_headers,
            "at_ms": _ms(head.at - t0),
        }
    if draft.is_socket:
        found["messages"] = [_message(said, t0) for said in bodies.messages]
    else:
        times = (at for at, _ in draft.chunks)
        pairs = zip(times, bodies.chunks, strict=True)
        found["chunks"] = [{"at_ms": _ms(at - t0)} | _payload(data) for at, data in pairs]
    if ended is None:
        found["end"] = {"kind": "open", "at_ms": _ms(draft.last_at - t0)}
        return found
    end: dict[str, Any] = {"kind": ended.kind, "at_ms": _ms(ended.at - t0)}
    found["end"] = end
    if ended.code is not None:
        end["code"] = ended.code
    if bodies.reason:
        end["reason"] = bodies.reason
    elif ended.error:
        end["error"] = ended.error
    return found


def _message(said: Said, t0: int) -> dict[str, Any]:
    found: dict[str, Any] = {"at_ms": _ms(said.at - t0), "from": "client" if said.from_client else "server"}
    if not said.text:
        found["binary"] = True
    found |= _payload(redact_secrets(said.data))
    if said.audio:
        found["audio"] = said.audio
    if said.size > len(said.data) + sum(size for _, size in said.audio):
        found["size"] = said.size
    return found


def _payload(data: bytes) -> dict[str, str]:
    text, b64 = text_or_b64(data)
    return {"text": text} if text is not None else {"b64": b64 or ""}


def _ms(nanoseconds: int) -> float:
    return nanoseconds / 1e6  # to the nanosecond: verdicts hang on what came together


def _stamp(wall_ns: int) -> str:
    seconds, rest = divmod(wall_ns, 1_000_000_000)
    try:
        moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest // 1000)
    except (OverflowError, OSError, ValueError):  # a writer that lost its mind
        return ""
    return moment.isoformat().replace("+00:00", "Z")
