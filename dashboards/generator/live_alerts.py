"""Alerts on what hangs now: each fires while it hangs, and resolves when the streams end or go on."""

from dashboards.generator.alert import STREAM, Alert, Group
from dashboards.generator.promql import UPSTREAM, select, total
from dashboards.generator.thresholds import Thresholds
from sidecar import metrics as m

_HUNG = (
    (
        "waiting_headers",
        "LLMStreamsHungWaitingHeaders",
        "no response head",
        "The request went out and nothing came back, not even a status line: the upstream (or a gateway in between) "
        "has accepted the connection and does not answer.",
    ),
    (
        "before_first_token",
        "LLMStreamsHungBeforeFirstToken",
        "no first token",
        "The response head came, but no output: the model queues, prefills a long prompt, or has stopped.",
    ),
    (
        "mid_stream",
        "LLMStreamsHungMidStream",
        "silent in mid-stream",
        "Output came and stopped, with the connection open: users look at half an answer that does not go on.",
    ),
    (
        "keepalive_only",
        "LLMStreamsKeepaliveOnly",
        "only keep-alives come",
        "Pings or comments keep the connection open while no output comes: time-outs that count bytes never fire.",
    ),
    (
        "after_finish",
        "LLMStreamsHungAfterFinish",
        "finished, but not closed",
        "The answer is complete, but the body stays open: clients that wait for the terminator or the end hang here.",
    ),
)
"""Phase, alert, a few words, and what it means. The same rule for each, with a runbook of its own."""


def live(thresholds: Thresholds) -> Group:
    """Hung streams by phase, and many of them at once."""
    return Group(
        "llm-streams-live",
        (
            *(_hung(thresholds, *row) for row in _HUNG),
            Alert(
                "LLMStreamsHungMany",
                "critical",
                _many(thresholds),
                f"{{{{ $value }}}} streams of {STREAM} are hung",
                f"{thresholds.many_hung} streams or more are stalled at once, and they are "
                f"{thresholds.many_hung_share:.0%} or more of what is in flight there: this is an outage of that "
                "upstream, not one unlucky stream.",
                thresholds.many_hung_for,
            ),
        ),
    )


def _hung(thresholds: Thresholds, phase: str, name: str, words: str, meaning: str) -> Alert:
    return Alert(
        name,
        "warning",
        f"{total((*UPSTREAM, 'phase'), select(m.STALLED, phase=phase))} > 0",
        f"Streams of {STREAM} hang: {words}",
        f"{{{{ $value }}}} in phase {phase} now. {meaning}",
        thresholds.hung_for[phase],
    )


def _many(thresholds: Thresholds) -> str:
    stalled = total(UPSTREAM, select(m.STALLED))
    in_flight = total(UPSTREAM, select(m.IN_FLIGHT))
    return f"{stalled} >= {thresholds.many_hung}\nand\n{stalled} >= {thresholds.many_hung_share:g} * {in_flight}"
