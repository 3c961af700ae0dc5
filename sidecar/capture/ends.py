"""Which end of a proxied exchange went away. mitmproxy's error text tells for HTTP/1; for HTTP/2 it does not: a reset
by the upstream, too, reads "stream reset by client"."""

from mitmproxy import ctx, http
from mitmproxy.proxy.layers.http import HttpLayer, HttpStream

from sidecar.capture.records import EndedKind

_CLIENT = ("Client disconnected", "Client closed connection")
_EITHER = ("stream reset by client", "stream closed by client", "peer closed connection", "HTTP/2 ", "HTTP/3 ")


def kind_of_failure(flow: http.HTTPFlow) -> EndedKind:
    """What an `error` hook means: the client left, or the upstream failed before or after its response head."""
    message = flow.error.msg if flow.error is not None else ""
    if message.startswith(_CLIENT) or (message.startswith(_EITHER) and _was_the_client(flow)):
        return "client_disconnect"
    return "upstream_reset" if flow.response is not None else "upstream_failed"


def _was_the_client(flow: http.HTTPFlow) -> bool:
    """Of an error that either side of a multiplexed connection words alike."""
    if not _multiplexed(flow.client_conn.alpn):
        return False
    if not _multiplexed(flow.server_conn.alpn):
        return True
    stream = _stream_of(flow)
    # Marked before the hook is called if and only if it was the client whose stream broke.
    return stream is not None and stream.client_state == stream.state_errored


def _multiplexed(alpn: bytes | None) -> bool:
    return alpn is not None and alpn.startswith((b"h2", b"h3"))


def _stream_of(flow: http.HTTPFlow) -> HttpStream | None:
    """mitmproxy's own state of the exchange; None where its inner structure is not what it was in version 12."""
    try:
        handler = ctx.master.addons.get("proxyserver").connections[flow.client_conn.id]
        for layer in handler.layer.context.layers:
            if isinstance(layer, HttpLayer):
                for stream in layer.streams.values():
                    if getattr(stream, "flow", None) is flow:
                        return stream
    except (AttributeError, KeyError):
        pass
    return None
