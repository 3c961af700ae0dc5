"""What is to be said of one exchange, before any form is given to it: for the terminal, for Markdown, for an exit code."""

from collections.abc import Sequence
from math import log

import msgspec

from sidecar.quirks.quirk import Severity
from sidecar.quirks.registry import worst_first
from sidecar.stream.gaps import Gaps
from sidecar.stream.hop import CUT_REASONS, FILTER_REASONS
from sidecar.stream.outcome import Outcome
from sidecar.stream.summary import MILESTONES, Summary

ABOVE_INFO = (Severity.BREAKS_CLIENTS, Severity.WARNING)
COLUMNS = 60
"""Bars of a sparkline, at most."""

_SILENCE = 10.0
"""Seconds without output before a break from which a timeout is to be suspected."""
_BARS = "▁▂▃▄▅▆▇█"
_SHORT = 1.0
"""Milliseconds below which a gap is no time at all: the events came together."""


class Meaning(msgspec.Struct, frozen=True):
    """An outcome in words, and what to do about it; empty where there is nothing to do."""

    words: str
    advice: str = ""


MEANINGS: dict[Outcome, Meaning] = {
    "complete": Meaning("finished as its dialect says"),
    "no_terminator": Meaning(
        "a finish reason came and the body ended cleanly, but the dialect's terminator never came",
        "Take a finish reason and the end of the body for the end; do not wait for the terminator.",
    ),
    "truncated": Meaning(
        "the body ended cleanly, but without finish reason and terminator, or inside an event",
        "Do not take what came for a whole answer: a clean end of the body proves nothing. Retry, or show it as cut off.",
    ),
    "upstream_reset": Meaning(
        "the connection broke before the answer was over",
        "Show what came as cut off, and retry only if nothing of it was acted on.",
    ),
    "upstream_failed": Meaning(
        "no response head came: refused, timed out, or TLS or name resolution failed",
        "Check address, TLS and timeouts of whatever is in front; retry with backoff.",
    ),
    "client_disconnect": Meaning(
        "the client left first",
        "Whether the upstream stopped generating then is not visible here.",
    ),
    "error_event": Meaning(
        "an error inside the stream ended it",
        "Look for an error in every event, not only at the status, and map its type to the rules for retries.",
    ),
    "http_error": Meaning("the server answered with an error status"),
    "empty": Meaning(
        "ended cleanly without output, finish reason and error",
        "Treat it as a failure and retry: it is no empty answer.",
    ),
    "not_streamed": Meaning(
        "streaming was asked for, a whole body came",
        "Choose the parser by what came, not by what was asked for; find the hop or setting that turns streaming off.",
    ),
    "unparsed": Meaning(
        "the body is in none of the known dialects",
        "Look at the body itself: often it is the page of a proxy, or a path that leads elsewhere.",
    ),
    "lost": Meaning("telemetry of it was dropped: no verdict"),
    "open": Meaning(
        "still hanging when the recording stopped",
        "Bound the silence between events, not only the whole request; a client without such a bound hangs with it.",
    ),
}


def advice(summary: Summary) -> str:
    """What to do about how it ended; empty where nothing."""
    if summary.outcome == "complete":
        return _of_finish(summary.finish_reason)
    if summary.outcome in ("upstream_reset", "client_disconnect"):
        return MEANINGS[summary.outcome].advice + _of_silence(summary)
    if summary.outcome != "http_error":
        return MEANINGS[summary.outcome].advice
    status = summary.status or 0
    if status == 429:
        return "Wait as long as retry-after says, or back off, before trying again."
    if status in (408, 409) or status >= 500:
        return "Retry with backoff, a few times only; it is the server that has to be mended."
    return "Mend the request: the same one will fail again."


def _of_finish(reason: str | None) -> str:
    """What a finish reason asks for though the stream is complete."""
    if reason in CUT_REASONS:
        return "It was cut by the length limit: what came is not the whole answer. Raise the limit, or ask it to go on."
    if reason in FILTER_REASONS:
        return "It was cut by a content filter: show that, instead of taking what came for the whole answer."
    return ""


def _of_silence(summary: Summary) -> str:
    """Where it broke off after a silence, what that points to."""
    end, last = summary.milestones.get("end"), summary.milestones.get("last_token", summary.milestones.get("headers"))
    silent = end - last if end is not None and last is not None else 0.0
    if silent < _SILENCE:
        return ""
    return f" It ended after {silent:.1f} s without output: look for a timeout that is as long, there or on the way."


def verdict(summary: Summary) -> str:
    """The outcome in words, with the number of quirks by severity where there are any above `info`."""
    found = [row.severity for row in worst_first(summary.quirks)]
    counts = [f"{found.count(severity)} {severity}" for severity in ABOVE_INFO if severity in found]
    quirks = f"; quirks: {', '.join(counts)}" if counts else ""
    return f"{MEANINGS[summary.outcome].words}{quirks}"


def ladder(summary: Summary) -> list[tuple[float, str]]:
    """The milestones that were reached, in order of time; those at one moment are one rung."""
    rungs: dict[float, list[str]] = {}
    reached = [(summary.milestones[name], name) for name in MILESTONES if name in summary.milestones]
    if summary.end == "open" and summary.t0 is not None and summary.milestones:
        reached.append(((summary.ended_at - summary.t0) / 1e9, "recording stopped"))
    for at, name in sorted(reached, key=lambda rung: rung[0]):
        rungs.setdefault(round(at, 3), []).append(name.replace("_", " "))
    return [(at, ", ".join(names)) for at, names in rungs.items()]


def sparkline(gaps: Gaps) -> str:
    """The gaps in their order, each bar the longest of as many as it stands for; the scale is logarithmic, the lowest bar
    below a millisecond. Empty where there are fewer than two, or so many that they were not kept one by one."""
    values = gaps.milliseconds()
    if len(values) < 2 or not gaps.exact:
        return ""
    each = -(-len(values) // COLUMNS)
    tops = [max(values[start : start + each]) for start in range(0, len(values), each)]
    highest = max(*tops, _SHORT * 2)
    return "".join(_bar(top, highest) for top in tops)


def _bar(gap: float, highest: float) -> str:
    if gap < _SHORT:
        return _BARS[0]
    return _BARS[1 + round(log(gap / _SHORT) / log(highest / _SHORT) * (len(_BARS) - 2))]


def gap_figures(summary: Summary) -> str:
    """Gaps in numbers."""
    gaps = summary.gaps
    p50, p99 = gaps.percentile(0.5) or 0.0, gaps.percentile(0.99) or 0.0
    return f"p50 {p50 * 1000:.1f} ms, p99 {p99 * 1000:.1f} ms, longest {gaps.longest / 1e6:.1f} ms"


def buffering(summary: Summary) -> str:
    """The verdict on buffering and the reason for it."""
    found = summary.buffering
    held = found.verdict in ("buffered", "coalesced")
    where = [
        f"{name.replace('_', '-')} {found.evidence[name]}" for name in _WHEREABOUTS if held and name in found.evidence
    ]
    return f"{found.verdict} ({'; '.join([str(found.evidence.get('why', '')), *where])})"


_WHEREABOUTS: Sequence[str] = (
    "content_coding",
    "content_length",
    "modal_read_size",
    "x_accel_buffering",
    "server",
    "via",
)
"""Evidence that tells where something was held back."""


def usage(summary: Summary) -> str:
    """Reported token counts; empty where none came."""
    return ", ".join(f"{name} {count}" for name, count in (summary.usage or {}).items())
