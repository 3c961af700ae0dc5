"""Alerts on how exchanges ended, and on what they showed. Shares have a guard against low traffic."""

from dashboards.generator.alert import STREAM, Alert, Group
from dashboards.generator.promql import SPOKEN, UPSTREAM, counted, grew, one_of, share
from dashboards.generator.recording import DISCONNECT_SHARE, DISCONNECT_SHARE_DAY
from dashboards.generator.thresholds import Thresholds
from sidecar import metrics as m

_PERCENT = "{{ $value | humanizePercentage }}"


def outcomes(thresholds: Thresholds) -> Group:
    """How exchanges ended."""
    t = thresholds
    return Group(
        "llm-streams-outcomes",
        (
            Alert(
                "LLMTerminatorsMissingShare",
                "warning",
                _share_of(t, SPOKEN, "no_terminator", t.no_terminator_share),
                f"Streams of {STREAM} end without their terminator",
                f"{_PERCENT} of the streams in {{{{ $labels.dialect }}}} in {t.window} finished and closed without "
                "the terminator of that dialect: clients that wait for it hang or raise.",
                t.window_for,
            ),
            Alert(
                "LLMTerminatorsMissing",
                "info",
                f"{counted(SPOKEN, m.STREAMS, t.absolute_window, outcome='no_terminator')} >= {t.no_terminators}",
                f"Terminators of {STREAM} went missing",
                f"{{{{ $value | humanize }}}} streams in {{{{ $labels.dialect }}}} ended without a terminator in "
                f"{t.absolute_window}, whatever share of the traffic that is.",
            ),
            Alert(
                "LLMStreamsTruncated",
                "warning",
                _share_of(t, UPSTREAM, "truncated", t.truncated_share),
                f"Answers of {STREAM} are cut off",
                f"{_PERCENT} of the streams in {t.window} ended cleanly, but without a finish reason or inside an "
                "event: users see half an answer, and no client library reports an error.",
                t.window_for,
            ),
            Alert(
                "LLMErrorsInsideStreams",
                "warning",
                _share_of(t, UPSTREAM, "error_event", t.error_event_share),
                f"Streams of {STREAM} fail after a status of 200",
                f"{_PERCENT} of the streams in {t.window} carried an error as an event: anything that counts status "
                "codes shows them as successes.",
                t.window_for,
            ),
            Alert(
                "LLMUpstreamBroken",
                "warning",
                _share_of(t, UPSTREAM, one_of(("upstream_reset", "upstream_failed")), t.broken_share, streaming=""),
                f"Connections to {STREAM} break",
                f"{_PERCENT} of the exchanges in {t.window} were reset by the upstream or never got an answer.",
                t.window_for,
            ),
            Alert(
                "LLMClientDisconnectSpike",
                "warning",
                _disconnects(t),
                f"Clients of {STREAM} leave early",
                f"{_PERCENT} of the exchanges in {t.window} were left by the client, more than "
                f"{t.disconnect_times:g} times as many as in the day before. People stop waiting, or a client's "
                "time-out fires.",
                t.window_for,
            ),
        ),
    )


def quality(thresholds: Thresholds) -> Group:
    """What streams showed on the way."""
    t = thresholds
    judged = counted(UPSTREAM, m.BUFFERING, t.window, verdict="!inconclusive")
    usage = counted(UPSTREAM, m.USAGE, t.window, state="!not_requested")
    return Group(
        "llm-streams-quality",
        (
            Alert(
                "LLMBufferingAppeared",
                "warning",
                share(
                    counted(UPSTREAM, m.BUFFERING, t.window, verdict="buffered"), judged, t.buffered_share, t.at_least
                ),
                f"Something buffers the streams of {STREAM}",
                f"{_PERCENT} of the streams in {t.window} that could be judged arrived in one or few bursts: users "
                "wait for the whole answer instead of reading along.",
                t.window_for,
            ),
            Alert(
                "LLMUsageMissing",
                "warning",
                share(counted(UPSTREAM, m.USAGE, t.window, state="missing"), usage, t.usage_missing_share, t.at_least),
                f"Usage of {STREAM} is missing",
                f"{_PERCENT} of the exchanges in {t.window} that asked for usage got none: what they cost is not in "
                "llm_stream_tokens_total, nor in anything else that reads the stream.",
                t.window_for,
            ),
            Alert(
                "LLMNewBreakingQuirk",
                "warning",
                grew((*SPOKEN, "quirk"), m.NEW_QUIRKS, t.new_quirk_window, severity="breaks_clients"),
                f"New habit of {STREAM} that breaks clients: {{{{ $labels.quirk }}}}",
                f"This upstream showed {{{{ $labels.quirk }}}} in {{{{ $labels.dialect }}}} for the first time within "
                f"{t.new_quirk_window}. `sidecar quirks {{{{ $labels.quirk }}}}` says what breaks and how to guard.",
            ),
        ),
    )


def _share_of(t: Thresholds, by: tuple[str, ...], outcome: str, above: float, *, streaming: str = "true") -> str:
    of = {"streaming": streaming} if streaming else {}
    part = counted(by, m.STREAMS, t.window, outcome=outcome, **of)
    return share(part, counted(by, m.STREAMS, t.window, **of), above, t.at_least)


def _disconnects(t: Thresholds) -> str:
    """The day before ends an hour ago, so that the spike is not in it; what is newer than that has nothing to jump from."""
    share_now, day_before = DISCONNECT_SHARE.name, f"{DISCONNECT_SHARE_DAY.name} offset 1h"
    return (
        f"{share_now} > {t.disconnect_share:g}\nand\n"
        f"{share_now} > {t.disconnect_times:g} * {day_before}\nand\n"
        f"{counted(UPSTREAM, m.STREAMS, t.window)} >= {t.at_least}"
    )
