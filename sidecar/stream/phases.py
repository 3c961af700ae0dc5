"""In which phase a live stream is, how long it has been silent there, and when that is a stall."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Literal

import msgspec

from sidecar.thresholds import StallThresholds

Phase = Literal["waiting_headers", "before_first_token", "mid_stream", "keepalive_only", "after_finish"]
PHASES: tuple[Phase, ...] = ("waiting_headers", "before_first_token", "mid_stream", "keepalive_only", "after_finish")
STALLS_KEPT = 16
"""Stalls of one stream that are remembered one by one; all of them are counted."""


class Stall(msgspec.Struct):
    """A silence beyond the threshold of its phase. Nanoseconds on the proxy's clock; `until` is None while it lasts."""

    phase: Phase
    since: int
    until: int | None = None


class StallPolicy:
    """Thresholds by model: the first pattern (shell wildcards) that matches the model's name changes the defaults."""

    def __init__(self, defaults: StallThresholds, by_model: Mapping[str, Mapping[str, float]]) -> None:
        self._defaults = defaults
        self._rules = tuple(
            (pattern, msgspec.structs.replace(defaults, **changes)) for pattern, changes in by_model.items()
        )

    @property
    def shortest(self) -> int:
        """The shortest threshold of all, nanoseconds."""
        everything = (self._defaults, *(thresholds for _, thresholds in self._rules))
        return int(min(getattr(each, phase) for each in everything for phase in PHASES) * 1e9)

    def of(self, model: str | None) -> StallThresholds:
        """The thresholds that hold for a model."""
        if model is not None:
            for pattern, thresholds in self._rules:
                if fnmatchcase(model, pattern):
                    return thresholds
        return self._defaults

    def is_stalled(self, model: str | None, phase: Phase, silence: int) -> bool:
        """Whether so many nanoseconds of silence are as long as the phase allows."""
        bound: float = getattr(self.of(model), phase)
        return silence >= bound * 1e9


class Progress:
    """Phase and silence of one stream; progress is any event that is more than a keep-alive.

    `silences` holds the longest silence per phase in nanoseconds. A silence belongs to the phase in which it ended:
    one in which keep-alives came is `keepalive_only`. `remembered` holds the first stalls with their times.
    """

    __slots__ = (
        "_finished",
        "_head",
        "_kept_alive",
        "_output",
        "_waits",
        "last",
        "remembered",
        "silences",
        "stalled",
        "stalls",
    )

    def __init__(self) -> None:
        self.last: int | None = None
        self.silences: dict[Phase, int] = {}
        self.stalls: dict[Phase, int] = {}
        self.remembered: list[Stall] = []
        self.stalled: Phase | None = None
        self._head = False
        self._output = False
        self._finished = False
        self._kept_alive = False
        self._waits = False

    def start(self, at: int) -> None:
        """The request is out (or the exchange was opened, where that is unknown)."""
        self.last = at

    def head(self, at: int) -> None:
        """The response head came."""
        self._progress(at)
        self._head = True

    def event(self, at: int) -> None:
        """An event with a payload came."""
        self._progress(at)

    def output(self, at: int) -> None:
        """Output came. Called after `event` of the same read."""
        self._output = True
        self.last = at

    def run(self, ats: Sequence[int], longest: int) -> None:
        """Events with output came at these times, in the middle of a stream: `event` and `output` of each. `longest` is
        the longest time from one of them to the next, 0 where there is but one."""
        self.event(ats[0])
        self._output = True
        if longest > 0 and longest > self.silences.get("mid_stream", -1):
            self.silences["mid_stream"] = longest
        self.last = ats[-1]

    def keep_alive(self, at: int) -> None:
        """Something came that only keeps the connection open."""
        self._kept_alive = True

    def wait(self) -> None:
        """Nothing is due from the server for now: the client runs a tool, or an answer is played. No silence counts."""
        self._waits = True

    def resume(self, at: int) -> None:
        """The wait is over."""
        self._waits = False
        self.last = at

    def finished(self) -> None:
        """A finish reason or the terminator came."""
        self._finished = True

    def end(self, at: int) -> None:
        """The exchange is over: the last silence counts, too."""
        self._progress(at)

    def _progress(self, at: int) -> None:
        if self.last is not None and at > self.last and not self._waits:
            phase = self.phase()
            silence = at - self.last
            if silence > self.silences.get(phase, -1):
                self.silences[phase] = silence
        self.last = at
        self._kept_alive = self._waits = False
        if self.stalled is not None:
            self.stalled = None
            for stall in self.remembered:
                stall.until = at if stall.until is None else stall.until

    def phase(self) -> Phase:
        """The phase the stream is in now."""
        if not self._head:
            return "waiting_headers"
        if self._finished:
            return "after_finish"
        if self._kept_alive:
            return "keepalive_only"
        return "mid_stream" if self._output else "before_first_token"

    def silence(self, now: int) -> int:
        """Nanoseconds since the last progress."""
        return 0 if self.last is None or self._waits else max(now - self.last, 0)

    def due(self, thresholds: StallThresholds) -> int:
        """When the stream stalls if nothing comes any more, nanoseconds on the clock of the records."""
        return (self.last or 0) + int(getattr(thresholds, self.phase()) * 1e9)

    def check(self, now: int, thresholds: StallThresholds) -> Phase | None:
        """The phase in which the stream has just been found stalled (once per stall), else None."""
        phase = self.phase()
        if self.stalled == phase or self.silence(now) < getattr(thresholds, phase) * 1e9:
            return None
        self.stalled = phase
        self.stalls[phase] = self.stalls.get(phase, 0) + 1
        if self.last is not None and len(self.remembered) < STALLS_KEPT:
            self.remembered.append(Stall(phase, self.last))
        return phase
