"""A stream that speaks no known dialect: timed as a stream of events, and nothing guessed from it."""

from typing import ClassVar

from sidecar.dialects.plain import Plain
from sidecar.dialects.request import Request
from sidecar.dialects.signals import Signal
from sidecar.framing.frame import Frame


class Unknown:
    """Everything else."""

    name: ClassVar[str] = "unknown"
    terminators: ClassVar[frozenset[str]] = frozenset()
    has_finish: ClassVar[bool] = False
    named_events: ClassVar[bool] = False
    plains: ClassVar[tuple[Plain, ...]] = ()

    def __init__(self, request: Request) -> None:
        pass

    def interpret(self, frame: Frame) -> list[Signal]:
        return []

    def interpret_whole(self, frame: Frame) -> list[Signal]:
        return []

    def cut_off(self, frame: Frame) -> list[Signal]:
        return []

    def conclude(self) -> list[Signal]:
        return []
