"""From mitmproxy's flows to records: the only module of the project that knows what a flow looks like."""

import os
import secrets
from hashlib import blake2b
from time import monotonic_ns, time_ns

from mitmproxy import http

from sidecar.capture.capture import Capture
from sidecar.capture.ends import kind_of_failure
from sidecar.capture.interest import Chooser, Interest
from sidecar.capture.records import EndedKind, Opened, ResponseHead
from sidecar.capture.redaction import redact_headers, redact_target
from sidecar.capture.tap import Tap


class FlowTaps:
    """Streams every flow through, and taps those of interest. Methods are called from the addon's hooks."""

    def __init__(self, capture: Capture, chooser: Chooser, allowed_headers: frozenset[str] = frozenset()) -> None:
        self._capture = capture
        self._chooser = chooser
        self._allowed = allowed_headers
        self._taps: dict[str, Tap] = {}
        self._worker = os.getpid()
        self._salt = secrets.token_bytes(32)

    def request_head(self, flow: http.HTTPFlow) -> None:
        """The request head came: stream the body, copied or not; no flow is ever buffered whole."""
        request = flow.request
        upgrade = "upgrade" in request.headers
        interest = self._chooser.of_request(request.method, request.host, request.path, upgrade=upgrade)
        if interest is Interest.NO:
            request.stream = True
            return
        tap = self._capture.open(self._opened(flow), held=interest is Interest.MAYBE)
        self._taps[flow.id] = tap
        request.stream = tap.request_chunk

    def _opened(self, flow: http.HTTPFlow) -> Opened:
        request = flow.request
        return Opened(
            self._capture.next_stream(),
            monotonic_ns(),
            flow.id,
            time_ns(),
            request.method,
            request.scheme,
            request.host,
            request.port,
            redact_target(request.path),
            request.http_version,
            redact_headers(request.headers.fields, self._allowed),
            self._worker,
            flow.client_conn.proxy_mode.full_spec,
            self._client(flow),
        )

    def _client(self, flow: http.HTTPFlow) -> str:
        """The client's address as a hash: it tells clients apart, and nobody who reads it can tell who they are."""
        peer = flow.client_conn.peername
        if not peer:
            return ""
        return blake2b(str(peer[0]).encode("utf-8", "replace"), key=self._salt, digest_size=8).hexdigest()

    def request_done(self, flow: http.HTTPFlow) -> None:
        """The request is complete; one without a body never went through the callable."""
        tap = self._taps.get(flow.id)
        if tap is not None:
            tap.request_sent()

    def response_head(self, flow: http.HTTPFlow) -> None:
        """The response head came: it confirms or drops a tap that is still held."""
        response = flow.response
        assert response is not None
        tap = self._taps.get(flow.id)
        if response.status_code == 101:
            if tap is not None:
                self._forget(flow, tap)
            return
        if tap is not None and tap.held:
            if self._chooser.confirmed_by(response.headers.get("content-type", "")):
                tap.confirm()
            else:
                self._forget(flow, tap)
                tap = None
        if tap is None:
            response.stream = True
            return
        response.stream = tap.response_chunk
        tap.response_head(
            ResponseHead(
                tap.stream,
                monotonic_ns(),
                response.status_code,
                response.http_version,
                redact_headers(response.headers.fields, self._allowed),
            )
        )

    def _forget(self, flow: http.HTTPFlow, tap: Tap) -> None:
        del self._taps[flow.id]
        self._capture.forget(tap)

    def response_done(self, flow: http.HTTPFlow) -> None:
        """The response is complete."""
        self._end(flow, "eof", "")

    def failed(self, flow: http.HTTPFlow) -> None:
        """One of the two ends went away, or the proxy gave up."""
        self._end(flow, kind_of_failure(flow), flow.error.msg if flow.error is not None else "")

    def _end(self, flow: http.HTTPFlow, kind: EndedKind, error: str) -> None:
        tap = self._taps.pop(flow.id, None)
        if tap is None:
            return
        if tap.held:  # it never came to a response that would have confirmed it
            self._capture.forget(tap)
        else:
            tap.end(kind, error)

    def stop(self) -> None:
        """The proxy shuts down: exchanges in flight end here by our own doing, which is nobody's outcome."""
        for tap in list(self._taps.values()):
            if not tap.held:
                tap.lost = True
                tap.end("client_disconnect", "the proxy was stopped")
        self._taps.clear()
