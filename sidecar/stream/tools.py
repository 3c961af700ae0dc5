"""Tool calls put together from their pieces, by rules that survive what endpoints do to `index`, `id` and `name`."""

import json
from typing import Any, Literal

import msgspec
from msgspec import UNSET

from sidecar.dialects.signals import ToolCall
from sidecar.stream.text import CHOICES_KEPT, has_lone_edge, kept

Verdict = Literal["valid", "invalid_arguments", "incomplete"]

ARGUMENTS_LIMIT = 256 * 1024
"""Characters of arguments kept per stream; what goes beyond is counted and not validated."""
_CALLS_LIMIT = 256


class Call(msgspec.Struct):
    """One tool call as far as it is known."""

    choice: int
    index: int | None
    id: str = ""
    name: str = ""
    arguments: str = ""
    chars: int = 0
    deltas: int = 0
    free_text: bool = False
    cut: bool = False
    """The arguments went over the bound: `arguments` is only their beginning."""

    def verdict(self, *, ended_well: bool) -> Verdict:
        """`incomplete` where the stream broke off and the arguments do not parse; judged at the end only."""
        if self.arguments_valid():
            return "valid"
        return "invalid_arguments" if ended_well else "incomplete"

    def arguments_valid(self) -> bool:
        """Whether the arguments are JSON; none at all mean `{}`, free text is always valid."""
        if self.free_text or not self.arguments.strip():
            return True
        if self.cut:
            return False
        try:
            json.loads(self.arguments)
        except (ValueError, RecursionError):
            return False
        return True


class ToolCalls:
    """Pieces in, calls out; `notes` are the habits by their names in the quirk registry."""

    __slots__ = (
        "_at",
        "_kept",
        "_limit",
        "_zero_again",
        "calls",
        "chars",
        "choices",
        "notes",
    )

    def __init__(self, limit: int = ARGUMENTS_LIMIT) -> None:
        self.calls: list[Call] = []
        self.notes: set[str] = set()
        self.choices: set[int] = set()
        self.chars = 0
        """Characters of arguments of all calls, those over the bound included."""
        self._at: dict[tuple[int, int | str], Call] = {}
        self._limit = limit
        self._kept = 0
        self._zero_again = False

    def add(self, delta: ToolCall) -> bool:
        """Take one delta; True if it is output (it has an id, a name or arguments)."""
        arguments = _arguments(delta.arguments, self.notes)
        call_id = delta.id if isinstance(delta.id, str) else "" if delta.id in (UNSET, None) else str(delta.id)
        call_id = kept(call_id)
        name = kept(delta.name) if isinstance(delta.name, str) else ""
        if not (arguments or call_id or name):
            if not delta.final:
                self.notes.add("tool_call_fragment_empty")
            self._note_empty_id(delta, self._find(delta, "", ""))
            return False
        index = delta.index if isinstance(delta.index, int) else None
        if index is None and delta.key is None and not delta.whole:
            self.notes.add("tool_index_missing")
        call = self._find(delta, call_id, name)
        if call is None:
            call = self._open(delta, index, call_id, name)
            if call is None:
                return True
        else:
            self._continue(call, delta, call_id, name)
        call.deltas += not delta.final
        if len(self.choices) < CHOICES_KEPT:
            self.choices.add(delta.choice)
        if has_lone_edge(arguments):
            self.notes.add("lone_surrogate")
        call.free_text = call.free_text or delta.free_text
        if delta.snapshot and arguments:
            self._drop(call)
        self._append(call, arguments, final=delta.final)
        return True

    def _open(self, delta: ToolCall, index: int | None, call_id: str, name: str) -> Call | None:
        if len(self.calls) >= _CALLS_LIMIT:
            return None
        if not self.calls and index and not delta.whole and delta.key is None:
            self.notes.add("tool_index_not_zero_based")
        if call_id and not name and delta.name == "":
            self.notes.add("tool_name_late")
        call = Call(delta.choice, index, call_id, name)
        self.calls.append(call)
        if delta.key is not None:
            self._at[delta.choice, delta.key] = call
        elif index is not None:
            self._at[delta.choice, index] = call
        return call

    def _find(self, delta: ToolCall, call_id: str, name: str) -> Call | None:
        """The call that a delta continues; None where it opens one."""
        if delta.whole:
            return None
        if delta.key is not None:
            return self._at.get((delta.choice, delta.key))
        if isinstance(delta.index, int):
            call = self._at.get((delta.choice, delta.index))
            if call is not None and call_id and name and call.id and call.id != call_id:
                # A new id with a new name at a used index: several calls under one index.
                self._zero_again = self._zero_again or delta.index == 0
                return None
            return call
        last = next((call for call in reversed(self.calls) if call.choice == delta.choice), None)
        if call_id:
            same = next((call for call in self.calls if call.id == call_id and call.choice == delta.choice), None)
            return same or (None if name or last is None else last)
        if name and last is not None and last.name and last.arguments and last.arguments_valid():
            return None  # neither index nor id: a further name after whole arguments opens the next call
        return last

    def _continue(self, call: Call, delta: ToolCall, call_id: str, name: str) -> None:
        self._note_empty_id(delta, call)
        if call_id and not delta.final:
            if not call.id:
                call.id = call_id
            elif call.id == call_id:
                self.notes.add("tool_id_name_repeated")
            else:
                self.notes.add("tool_id_changes")
        if name and name != call.name:
            if not call.name:
                call.name = name
            elif not delta.final:
                call.name = kept(call.name + name)
                self.notes.add("tool_name_fragmented")

    def _note_empty_id(self, delta: ToolCall, call: Call | None) -> None:
        if delta.id == "" and call is not None:
            self.notes.add("tool_id_empty_string")

    def _append(self, call: Call, piece: str, *, final: bool) -> None:
        if not piece or (final and call.chars):
            return
        if call.arguments.startswith("{") and piece.startswith(call.arguments) and not call.free_text:
            # No JSON object goes on with itself from its first brace: the fragment repeats all there was.
            self.notes.add("tool_arguments_cumulative")
            self._drop(call)
        call.chars += len(piece)
        self.chars += len(piece)
        room = self._limit - self._kept
        if len(piece) > room:
            call.cut = True
            piece = piece[: max(room, 0)]
        call.arguments += piece
        self._kept += len(piece)

    def _drop(self, call: Call) -> None:
        """Forget the arguments so far: what comes now has them, too."""
        self._kept -= len(call.arguments)
        self.chars -= call.chars
        call.arguments = ""
        call.chars = 0
        call.cut = False

    def note_end(self, *, ended_well: bool) -> None:
        """The stream is over: name what only the whole calls show. `ended_well`: it had a finish or a terminator."""
        if self._zero_again and all(call.index == 0 for call in self.calls):
            self.notes.add("tool_index_all_zero")
        for call in self.calls:
            if not call.arguments and ended_well:
                self.notes.add("tool_arguments_empty")
            if not call.arguments_valid():
                self.notes.add("tool_arguments_invalid_json")
            if call.deltas == 1 and call.name and (ended_well or call.arguments) and call.arguments_valid():
                self.notes.add("tool_call_single_chunk")


def _arguments(value: Any, notes: set[str]) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        notes.add("tool_arguments_null")
        return ""
    if value is UNSET:
        return ""
    notes.add("tool_arguments_object")
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
