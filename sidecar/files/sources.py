"""Files of recorded exchanges, whatever their kind: what they are shows in how they begin, not in their names."""

import contextlib
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from sidecar.capture.interest import Chooser, Interest
from sidecar.files.capture import Capture, CaptureError, read_capture, read_captures
from sidecar.files.curl import is_curl_output, read_bare_body, read_curl
from sidecar.files.har import read_har
from sidecar.framing.table import sniff

KINDS = "a capture file, what `curl -N` prints (with or without -i), a HAR or a mitmproxy flow file"
STDIN = "stdin"

_START = 64 * 1024
_LARGEST = 1024 * 1024 * 1024
_FLOWS = re.compile(rb"\d{1,12}:")
_HAR = re.compile(rb"(?:\xef\xbb\xbf)?\s*\{\s*\"log\"\s*:")
_LINE = re.compile(rb"^[ \t]*\{.*?\"(?:v\"\s*:\s*\d|request\"\s*:\s*\{|chunks\"\s*:\s*\[)", re.MULTILINE)
_INDENTED = re.compile(rb"\s*\{\s*\"v\"\s*:\s*\d")
"""One exchange that somebody's tool spread over many lines."""
_COMPRESSED = {b"\x1f\x8b": "gunzip", b"\x28\xb5\x2f\xfd": "unzstd", b"PK\x03\x04": "unzip"}


class Source(msgspec.Struct, frozen=True):
    """A file to read, and what messages call it."""

    path: Path
    name: str

    @property
    def stem(self) -> str:
        """Its name without folder and ending."""
        return Path(self.name).stem


@contextlib.contextmanager
def sources(files: Iterable[str | Path]) -> Iterator[list[Source]]:
    """The files that arguments name: `-` is standard input, a folder the capture files in it. CaptureError where a
    folder has none."""
    with contextlib.ExitStack() as kept:
        found: list[Source] = []
        for path in map(Path, files):
            if str(path) == "-":
                found.append(Source(Path(kept.enter_context(_spooled())), STDIN))
            elif path.is_dir():
                inside = [Source(each, str(each)) for each in sorted(path.rglob("*.jsonl"))]
                if not inside:
                    raise CaptureError(f"{path}: no capture file (*.jsonl) in this folder")
                found += inside
            else:
                found.append(Source(path, str(path)))
        yield found


@contextlib.contextmanager
def _spooled() -> Iterator[str]:
    """Standard input as a file: it can be read but once."""
    with tempfile.NamedTemporaryFile(prefix="sidecar-") as file:
        while data := sys.stdin.buffer.read(1 << 20):
            if file.tell() > _LARGEST:
                raise CaptureError(f"{STDIN}: larger than {_LARGEST >> 30} GiB")
            file.write(data)
        file.flush()
        yield file.name


def exchanges_of(
    source: Source, chooser: Chooser | None = None, note: Callable[[str], None] = lambda said: None
) -> Iterator[Capture | CaptureError]:
    """The exchanges of a file in its order, an error where one is damaged.

    HAR and flow files hold all traffic: what `chooser` does not take for an LLM's is left out, and `note` told how much.
    Raises CaptureError where the file cannot be read or is of no known kind.
    """
    try:
        with source.path.open("rb") as file:
            start = file.read(_START)
    except OSError as error:
        raise CaptureError(f"{source.name}: {error.strerror or error}") from error
    if not start:
        raise CaptureError(f"{source.name}: empty; give {KINDS}")
    if is_curl_output(start):
        yield read_curl(source.stem, _whole(source))
    elif _FLOWS.match(start):
        yield from _of_interest(_flows(source), source, chooser, note)
    elif _HAR.match(start):
        yield from _of_interest(_har(source), source, chooser, note)
    elif _LINE.search(start):
        yield from read_captures(source.path, source.name)
    elif _INDENTED.match(start):
        yield read_capture(_whole(source), source.name)
    elif _is_body(start):
        yield read_bare_body(source.stem, _whole(source))
    else:
        how = next(
            (f"; it is compressed: {tool} it first" for mark, tool in _COMPRESSED.items() if start.startswith(mark)), ""
        )
        raise CaptureError(f"{source.name}: not {KINDS}{how}")


def captures_of(files: Iterable[str | Path]) -> Iterator[Capture]:
    """All exchanges of files and folders. Raises CaptureError at the first that cannot be read."""
    with sources(files) as found:
        for source in found:
            for capture in exchanges_of(source, Chooser()):
                if isinstance(capture, CaptureError):
                    raise capture
                yield capture


def _is_body(start: bytes) -> bool:
    """Whether a file begins like the answer of an endpoint."""
    framing = sniff(start, None, asked_stream=True)
    if framing is None or framing.name != "whole":
        return framing is not None
    text = start.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text[:1] == b"<":
        return True
    names = (
        rb"choices|message|model|candidates|output|object|error|type|content|response|token|text|results|generations"
    )
    return re.match(rb"\{\s*\"", text) is not None and re.search(rb"\"(?:" + names + rb")\"\s*:", text) is not None


def _whole(source: Source) -> bytes:
    with source.path.open("rb") as file:
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise CaptureError(f"{source.name}: larger than {_LARGEST >> 30} GiB")
    return data


def _har(source: Source) -> Iterator[Capture | CaptureError]:
    return read_har(_whole(source), source.name, source.stem)


def _flows(source: Source) -> Iterator[Capture | CaptureError]:
    from sidecar.files.flows import read_flows  # mitmproxy takes a second to import: only where it is used

    with source.path.open("rb") as file:
        yield from read_flows(file, source.name)


def _of_interest(
    found: Iterator[Capture | CaptureError], source: Source, chooser: Chooser | None, note: Callable[[str], None]
) -> Iterator[Capture | CaptureError]:
    total = taken = 0
    for capture in found:
        if isinstance(capture, CaptureError):
            yield capture
            continue
        total += 1
        if chooser is not None and not _interests(capture, chooser):
            continue
        taken += 1
        yield capture
    if total and not taken:
        yield CaptureError(
            f"{source.name}: none of its {total} exchanges is an LLM's; `include` names others (--config)"
        )
    elif taken < total:
        note(f"{source.name}: {total - taken} of {total} exchanges are no LLM's and were left out")


def _interests(capture: Capture, chooser: Chooser) -> bool:
    try:
        url = urlsplit(capture.request.url)
    except ValueError:
        return True  # whoever reads it on says so
    headers = {name.lower(): value for name, value in capture.response.headers} if capture.response else {}
    if capture.response is not None and capture.response.status == 101:
        return chooser.of_socket(url.hostname or "", url.path) is not Interest.NO
    wanted = chooser.of_request(capture.request.method, url.hostname or "", url.path)
    return wanted is Interest.YES or (
        wanted is Interest.MAYBE and chooser.confirmed_by(headers.get("content-type", ""))
    )
