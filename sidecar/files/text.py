"""The report of one exchange for a terminal: verdict first, then the ladder, what is odd, usage and tool calls."""

from sidecar.quirks.quirk import Severity
from sidecar.quirks.registry import BY_ID
from sidecar.stream.summary import MILESTONES, Summary

_ORDER = (Severity.BREAKS_CLIENTS, Severity.WARNING, Severity.INFO)
_UNPRINTABLE = dict.fromkeys((*range(32), 127, *range(128, 160)), "�")


def text_report(summary: Summary, *, show_content: bool) -> str:
    """Several lines, without a line break at their end. What came over the wire is shown without control characters."""
    lines = [
        f"{_plain(summary.id)}  {summary.outcome.upper()}",
        f"  {summary.dialect} from {summary.server_address or 'unknown'}"
        f", model {_plain(summary.request_model or summary.response_model or 'unknown')}"
        f", status {summary.status if summary.status is not None else 'none'}",
        f"  finish reason {_plain(summary.finish_reason or 'none')}, terminator {summary.terminator or 'none'}",
    ]
    if summary.error is not None:
        message = f": {_plain(summary.error)}" if show_content else ""
        lines.append(f"  error {_plain(summary.error_type or 'without a type')}{message}")
    lines += _ladder(summary)
    lines += _quirks(summary)
    if summary.usage is not None:
        counts = ", ".join(f"{name} {count}" for name, count in summary.usage.items())
        lines.append(f"  usage ({summary.usage_source}): {counts}")
    for call in summary.tool_calls:
        arguments = f" {_plain(call.arguments)}" if show_content else ""
        lines.append(f"  tool call {_plain(call.name)}: {call.verdict}, {call.arguments_chars} characters{arguments}")
    if show_content and summary.reasoning_text:
        lines.append(f"  reasoning: {_plain(summary.reasoning_text)}")
    if show_content and summary.text:
        lines.append(f"  text: {_plain(summary.text)}")
    return "\n".join(lines)


def _ladder(summary: Summary) -> list[str]:
    if not summary.milestones:
        return ["  no timing"]
    reached = [f"{name} {summary.milestones[name]:.3f}" for name in MILESTONES if name in summary.milestones]
    lines = [f"  seconds from the request: {', '.join(reached)}"]
    gaps = summary.gaps
    if gaps.count:
        p50, p99 = gaps.percentile(0.5) or 0.0, gaps.percentile(0.99) or 0.0
        lines.append(
            f"  {summary.output_chunks} output chunks, gaps p50 {p50 * 1000:.1f} ms, p99 {p99 * 1000:.1f} ms, "
            f"longest {gaps.longest / 1e6:.1f} ms; buffering: {summary.buffering.verdict}"
        )
    return lines


def _quirks(summary: Summary) -> list[str]:
    rows = sorted((BY_ID[quirk] for quirk in summary.quirks), key=lambda row: (_ORDER.index(row.severity), row.id))
    lines = []
    for row in rows:
        lines.append(f"  {row.severity}: {row.id}: {row.summary}")
        if row.severity is not Severity.INFO:
            lines += [f"    breaks: {row.breaks}", f"    guard: {row.guard}"]
    return lines


def _plain(text: str) -> str:
    return text.translate(_UNPRINTABLE).encode("utf-8", "replace").decode("utf-8")
