"""Live and hung: what is open now, in which phase, silent for how long, and how streams end early."""

from dashboards.generator import colours
from dashboards.generator.board import FILTER, UPSTREAM_FILTER, Board, Row
from dashboards.generator.boards.queries import AT, MODEL, RATE, SERVER, now, or_zero, per_second, quantile
from dashboards.generator.panels import COUNT, PER_SECOND, SECONDS, SHARE, Column, Query, graph, number, rows
from dashboards.generator.promql import rate
from dashboards.generator.recording import DISCONNECT_SHARE
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
            "Streams that became stalled, per second.",
            PER_SECOND,
            Query(or_zero(per_second((), m.STALLS))),
        ),
        number(
            "Left by the client",
            "Share of exchanges that the client ended early. People who stop, or a client's time-out.",
            SHARE,
            Query(or_zero(f"{per_second((), m.STREAMS, outcome='client_disconnect')} / {per_second((), m.STREAMS)}")),
            orange=0.1,
            red=0.2,
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
            width=14,
            height=10,
            sort_by="Stalled",
        ),
        rows(
            "Alerts that fire",
            "From the rules of dashboards/alerts. The runbook has the alert's name.",
            {"alertname": "Alert", "severity": "Severity", "gen_ai_request_model": "Model"},
            ((Column("Firing", COUNT), f"count by (alertname, severity, gen_ai_request_model) ({_ALERTS})"),),
            width=10,
            height=10,
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
            "Stalls that began, per second. Each stall counts once, also if it ended by itself.",
            PER_SECOND,
            Query(per_second(("gen_ai_request_model", "phase"), m.STALLS), f"{MODEL}, {{{{phase}}}}"),
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
            "Exchanges per second that went longer than 60 s or 100 s without a byte: behind nginx or a CDN at their "
            "defaults these would have failed.",
            PER_SECOND,
            Query(or_zero(per_second(("seconds",), m.LONG_SILENCES), "seconds", "60"), "above {{seconds}} s"),
        ),
    ),
)

_ENDS = Row(
    "Early ends",
    (
        graph(
            "Ended early, by whom and in which phase",
            "Before the first token a retry is invisible; in mid-stream the user has seen half an answer; after the "
            "finish it is harmless.",
            PER_SECOND,
            Query(per_second(("end", "phase"), m.EARLY_ENDS), "{{end}} in {{phase}}"),
            width=12,
            height=9,
            beside=True,
        ),
        graph(
            "Left by the client, by model and upstream",
            "Share of exchanges over 15 minutes (recorded). A jump is a spike alert: compare with first tokens and "
            "stalls at that time.",
            SHARE,
            Query(f"{DISCONNECT_SHARE}{{{UPSTREAM_FILTER}}} > 0", AT),
            width=12,
            height=9,
            beside=True,
        ),
        graph(
            "Why there was no first token",
            "Exchanges without a time to first token, by reason. not_streamed is a client that wants whole answers.",
            PER_SECOND,
            Query(per_second(("reason",), m.NO_FIRST_TOKEN), "{{reason}}"),
            width=12,
            stacked=True,
        ),
        graph(
            "Upstream goes on after the client left",
            "Seconds that the far side of a hop went on after the client had gone (needs a tap on both sides): tokens "
            "that are paid for and seen by nobody.",
            SECONDS,
            Query(
                or_zero(
                    f"histogram_quantile(0.9, {rate(('le',), m.AFTER_DISCONNECT, RATE, suffix='_bucket', matchers=FILTER)})"
                ),
                "p90",
            ),
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
            "1000: as agreed. 1006: the connection broke. 1011 and above: the server gave up.",
            PER_SECOND,
            Query(
                or_zero(per_second(("close_code",), m.SESSIONS), "close_code"),
                "{{close_code}}",
            ),
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
