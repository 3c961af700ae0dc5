"""What mitmproxy 12 does to streams of HTTP/2, mended: codes of resets, and connections that are to end in order."""

from collections.abc import Callable
from typing import Any

import h2.events
import h2.frame_buffer
from h2.errors import ErrorCodes
from mitmproxy.connection import ConnectionState
from mitmproxy.proxy import commands, events
from mitmproxy.proxy.layer import CommandGenerator
from mitmproxy.proxy.layers.http import _http2, _http_h2
from mitmproxy.proxy.layers.http._base import ReceiveHttp
from mitmproxy.proxy.layers.http._events import RequestProtocolError, ResponseProtocolError

_ERRORS = (RequestProtocolError, ResponseProtocolError)

type _Method = Callable[[Any, Any], CommandGenerator[Any]]


def _note_codes(handle: _Method) -> _Method:
    """A reset is told to the other side with its code; mitmproxy makes INTERNAL_ERROR of all but two, so that a client does
    not repeat what was refused (REFUSED_STREAM), and, where there was no head yet, a page that says 502."""

    def handle_h2_event(self: Any, event: Any) -> CommandGenerator[Any]:
        if isinstance(event, h2.events.StreamReset):
            return _noted(handle(self, event), event)
        if isinstance(event, h2.events.ConnectionTerminated) and event.error_code == ErrorCodes.NO_ERROR:
            return _ends_in_order(self, event)
        return handle(self, event)  # not through a generator of ours: data comes this way

    return handle_h2_event


def _noted(handling: CommandGenerator[Any], event: h2.events.StreamReset) -> CommandGenerator[Any]:
    for command in handling:  # nothing in it waits for a reply
        if isinstance(command, ReceiveHttp):
            command.event.reset_code = event.error_code  # type: ignore[attr-defined]  # of ours
        yield command
    return False  # further events of the same read are to be handled


def _ends_in_order(self: Any, event: h2.events.ConnectionTerminated) -> CommandGenerator[bool]:
    """GOAWAY without an error: streams in flight go on; mitmproxy would break off all of them. Those that an upstream says
    it has not begun with are refused, which tells a client that it may repeat them. No new ones are begun there."""
    if not isinstance(self, _http2.Http2Client):
        return False
    self.conn.state &= ~ConnectionState.CAN_WRITE  # by this mitmproxy's HTTP layer knows to make another connection
    last = event.last_stream_id or 0
    for stream in [stream for stream in self.streams if stream > last]:
        refused = ResponseProtocolError(stream, "the upstream ends the connection", ResponseProtocolError.code)
        refused.reset_code = ErrorCodes.REFUSED_STREAM  # type: ignore[attr-defined]  # of ours
        self.streams.pop(stream)
        yield ReceiveHttp(refused)
    return False


def _send_codes(handle: _Method) -> _Method:
    def handle_event(self: Any, event: events.Event) -> CommandGenerator[None]:
        if isinstance(event, _ERRORS) and (code := getattr(event, "reset_code", None)) is not None:
            return _reset(self, event.stream_id, code)
        return handle(self, event)  # as above

    return handle_event


def _reset(self: Any, stream: int, code: int) -> CommandGenerator[None]:
    if not self.is_closed(stream):
        self.h2_conn.reset_stream(stream, code)
        yield commands.SendData(self.conn, self.h2_conn.data_to_send())


def _stay_open(receive: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """hyper-h2 takes a GOAWAY for the end of the connection, whatever it says, and what follows for an error."""

    def receive_goaway_frame(self: Any, frame: Any) -> Any:
        if frame.error_code != ErrorCodes.NO_ERROR:
            return receive(self, frame)
        event = h2.events.ConnectionTerminated()
        event.error_code, event.last_stream_id = ErrorCodes.NO_ERROR, frame.last_stream_id
        return [], [event]

    return receive_goaway_frame


MENDED: tuple[tuple[Any, str, Callable[[Any], Any]], ...] = (
    (_http2.Http2Connection, "handle_h2_event", _note_codes),
    (_http2.Http2Connection, "_handle_event", _send_codes),
    (_http_h2.BufferedH2Connection, "_receive_goaway_frame", _stay_open),
)
"""Owner, name, and what wraps it."""
