"""Quirks of the registry: timing."""

from sidecar.quirks.detect import long_gap, long_prefill_silence
from sidecar.quirks.quirk import Quirk, Severity

INFO, WARNING, BREAKS = Severity.INFO, Severity.WARNING, Severity.BREAKS_CLIENTS

TIMING: tuple[Quirk, ...] = (
    Quirk(
        id="long_gap",
        summary="30 s or more between two outputs, or last output to reset/error. Heartbeats do not close it.",
        severity=WARNING,
        breaks="",
        guard="",
        reference="",
        on=long_gap,
    ),
    Quirk(
        id="long_prefill_silence",
        summary="First output after 30 s or more (or none by then at a reset).",
        severity=WARNING,
        breaks="",
        guard="",
        reference="",
        on=long_prefill_silence,
    ),
)
