"""The proxy's words for an early end, as mitmproxy 12 puts them, and the error types they become."""

import pytest

from sidecar.stream.causes import cause

TEXTS = [
    ("stream reset by client (INTERNAL_ERROR)", "http2_reset_INTERNAL_ERROR"),
    ("stream reset by client (CANCEL)", "http2_reset_CANCEL"),
    ("HTTP/2 connection closed: <ConnectionTerminated error_code:ErrorCodes.NO_ERROR>", "http2_connection_error"),
    ("HTTP/2 protocol error: Invalid input", "http2_connection_error"),
    (
        "peer closed connection without sending complete message body (incomplete chunked read)",
        "incomplete_chunked_body",
    ),
    ("peer closed connection without sending complete message body (received 5 bytes, expected 9)", "incomplete_body"),
    ("[Errno 111] Connect call failed ('127.0.0.1', 9)", "connection_refused"),
    ("[Errno -2] Name or service not known", "dns_error"),
    ("Server TLS handshake failed. Certificate verify failed: self-signed certificate", "tls_error"),
    ("[Errno 104] Connection reset by peer", "connection_reset"),
    ("server closed connection", "connection_closed"),
    ("[Errno 113] No route to host", "unreachable"),
    ("something else entirely", None),
    ("", None),
]


@pytest.mark.parametrize(("text", "kind"), TEXTS)
def test_a_text_becomes_its_type(text: str, kind: str | None) -> None:
    assert cause(text) == kind
