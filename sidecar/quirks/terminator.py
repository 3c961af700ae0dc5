"""Quirks of the registry: terminator."""

from sidecar.quirks.detect import delayed_close, terminator_missing
from sidecar.quirks.quirk import Quirk, Severity

INFO, WARNING, BREAKS = Severity.INFO, Severity.WARNING, Severity.BREAKS_CLIENTS

TERMINATOR: tuple[Quirk, ...] = (
    Quirk(
        id="terminator_missing",
        summary="Dialect has a terminator, no error was reported, stream ended without it.",
        severity=WARNING,
        breaks="",
        guard="",
        reference="",
        on=terminator_missing,
    ),
    Quirk(
        id="terminator_truncated",
        summary="Connection ended inside the terminator event.",
        severity=WARNING,
        breaks="",
        guard="",
        reference="",
    ),
    Quirk(
        id="duplicate_terminator",
        summary="Terminator seen twice or more.",
        severity=WARNING,
        breaks="",
        guard="",
        reference="",
    ),
    Quirk(
        id="data_after_terminator",
        summary="Data events after the terminator.",
        severity=WARNING,
        breaks="",
        guard="",
        reference="",
    ),
    Quirk(
        id="foreign_terminator",
        summary="`[DONE]` in a dialect that does not use it.",
        severity=WARNING,
        breaks="",
        guard="",
        reference="",
    ),
    Quirk(
        id="terminator_alias",
        summary="Non-standard terminal event name (response.done).",
        severity=WARNING,
        breaks="",
        guard="",
        reference="",
    ),
    Quirk(
        id="eof_delayed_after_terminator",
        summary="Connection stayed open 5 s or more after the terminator.",
        severity=WARNING,
        breaks="",
        guard="",
        reference="",
        on=delayed_close,
    ),
)
