"""All content of an exchange replaced by filler, so that its recording can be shown to anybody."""

import re
import secrets

from sidecar.capture.records import Headers
from sidecar.capture.redaction import HEADER_VALUES, REDACTED
from sidecar.record.draft import Said
from sidecar.record.line import Bodies
from sidecar.record.scrub.bodies import Later, body
from sidecar.record.scrub.filler import fill_text, seeded
from sidecar.record.scrub.loom import Loom
from sidecar.record.scrub.payload import Payload
from sidecar.record.secrets import cut_like

_IDS = frozenset({"x-request-id", "request-id", "x-amzn-requestid", "traceparent", "tracestate"})
_TRACE = re.compile(r"[0-9a-f]{16,}")


class Scrubber:
    """Replaces content under a key of its own, which is nowhere written: what is equal in two exchanges that it has
    scrubbed is equal afterwards (both sides of a hop still find each other), and nobody else can tell what it was."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key or secrets.token_bytes(32)

    def scrub(self, bodies: Bodies) -> None:
        """Change the bodies in place; they are decoded of their content codings."""
        loom = Loom(self._key)
        request = body(bodies.request, _header(bodies.request_headers, "content-type"), loom, "request")
        response = body(b"".join(bodies.chunks), _header(bodies.response_headers, "content-type"), loom, "response")
        messages = [(said, _message(said, loom)) for said in bodies.messages]
        loom.weave()
        bodies.request = request()
        bodies.chunks = cut_like(response(), bodies.chunks)
        bodies.messages = [said.with_data(filled()) for said, filled in messages]
        bodies.request_headers = self._headers(bodies.request_headers, loom)
        bodies.response_headers = self._headers(bodies.response_headers, loom)
        bodies.reason = fill_text(bodies.reason, seeded(self._key, bodies.reason))

    def _headers(self, headers: Headers, loom: Loom) -> Headers:
        found: Headers = []
        for name, value in headers:
            lower = name.lower()
            if lower in _IDS:
                value = _TRACE.sub(lambda match: loom.id(match.group()), value) if "trace" in lower else loom.id(value)
            elif lower not in HEADER_VALUES and lower != "sec-websocket-protocol" and value != REDACTED:
                value = fill_text(value, seeded(self._key, value))  # the operator let it pass; it may be anything
            found.append((name, value))
        return found


def _message(said: Said, loom: Loom) -> Later:
    return Payload(said.data, loom, "client" if said.from_client else "server").filled


def _header(headers: Headers, wanted: str) -> str:
    return next((value for name, value in headers if name.lower() == wanted), "")
