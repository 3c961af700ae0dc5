"""Overview: how much, how it ends, how fast it begins and goes, and whether anything hangs."""

from dashboards.generator import colours
from dashboards.generator.board import Board, Row
from dashboards.generator.boards.queries import (
    AT,
    FAILED,
    MODEL,
    SERVER,
    buckets,
    gap,
    ladder,
    now,
    or_zero,
    per_second,
    quantile,
    recorded,
)
from dashboards.generator.panels import (
    COUNT,
    PER_SECOND,
    SECONDS,
    SHARE,
    TOKENS_PER_SECOND,
    Column,
    Query,
    graph,
    heat,
    number,
    rows,
)
from dashboards.generator.promql import ratio
from dashboards.generator.recording import MODEL_TOKENS_HOUR, MODEL_TOKENS_RATE, STREAMS_RATE, TOKENS_RATE
from dashboards.generator.thresholds import THRESHOLDS
from sidecar import metrics as m

_OF_SERVER = recorded(SERVER, STREAMS_RATE)
_FAILED_OF_SERVER = f"({recorded(SERVER, STREAMS_RATE, outcome=FAILED)} or 0 * {_OF_SERVER})"
_LABELS = {"gen_ai_request_model": "Model", "server_address": "Upstream", "server_port": "Port"}
_LADDER = (
    "Seconds from the last request byte to: the response head, the first byte, the first output of any kind, the first "
    "output that is shown (no reasoning). Where two lines part is where the time goes: before headers it is queue and "
    "connection, between headers and first token the model or a hop that buffers, between token and visible token "
    "the reasoning. "
)

_NOW = Row(
    "Now",
    (
        number(
            "Exchanges",
            "Exchanges that ended, per second. A fall without a reason: look at stalled streams, then at the sidecar.",
            PER_SECOND,
            Query(or_zero(recorded((), STREAMS_RATE))),
        ),
        number(
            "Failed",
            "Share of exchanges that were cut off, failed inside the stream, were refused, reset or not answered. "
            "Clients that left and missing terminators are not in it. Above 2 %: see which outcome grew, below.",
            SHARE,
            Query(or_zero(ratio(recorded((), STREAMS_RATE, outcome=FAILED), recorded((), STREAMS_RATE)))),
            orange=0.02,
            red=0.05,
        ),
        number(
            "In flight",
            "Exchanges that are open now, at the last scrape.",
            COUNT,
            Query(or_zero(now((), m.IN_FLIGHT))),
        ),
        number(
            "Stalled now",
            "Streams without progress for longer than their phase allows. Anything but 0: dashboard Live and hung.",
            COUNT,
            Query(or_zero(now((), m.STALLED))),
            red=1,
        ),
        number(
            "First token, p90",
            "Nine of ten exchanges had their first output (text, reasoning or tool call) within this time.",
            SECONDS,
            Query(ladder(0.9, (), "first_token")),
            orange=THRESHOLDS.first_token_seconds,
            red=2 * THRESHOLDS.first_token_seconds,
        ),
        number(
            "Output tokens",
            "Output tokens per second over all streams, as reported or partly reported. Streams without usage are not "
            "in it: see Usage on Stream quality.",
            TOKENS_PER_SECOND,
            Query(or_zero(recorded((), TOKENS_RATE, type="output"))),
        ),
    ),
)

_TRAFFIC = Row(
    "Traffic and outcomes",
    (
        graph(
            "Outcomes",
            "Every exchange has exactly one outcome. Green, on top, is well; yellow ended without its terminator; orange was cut "
            "off; red broke; purple carried an error; blue was left by the client. What grows names the runbook.",
            PER_SECOND,
            Query(recorded(("outcome",), STREAMS_RATE, outcome="!complete"), "{{outcome}}"),
            Query(recorded(("outcome",), STREAMS_RATE, outcome="complete"), "complete"),
            width=12,
            height=9,
            stacked=True,
            colours=colours.OUTCOMES,
        ),
        graph(
            "Exchanges by model",
            "Exchanges that ended, per second. A model named other stands for those beyond max_models.",
            PER_SECOND,
            Query(recorded(("gen_ai_request_model",), STREAMS_RATE), MODEL),
            width=12,
            height=9,
            beside=True,
        ),
        rows(
            "Models and upstreams",
            "Each model at each upstream in the last five minutes, those that fail most on top. Red is what to look at "
            "first; sort by any column.",
            _LABELS,
            (
                (Column("Exchanges", PER_SECOND), _OF_SERVER),
                (Column("Failed", SHARE, red_from=0.05), ratio(_FAILED_OF_SERVER, _OF_SERVER)),
                (Column("First token p50", SECONDS), ladder(0.5, SERVER, "first_token")),
                (
                    Column("First token p90", SECONDS, red_from=THRESHOLDS.first_token_seconds),
                    ladder(0.9, SERVER, "first_token"),
                ),
                (Column("Visible p50", SECONDS), ladder(0.5, SERVER, "first_visible_token")),
                (Column("In flight", COUNT), now(SERVER, m.IN_FLIGHT)),
                (Column("Stalled", COUNT, red_from=1), now(SERVER, m.STALLED)),
            ),
            sort_by="Failed",
        ),
    ),
)

