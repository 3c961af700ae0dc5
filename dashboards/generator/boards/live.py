"""Live and hung: what is open now, in which phase, silent for how long, and how streams end early."""

from dashboards.generator import colours
from dashboards.generator.board import Board, Row, filters
from dashboards.generator.boards.queries import (
    AT,
    MODEL,
    SERVER,
    in_range,
    now,
    or_zero,
    per_minute,
    per_second,
    quantile,
)
from dashboards.generator.panels import (
    COUNT,
    PER_MINUTE,
    PER_SECOND,
    SECONDS,
    SHARE,
    Column,
    Query,
    graph,
    number,
    rows,
)
from dashboards.generator.promql import ratio, select
from dashboards.generator.recording import DISCONNECT_SHARE
from dashboards.generator.thresholds import THRESHOLDS
from sidecar import metrics as m

_ALERTS = 'ALERTS{alertname=~"LLM.*", alertstate="firing"}'
_UPSTREAM = {"gen_ai_request_model": "Model", "server_address": "Upstream", "server_port": "Port", "phase": "Phase"}

_NOW = Row(
    "Now",
    (
        number(
            "In flight",
            "Exchanges that are open, at the last scrape.",
            COUNT,
            Query(or_zero(now((), m.IN_FLIGHT))),
        ),
        number(
            "Stalled",
            "Streams without progress for longer than their phase allows. The table below says which; each phase has "
            "a runbook.",
            COUNT,
            Query(or_zero(now((), m.STALLED))),
            red=1,
        ),
        number(
            "Longest silence",
            "The most silent open stream. Keep-alives do not count as progress.",
            SECONDS,
            Query(or_zero(now((), m.OLDEST_SILENCE, function="max"))),
            orange=15,
            red=60,
        ),
        number(
            "Stalls begun",
            "Streams that became stalled in this time range, also those that went on or ended since.",
            COUNT,
            Query(or_zero(in_range((), m.STALLS))),
        ),
        number(
            "Left by the client",
            "Share of exchanges that the client ended early. People who stop, or a client's time-out.",
            SHARE,
            Query(or_zero(ratio(per_second((), m.STREAMS, outcome="client_disconnect"), per_second((), m.STREAMS)))),
            orange=THRESHOLDS.disconnect_share / 2,
            red=THRESHOLDS.disconnect_share,
        ),
        number(
            "Alerts firing",
            "Alerts of the sidecar's rules that fire now. 0 may also mean that the rules are not loaded.",
            COUNT,
            Query(or_zero(f"count({_ALERTS})")),
            red=1,
        ),
    ),
)

_HUNG = Row(
    "Which ones",
    (
        rows(
            "Streams by model, upstream and phase",
            "What is open now. Stalled ones are red: go to the runbook of that phase. The streams themselves, with "
            "their ids, are on the sidecar's live page and under /api/streams.",
            _UPSTREAM,
            (
                (
                    Column("Stalled", COUNT, red_from=1),
                    f"{now((*SERVER, 'phase'), m.STALLED)} and {now((*SERVER, 'phase'), m.IN_FLIGHT)} > 0",
                ),
                (Column("In flight", COUNT), f"{now((*SERVER, 'phase'), m.IN_FLIGHT)} > 0"),
                (
                    Column("Longest silence", SECONDS, red_from=15),
                    f"{now((*SERVER, 'phase'), m.OLDEST_SILENCE, function='max')} > 0",
                ),
            ),
            height=8,
            sort_by="Stalled",
        ),
        rows(
            "Alerts that fire",
            "From the rules of dashboards/alerts, critical ones on top. The runbook has the alert's name. Model and "
            "upstream are empty where it is about a sidecar.",
            {
                "severity": "Severity",
                "alertname": "Alert",
                "gen_ai_request_model": "Model",
                "server_address": "Upstream",
            },
            (
                (
                    Column("Firing", COUNT),
                    f"count by (severity, alertname, gen_ai_request_model, server_address) ({_ALERTS})",
                ),
            ),
            height=8,
            sort_by="Severity",
            ascending=True,
        ),
    ),
)

