"""Gemini's function calls put together from their parts: whole `args`, later parts of them, values by JSON path.

https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/function-calling (streamFunctionCallArguments)
"""

import json
import re
from typing import Any

from msgspec import UNSET

from sidecar.dialects.signals import Annotation, Signal, ToolCall

_STEP = re.compile(r"""\.?([^.\[\]'"]+)|\['([^']*)'\]|\["([^"]*)"\]|\[(\d{1,6})\]""")
_VALUES = ("stringValue", "numberValue", "boolValue")
_LIST_LIMIT = 4096
_VALUES_LIMIT = 65536
_CHARS_LIMIT = 1024 * 1024
_DEPTH_LIMIT = 64

type Step = str | int


class FunctionCalls:
    """The function calls of one candidate. Bounded; a path that makes no sense is passed over."""

    def __init__(self, choice: int) -> None:
        self._choice = choice
        self._count = 0
        self._id: Any = UNSET
        self._arguments: dict[str, Any] = {}
        self._text: str = ""  # the string that the next value of the same path continues
        self._path: tuple[Step, ...] | None = None
        self._values = 0
        self._chars = 0

    def take(self, call: dict[str, Any]) -> list[Signal]:
        """One functionCall part. A part with a name opens a call, the same name included; one without goes on."""
        name, given, parts = call.get("name"), call.get("args"), call.get("partialArgs")
        call_id = call.get("id", UNSET)
        named = isinstance(name, str) and bool(name)
        signals: list[Signal] = []
        if given is not None and not named:
            signals.append(Annotation("tool_call_fragment_nameless"))
        goes_on = not named or (isinstance(call_id, str) and call_id != "" and call_id == self._id and not given)
        if not self._count or not goes_on:
            self._open(call_id)
        if isinstance(given, dict):
            self._arguments.update(given)
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict):
                self._apply(part)
        if given is None and not parts:
            arguments: Any = UNSET
        elif given is None or isinstance(given, dict):
            arguments = json.dumps(self._arguments, ensure_ascii=False, separators=(",", ":"))
        else:
            arguments = given
        if named or call_id is not UNSET or arguments is not UNSET:
            key = str(self._count)
            spoken = name if named else UNSET
            signals.append(ToolCall(UNSET, call_id, spoken, arguments, self._choice, key=key, snapshot=True))
        return signals

    def _open(self, call_id: Any) -> None:
        self._count += 1
        self._id = call_id
        self._arguments = {}
        self._path = None
        self._values = self._chars = 0

    def _apply(self, part: dict[str, Any]) -> None:
        """One value by its path. A string that is to be continued is followed by values of the same path."""
        path = _steps(part.get("jsonPath"))
        if not path or self._values >= _VALUES_LIMIT:
            return
        value: Any = next((part[name] for name in _VALUES if name in part), None)
        if isinstance(value, str):
            self._chars += len(value)
            if self._chars > _CHARS_LIMIT:
                return
            if path == self._path:
                value = self._text + value
            self._text = value
        self._path = path if part.get("willContinue") is True and isinstance(value, str) else None
        self._values += 1
        _put(self._arguments, path, value)


def _steps(path: Any) -> tuple[Step, ...]:
    """The steps of a JSON path (RFC 9535, names and indexes only); empty where it is anything else."""
    if not isinstance(path, str) or not path.startswith("$"):
        return ()
    steps: list[Step] = []
    at = 1
    while at < len(path):
        match = _STEP.match(path, at)
        if match is None or len(steps) == _DEPTH_LIMIT:
            return ()
        plain, single, double, index = match.groups()
        steps.append(int(index) if index is not None else next(n for n in (plain, single, double) if n is not None))
        at = match.end()
    return tuple(steps)


def _put(root: dict[str, Any], path: tuple[Step, ...], value: Any) -> None:
    """Set a value in nested objects and arrays, making those on the way."""
    place: Any = root
    for step, following in zip(path, (*path[1:], None), strict=True):
        last = following is None
        fresh: Any = value if last else [] if isinstance(following, int) else {}
        if isinstance(place, dict) and isinstance(step, str):
            if last or not isinstance(place.get(step), (dict, list)):
                place[step] = fresh
        elif isinstance(place, list) and isinstance(step, int) and step < _LIST_LIMIT:
            place.extend([None] * (step + 1 - len(place)))
            if last or not isinstance(place[step], (dict, list)):
                place[step] = fresh
        else:
            return
        place = place[step]
