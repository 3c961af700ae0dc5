"""Why a connection ended early: the proxy's own words, sorted into a few error types of low cardinality."""

import re

from sidecar.capture.records import RESET

CAUSES: tuple[tuple[str, str], ...] = (
    (f"^{RESET}", "connection_reset"),
    # mitmproxy words a reset by the upstream as one by the client, too; who it was is settled in the proxy.
    (r"stream (?:reset|closed) by (?:client|server) \((?P<code>\w{1,64})\)", "http2_reset_{code}"),
    (r"HTTP/2 (?:connection closed|protocol error)", "http2_connection_error"),
    (r"incomplete chunked|chunked read|premature end of chunk", "incomplete_chunked_body"),
    (r"without sending complete message body|received \d+ bytes, expected", "incomplete_body"),
    (r"certificate|TLS|SSL|handshake", "tls_error"),
    (r"Name or service not known|getaddrinfo|nodename|Temporary failure in name resolution|DNS", "dns_error"),
    (r"Connect call failed|Connection refused|ECONNREFUSED", "connection_refused"),
    (r"timed? ?out|timeout", "timeout"),
    (r"No route to host|Network is unreachable|EHOSTUNREACH", "unreachable"),
    (r"reset by peer|ECONNRESET|connection reset", "connection_reset"),
    (r"server closed connection|peer closed connection|closed the connection|disconnected", "connection_closed"),
)
"""Regular expression over the proxy's text, and the error type; tried in order."""

_COMPILED = tuple((re.compile(pattern, re.IGNORECASE), kind) for pattern, kind in CAUSES)


def cause(text: str) -> str | None:
    """The error type of an early end; None where the text says nothing that is known here."""
    for pattern, kind in _COMPILED:
        match = pattern.search(text)
        if match is not None:
            return kind.format(**match.groupdict())
    return None
