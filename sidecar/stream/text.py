"""The visible text of a stream, kept within a bound, and what is odd about it."""

from collections.abc import Sequence
from typing import Any

THINK_OPEN = "<think>"
THINK_CLOSE = "</think>"
TOOL_MARKUP = (
    "<tool_call>",  # Qwen, Hermes, GLM; MiniMax and Seed put a namespace in front
    ":tool_call>",
    "<tool_calls>",
    "<function=",
    "<function_call>",
    "<function_calls>",
    "<invoke name=",
    "<|tool_call|>",
    "<|tool_call>",
    "<|python_tag|>",  # Llama
    "[TOOL_CALLS]",  # Mistral
    "<TOOLCALL>",  # Nemotron
    "<|tool_call_begin|>",  # Kimi
    "<|tool_calls_section_begin|>",
    "<｜tool▁calls▁begin｜>",  # DeepSeek
    "<｜tool▁call▁begin｜>",
    "<|action_start|>",  # InternLM
    "<|START_ACTION|>",  # Command
    "<start_function_call>",  # Gemma
    "[TOOL_REQUEST]",  # LM Studio
)
_TAIL = max(map(len, TOOL_MARKUP)) - 1
_HINTS = ("<", "[")
_PIECE = 1024
_NONE: frozenset[Any] = frozenset()  # shared: each empty set of its own would take 216 bytes of a stream in flight
CHOICES_KEPT = 128
"""Choices told apart."""
NAME_LIMIT = 1024
MESSAGE_LIMIT = 16 * 1024
"""Characters kept of a name, and of an error message."""


def has_lone_edge(text: str) -> bool:
    """Whether a piece starts or ends with one half of a surrogate pair."""
    return not text.isascii() and ("\ud800" <= text[0] <= "\udfff" or "\ud800" <= text[-1] <= "\udfff")


def joined_pairs(text: str) -> str:
    """A text with the halves of surrogate pairs joined, and halves that have no other replaced."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def kept(text: str, limit: int = NAME_LIMIT) -> str:
    """What is remembered of a name that the wire gives, or of a message: bounded, and fit for any encoder."""
    return joined_pairs(text[:limit])


class TextLog:
    """Text by choice. At most `limit` characters are kept; sizes and marks are of all of it."""

    __slots__ = (
        "_cumulative",
        "_halves",
        "_kept",
        "_last",
        "_limit",
        "_pieces",
        "_seed",
        "_tail",
        "_text_events",
        "marks",
        "size",
    )

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = 0
        self._pieces: dict[int, list[str]] = {}
        self._tail = ""
        self._last = ""
        self._seed = 0
        self._text_events = 0
        self._cumulative = True
        self._halves: frozenset[int] = _NONE
        """Choices whose text so far ends in the first half of a surrogate pair."""
        self.size: dict[int, int] = {}
        self.marks: frozenset[str] = _NONE

    def add(self, text: str, choice: int) -> None:
        """One piece of visible text."""
        if choice not in self.size and len(self.size) >= CHOICES_KEPT:
            choice = -1  # all the others
        self.size[choice] = self.size.get(choice, 0) + len(text)
        if has_lone_edge(text):
            self.marks |= {"lone_surrogate"}
            if choice in self._halves and "\udc00" <= text[0] <= "\udfff":
                self.size[choice] -= 1  # two halves are one character
            self._halves -= {choice}
            if "\ud800" <= text[-1] < "\udc00":
                self._halves |= {choice}
        elif self._halves and text:
            self._halves -= {choice}
        if self._kept < self._limit:
            self._keep(text, choice)
        if choice:
            return
        if self._cumulative:
            self._follow(text)
        if self._tail or "<" in text or "[" in text:
            self._scan(text)

    def extend(self, pieces: Sequence[str]) -> int:
        """Several pieces of choice 0 without any half of a surrogate pair, as `add` takes them one by one; their
        characters together."""
        joined = "".join(pieces)
        if self._cumulative or self._tail or self._halves or "<" in joined or "[" in joined or 0 not in self.size:
            for piece in pieces:
                self.add(piece, 0)
        else:
            self.size[0] += len(joined)
            if self._kept < self._limit:
                self._keep(joined, 0)
        return len(joined)

    def _keep(self, text: str, choice: int) -> None:
        pieces = self._pieces.setdefault(choice, [])
        piece = text[: self._limit - self._kept]
        if pieces and len(pieces[-1]) < _PIECE:
            pieces[-1] += piece  # many small strings would take ten times the memory
        else:
            pieces.append(piece)
        self._kept += len(text)

    def _follow(self, text: str) -> None:
        """Whether each event repeats all text so far, as far as this one shows; most streams drop out at the second."""
        if not text.startswith(self._last):
            self._cumulative = False
            self._last = ""
            return
        # Kept whole, beyond the limit of what is shown: bounded by the size of one event.
        self._text_events += 1
        self._seed = self._seed or len(text)
        self._last = text

    def _scan(self, text: str) -> None:
        joined = self._tail + text
        if THINK_OPEN in joined:
            self.marks |= {THINK_OPEN}
        if THINK_CLOSE in joined:
            self.marks |= {THINK_CLOSE}
        if any(markup in joined for markup in TOOL_MARKUP):
            self.marks |= {"tool_markup"}
        tail = joined[-_TAIL:]
        self._tail = tail if any(hint in tail for hint in _HINTS) else ""

    @property
    def cumulative(self) -> bool:
        """Whether every event repeated the text of the one before and at least one went on from there.

        Two events of which the first is a single character may be a coincidence.
        """
        enough = 2 if self._seed > 1 else 3
        longer = len(self._last) * self._text_events > self.size.get(0, 0)
        return self._cumulative and self._text_events >= enough and longer

    def text(self, choice: int | None = 0) -> str:
        """The text kept of one choice, or of all of them in order of arrival; halves of surrogate pairs joined."""
        if choice == 0 and self.cumulative:
            return joined_pairs(self._last[: self._limit])
        if choice is None:
            joined = "".join(piece for pieces in self._pieces.values() for piece in pieces)
        else:
            joined = "".join(self._pieces.get(choice, ()))
        return joined_pairs(joined)

    def chars(self, choice: int = 0) -> int:
        """Characters of visible text of one choice."""
        return len(self._last) if choice == 0 and self.cumulative else self.size.get(choice, 0)

    def is_repeated_by(self, text: str, choice: int) -> bool:
        """Whether a text is the whole text so far once more (as far as it was kept)."""
        return bool(text) and len(text) == self.size.get(choice, 0) and text.startswith(self.text(choice))
