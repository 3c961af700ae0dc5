"""Recorded exchanges through the same pipeline as live ones."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from sidecar.capture.records import Chunk, Ended, Opened, Record, RequestBody, RequestSent, ResponseHead
from sidecar.exchange import Exchange
from sidecar.files.capture import T0, Capture, CaptureError, end_at, read_captures, records_of
from sidecar.files.curl import is_curl_output, read_curl
from sidecar.files.sockets import SocketReport, is_socket, run_socket, session_object
from sidecar.files.text import session_report, text_report
from sidecar.stream.summary import Summary
from sidecar.summarise import summarise
from sidecar.thresholds import Limits, QuirkThresholds

WHOLE_FILE = Limits(event_bytes=256 * 1024 * 1024, request_bytes=256 * 1024 * 1024, text_chars=256 * 1024 * 1024)
"""A file is bounded by its size; nothing of it needs to be left out."""

_CURL_LIMIT = 1024 * 1024 * 1024


def inspect_file(path: Path, thresholds: QuirkThresholds) -> Iterator[Summary | SocketReport | CaptureError]:
    """One summary per exchange of a file, in its order, of a WebSocket all in one; an error where a line is damaged.

    Raises CaptureError where the file cannot be read at all.
    """
    try:
        with path.open("rb") as file:
            start = file.read(256)
            rest = file.read(_CURL_LIMIT) if is_curl_output(start) else b""
    except OSError as error:
        raise CaptureError(f"{path}: {error.strerror or error}") from error
    if is_curl_output(start):
        capture, body = read_curl(path, start + rest)
        yield run(list(_untimed(capture, body)), T0, thresholds, timed=False)
        return
    for capture_or_error in read_captures(path):
        if isinstance(capture_or_error, CaptureError):
            yield capture_or_error
            continue
        try:
            records = list(records_of(capture_or_error))
        except ValueError as error:
            yield CaptureError(f"{path}: exchange {capture_or_error.id}: {error}")
            continue
        if is_socket(records):
            yield run_socket(records, end_at(capture_or_error), thresholds, WHOLE_FILE)
        else:
            yield run(records, end_at(capture_or_error), thresholds)


def _untimed(capture: Capture, body: bytes) -> Iterator[Record]:
    for record in records_of(capture):
        if isinstance(record, Ended):
            yield Chunk(1, T0, body)
        if not isinstance(record, RequestSent):  # when it was sent is unknown: no ladder
            yield record


def run(records: list[Record], ended_at: int, thresholds: QuirkThresholds, *, timed: bool = True) -> Summary:
    """The records of one exchange through the pipeline. `timed`: whether the reads are those of the wire."""
    opened = records[0]
    assert isinstance(opened, Opened)
    exchange = Exchange(opened, WHOLE_FILE)
    exchange.timed = timed
    for record in records[1:]:
        feed(exchange, record)
    if exchange.ended_at is None:
        exchange.close(ended_at)
    return summarise(exchange, thresholds)


def feed(exchange: Exchange, record: Record) -> None:
    """Hand one record to its exchange."""
    if isinstance(record, Chunk):
        exchange.chunk(record)
    elif isinstance(record, RequestBody):
        exchange.request_body(record)
    elif isinstance(record, RequestSent):
        exchange.request_sent(record)
    elif isinstance(record, ResponseHead):
        exchange.response_head(record)
    elif isinstance(record, Ended):
        exchange.ended(record)


def lines_of(
    found: Summary | SocketReport, *, as_json: bool, show_content: bool
) -> Iterator[tuple[Summary | None, dict[str, object] | str]]:
    """What `inspect` prints: an object or a text per exchange, and of a WebSocket without any response one of its own."""
    said = report if as_json else text_report
    if isinstance(found, Summary):
        yield found, said(found, show_content=show_content)
        return
    session = found.session
    above = session_report(session, show_content=show_content)
    if not found.responses:
        own: dict[str, object] = {"id": session.id, "dialect": session.dialect, "session": session_object(session)}
        yield None, own if as_json else above
    for number, summary in enumerate(found.responses):
        if as_json:
            yield summary, report(summary, show_content=show_content) | {"session": session_object(session)}
        else:
            below = text_report(summary, show_content=show_content)
            yield summary, below if number else f"{above}\n{below}"


def report(summary: Summary, *, show_content: bool) -> dict[str, object]:
    """What `inspect --json` prints of one exchange; content only where asked for."""
    calls: list[dict[str, object]] = []
    for call in summary.tool_calls:
        calls.append(
            {"name": call.name, "arguments_valid": call.arguments_valid, "arguments_chars": call.arguments_chars}
            | ({"arguments": call.arguments} if show_content else {})
        )
    usage: dict[str, object] | None = None
    if summary.usage is not None:
        usage = {f"{name}_tokens": count for name, count in summary.usage.items()}
        usage["source"] = summary.usage_source
    gaps = summary.gaps
    found: dict[str, object] = {
        "id": summary.id,
        "dialect": summary.dialect,
        "provider": summary.provider,
        "model": summary.request_model or summary.response_model,
        "streaming": summary.streaming,
        "status": summary.status,
        "outcome": summary.outcome,
        "terminator": summary.terminator,
        "finish_reason": summary.finish_reason,
        "quirks": list(summary.quirks),
        "usage": usage,
        "tool_calls": calls,
        "error_type": summary.error_type,
        "heartbeats": summary.heartbeats,
        "milestones_ms": {name: round(at * 1000, 3) for name, at in summary.milestones.items()},
        "gaps_ms": {
            name: None if value is None else round(value * 1000, 3)
            for name, value in (
                ("p50", gaps.percentile(0.5)),
                ("p99", gaps.percentile(0.99)),
                ("max", gaps.longest / 1e9 if gaps.count else None),
            )
        },
        "buffering": msgspec.to_builtins(summary.buffering),
        "output_chunks": summary.output_chunks,
        "text_chars": summary.text_chars,
    }
    if summary.usage_audio is not None:
        found["usage_audio"] = summary.usage_audio
    if summary.socket is not None:
        found |= {"socket": summary.socket, "response_id": summary.response_id, "t0_source": summary.t0_source}
        found |= {"transcript": summary.transcript} if show_content else {}
    if show_content:
        found |= {"text": summary.text, "reasoning_text": summary.reasoning_text, "error": summary.error}
    return found
