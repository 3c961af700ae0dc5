"""Exactly one outcome per exchange; the order of precedence is the corpus's."""

from typing import Literal

import msgspec

Outcome = Literal[
    "complete",
    "no_terminator",
    "truncated",
    "upstream_reset",
    "upstream_failed",
    "client_disconnect",
    "error_event",
    "http_error",
    "empty",
    "not_streamed",
    "unparsed",
    "lost",
    "open",
]
"""`open` is no outcome: it says of a capture that the stream was still hanging when the recording stopped."""

EndKind = Literal["eof", "upstream_reset", "upstream_failed", "client_disconnect", "open"]


class Ending(msgspec.Struct, frozen=True):
    """What the outcome depends on."""

    end: EndKind
    status: int | None
    lost: bool = False
    error: bool = False
    terminator: bool = False
    finish: bool = False
    output: bool = False
    """Any output or text at all."""
    cut_off: bool = False
    """The body ended inside an event."""
    whole: bool = False
    """The body was one whole document, no stream."""
    asked_stream: bool = False
    parsed: bool = True
    """Whether a dialect could read the body."""
    blocked: bool = False
    """The prompt was refused: complete, although nothing was generated."""
    has_terminators: bool = True
    has_finish: bool = True
    in_socket: bool = False
    """One response of a WebSocket: the end may be that of the whole socket."""


def decide(ending: Ending) -> Outcome:
    """The outcome of one exchange."""
    if ending.lost:
        return "lost"
    if ending.status is None:
        return _without_head(ending.end)
    if ending.status >= 400:
        return "http_error"
    if ending.end != "eof" and not (ending.terminator or ending.error):
        return ending.end
    if ending.error:
        return "error_event"
    if ending.whole and ending.parsed:
        return "not_streamed" if ending.asked_stream else "complete"
    if not ending.parsed:
        return "unparsed"
    return _of_clean_stream(ending)


def _without_head(end: EndKind) -> Outcome:
    if end in ("client_disconnect", "open"):
        return end
    return "upstream_failed"


def _of_clean_stream(ending: Ending) -> Outcome:
    ended = ending.terminator or ending.finish
    if ending.cut_off and not ending.terminator:
        return "truncated"
    if not (ending.output or ending.finish or ending.blocked):
        return "truncated" if ending.in_socket and not ending.terminator else "empty"
    if ending.blocked or ending.terminator:
        return "complete"
    if not ended and (ending.has_terminators or ending.has_finish):
        return "truncated"
    return "no_terminator" if ending.has_terminators else "complete"
