"""The report of one exchange for a terminal: verdict first, then the timeline, what is odd, usage and tool calls."""

from sidecar.files.findings import advice, buffering, gap_figures, ladder, sparkline, usage, verdict
from sidecar.files.plain import plain
from sidecar.quirks.quirk import Severity
from sidecar.quirks.registry import worst_first
from sidecar.stream.hop import Hop
from sidecar.stream.session import SessionSummary
from sidecar.stream.summary import Summary

_ODD = ("unknown_events", "malformed_messages", "unattributed_errors", "go_away", "heartbeats")
"""Counts of a WebSocket that are named where they are not zero."""
_STRIP = 32
"""Columns of the strip that shows where on the way to the end a rung of the ladder is."""
UNTIMED = "no timing: the file does not say when chunks came"


def text_report(summary: Summary, *, show_content: bool) -> str:
    """Several lines, without a line break at their end. What came over the wire is shown without control characters."""
    lines = [f"{plain(summary.id)}  {summary.outcome.upper()}: {verdict(summary)}"]
    if todo := advice(summary):
        lines.append(f"  {todo}")
    lines += [f"  {line}" for line in facts(summary, show_content=show_content)]
    lines += [f"  {line}" for line in timeline(summary)]
    lines += _quirks(summary)
    if summary.usage is not None:
        lines.append(f"  usage ({summary.usage_source}): {usage(summary)}")
    for call in summary.tool_calls:
        arguments = f" {plain(call.arguments)}" if show_content else ""
        lines.append(f"  tool call {plain(call.name)}: {call.verdict}, {call.arguments_chars} characters{arguments}")
    if show_content and summary.reasoning_text:
        lines.append(f"  reasoning: {plain(summary.reasoning_text)}")
    if show_content and summary.text:
        lines.append(f"  text: {plain(summary.text)}")
    if show_content and summary.transcript:
        lines.append(f"  transcript: {plain(summary.transcript)}")
    return "\n".join(lines)


def facts(summary: Summary, *, show_content: bool) -> list[str]:
    """What it was: dialect, server, model, status, how it finished."""
    status = summary.status
    lines = [
        f"{summary.dialect} from {plain(summary.server_address or 'unknown')}"
        f", model {plain(summary.request_model or summary.response_model or 'unknown')}"
        f", status {status if status is not None else 'none' if summary.end == 'upstream_failed' else 'unknown'}",
        f"finish reason {plain(summary.finish_reason or 'none')}, terminator {summary.terminator or 'none'}",
    ]
    if summary.socket is not None:
        lines.append(f"in the WebSocket {plain(summary.socket)}, asked for by {summary.t0_source or 'nothing visible'}")
    if summary.error is not None:
        message = f": {plain(summary.error)}" if show_content else ""
        lines.append(f"error {plain(summary.error_type or 'without a type')}{message}")
    return lines


def timeline(summary: Summary) -> list[str]:
    """The ladder, each rung with a strip as long as its time, then the gaps between outputs."""
    rungs = ladder(summary)
    if not rungs:
        return [UNTIMED]
    whole = max(rungs[-1][0], 0.001)
    lines = ["seconds from the request"]
    lines += [f"{at:9.3f} {'─' * round(at / whole * _STRIP):<{_STRIP}} {names}" for at, names in rungs]
    if summary.gaps.count:
        lines.append(f"{summary.output_chunks} output chunks, gaps {gap_figures(summary)}")
        if spark := sparkline(summary.gaps):
            lines.append(f"{spark}  gaps in their order")
        lines.append(f"buffering: {buffering(summary)}")
    if summary.heartbeats:
        lines.append(f"heartbeats: {summary.heartbeats}")
    return lines


def hop_report(hop: Hop) -> str:
    """What the hop behind this exchange did, to be put below its report."""
    outer, inner = hop.outer, hop.inner
    by = {"response_id": "the response id", "trace": "the trace", "request": "the request"}[hop.evidence]
    lines = [
        f"  hop {outer.server_address}:{outer.server_port} > {inner.server_address}:{inner.server_port}, "
        f"upstream's side {plain(inner.id)} (by {by}): first token {_signed(hop.added_first_token)}, "
        f"request {_signed(hop.request_delay)}, end {_signed(hop.added_end)}"
    ]
    if outer.gap_p50 is not None and inner.gap_p50 is not None:
        lines.append(
            f"    gaps p50 {inner.gap_p50 * 1000:.1f} > {outer.gap_p50 * 1000:.1f} ms, "
            f"below 1 ms {inner.gaps_below_1ms or 0:.0%} > {outer.gaps_below_1ms or 0:.0%}, "
            f"buffering {inner.buffering} > {outer.buffering}"
        )
    if hop.after_disconnect is not None:
        lines.append(f"    the client left; the upstream was read for another {hop.after_disconnect:.3f} s")
    lines += [f"    changes: {', '.join(hop.changes)}"] if hop.changes else []
    lines += [f"    quirks added: {', '.join(hop.quirks_added)}"] if hop.quirks_added else []
    lines += [f"    quirks removed: {', '.join(hop.quirks_removed)}"] if hop.quirks_removed else []
    return "\n".join(lines)


def session_report(session: SessionSummary, *, show_content: bool) -> str:
    """A WebSocket in a line, to be put above the reports of the responses in it, and what was odd in another one."""
    counts = session.counts
    end = "open" if session.closed_by is None else f"closed by the {session.closed_by}"
    code = f" with code {session.close_code}" if session.close_code is not None else ""
    reason = f": {plain(session.close_reason)}" if show_content and session.close_reason else ""
    lines = [
        f"{plain(session.id)}  WEBSOCKET {session.dialect}, {counts.responses} responses, "
        f"{counts.server_messages + counts.client_messages} messages, {end}{code}{reason}"
    ]
    odd = [f"{name.replace('_', ' ')} {count}" for name in _ODD if (count := getattr(counts, name))]
    return "\n".join([*lines, *([f"  {', '.join(odd)}"] if odd else [])])


def _signed(seconds: float | None) -> str:
    return "unknown" if seconds is None else f"{seconds * 1000:+.1f} ms"


def _quirks(summary: Summary) -> list[str]:
    lines = []
    for row in worst_first(summary.quirks):
        lines.append(f"  {row.severity}: {row.id}: {row.summary}")
        if row.severity is not Severity.INFO:
            lines += [f"    breaks: {row.breaks}", f"    guard: {row.guard}"]
    return lines
