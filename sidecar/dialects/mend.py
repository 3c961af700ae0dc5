"""JSON of which only the beginning was copied, closed so that it can be read: what stood in front is what matters."""

import re

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)
_CLOSES = {b"{": b"}", b"[": b"]"}


def mend(data: bytes) -> bytes:
    """The text with the string, the arrays and the objects closed in which it breaks off.

    Where it breaks off anywhere but inside a value that is a string, what comes out is no JSON either.
    """
    open_ends: list[bytes] = []
    at = 0
    for match in _TOKEN.finditer(data):
        mark = match.group()
        if mark in _CLOSES:
            open_ends.append(_CLOSES[mark])
        elif mark in (b"}", b"]") and open_ends:
            open_ends.pop()
        at = match.end()
    rest = data[at:]
    if b'"' in rest:
        data = data[: len(data) - len(rest)] + _whole_characters(rest) + b'"'
    return data + b"".join(reversed(open_ends))


def _whole_characters(text: bytes) -> bytes:
    """Without the half of an escape or of a character at the end."""
    cut = text[: text.rfind(b"\\")] if b"\\" in text[-12:] else text
    return cut.decode("utf-8", "ignore").encode()
