"""Audio in the messages of a WebSocket: found where the dialects have it, and left out. Only its size is kept."""

import re

_TYPE = re.compile(rb'"type"\s*:\s*"([^"]{0,128})"')
_MEMBERS = re.compile(rb'"(?:audio|data|bytes)"\s*:\s*"([A-Za-z0-9+/_=-]{16,})')
_DELTAS = re.compile(rb'"(?:audio|data|bytes|delta)"\s*:\s*"([A-Za-z0-9+/_=-]{4,})')
_BLOBS = re.compile(rb'"([A-Za-z0-9+/_=-]{1024,})')
"""A string of such a length without any space or punctuation is no text, whatever its member is called."""
_JSON_STARTS = (b"{", b"[")
_LOOKED_AT = 4096


def without_audio(data: bytes) -> tuple[bytes, list[tuple[int, int]]]:
    """A message without its audio, and where that was: byte offset and bytes of each piece, in order.

    What does not begin as JSON, and is no text, is audio from beginning to end.
    """
    if not data.lstrip()[:1].startswith(_JSON_STARTS):
        try:
            data.decode()
        except UnicodeDecodeError:
            return b"", [(0, len(data))]
        return (b"", [(0, len(data))]) if b"\0" in data else (data, [])
    kind = _TYPE.search(data, 0, _LOOKED_AT)
    name = kind.group(1) if kind else b""
    spoken = b"audio" in name and b"transcript" not in name
    found = {match.span(1) for match in (_DELTAS if spoken else _MEMBERS).finditer(data)}
    found |= {match.span(1) for match in _BLOBS.finditer(data)}
    if not found:
        return data, []
    kept = bytearray()
    read = 0
    audio: list[tuple[int, int]] = []
    for start, end in sorted(found):
        if start < read:
            continue
        kept += data[read:start]
        audio.append((start, end - start))
        read = end
    return bytes(kept + data[read:]), audio
