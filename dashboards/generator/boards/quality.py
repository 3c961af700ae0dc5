"""Stream quality: quirks, terminators, finish reasons, usage, tool calls, errors, and what a hop changed."""

from dashboards.generator import colours
from dashboards.generator.board import Board, Row
from dashboards.generator.boards.queries import (
    AT,
    SERVER,
    appeared_in_range,
    in_range,
    or_zero,
    per_minute,
    per_second,
    quantile,
)
from dashboards.generator.panels import (
    COUNT,
    PER_MINUTE,
    PER_SECOND,
    RATIO,
    SECONDS,
    SHARE,
    Column,
    Panel,
    Query,
    graph,
    number,
    rows,
)
from dashboards.generator.promql import one_of, ratio
from dashboards.generator.thresholds import THRESHOLDS
from sidecar import metrics as m
from sidecar.quirks.quirk import Severity
from sidecar.quirks.registry import QUIRKS

_HOP = ("outer_server_address", "outer_server_port", "inner_server_address", "inner_server_port")
_HOP_NAMES = {
    "outer_server_address": "Client's side",
    "outer_server_port": "Port",
    "inner_server_address": "Upstream's side",
    "inner_server_port": "Port ",
}
_VIA = "{{outer_server_address}}:{{outer_server_port}} → {{inner_server_address}}:{{inner_server_port}}"
_UPSTREAM = {"gen_ai_request_model": "Model", "server_address": "Upstream", "server_port": "Port"}


def _of(severity: Severity) -> str:
    """The quirks of a severity, as a matcher's value; the counter does not carry it."""
    return one_of(quirk.id for quirk in QUIRKS if quirk.severity is severity)


def _share(title: str, text: str, part: str, whole: str, limit: float) -> Panel:
    """A share of this time range; red where its alert fires, orange from a fifth of that on."""
    return number(
        title,
        f"{text} Above {limit:.0%} at one upstream an alert fires.",
        SHARE,
        Query(or_zero(ratio(part, whole))),
        orange=limit / 5,
        red=limit,
    )


_STREAMED = in_range((), m.STREAMS, streaming="true")


_NOW = Row(
    "In this time range",
    (
        _share(
            "Without terminator",
            "Share of streams that finished but never said so: clients that wait for the terminator hang.",
            in_range((), m.STREAMS, outcome="no_terminator"),
            _STREAMED,
            THRESHOLDS.no_terminator_share,
        ),
        _share(
            "Cut off",
            "Share of streams that ended cleanly in the middle of an answer. No library reports it.",
            in_range((), m.STREAMS, outcome="truncated"),
            _STREAMED,
            THRESHOLDS.truncated_share,
        ),
        _share(
            "Error after a 200",
            "Share of streams that carried an error as an event: status codes show them as successes.",
            in_range((), m.STREAMS, outcome="error_event"),
            _STREAMED,
            THRESHOLDS.error_event_share,
        ),
        _share(
            "Usage missing",
            "Share of exchanges that should report usage and did not: bills and budgets undercount by as much.",
            in_range((), m.USAGE, state="missing"),
            in_range((), m.USAGE, state="!not_requested"),
            THRESHOLDS.usage_missing_share,
        ),
        number(
            "Broken tool calls",
            "Share of tool calls whose arguments do not parse or never ended: the agent has to ask again.",
            SHARE,
            Query(or_zero(ratio(in_range((), m.TOOL_CALLS, state="!valid"), in_range((), m.TOOL_CALLS)))),
            orange=0.01,
            red=0.05,
        ),
        number(
            "New quirks",
            "Habits that an upstream had not shown before, in this time range. Something was rolled out.",
            COUNT,
            Query(or_zero(appeared_in_range((), m.NEW_QUIRKS))),
            orange=1,
        ),
    ),
)

_QUIRKS = Row(
    "Quirks",
    (
        graph(
            "Quirks that break clients",
            "Streams per second that showed a habit known to crash, hang or corrupt common clients. `sidecar quirks "
            "NAME` says what breaks and how to guard.",
            PER_SECOND,
            Query(per_second(("quirk",), m.QUIRKS, quirk=_of(Severity.BREAKS_CLIENTS)), "{{quirk}}"),
            width=12,
            height=9,
            beside=True,
        ),
        graph(
            "Quirks that depart from the dialect",
            "Streams per second with a habit of severity warning: a client may read something else than was meant.",
            PER_SECOND,
            Query(per_second(("quirk",), m.QUIRKS, quirk=_of(Severity.WARNING)), "{{quirk}}"),
            width=12,
            height=9,
            beside=True,
        ),
        rows(
            "Quirks that break clients, by upstream",
            "Streams that showed it in this time range. Take the list to whoever runs that upstream.",
            _UPSTREAM | {"quirk": "Quirk"},
            (
                (
                    Column("Streams", COUNT),
                    f"{in_range((*SERVER, 'quirk'), m.QUIRKS, quirk=_of(Severity.BREAKS_CLIENTS))} > 0",
                ),
            ),
            width=12,
            height=9,
            sort_by="Streams",
        ),
        rows(
            "New quirks, by upstream",
            "What an upstream showed in this time range for the first time since its sidecar began to watch it (or ever, "
            "with state_dir). breaks_clients fires an alert.",
            _UPSTREAM | {"quirk": "Quirk", "severity": "Severity"},
            (
                (
                    Column("Times", COUNT),
                    appeared_in_range((*SERVER, "quirk", "severity"), m.NEW_QUIRKS),
                ),
            ),
            width=12,
            height=9,
        ),
    ),
)

