"""From mitmproxy's flows to records: the only module of the project that knows what a flow looks like."""

import os
import secrets
from collections.abc import Callable, Iterable
from time import monotonic_ns, time_ns
from typing import Literal

from mitmproxy import http

from sidecar.capture import bounds
from sidecar.capture.bounds import fitted, fitted_headers
from sidecar.capture.capture import Capture
from sidecar.capture.checks import Checks
from sidecar.capture.destination import host_of
from sidecar.capture.ends import Upstreams, of_socket
from sidecar.capture.interest import Chooser, Interest
from sidecar.capture.records import EndedKind, Opened, ResponseHead
from sidecar.capture.redaction import pseudonym, redact_headers, redact_target
from sidecar.capture.sockets import SocketTap
from sidecar.capture.tap import STOPPED, Tap

History = Literal["all", "not copied", "none"]
"""Of which WebSockets mitmproxy keeps the messages: of all, of those that are not copied, of none."""


class FlowTaps:
    """Streams every flow through, and taps those of interest. Methods are called from the addon's hooks."""

    def __init__(self, capture: Capture, chooser: Chooser, allowed_headers: frozenset[str] = frozenset()) -> None:
        self._capture = capture
        self._chooser = chooser
        self._allowed = allowed_headers
        self.history: History = "all"
        self.upstreams = Upstreams()
        self.checks = Checks()
        self._taps: dict[str, Tap] = {}
        self._worker = os.getpid()
        self._salt = secrets.token_bytes(32)

    def request_head(self, flow: http.HTTPFlow) -> None:
        """The request head came: stream the body, copied or not; no flow is ever buffered whole."""
        request = flow.request
        upgrade = request.headers.get("upgrade", "").lower()
        if upgrade == "websocket":
            self._socket_head(flow)
            return
        interest = self._chooser.of_request(request.method, host_of(flow), request.path, upgrade=bool(upgrade))
        if interest is Interest.NO:
            request.stream = request.stream or True
            return
        tap = self._capture.open(self._opened(flow), held=interest is Interest.MAYBE)
        self._taps[flow.id] = tap
        request.stream = _before(request.stream, tap.request_chunk)

    def _socket_head(self, flow: http.HTTPFlow) -> None:
        """The same of a request for a WebSocket, which has no body."""
        interest = self._chooser.of_socket(host_of(flow), flow.request.path)
        if interest is Interest.NO:
            flow.request.stream = flow.request.stream or True
            return
        tap = self._capture.open_socket(self._opened(flow), held=interest is Interest.MAYBE)
        self._taps[flow.id] = tap
        flow.request.stream = tap.request_chunk

    def _opened(self, flow: http.HTTPFlow) -> Opened:
        request = flow.request
        return Opened(
            self._capture.next_stream(),
            monotonic_ns(),
            flow.id,
            time_ns(),
            fitted(request.method, bounds.METHOD),
            request.scheme,
            fitted(host_of(flow), bounds.HOST),
            request.port,
            fitted(redact_target(request.path), bounds.TARGET),
            fitted(request.http_version, bounds.VERSION),
            fitted_headers(redact_headers(request.headers.fields, self._allowed)),
            self._worker,
            flow.client_conn.proxy_mode.full_spec,
            self._client(flow),
        )

    def _client(self, flow: http.HTTPFlow) -> str:
        peer = flow.client_conn.peername
        return pseudonym(str(peer[0]), self._salt) if peer else ""

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
                self._switched(flow, tap)
            return
        if tap is not None and tap.held:
            if self._chooser.confirmed_by(response.headers.get("content-type", "")):
                tap.confirm()
            else:
                self._forget(flow, tap)
                tap = None
        if tap is None:
            response.stream = response.stream or True
            return
        response.stream = _before(response.stream, tap.response_chunk)
        tap.response_head(self._head_of(response, tap))
        self.checks.response_head(flow.id)

    def _head_of(self, response: http.Response, tap: Tap) -> ResponseHead:
        headers = fitted_headers(redact_headers(response.headers.fields, self._allowed))
        version = fitted(response.http_version, bounds.VERSION)
        return ResponseHead(tap.stream, monotonic_ns(), response.status_code, version, headers)

    def _switched(self, flow: http.HTTPFlow, tap: Tap) -> None:
        """Another protocol follows: a WebSocket is read as one, anything else is none of ours."""
        assert flow.response is not None
        if isinstance(tap, SocketTap):
            tap.upgraded(self._head_of(flow.response, tap))
        else:
            self._forget(flow, tap)

    def message(self, flow: http.HTTPFlow) -> None:
        """A message of a WebSocket is about to go on. mitmproxy would keep all of them for as long as the flow lives:
        those before the latest are let go of where nobody reads them. Other addons find the latest where it always is.
        """
        socket = flow.websocket
        if socket is None or not flow.live:  # a flow read from a file
            return
        tap = self._taps.get(flow.id)
        copied = isinstance(tap, SocketTap) and tap.copies
        for latest in socket.messages[-1:]:
            if isinstance(tap, SocketTap) and not latest.dropped:
                tap.message(latest.content, from_client=latest.from_client, text=latest.is_text)
        if self.history == "none" or (copied and self.history == "not copied"):
            del socket.messages[:-1]

    def socket_closed(self, flow: http.HTTPFlow) -> None:
        """A WebSocket is closed."""
        tap = self._taps.pop(flow.id, None)
        socket = flow.websocket
        if not isinstance(tap, SocketTap) or socket is None:
            return
        tap.closed(of_socket(socket), socket.close_code, socket.close_reason or "")

    def _forget(self, flow: http.HTTPFlow, tap: Tap) -> None:
        del self._taps[flow.id]
        self._capture.forget(tap)

    def copies(self, flow: http.HTTPFlow) -> bool:
        """Whether a flow is copied, so that the analyzer will have something to say of it."""
        tap = self._taps.get(flow.id)
        return tap is not None and not tap.held

    def response_done(self, flow: http.HTTPFlow) -> None:
        """The response is complete; a WebSocket only begins with it."""
        if flow.websocket is not None:
            return
        tap = self._taps.get(flow.id)
        if tap is not None and flow.response is not None and flow.response.status_code == 101:
            tap.lost = True  # mitmproxy was told not to read WebSockets: the rest passes it as bytes
        self._end(flow, *self.upstreams.of_end(flow))
        self.checks.over(flow.id, broken_off=False)

    def failed(self, flow: http.HTTPFlow) -> None:
        """One of the two ends went away, or the proxy gave up."""
        self._end(flow, *self.upstreams.of_failure(flow))
        self.checks.over(flow.id, broken_off=True)

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
                tap.end("client_disconnect", STOPPED)
        self._taps.clear()
        self.checks.stop()


def _before(theirs: object, tee: Callable[[bytes], bytes]) -> Callable[[bytes], bytes | Iterable[bytes]]:
    """The tee, and behind it what a script has put there: it goes on seeing and changing the body."""
    if not callable(theirs):
        return tee

    def both(data: bytes) -> bytes | Iterable[bytes]:
        made: bytes | Iterable[bytes] = theirs(tee(data))
        return made

    return both