_PHASES = Row(
    "Phases",
    (
        graph(
            "In flight by phase",
            "waiting_headers: no answer yet. before_first_token: a head, no output. mid_stream: output flows. "
            "keepalive_only: only pings. after_finish: finished, not closed.",
            COUNT,
            Query(now(("phase",), m.IN_FLIGHT), "{{phase}}"),
            stacked=True,
            colours=colours.PHASES,
        ),
        graph(
            "Stalled by phase",
            "The same, of those beyond the threshold of their phase ([stalls] in the sidecar's settings).",
            COUNT,
            Query(now(("phase",), m.STALLED), "{{phase}}"),
            stacked=True,
            colours=colours.PHASES,
        ),
        graph(
            "Longest silence by phase",
            "Saw teeth are streams that come and go; a straight line that climbs is one stream that hangs.",
            SECONDS,
            Query(now(("phase",), m.OLDEST_SILENCE, function="max"), "{{phase}}"),
            colours=colours.PHASES,
        ),
        graph(
            "Stalls begun, by model and phase",
            "Stalls that began, per minute. Each stall counts once, also if it ended by itself.",
            PER_MINUTE,
            Query(per_minute(("gen_ai_request_model", "phase"), m.STALLS), f"{MODEL}, {{{{phase}}}}"),
            width=12,
            beside=True,
        ),
        graph(
            "Longest silence of ended streams, p99",
            "What clients and proxies must be able to wait for: set time-outs above it.",
            SECONDS,
            Query(quantile(0.99, ("phase",), m.LONGEST_SILENCE), "{{phase}}"),
            width=12,
            colours=colours.PHASES,
        ),
        graph(
            "Keep-alives",
            "Comments, pings and JSON heartbeats per second. None on slow models: hops may cut their silences.",
            PER_SECOND,
            Query(per_second(("kind",), m.KEEPALIVES), "{{kind}}"),
        ),
        graph(
            "Heartbeat interval by upstream",
            "Median seconds between keep-alives of one stream. It must be well below the shortest idle time-out on "
            "the way (nginx 60 s, some CDNs 100 s).",
            SECONDS,
            Query(
                quantile(0.5, ("server_address", "server_port"), m.HEARTBEAT_INTERVAL),
                "{{server_address}}:{{server_port}}",
            ),
        ),
        graph(
            "Silences that hops cut",
            "Exchanges per minute that went longer than 60 s or 100 s without a byte: behind nginx or a CDN at their "
            "defaults these would have failed.",
            PER_MINUTE,
            Query(or_zero(per_minute(("seconds",), m.LONG_SILENCES), "seconds", "60"), "above {{seconds}} s"),
        ),
    ),
)

_ENDS = Row(
    "Early ends",
    (
        graph(
            "Ended early, by whom and in which phase",
            "Exchanges per minute. Before the first token a retry is invisible; in mid-stream the user has seen half an answer; after the "
            "finish it is harmless.",
            PER_MINUTE,
            Query(per_minute(("end", "phase"), m.EARLY_ENDS), "{{end}} in {{phase}}"),
            width=12,
            height=9,
            beside=True,
        ),
        graph(
            "Left by the client, by model and upstream",
            "Share of exchanges over 15 minutes (recorded). A jump is a spike alert: compare with first tokens and "
            "stalls at that time.",
            SHARE,
            Query(f"{select(DISCONNECT_SHARE, matchers=filters(DISCONNECT_SHARE))} > 0", AT),
            width=12,
            height=9,
            beside=True,
        ),
        graph(
            "Why there was no first token",
            "Exchanges per minute without a time to first token, by reason. not_streamed is a client that wants whole "
            "answers.",
            PER_MINUTE,
            Query(per_minute(("reason",), m.NO_FIRST_TOKEN), "{{reason}}"),
            width=12,
            stacked=True,
        ),
        graph(
            "Upstream goes on after the client left",
            "Seconds that the far side of a hop went on after the client had gone (needs a tap on both sides): tokens "
            "that are paid for and seen by nobody.",
            SECONDS,
            Query(or_zero(quantile(0.9, (), m.AFTER_DISCONNECT)), "p90"),
            width=12,
        ),
    ),
)

_SOCKETS = Row(
    "WebSockets",
    (
        graph(
            "Sessions open",
            "WebSockets that are open, by dialect. Those of an unknown dialect are counted without their address.",
            COUNT,
            Query(or_zero(now(("dialect",), m.SESSIONS_IN_FLIGHT), "dialect"), "{{dialect}}"),
        ),
        graph(
            "Sessions closed, by code",
            "Sessions per minute. 1000: as agreed. 1006: the connection broke. 1011 and above: the server gave up.",
            PER_MINUTE,
            Query(or_zero(per_minute(("close_code",), m.SESSIONS), "close_code"), "{{close_code}}"),
        ),
        graph(
            "How long sessions last",
            "Median and 90th percentile of sessions that were closed. A pile at one number is a limit of some hop.",
            SECONDS,
            Query(or_zero(quantile(0.5, (), m.SESSION_SECONDS)), "p50"),
            Query(or_zero(quantile(0.9, (), m.SESSION_SECONDS)), "p90"),
        ),
    ),
)

LIVE = Board(
    "llm-live",
    "LLM streams: live and hung",
    "Open streams by phase, silences, stalls and early ends: what the on-call engineer looks at while it lasts.",
    (_NOW, _HUNG, _PHASES, _ENDS, _SOCKETS),
)
