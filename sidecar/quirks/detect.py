"""Detectors that look at a whole exchange; small and pure. Those of one line stand in their row."""

from sidecar.framing.table import media_type
from sidecar.quirks.quirk import SECOND, Evidence


def noted(name: str, evidence: Evidence) -> bool:
    """Whether an earlier stage named it."""
    return name in evidence.notes


# Framing


def mixed_line_endings(evidence: Evidence) -> bool:
    return sum(bool(count) for count in _endings(evidence)) > 1


def only_ending(evidence: Evidence, position: int) -> bool:
    """Whether all lines end one way: 0 LF, 1 CRLF, 2 CR."""
    endings = _endings(evidence)
    return bool(endings[position]) and sum(endings) == endings[position]


def _endings(evidence: Evidence) -> tuple[int, int, int]:
    if not framed_as(evidence, "sse"):
        return (0, 0, 0)
    notes = framing(evidence)
    return (notes.lf, notes.crlf, notes.cr)


def framing(evidence: Evidence):  # type: ignore[no-untyped-def]
    assert evidence.body is not None
    return evidence.body.framing_notes


def framed_as(evidence: Evidence, name: str) -> bool:
    """Whether the body of a stream has this framing."""
    return (
        evidence.streamed
        and evidence.body is not None
        and evidence.body.framing is not None
        and evidence.body.framing.name == name
    )


# Payload


def finish_reason_missing(evidence: Evidence) -> bool:
    """EOF or reset without a finish reason; not where the dialect has none, nor beside an error or an empty stream."""
    ending = evidence.ending
    return judged_at_end(evidence) and ending.has_finish and not ending.finish and not ending.blocked


def judged_at_end(evidence: Evidence) -> bool:
    """Whether a missing finish reason or terminator says anything: a stream that ended, without error, not empty."""
    return (
        evidence.streamed
        and evidence.dialect.stream_verdict
        and evidence.ending.parsed
        and evidence.ending.end in ("eof", "upstream_reset")
        and not evidence.ending.error
        and not empty_stream(evidence)
    )


def terminator_missing(evidence: Evidence) -> bool:
    return judged_at_end(evidence) and evidence.ending.has_terminators and not evidence.ending.terminator


def mismatch_tool_calls(evidence: Evidence) -> bool:
    return bool(evidence.stream.tools.calls) and evidence.stream.finish_reason() == "stop" and evidence.streamed


def promised_but_absent(evidence: Evidence) -> bool:
    return evidence.stream.finish_reason() == "tool_calls" and not evidence.stream.tools.calls and evidence.streamed


def tools_in_other_choice(evidence: Evidence) -> bool:
    tools, text = evidence.stream.tools.choices, set(evidence.stream.text_choices)
    return bool(tools and text) and not tools & text


def prompt_echoed(evidence: Evidence) -> bool:
    prompt = evidence.request.echoed_prompt
    return bool(prompt) and evidence.stream.text.text().startswith(prompt or "\0")


# Usage


def usage_requested_but_absent(evidence: Evidence) -> bool:
    """include_usage was asked for, the stream is complete, and no usage came."""
    return (
        evidence.streamed
        and evidence.request.include_usage
        and evidence.usage is None
        and evidence.outcome == "complete"
        and "usage_all_zero" not in evidence.notes
    )


# Errors


def empty_stream(evidence: Evidence) -> bool:
    """200 and no event but perhaps the sentinel, and the stream ended, cleanly or by a reset."""
    stream = evidence.stream
    return (
        evidence.streamed
        and evidence.ending.parsed
        and evidence.ending.end in ("eof", "upstream_reset")
        and stream.error is None
        and stream.last_event_at is None
        and not evidence.ending.cut_off
        and not stream.notes & {"malformed_json_event", "non_json_data_event"}
    )


# Transport


def content_type_unexpected(evidence: Evidence) -> bool:
    """The content type does not fit the body: events that are not called events, or the other way round.

    Of whole bodies only those are judged that are plainly JSON or HTML.
    """
    body = evidence.body
    content_type = media_type(evidence.response_headers.get("content-type", ""))
    if body is None or body.framing is None or not content_type or "mixed_json_and_sse_body" in evidence.notes:
        return False
    if evidence.document == "html":
        return content_type not in ("text/html", "application/xhtml+xml")
    if evidence.document == "json" or body.framing.name == "json_array":
        return not content_type.endswith(("/json", "+json"))
    return evidence.streamed and content_type not in body.framing.content_types


def compressed(evidence: Evidence) -> bool:
    """A coding is named and the body is so coded: that of a stream, or what came in its place."""
    return (
        evidence.body is not None
        and evidence.body.is_compressed
        and (evidence.streamed or evidence.request.asked_stream or (evidence.status or 0) >= 400)
    )


def stream_not_honored(evidence: Evidence) -> bool:
    return (
        evidence.status is not None
        and evidence.status < 400
        and evidence.ending.whole
        and evidence.ending.parsed
        and evidence.request.asked_stream
    )


def sse_without_request(evidence: Evidence) -> bool:
    return (
        framed_as(evidence, "sse")
        and not evidence.request.asked_stream
        and evidence.request.body_parsed
        and not evidence.dialect.streams_by_default
        and evidence.dialect.stream_verdict
        and "mixed_json_and_sse_body" not in evidence.notes
    )


def buffered_delivery(evidence: Evidence) -> bool:
    """Two or more outputs, and no more than a few milliseconds from the first of them to the last event."""
    stream = evidence.stream
    if stream.output_chunks < 2 or stream.first_output_at is None:
        return False
    last = max(stream.last_event_at or 0, stream.terminator_at or 0)
    return last - stream.first_output_at <= evidence.thresholds.buffered_within * SECOND


# Timing


def long_gap(evidence: Evidence) -> bool:
    """A long time between two outputs, or from the last output to a reset or an error. Heartbeats do not close it."""
    stream = evidence.stream
    limit = evidence.thresholds.long_gap * SECOND
    if stream.gaps.longest >= limit:
        return True
    if stream.last_output_at is None:
        return False
    if evidence.ending.end == "upstream_reset" and not evidence.ending.terminator:
        return evidence.ended_at - stream.last_output_at >= limit
    return stream.error_at is not None and stream.error_at - stream.last_output_at >= limit


def long_prefill_silence(evidence: Evidence) -> bool:
    """The first output came late, or none had come by then when the connection broke."""
    if evidence.t0 is None or not evidence.streamed:
        return False
    limit = evidence.thresholds.long_prefill * SECOND
    first = evidence.stream.first_output_at
    if first is not None:
        return first - evidence.t0 >= limit
    return evidence.ending.end == "upstream_reset" and evidence.ended_at - evidence.t0 >= limit


def delayed_close(evidence: Evidence) -> bool:
    """The connection stayed open for long behind the terminator, or still is."""
    at = evidence.stream.terminator_at
    if at is None:
        return False
    return evidence.ending.end == "open" or evidence.ended_at - at >= evidence.thresholds.delayed_close * SECOND
