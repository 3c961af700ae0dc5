"""What of a head fits into a record. mitmproxy takes HTTP/1 heads of any length and bytes that are no text; records are
bounded, and encoders refuse the halves of surrogate pairs that such bytes become."""

import re

from sidecar.capture.records import Headers

HOST, METHOD, VERSION, TARGET, ERROR = 256, 32, 32, 8 * 1024, 500
"""Characters kept of each."""
HEADERS = 128
HEADER_CHARS = 32 * 1024
"""How many headers of a head are kept, and how many characters of them."""

_SURROGATE = re.compile("[\ud800-\udfff]")


def fitted(text: str, limit: int) -> str:
    """The beginning of a text, what is no character in it replaced."""
    cut = text[:limit]
    return cut if cut.isascii() else _SURROGATE.sub("\ufffd", cut)


def fitted_headers(headers: Headers) -> Headers:
    """The first headers, as many as fit."""
    room = HEADER_CHARS
    kept: Headers = []
    for name, value in headers[:HEADERS]:
        room -= len(name) + len(value)
        if room < 0:
            break
        kept.append((name, value))
    return kept
