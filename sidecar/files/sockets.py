"""Recorded WebSockets: one report per response in them, and what is to be said of the socket itself."""

import msgspec

from sidecar.capture.records import Ended, Message, Opened, Record, ResponseHead
from sidecar.dialects.providers import provider_name
from sidecar.exchange import Exchange
from sidecar.session import Session, Turn
from sidecar.stream.session import SessionSummary
from sidecar.stream.summary import Summary
from sidecar.summarise import summarise
from sidecar.thresholds import Limits, QuirkThresholds


class SocketReport(msgspec.Struct, frozen=True):
    """One socket, and the responses in it in the order of their opening."""

    session: SessionSummary
    responses: tuple[Summary, ...]


def is_socket(records: list[Record]) -> bool:
    """Whether the records are those of a request that became a WebSocket."""
    return any(isinstance(record, ResponseHead) and record.status == 101 for record in records)


def run_socket(records: list[Record], ended_at: int, thresholds: QuirkThresholds, limits: Limits) -> SocketReport:
    """The records of one WebSocket through the pipeline."""
    opened = records[0]
    assert isinstance(opened, Opened)
    head = next(record for record in records if isinstance(record, ResponseHead))
    session = Session(Exchange(opened, limits), head)
    turns: list[Turn] = []
    end: Ended | None = None
    for record in records:
        if isinstance(record, Message):
            turns += session.message(record)
        elif isinstance(record, Ended):
            end = record
            turns += session.ended(record)
    turns += session.close(ended_at)
    responses = sorted((summarise(turn, thresholds) for turn in turns), key=lambda summary: summary.opened_at)
    provider = provider_name(opened.host, session.row.name)
    return SocketReport(session.summary(provider, end), tuple(responses))


def session_object(session: SessionSummary) -> dict[str, object]:
    """The socket as JSON, without content."""
    counts: dict[str, object] = msgspec.to_builtins(session.counts)
    return {"seconds": session.seconds, "close_code": session.close_code, "closed_by": session.closed_by} | counts