_ENDS = Row(
    "How streams end",
    (
        graph(
            "Streams without terminator, by model",
            "Share of streams that finished without their dialect's terminator. A step is a rollout, a constant share "
            "one replica of several, 100 % an endpoint that never sends one.",
            SHARE,
            Query(
                ratio(
                    per_second(SERVER, m.STREAMS, outcome="no_terminator"),
                    per_second(SERVER, m.STREAMS, streaming="true"),
                ),
                AT,
            ),
        ),
        graph(
            "Finish reasons",
            "Why answers ended, as the upstream says. More `length`: answers run into max_tokens. More "
            "`content_filter`: prompts or policies changed.",
            PER_SECOND,
            Query(per_second(("reason",), m.FINISH_REASONS), "{{reason}}"),
            stacked=True,
        ),
        graph(
            "Errors by type",
            "Failed exchanges by the provider's error type, else the status, else our name for it.",
            PER_SECOND,
            Query(per_second(("error_type",), m.ERRORS), "{{error_type}}"),
            stacked=True,
        ),
        graph(
            "Usage",
            "What became of usage. Missing was asked for and never came; partial broke off with the stream; not "
            "requested is up to the client.",
            PER_SECOND,
            Query(per_second(("state",), m.USAGE), "{{state}}"),
            stacked=True,
            colours=colours.USAGE,
        ),
        graph(
            "Tool calls",
            "Tool calls by whether their arguments are JSON. Broken ones with a finish reason of `length`: raise "
            "max_tokens; others are the model's or the endpoint's.",
            PER_SECOND,
            Query(per_second(("state",), m.TOOL_CALLS), "{{state}}"),
            stacked=True,
            colours=colours.TOOL_CALLS,
        ),
        graph(
            "Retries",
            "Requests per minute that repeat a failed one, by when that one had failed. Before the first token nobody sees it; "
            "after, the user saw half an answer first.",
            PER_MINUTE,
            Query(or_zero(per_minute(("after",), m.RETRIES), "after"), "{{after}}"),
        ),
    ),
)

_HOPS = Row(
    "What a hop changes (with a sidecar's tap on both sides of it)",
    (
        graph(
            "First token that the hop adds",
            "Seconds from the first token behind the hop to the first token before it. A gateway that passes things on "
            "adds milliseconds; hundreds are a buffer or a guardrail.",
            SECONDS,
            Query(quantile(0.5, _HOP, m.HOP_FIRST_TOKEN), f"p50 {_VIA}"),
            Query(quantile(0.9, _HOP, m.HOP_FIRST_TOKEN), f"p90 {_VIA}"),
        ),
        graph(
            "Pace across the hop",
            "Median gap on the client's side divided by that on the upstream's. 1: passed on as it came. Near 0: the "
            "hop holds events back and lets them go together.",
            RATIO,
            Query(quantile(0.5, _HOP, m.HOP_GAP_RATIO), _VIA),
        ),
        graph(
            "Streams that the hop changed",
            "Joined streams per second in which the hop changed, lost or added something. usage_lost and events_lost "
            "are bugs of the hop.",
            PER_SECOND,
            Query(per_second(("change",), m.HOP_CHANGES), "{{change}}"),
        ),
        rows(
            "Quirks that the hop added or removed",
            "Streams in this time range. Added ones are the hop's own; removed ones it repairs for your clients.",
            _HOP_NAMES | {"quirk": "Quirk", "change": "Change"},
            ((Column("Streams", COUNT), f"{in_range((*_HOP, 'quirk', 'change'), m.HOP_QUIRKS)} > 0"),),
            width=16,
            height=8,
            sort_by="Streams",
        ),
        graph(
            "Streams seen on both sides",
            "By what they were joined. None: there is no tap on the other side, or neither ids nor trace context pass "
            "through the hop. Not joined, because several fitted, or for lack of room: 0 is healthy.",
            PER_SECOND,
            Query(per_second(("evidence",), m.HOPS), "{{evidence}}"),
            Query(or_zero(per_second((), m.HOP_UNJOINED)), "not joined"),
        ),
    ),
)

QUALITY = Board(
    "llm-quality",
    "LLM streams: stream quality",
    "Quirks, terminators, finish reasons, usage, tool calls and hops: what would break a client.",
    (_NOW, _QUIRKS, _ENDS, _HOPS),
)
