"""What a hop did to a stream: the summaries of both sides of it compared. Pure."""

import json
from typing import Any, Literal

import msgspec

from sidecar.stream.gaps import Gaps
from sidecar.stream.summary import Summary, ToolCallSummary

Evidence = Literal["response_id", "trace", "request"]
"""By what the two sides were recognised as one stream."""

Change = Literal[
    "status_changed",
    "outcome_changed",
    "dialect_changed",
    "text_changed",
    "reasoning_changed",
    "tool_calls_changed",
    "events_changed",
    "bytes_changed",
    "usage_lost",
    "usage_withheld",
    "usage_added",
    "usage_changed",
    "finish_reason_lost",
    "finish_reason_added",
    "finish_reason_changed",
    "terminator_lost",
    "terminator_added",
    "terminator_changed",
    "keepalives_lost",
    "keepalives_added",
    "buffering_appeared",
    "gaps_compressed",
]

MIN_GAPS = 8
"""Gaps on both sides below which nothing is said of their compression."""
COMPRESSED = 0.25
"""Rise in the share of gaps below 1 ms from which gaps count as compressed."""

_HELD_BACK = {"none": 0, "inconclusive": 0, "coalesced": 1, "buffered": 2}
CUT_REASONS = frozenset({"length", "max_tokens", "MAX_TOKENS", "max_output_tokens", "incomplete"})
FILTER_REASONS = frozenset({"content_filter", "content_filtered", "refusal", "SAFETY", "guardrail_intervened"})
_SAME_REASON: tuple[frozenset[str], ...] = (
    frozenset({"stop", "end_turn", "stop_sequence", "STOP", "COMPLETE", "completed", "eos_token"}),
    CUT_REASONS,
    frozenset({"tool_calls", "tool_use", "function_call", "TOOL_CALL"}),
    FILTER_REASONS,
)
"""Finish reasons that dialects translate into each other."""


_USAGE_ON_REQUEST = frozenset({"openai.chat", "openai.completions"})
"""Dialects in which a client that does not ask for usage gets none; gateways ask the upstream for themselves."""


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """What one tap saw of the stream. Gaps in seconds, absent without any."""

    id: str
    server_address: str
    server_port: int
    dialect: str
    outcome: str
    status: int | None
    terminator: str | None
    finish_reason: str | None
    buffering: str
    output_chunks: int
    text_chars: int
    response_bytes: int
    reads: int
    gap_p50: float | None
    gap_mean: float | None
    gaps_below_1ms: float | None
    """Their share, 0 to 1."""


class Hop(msgspec.Struct, frozen=True, kw_only=True):
    """One stream before (`inner`) and after (`outer`, the client's side) a hop. Seconds."""

    outer: Side
    inner: Side
    evidence: Evidence
    added_first_token: float | None
    """How much later the first token passed the outer tap; None where either side saw none."""
    request_delay: float | None
    """From the last byte of the request at the outer tap to its last byte at the inner one."""
    added_end: float
    """How much later the answer ended at the outer tap; negative where the client's side ended first."""
    gap_ratio: float | None
    """Median gap outer by inner; below 1 the hop compressed the gaps. None with few gaps or a median of zero inside."""
    after_disconnect: float | None
    """How long the inner side went on after the client had left; None where the client did not leave."""
    quirks_added: tuple[str, ...]
    """On the outer side only; none where the client did not wait for the end, as quirks of the end are missing then."""
    quirks_removed: tuple[str, ...]
    changes: tuple[Change, ...]


def compare(outer: Summary, inner: Summary, evidence: Evidence) -> Hop:
    """What the hop between two taps did. Both summaries' times must be of one clock."""
    left = outer.outcome == "client_disconnect"
    whole = not left and "open" not in (outer.outcome, inner.outcome)
    return Hop(
        outer=_side(outer),
        inner=_side(inner),
        evidence=evidence,
        added_first_token=_later(reached(outer, "first_token"), reached(inner, "first_token")),
        request_delay=_later(inner.t0, outer.t0),
        added_end=(outer.ended_at - inner.ended_at) / 1e9,
        gap_ratio=_gap_ratio(outer.gaps, inner.gaps),
        after_disconnect=max(inner.ended_at - outer.ended_at, 0) / 1e9 if left else None,
        quirks_added=tuple(quirk for quirk in outer.quirks if quirk not in inner.quirks) if whole else (),
        quirks_removed=tuple(quirk for quirk in inner.quirks if quirk not in outer.quirks) if whole else (),
        changes=(*_changes_midway(outer, inner), *(_changes_by_the_end(outer, inner) if whole else ())),
    )


def reached(summary: Summary, milestone: str) -> int | None:
    """When a milestone was reached, nanoseconds on the summary's clock."""
    seconds = summary.milestones.get(milestone)
    return None if seconds is None or summary.t0 is None else summary.t0 + round(seconds * 1e9)


def _later(one: int | None, other: int | None) -> float | None:
    return None if one is None or other is None else (one - other) / 1e9


