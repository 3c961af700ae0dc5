"""Gemini's function calls put together from their parts: whole `args`, later parts of them, values by JSON path.

https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/function-calling (streamFunctionCallArguments)
"""

import json
import re
from typing import Any

from msgspec import UNSET

from sidecar.dialects.signals import Annotation, Signal, ToolCall

_STEP = re.compile(r"""\.?([^.\[\]'"]+)|\['([^']*)'\]|\["([^"]*)"\]|\[(\d{1,9})\]""")
_VALUES = ("stringValue", "numberValue", "boolValue", "structValue", "listValue")
_DEPTH_LIMIT = 64
_TEXT_LIMIT = 256 * 1024
_MEMBERS_LIMIT = 4096

type Path = tuple[str | int, ...]


class FunctionCalls:
    """The function calls of one candidate."""

    def __init__(self, choice: int) -> None:
        self._choice = choice
        self._count = 0
        self._id: Any = UNSET
        self._given: dict[str, Any] = {}  # by parts with `args`
        self._written = PathWriter()  # by parts with `partialArgs`
        self._closed = False

    def take(self, call: dict[str, Any]) -> list[Signal]:
        """One functionCall part. A part with a name opens a call, the same name included; one without goes on."""
        name, given, parts = call.get("name"), call.get("args"), call.get("partialArgs")
        call_id = call.get("id", UNSET)
        more = call.get("willContinue") is True
        if given == {} and (more or parts):
            given = None  # they come by path
        named = isinstance(name, str) and bool(name)
        again = isinstance(call_id, str) and call_id != "" and call_id == self._id and given is None
        if not self._count or (named and not again):
            self._count += 1
            self._id = call_id
            self._given = {}
            self._written = PathWriter()
            self._closed = False
        signals: list[Signal] = []
        if given is not None:
            if not named:
                signals.append(Annotation("tool_call_fragment_nameless"))
            signals.append(self._call(call_id, name, self._merged(given), snapshot=True))
            return signals
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict):
                self._written.add(part)
        # A call that seemed closed may still go on: then all of it is said again instead of what is new.
        snapshot = self._closed or not more
        self._closed = not more
        piece = self._written.take()
        arguments = self._written.so_far(closed=self._closed) if snapshot else piece
        if named or parts or arguments:
            own = named or bool(parts)  # an empty part closes the call and brings nothing of its own
            signals.append(self._call(call_id, name, arguments or UNSET, final=not own, snapshot=snapshot))
        return signals

    def _call(self, call_id: Any, name: Any, arguments: Any, *, final: bool = False, snapshot: bool = False) -> Signal:
        key = str(self._count)
        return ToolCall(UNSET, call_id, name, arguments, self._choice, key=key, final=final, snapshot=snapshot)

    def _merged(self, given: Any) -> str:
        if not isinstance(given, dict):
            return given if isinstance(given, str) else _compact(given)
        if len(self._given) < _MEMBERS_LIMIT:
            self._given.update(given)
        return _compact(self._given)


class PathWriter:
    """Values by path in, JSON text out: objects and arrays are opened and closed on the way from path to path.

    The API goes through the arguments depth first. Where it should not, a key comes twice and the text still parses.
    """

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._kept: list[str] = []
        self._room = _TEXT_LIMIT
        self._path: Path = ()  # of the latest value
        self._in_string = False

    def add(self, part: dict[str, Any]) -> None:
        """One value. Where it `willContinue`, it is a string and the next value of the same path goes on with it."""
        path = _steps(part.get("jsonPath"))
        if not path:
            return
        value = next((part[name] for name in _VALUES if name in part), None)
        text = _compact(value)
        if self._in_string and path == self._path and isinstance(value, str):
            text = text[1:]
        else:
            self._move(path)
        self._in_string = isinstance(value, str) and part.get("willContinue") is True
        self._pieces.append(text[:-1] if self._in_string else text)

    def take(self) -> str:
        """The text since the last call."""
        text = "".join(self._pieces)
        self._pieces.clear()
        self._kept.append(text[: self._room])
        self._room = max(self._room - len(text), 0)
        return text

    def so_far(self, *, closed: bool) -> str:
        """All of the text, within a bound; `closed`: with what it takes to end it here."""
        return "".join((*self._kept, *(self._ends(0) if closed else ())))

    def _move(self, path: Path) -> None:
        """From the latest value to where the next one belongs."""
        old, shared = self._path, 0
        if old:
            most = min(len(old), len(path)) - 1
            while shared < most and old[shared] == path[shared]:
                shared += 1
            self._pieces += self._ends(shared + 1)
            self._pieces.append(",")
        else:
            self._pieces.append(_opening(path[0]))
        steps = list(path)
        steps[shared] = _fitting(path[shared], (old or path)[shared])
        for depth in range(shared, len(steps)):
            if depth > shared:
                self._pieces.append(_opening(steps[depth]))
            if isinstance(steps[depth], str):
                self._pieces.append(f"{_compact(steps[depth])}:")
        self._path = tuple(steps)
        self._in_string = False

    def _ends(self, depth: int) -> list[str]:
        """What closes the string and everything that is open from this depth on."""
        ends = ["]" if isinstance(step, int) else "}" for step in reversed(self._path[depth:])]
        return ['"', *ends] if self._in_string else ends


def _fitting(step: str | int, other: str | int) -> str | int:
    """A step as the container takes it in which another step stands already."""
    return step if type(step) is type(other) else str(step) if isinstance(other, str) else 0


def _opening(step: str | int) -> str:
    return "[" if isinstance(step, int) else "{"


def _steps(path: Any) -> Path:
    """The steps of a JSON path (RFC 9535, names and indexes only); empty where it is anything else."""
    if not isinstance(path, str) or not path.startswith("$"):
        return ()
    steps: list[str | int] = []
    at = 1
    while at < len(path):
        match = _STEP.match(path, at)
        if match is None or len(steps) == _DEPTH_LIMIT:
            return ()
        plain, single, double, index = match.groups()
        steps.append(int(index) if index is not None else next(n for n in (plain, single, double) if n is not None))
        at = match.end()
    return tuple(steps)


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
