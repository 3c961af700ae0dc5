"""JSON of which only the beginning was copied, closed so that it can be read: what stood in front is what matters."""

import re

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*("|\\?\Z)|[{}\[\]]', re.DOTALL)
_HALF_ESCAPE = re.compile(rb"(\\+)(?:u[0-9a-fA-F]{0,3})?\Z")
_CLOSES = {b"{": b"}", b"[": b"]"}


def mend(data: bytes) -> bytes:
    """The text with the string, the arrays and the objects closed in which it breaks off.

    Where it breaks off anywhere but inside a value that is a string, what comes out is no JSON either.
    """
    open_ends: list[bytes] = []
    for match in _TOKEN.finditer(data):
        mark = match.group()
        if mark in _CLOSES:
            open_ends.append(_CLOSES[mark])
        elif mark in (b"}", b"]"):
            del open_ends[-1:]
        elif match.group(1) != b'"':
            data = data[: match.start()] + _whole_characters(mark) + b'"'
    return data + b"".join(reversed(open_ends))


def _whole_characters(text: bytes) -> bytes:
    """Without the half of an escape, or of a character, at the end."""
    half = _HALF_ESCAPE.search(text)
    if half is not None and len(half.group(1)) % 2:
        text = text[: half.end(1) - 1]
    return text.decode("utf-8", "ignore").encode()
