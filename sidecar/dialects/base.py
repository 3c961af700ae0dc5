"""The part that every JSON dialect shares: from a frame to decoded events, with what can be recovered recovered."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Protocol

import msgspec

from sidecar.dialects import errors
from sidecar.dialects.plain import Plain
from sidecar.dialects.request import Request
from sidecar.dialects.signals import Annotation, Boundary, InBandError, KeepAlive, Malformed, Signal, Terminator
from sidecar.framing.frame import Frame

DONE = b"[DONE]"
_TYPE_MEMBER = re.compile(rb'"type"\s*:\s*"([^"]*)"')
_SKIPPED = " \t\r\n"
_SCAN = json.JSONDecoder()


class Dialect(Protocol):
    """Frames in, signals out; one instance per stream. Exceptions are bugs: whatever the wire says has a signal."""

    name: ClassVar[str]
    terminators: ClassVar[frozenset[str]]
    """Names of the events that end a stream; empty where the dialect has none."""
    has_finish: ClassVar[bool]
    """Whether the dialect states finish reasons at all."""
    plains: ClassVar[tuple[Plain, ...]]
    """The plain events that the dialect has."""

    def interpret(self, frame: Frame) -> list[Signal]:
        """One unit of a stream."""

    def interpret_whole(self, frame: Frame) -> list[Signal]:
        """A whole body of status below 400: the answer to a request that was not streamed."""

    def cut_off(self, frame: Frame) -> list[Signal]:
        """A unit that was cut off by the end of the body and is not used."""

    def conclude(self) -> list[Signal]:
        """The stream is over: what only all of it shows."""


class JsonDialect[Event]:
    """A dialect whose payloads are JSON. Subclasses give a typed decoder and `read`."""

    name: ClassVar[str]
    terminators: ClassVar[frozenset[str]] = frozenset()
    has_finish: ClassVar[bool] = True
    plains: ClassVar[tuple[Plain, ...]] = ()
    named_events: ClassVar[bool] = False
    """Whether each SSE event of the dialect has a name."""

    decode: Callable[[bytes], Event]
    shape: type[Event]

    __slots__ = ("request",)

    def __init__(self, request: Request) -> None:
        self.request = request

    def conclude(self) -> list[Signal]:
        return []

    def read(self, event: Event, frame: Frame) -> list[Signal]:
        """Signals of one decoded event."""
        raise NotImplementedError

    def read_whole(self, event: Event, frame: Frame) -> list[Signal]:
        """Signals of a whole body; by default the same as of an event."""
        return self.read(event, frame)

    def is_terminator(self, frame: Frame) -> bool:
        """Whether a frame that was cut off would have been the terminator, by its name or its `type` member."""
        if frame.event:
            return frame.event in self.terminators
        named = _TYPE_MEMBER.search(frame.data or b"")
        return named is not None and named.group(1).decode("utf-8", "replace") in self.terminators

    def interpret(self, frame: Frame) -> list[Signal]:
        if frame.stray or frame.event or frame.data is None:
            if frame.event == "ping" and frame.data:
                return [KeepAlive("ping"), Annotation("named_ping_event")]
            before = self._beside(frame)
            if frame.data is None:
                return before
            signals = before + self._interpret(frame)
        else:
            signals = self._interpret(frame)
        if self.named_events and not frame.event and frame.data and frame.data.strip() != DONE:
            signals.append(Annotation("sse_missing_event_name"))
        return signals

    def _interpret(self, frame: Frame) -> list[Signal]:
        data = frame.data
        assert data is not None
        try:
            event = self.decode(data)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return self._recover(data, frame)
        signals = self.read(event, frame)
        if frame.lines > 1:
            signals.append(Annotation("sse_multiline_data"))
        return signals

    def interpret_whole(self, frame: Frame) -> list[Signal]:
        assert frame.data is not None
        for value, _ in self._values(frame.data):
            if value is not None:
                return self.read_whole(value, frame)
        try:
            return self.unexpected(_loads_strict(frame.data), frame)
        except ValueError:
            return [Malformed("malformed_json_event")]

    def _beside(self, frame: Frame) -> list[Signal]:
        """What a block says besides its data: stray lines, an error as a field name, a bare sentinel."""
        signals: list[Signal] = []
        for line in frame.stray:
            if line.strip() == DONE:
                signals.append(Annotation("bare_done_line"))
                signals += self._sentinel()
            else:
                signals.append(Annotation("sse_unknown_field"))
                if line.startswith(b"error:"):
                    signals.append(Annotation("error_sse_field"))
                    stated = _loads(line[6:])
                    signals += (
                        text_error(line[6:].strip()) if stated is None else self.error_signals(stated, named=True)
                    )
        return signals

    def error_signals(self, event: Any, *, named: bool = False) -> list[Signal]:
        """The error that a value states, with the habits of its shape; empty where it states none."""
        error, habits = errors.find(event, named_error=named)
        return [] if error is None else [error, *habits]

    def _sentinel(self) -> list[Signal]:
        if "done_sentinel" in self.terminators:
            return [Terminator("done_sentinel")]
        return [Annotation("foreign_terminator")]

    def _recover(self, data: bytes, frame: Frame) -> list[Signal]:
        """A payload that the typed decoder refused."""
        stripped = data.strip()
        if stripped == DONE:
            return [*self._sentinel(), *([Annotation("sentinel_padded")] if data != DONE else [])]
        if not stripped:
            return []
        if not frame.complete:
            return self.cut_off(frame)
        signals: list[Signal] = []
        try:
            value = _convert(_loads_strict(data), self.shape)
        except ValueError:
            pass
        else:
            return self.read(value, frame) + ([Annotation("sse_multiline_data")] if frame.lines > 1 else [])
        lines = [line for line in stripped.split(b"\n") if line.strip()]
        values = [list(self._values(line)) for line in lines]
        if all(values):
            if len(lines) > 1:
                signals.append(Annotation("sse_missing_blank_line"))
            if any(len(found) > 1 for found in values):
                signals.append(Annotation("concatenated_json_event"))
            for number, (event, text) in enumerate(pair for found in values for pair in found):
                if number:
                    signals.append(Boundary())
                one = msgspec.structs.replace(frame, data=text)
                signals += self._sentinel() if event is None else self.read(event, one)
            return signals
        try:
            return self.unexpected(_loads_strict(data), frame)
        except ValueError:
            malformed = Malformed(_kind_of(stripped))
            return [malformed, *text_error(stripped)] if frame.event == "error" else [malformed]

    def loose(self, frame: Frame) -> Any:
        """The payload once more as plain values, for what the typed decoder leaves out; None where it is no JSON."""
        return _loads(frame.data or b"")

    def unexpected(self, event: Any, frame: Frame) -> list[Signal]:
        """A JSON value of a shape that the dialect's decoder refuses: at least an error in it is seen."""
        return self.error_signals(event, named=frame.event == "error")

    def cut_off(self, frame: Frame) -> list[Signal]:
        stripped = (frame.data or b"").strip()
        signals: list[Signal] = [Malformed("truncated_json_event")]
        if self.is_terminator(frame) or (
            "done_sentinel" in self.terminators and stripped and DONE.startswith(stripped)
        ):
            signals.append(Annotation("terminator_truncated"))
        return signals

    def _values(self, text: bytes) -> Iterator[tuple[Event | None, bytes]]:
        """Every JSON value of a text in which values follow one another, a stray `data:` between allowed, each with
        its bytes; None stands for the sentinel. Nothing where the text is anything else."""
        source = text.decode("utf-8", "replace")
        found: list[tuple[Event | None, bytes]] = []
        at = 0
        try:
            while at < len(source):
                if source[at] in _SKIPPED:
                    at += 1
                elif found and source.startswith("data:", at):
                    at += 5
                elif source.startswith("[DONE]", at):
                    found.append((None, DONE))
                    at += 6
                else:
                    start = at
                    value, at = _SCAN.raw_decode(source, start)
                    found.append((_convert(value, self.shape), source[start:at].encode()))
        except (ValueError, RecursionError):
            return
        yield from found


def _convert[T](value: Any, shape: type[T]) -> T:
    """As msgspec, but a refusal is a ValueError like any other."""
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error


def _loads_strict(data: bytes) -> Any:
    """With bad UTF-8 replaced and lone surrogates let through, both of which msgspec refuses."""
    try:
        return json.loads(data.decode("utf-8", "replace"))
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def _loads(data: bytes) -> Any:
    try:
        return _loads_strict(data)
    except ValueError:
        return None


def _kind_of(stripped: bytes) -> str:
    if stripped.startswith(b":"):
        return "comment_wrapped_in_data"
    return "malformed_json_event" if stripped[:1] in (b"{", b"[") else "non_json_data_event"


def text_error(message: bytes) -> list[Signal]:
    """An error that came as plain text."""
    return [InBandError(message[:2000].decode("utf-8", "replace"))]