_FIRST_TOKEN = Row(
    "First token",
    (
        *(
            graph(
                f"Ladder, {words}",
                _LADDER + f"This is the {words} over all streams.",
                SECONDS,
                *(Query(ladder(share, (), milestone), milestone) for milestone in colours.MILESTONES),
                colours=colours.MILESTONES,
            )
            for share, words in ((0.5, "median"), (0.9, "90th percentile"), (0.99, "99th percentile"))
        ),
        *(
            graph(
                f"First token by model and upstream, {words}",
                f"The {words} of the time to the first output. One line that rises alone is that upstream; all of them "
                "together are load, the network, or this sidecar.",
                SECONDS,
                Query(ladder(share, SERVER, "first_token"), AT),
                width=12,
                height=10,
                log=True,
                beside=True,
            )
            for share, words in ((0.5, "p50"), (0.9, "p90"), (0.99, "p99"))
        ),
        heat(
            "First token, all of them",
            "How many exchanges had their first output after how long. Two bands are two kinds of traffic (cached and "
            "not, reasoning and not): quantiles between them mean nothing. Points are exemplars: they lead to traces.",
            SECONDS,
            Query(buckets(m.MILESTONES, milestone="first_token"), "{{le}}", exemplar=True),
            width=12,
            height=10,
        ),
    ),
)

_PACE = Row(
    "Pace and tokens",
    (
        graph(
            "Gaps between output events",
            "Median and 99th percentile of the time between two reads with output. The median is the model's pace, the "
            "99th the hiccups. A median that falls to zero: something buffers.",
            SECONDS,
            Query(gap(0.5, ()), "p50"),
            Query(gap(0.9, ()), "p90"),
            Query(gap(0.99, ()), "p99"),
            width=12,
            log=True,
        ),
        heat(
            "Gaps between output events, all of them",
            "How long streams paused between two reads with output. A band below 1 ms is bursts: something coalesces "
            "or buffers. Cells above 5 s are stalls that ended.",
            SECONDS,
            Query(buckets(m.CHUNK_GAPS), "{{le}}"),
            width=12,
        ),
        graph(
            "Tokens per second of one stream",
            "Median over streams of (output tokens - 1) / (last token - first token), where usage was reported. "
            "Reading speed is about 5 to 10.",
            TOKENS_PER_SECOND,
            Query(f"1 / {quantile(0.5, ('gen_ai_request_model',), m.TIME_PER_TOKEN)}", MODEL),
            width=12,
            beside=True,
            log=True,
        ),
        graph(
            "Tokens by type",
            "Tokens per second over all streams. Input includes cached tokens, output includes reasoning, so the types "
            "are not to be added.",
            TOKENS_PER_SECOND,
            Query(recorded(("type",), TOKENS_RATE), "{{type}}"),
            width=12,
        ),
        graph(
            "Output tokens by model",
            "Output tokens per second, reported or partly reported. Recorded, so it holds over months.",
            TOKENS_PER_SECOND,
            Query(recorded(("gen_ai_request_model",), MODEL_TOKENS_RATE, type="output"), MODEL),
            width=12,
            beside=True,
        ),
        rows(
            "Tokens in the last hour",
            "What each model took and gave in the last hour. Streams without usage are missing here.",
            {"gen_ai_provider_name": "Provider", "gen_ai_request_model": "Model"},
            tuple(
                (
                    Column(heading, COUNT),
                    recorded(("gen_ai_provider_name", "gen_ai_request_model"), MODEL_TOKENS_HOUR, type=kind),
                )
                for kind, heading in (
                    ("input", "Input"),
                    ("cache_read", "of it cached"),
                    ("output", "Output"),
                    ("reasoning", "of it reasoning"),
                )
            ),
            width=12,
            height=8,
            sort_by="Output",
        ),
    ),
)

_HELD_UP = Row(
    "Held up",
    (
        graph(
            "Buffering verdicts",
            "Streams that ended, by whether something held them back: red arrived in one piece, yellow in a few. "
            "Inconclusive were too short to tell. Red where it was green: runbook LLMBufferingAppeared.",
            PER_SECOND,
            Query(per_second(("verdict",), m.BUFFERING), "{{verdict}}"),
            width=12,
            stacked=True,
            colours=colours.VERDICTS,
        ),
        graph(
            "Stalled, by phase",
            "Streams beyond the threshold of their phase, at each scrape. See Live and hung for which ones.",
            COUNT,
            Query(now(("phase",), m.STALLED), "{{phase}}"),
            width=12,
            stacked=True,
            colours=colours.PHASES,
        ),
    ),
)

OVERVIEW = Board(
    "llm-overview",
    "LLM streams: overview",
    "Traffic, outcomes, first tokens, pace and tokens of LLM streams as seen on the wire.",
    (_NOW, _TRAFFIC, _FIRST_TOKEN, _PACE, _HELD_UP),
)
