"""Which recording answers a request: by method and path, then by whatever tells those left apart."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from sidecar.encoding import content_decoder
from sidecar.files.capture import Capture
from sidecar.files.curl import ANYWHERE, assumed_head, is_headless

BY_ID = "x-replay-id"
"""Header of a request that names the recording it wants, whatever else it says."""

_REDACTED = ("[redacted]", "REDACTED")
_SHOWN = 20
_IDEMPOTENT = frozenset({"GET", "HEAD"})


class NothingToReplay(ValueError):
    """There is no recording to serve; the text says why."""


class Asked(msgspec.Struct, frozen=True):
    """A request as it came. `upgrade`: whether it asks for a WebSocket."""

    method: str
    target: str
    headers: Sequence[tuple[str, str]]
    """Names in lower case."""
    body: bytes = b""
    upgrade: bool = False


class _Body(msgspec.Struct, frozen=True):
    raw: bytes
    value: Any

    def field(self, name: str) -> Any:
        return self.value.get(name) if isinstance(self.value, dict) else None

    @property
    def whole(self) -> Any:
        return self.raw if self.value is None else self.value


class _Recording(msgspec.Struct, frozen=True):
    given: Capture
    capture: Capture
    """The same as it is served: with a head, where that was not kept."""
    path: str
    query: list[tuple[str, str]]
    body: _Body

    @property
    def is_socket(self) -> bool:
        return is_socket(self.capture)

    def answers(self, method: str, path: str) -> bool:
        """Whether it is of this place; one of which only the response is known is of any."""
        recorded = self.capture.request
        return recorded.url == ANYWHERE or (recorded.method == method and self.path == path)


class Recordings:
    """The recordings that are served. Those between which a request cannot choose are served in turn, in their order;
    after the last of them it is served again, or with `loop` the first."""

    def __init__(self, captures: Iterable[Capture], *, ids: Sequence[str] = (), loop: bool = False) -> None:
        """`ids` selects some. Raises NothingToReplay where there is none, an id is unknown or a recording is damaged."""
        self._loop = loop
        self._all = [_recording(capture) for capture in captures]
        known = {recording.capture.id for recording in self._all}
        unknown = [wanted for wanted in ids if wanted not in known]
        if unknown:
            raise NothingToReplay(f"no recording has the id {', '.join(unknown)}; --list shows those there are")
        if ids:
            self._all = [recording for recording in self._all if recording.capture.id in ids]
        if not self._all:
            raise NothingToReplay("there is no recorded exchange to serve")
        self._turns: dict[tuple[int, ...], int] = {}

    @property
    def captures(self) -> list[Capture]:
        """What is served, in its order and as it was given."""
        return [recording.given for recording in self._all]

    def pick(self, asked: Asked) -> Capture | None:
        """The recording that answers, or None. Query, model, whether a stream is asked for and the whole body decide
        one after the other, each only as far as some of the recordings left agree with the request."""
        url = urlsplit(asked.target)
        headers = dict(asked.headers)
        wanted = headers.get(BY_ID)
        method = "GET" if asked.method in _IDEMPOTENT else asked.method
        left = [
            number
            for number, recording in enumerate(self._all)
            if (recording.capture.id == wanted if wanted is not None else recording.answers(method, _path(url.path)))
            and (asked.upgrade or not recording.is_socket)
        ]
        body = _body(asked.body, asked.headers)
        query = _pairs(url.query)
        for fits in (
            lambda recording: recording.is_socket == asked.upgrade,
            lambda recording: _fits(recording.query, query),
            lambda recording: recording.body.field("model") == body.field("model"),
            lambda recording: bool(recording.body.field("stream")) == bool(body.field("stream")),
            lambda recording: recording.body.whole == body.whole,
        ):
            left = self._narrowed(left, fits)
        return self._all[self._next(tuple(left))].capture if left else None

    def _narrowed(self, left: list[int], fits: Callable[[_Recording], bool]) -> list[int]:
        return [number for number in left if fits(self._all[number])] or left

    def _next(self, left: tuple[int, ...]) -> int:
        turn = self._turns.get(left, 0)
        self._turns[left] = turn + 1
        return left[turn % len(left) if self._loop else min(turn, len(left) - 1)]

    def why_not(self, asked: Asked) -> str:
        """What to tell a client whose request nothing answers."""
        path = urlsplit(asked.target).path
        wanted = dict(asked.headers).get(BY_ID)
        if wanted is not None:
            return f"no recording that could answer this request has the id {wanted!r} ({BY_ID})"
        methods = sorted({each.capture.request.method for each in self._all if each.path == _path(path)})
        if asked.method in methods:
            return f"what was recorded of {asked.method} {path} is a WebSocket; this request asks for no upgrade"
        if methods:
            return f"{path} was recorded with {', '.join(methods)}, not with {asked.method}"
        return f"nothing was recorded of {asked.method} {path}"

    @property
    def places(self) -> list[str]:
        """Method and path of what is served, each once, the first of them."""
        found = dict.fromkeys(f"{each.capture.request.method} {each.path}" for each in self._all)
        return [*found][:_SHOWN]


def is_socket(capture: Capture) -> bool:
    """Whether a recording is that of a request that became a WebSocket."""
    return capture.response is not None and capture.response.status == 101


def _recording(capture: Capture) -> _Recording:
    try:
        url = urlsplit(capture.request.url)
        for part in (*capture.chunks, *capture.messages):
            part.data()
        raw = capture.request.body.data() if capture.request.body is not None else b""
    except ValueError as error:
        raise NothingToReplay(f"exchange {capture.id}: {error}") from error
    if capture.response is not None and not (200 <= capture.response.status <= 999 or is_socket(capture)):
        raise NothingToReplay(f"exchange {capture.id}: no server answers with status {capture.response.status}")
    headers = [(name.lower(), value) for name, value in capture.request.headers]
    served = capture
    if is_headless(capture):
        head = assumed_head(b"".join(chunk.data() for chunk in capture.chunks))
        served = msgspec.structs.replace(capture, response=head)
    return _Recording(capture, served, _path(url.path), _pairs(url.query), _body(raw, headers))


def _path(path: str) -> str:
    return unquote(path) or "/"


def _pairs(query: str) -> list[tuple[str, str]]:
    return sorted(parse_qsl(query, keep_blank_values=True))


def _fits(recorded: list[tuple[str, str]], asked: list[tuple[str, str]]) -> bool:
    """Whether two queries are the same, but for values that were redacted when they were recorded."""
    return len(recorded) == len(asked) and all(
        name == other and (value == given or value in _REDACTED)
        for (name, value), (other, given) in zip(recorded, asked, strict=True)
    )


def _body(raw: bytes, headers: Iterable[tuple[str, str]]) -> _Body:
    coding = content_decoder(dict(headers).get("content-encoding", ""))
    if coding is not None:
        raw = coding.feed(raw) + coding.close()
    try:
        return _Body(raw, json.loads(raw))
    except (ValueError, RecursionError):
        return _Body(raw, None)
