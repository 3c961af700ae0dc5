"""Recorded exchanges through the same pipeline as live ones."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from sidecar.capture.interest import Chooser
from sidecar.capture.records import Chunk, Ended, Opened, Record, RequestBody, RequestSent, ResponseHead
from sidecar.exchange import Exchange
from sidecar.files.capture import Capture, CaptureError, end_at, records_of
from sidecar.files.curl import assumed_head, is_headless
from sidecar.files.markdown import markdown_report, markdown_session
from sidecar.files.sockets import SocketReport, is_socket, run_socket, session_object
from sidecar.files.sources import Source, exchanges_of
from sidecar.files.text import session_report, text_report
from sidecar.quirks.registry import without_head
from sidecar.stream.summary import Summary
from sidecar.summarise import summarise
from sidecar.thresholds import Limits, QuirkThresholds

WHOLE_FILE = Limits(event_bytes=256 * 1024 * 1024, request_bytes=256 * 1024 * 1024, text_chars=256 * 1024 * 1024)
"""A file is bounded by its size; nothing of it needs to be left out."""


def inspect_file(path: Path, thresholds: QuirkThresholds) -> Iterator[Summary | SocketReport | CaptureError]:
    """One summary per exchange of a file, in its order, of a WebSocket all in one; an error where a line is damaged.

    Raises CaptureError where the file cannot be read at all.
    """
    return inspect_source(Source(path, str(path)), thresholds)


def inspect_source(
    source: Source,
    thresholds: QuirkThresholds,
    chooser: Chooser | None = None,
    note: Callable[[str], None] = lambda said: None,
) -> Iterator[Summary | SocketReport | CaptureError]:
    """The same of anything that holds exchanges; `chooser` and `note` as in `exchanges_of`."""
    for capture in exchanges_of(source, chooser, note):
        if isinstance(capture, CaptureError):
            yield capture
            continue
        try:
            yield inspect_capture(capture, thresholds)
        except ValueError as error:
            yield CaptureError(f"{source.name}: exchange {capture.id}: {error}")


def inspect_capture(capture: Capture, thresholds: QuirkThresholds) -> Summary | SocketReport:
    """What one recorded exchange was. ValueError where its payloads are damaged, or it is nothing that can be judged."""
    if is_headless(capture):
        return _headless(capture, thresholds)
    records = list(records_of(capture))
    if is_socket(records):
        return run_socket(records, end_at(capture), thresholds, WHOLE_FILE)
    return run(records, end_at(capture), thresholds, timed=capture.timed)


def _headless(capture: Capture, thresholds: QuirkThresholds) -> Summary:
    """A body read under the head that it will have had; of status and headers nothing is said."""
    head = assumed_head(b"".join(chunk.data() for chunk in capture.chunks))
    records = list(records_of(msgspec.structs.replace(capture, response=head)))
    summary = run(records, end_at(capture), thresholds, timed=capture.timed)
    if summary.dialect == "unknown":
        raise ValueError("a body without its head, of no known dialect; record it with `curl -N -i`")
    return msgspec.structs.replace(summary, status=None, quirks=without_head(summary.quirks))


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


Form = Literal["text", "json", "markdown"]


def lines_of(
    found: Summary | SocketReport, form: Form, *, show_content: bool
) -> Iterator[tuple[Summary | None, dict[str, object] | str]]:
    """What `inspect` prints: an object or a text per exchange, and of a WebSocket without any response one of its own."""
    said = _FORMS[form]
    if isinstance(found, Summary):
        yield found, said(found, show_content=show_content)
        return
    session = found.session
    above = session_report(session, show_content=show_content)
    if form == "markdown":
        above = markdown_session(session, above)
    if not found.responses:
        own: dict[str, object] = {"id": session.id, "dialect": session.dialect, "session": session_object(session)}
        yield None, own if form == "json" else above
    for number, summary in enumerate(found.responses):
        below = said(summary, show_content=show_content)
        if isinstance(below, dict):
            yield summary, below | {"session": session_object(session)}
        else:
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


_FORMS: dict[Form, Callable[..., dict[str, object] | str]] = {
    "text": text_report,
    "json": report,
    "markdown": markdown_report,
}
