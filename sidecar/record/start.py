"""A recorder as the settings ask for it."""

from functools import partial
from pathlib import Path

from sidecar.config import Settings
from sidecar.record.expression import ExpressionError, compile_expression
from sidecar.record.facts import facts_of
from sidecar.record.folder import Bounds, Folder
from sidecar.record.line import line_of
from sidecar.record.recorder import Recorder, Wanted
from sidecar.record.scrub.scrubber import Scrubber
from sidecar.record.writer import Writer

_MIB = 1024 * 1024


class RecordError(RuntimeError):
    """Recording cannot begin; the text is one line that says why and what to do."""


def start_recorder(settings: Settings, version: str) -> Recorder | None:
    """Make the directory and start to record; None where nothing is to be recorded. Raises RecordError."""
    if settings.record is None:
        given = [name for name in ("record_only", "record_scrub") if getattr(settings, name)]
        if given:
            raise RecordError(f"{given[0]} says how to record, and nothing says where: give --record DIR, too")
        return None
    wanted = _wanted(settings.record_only)
    bounds = Bounds(settings.record_file_mib * _MIB, settings.record_file_seconds, settings.record_total_mib * _MIB)
    folder = Folder(Path(settings.record), bounds)
    try:
        folder.prepare()
    except OSError as error:
        raise RecordError(
            f"cannot record into {settings.record}: {error.strerror or error}; choose another --record DIR"
        ) from error
    scrubber = Scrubber() if settings.record_scrub else None
    line = partial(line_of, by=f"llm-sidecar {version}", scrubber=scrubber)
    return Recorder(
        Writer(folder, line),
        wanted,
        exchange_bytes=settings.record_exchange_mib * _MIB,
        memory_bytes=settings.record_memory_mib * _MIB,
    )


def _wanted(expression: str | None) -> Wanted:
    if expression is None:
        return lambda found: True
    try:
        matches = compile_expression(expression)
    except ExpressionError as error:
        raise RecordError(f"bad setting: record_only is {expression!r}: {error}") from error
    return lambda found: matches(facts_of(found))