def _side(summary: Summary) -> Side:
    gaps = summary.gaps
    return Side(
        id=summary.id,
        server_address=summary.server_address,
        server_port=summary.server_port,
        dialect=summary.dialect,
        outcome=summary.outcome,
        status=summary.status,
        terminator=summary.terminator,
        finish_reason=summary.finish_reason,
        buffering=summary.buffering.verdict,
        output_chunks=summary.output_chunks,
        text_chars=summary.text_chars,
        response_bytes=summary.response_bytes,
        reads=summary.reads,
        gap_p50=gaps.percentile(0.5),
        gap_mean=gaps.total / gaps.count / 1e9 if gaps.count else None,
        gaps_below_1ms=gaps.short / gaps.count if gaps.count else None,
    )


def _gap_ratio(outer: Gaps, inner: Gaps) -> float | None:
    if min(outer.count, inner.count) < MIN_GAPS:
        return None
    median = inner.percentile(0.5)
    return (outer.percentile(0.5) or 0.0) / median if median else None


def _compressed(outer: Gaps, inner: Gaps) -> bool | None:
    """Whether many more gaps are below 1 ms than were before; None with few gaps."""
    if min(outer.count, inner.count) < MIN_GAPS:
        return None
    return outer.short / outer.count - inner.short / inner.count >= COMPRESSED


def _changes_midway(outer: Summary, inner: Summary) -> list[Change]:
    """What differs before the end: all that can be told of an answer that the client did not wait for."""
    found: list[Change] = []
    if outer.dialect != inner.dialect:
        found.append("dialect_changed")
    if texts_agree(outer.text, inner.text) is False:
        found.append("text_changed")
    if texts_agree(outer.reasoning_text, inner.reasoning_text) is False:
        found.append("reasoning_changed")
    compressed = _compressed(outer.gaps, inner.gaps)
    # A verdict on one side alone may be due to jitter; with both sides there are gaps that say whether it is.
    if _HELD_BACK[outer.buffering.verdict] > _HELD_BACK[inner.buffering.verdict] and compressed is not False:
        found.append("buffering_appeared")
    if compressed:
        found.append("gaps_compressed")
    return found


def _changes_by_the_end(outer: Summary, inner: Summary) -> list[Change]:
    found: list[Change] = []
    if outer.status != inner.status:
        found.append("status_changed")
    if outer.outcome != inner.outcome:
        found.append("outcome_changed")
    if outer.text_chars != inner.text_chars and texts_agree(outer.text, inner.text) is not False:
        found.append("text_changed")
    if bool(outer.reasoning_text) != bool(inner.reasoning_text):
        found.append("reasoning_changed")
    if not _calls_agree(outer.tool_calls, inner.tool_calls):
        found.append("tool_calls_changed")
    if outer.output_chunks != inner.output_chunks:
        found.append("events_changed")
    if outer.response_bytes != inner.response_bytes:
        found.append("bytes_changed")
    if inner.heartbeats and not outer.heartbeats:
        found.append("keepalives_lost")
    elif outer.heartbeats and not inner.heartbeats:
        found.append("keepalives_added")
    return found + _usage(outer, inner) + _finish(outer, inner) + _terminator(outer, inner)


def texts_agree(one: str, other: str) -> bool | None:
    """Whether two texts begin alike, as far as both were kept; None where one of them is empty."""
    size = min(len(one), len(other))
    return one[:size] == other[:size] if size else None


def _calls_agree(ours: tuple[ToolCallSummary, ...], theirs: tuple[ToolCallSummary, ...]) -> bool:
    return len(ours) == len(theirs) and all(call_agrees(*pair) for pair in zip(ours, theirs, strict=True))


def call_agrees(one: ToolCallSummary, other: ToolCallSummary) -> bool:
    """White space in arguments and the order of their members are no difference; what was not kept is none, either."""
    if one.name != other.name:
        return False
    if len(one.arguments) < one.arguments_chars or len(other.arguments) < other.arguments_chars:
        return True
    return one.arguments == other.arguments or _json(one.arguments) == _json(other.arguments)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _usage(outer: Summary, inner: Summary) -> list[Change]:
    if outer.usage is None or inner.usage is None:
        if outer.usage is inner.usage:
            return []
        if inner.usage is None:
            return ["usage_added"]
        unasked = outer.usage_state == "not_requested" and outer.dialect in _USAGE_ON_REQUEST
        return ["usage_withheld" if unasked else "usage_lost"]
    same = outer.usage == inner.usage if outer.dialect == inner.dialect else outer.tokens == inner.tokens
    return [] if same else ["usage_changed"]


def _finish(outer: Summary, inner: Summary) -> list[Change]:
    mine, theirs = outer.finish_reason, inner.finish_reason
    if mine is None or theirs is None:
        if mine is theirs:
            return []
        return ["finish_reason_lost" if mine is None else "finish_reason_added"]
    translated = outer.dialect != inner.dialect and any(mine in same and theirs in same for same in _SAME_REASON)
    return [] if mine == theirs or translated else ["finish_reason_changed"]


def _terminator(outer: Summary, inner: Summary) -> list[Change]:
    """Between dialects a terminator has another name or there is none: then only that it is missing can be told."""
    if "not_streamed" in (outer.outcome, inner.outcome):
        return []
    mine, theirs = outer.terminator, inner.terminator
    if mine == theirs:
        return []
    if outer.dialect != inner.dialect:
        if theirs is not None and outer.outcome == "no_terminator":
            return ["terminator_lost"]
        return ["terminator_added"] if mine is not None and inner.outcome == "no_terminator" else []
    if mine is None:
        return ["terminator_lost"]
    return ["terminator_added" if theirs is None else "terminator_changed"]
