"""Raw output of `curl -N -i`: a response without timing and without its request."""

import re
from pathlib import Path

from sidecar.files.capture import Capture, EndPart, Payload, RequestPart, ResponsePart

_STATUS = re.compile(rb"HTTP/([\d.]+) (\d{3})[^\r\n]*\r?\n")
_HEAD_END = re.compile(rb"\r?\n\r?\n")


def is_curl_output(start: bytes) -> bool:
    """Whether a file begins like what curl prints with `-i`."""
    return _STATUS.match(start) is not None


def read_curl(path: Path, data: bytes) -> tuple[Capture, bytes]:
    """The exchange (without chunks) and its body; informational and redirect heads are skipped."""
    status, version, rest = 0, "HTTP/1.1", data
    headers: list[tuple[str, str]] = []
    while (match := _STATUS.match(rest)) and (end := _HEAD_END.search(rest)):
        status, version = int(match.group(2)), f"HTTP/{match.group(1).decode()}"
        headers = []
        for line in rest[match.end() : end.start()].splitlines():
            name, _, value = line.partition(b":")
            headers.append((name.decode("latin-1").strip(), value.decode("latin-1").strip()))
        rest = rest[end.end() :]
        if status >= 200 and not 300 <= status < 400:
            break
    capture = Capture(
        1,
        path.stem,
        RequestPart("POST", "http://unknown/", body=Payload(text="")),
        EndPart("eof"),
        response=ResponsePart(status, version, headers),
    )
    return capture, rest
