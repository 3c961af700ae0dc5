"""Token counts over a stream: the last value of each field wins, nothing is ever added up."""

from typing import Any

import msgspec

from sidecar.dialects.signals import Usage

FIELDS = ("input", "output", "total", "cache_read", "cache_write", "reasoning")
_STATED_KEPT = 64
_NONE: frozenset[Any] = frozenset()  # shared: each empty set of its own would take 216 bytes of a stream in flight


class UsageLedger:
    """Usage objects in, merged counts out; `notes` are the habits by their names in the quirk registry."""

    __slots__ = (
        "_early",
        "_fallback",
        "_nulls",
        "_opened_with_zero",
        "_stated",
        "_stating",
        "audio",
        "counts",
        "notes",
    )

    def __init__(self) -> None:
        self.notes: frozenset[str] = _NONE
        self.counts: dict[str, int] = {}
        self.audio: dict[str, int] = {}
        """Audio tokens among the counts, by `input`, `output` and `cache_read`."""
        self._fallback: dict[str, int] = {}
        self._stated: frozenset[tuple[int | None, int | None, int | None]] = _NONE
        self._stating: frozenset[tuple[int | None, int | None, int | None]] = _NONE  # in the event that is being read
        self._early = False  # stated before the finish reason; what follows decides what that means
        self._nulls = 0
        self._opened_with_zero = False

    def null(self) -> None:
        """`usage: null` at the top level of a chunk."""
        self._nulls += 1
        if self._nulls > 1:
            self.notes |= {"usage_null_every_chunk"}

    def add(self, usage: Usage, *, finished: bool, finishes: bool) -> None:
        """One usage object. `finished`: a finish reason came before; `finishes`: it comes in the same event."""
        counts = {name: value for name in FIELDS if (value := getattr(usage, name)) is not None}
        if not counts:
            return
        if usage.fallback:
            self._fallback.update(counts)
            return
        if any(value < self.counts.get(name, 0) for name, value in counts.items() if name in FIELDS[:3]):
            self.notes |= {"usage_regressed"}
        if usage.opening:
            self._opened_with_zero = usage.input == 0
        elif self._opened_with_zero and usage.input:
            self.notes |= {"usage_input_zero_at_start"}
        self.counts.update(counts)
        if usage.audio:
            self.audio.update(usage.audio)
        if finished or finishes:
            stated = (usage.input, usage.output, usage.total)
            if stated in self._stated:
                self.notes |= {"usage_repeated"}
            elif len(self._stated) < _STATED_KEPT:
                self._stating |= {stated}
            if finishes and usage.place == "event":
                self.notes |= {"usage_on_finish_chunk"}
        elif not usage.opening and usage.place != "headers":
            self._early = True

    def event_over(self) -> None:
        """The event has no more usage objects: totals repeated within one event are one statement."""
        self._stated |= self._stating
        self._stating = _NONE

    def goes_on(self) -> None:
        """A later event brought output or the finish reason."""
        if self._early:
            self._early = False
            self.notes |= {"usage_mid_stream"}

    def merged(self) -> dict[str, int] | None:
        """The counts as reported, or None where none or only zeros came."""
        counts = self.counts or self._fallback
        if not counts:
            return None
        if not any(counts.values()):
            self.notes |= {"usage_all_zero"}
            return None
        if "input" not in counts or "output" not in counts:
            self.notes |= {"usage_partial_fields"}
        return counts

    @property
    def only_fallback(self) -> bool:
        """Whether the counts are llama.cpp's timings, no usage object having come."""
        return not self.counts and bool(self._fallback)

    def excludes_reasoning(self) -> bool:
        """Whether the reported total shows that output leaves reasoning out (xAI, Gemini): all four counts needed."""
        counts = self.counts
        try:
            reasoning = counts["reasoning"]
            return reasoning > 0 and counts["total"] == counts["input"] + counts["output"] + reasoning
        except KeyError:
            return False


class Tokens(msgspec.Struct, frozen=True):
    """Token counts by OpenTelemetry's conventions: input includes cached tokens, output includes reasoning."""

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None


def normalised(counts: dict[str, int], *, cached_apart: bool, reasoning_apart: bool) -> Tokens:
    """Reported counts with the arithmetic of the conventions.

    `cached_apart`: the dialect reports cached input beside `input`, not in it (Anthropic, Bedrock, llama.cpp's
    timings). `reasoning_apart`: output leaves reasoning out.
    """
    given, produced = counts.get("input"), counts.get("output")
    if given is not None and cached_apart:
        given += counts.get("cache_read", 0) + counts.get("cache_write", 0)
    if produced is not None and reasoning_apart:
        produced += counts.get("reasoning", 0)
    return Tokens(given, produced, counts.get("cache_read"), counts.get("cache_write"), counts.get("reasoning"))
