"""Engine versus wire: what the serving engine says of itself beside what arrives. The difference is the path."""

from dashboards.generator.board import FILTER, Board, Row
from dashboards.generator.boards.queries import MODEL, RATE, quantile
from dashboards.generator.panels import COUNT, SECONDS, Column, Query, graph, rows
from dashboards.generator.promql import rate
from sidecar import metrics as m

_BY_MODEL = ("gen_ai_request_model",)
_NOTE = (
    " Needs the engine's own metrics in the same Prometheus, and the model's name there (model_name) equal to the one "
    "that is requested."
)


def _engine(share: float, name: str) -> str:
    return (
        f'histogram_quantile({share:g}, sum by (model_name, le) (rate({name}_bucket{{model_name=~"$model"}}[{RATE}])))'
    )


def _pair(share: float, ours: str, name: str) -> tuple[Query, ...]:
    return (
        Query(ours, "wire: " + MODEL),
        Query(_engine(share, f"vllm:{name}"), "vLLM: {{model_name}}"),
        Query(_engine(share, f"sglang:{name}"), "SGLang: {{model_name}}"),
    )


def _named_as_ours(expr: str) -> str:
    """The engine's series under our label, so that they can be subtracted."""
    return f'label_replace({expr}, "gen_ai_request_model", "$1", "model_name", "(.*)")'


def _added(share: float) -> str:
    ours = quantile(share, _BY_MODEL, m.MILESTONES, milestone="first_token")
    theirs = " or ".join(
        _named_as_ours(_engine(share, f"{engine}:time_to_first_token_seconds")) for engine in ("vllm", "sglang")
    )
    return f"{ours} - on (gen_ai_request_model) ({theirs})"


_GAP_NAME = "inter_token_latency_seconds"
_GAP_MEAN = (
    f"{rate(_BY_MODEL, m.CHUNK_GAPS, RATE, suffix='_sum', matchers=FILTER)} / "
    f"{rate(_BY_MODEL, m.CHUNK_GAPS, RATE, suffix='_count', matchers=FILTER)}"
)

_FIRST = Row(
    "First token",
    (
        graph(
            "First token that the path adds, median",
            "Our first token minus the engine's: what queues, gateways, buffers and the network add between the engine "
            "and here. Milliseconds are fine; seconds are a hop that buffers." + _NOTE,
            SECONDS,
            Query(_added(0.5), MODEL),
            width=12,
            height=10,
            beside=True,
        ),
        rows(
            "By model",
            "Medians now. Added is wire minus engine." + _NOTE,
            {"gen_ai_request_model": "Model"},
            (
                (Column("Wire", SECONDS), quantile(0.5, _BY_MODEL, m.MILESTONES, milestone="first_token")),
                (
                    Column("Engine", SECONDS),
                    f"sum without (model_name) ({_named_as_ours(_engine(0.5, 'vllm:time_to_first_token_seconds'))})",
                ),
                (Column("Added", SECONDS, red_from=0.5), _added(0.5)),
            ),
            width=12,
            height=10,
            sort_by="Added",
        ),
        graph(
            "First token, median",
            "The same number from both ends." + _NOTE,
            SECONDS,
            *_pair(
                0.5,
                quantile(0.5, _BY_MODEL, m.MILESTONES, milestone="first_token"),
                "time_to_first_token_seconds",
            ),
            width=12,
            height=10,
            beside=True,
            log=True,
        ),
        graph(
            "First token, p90",
            "The same number from both ends." + _NOTE,
            SECONDS,
            *_pair(
                0.9,
                quantile(0.9, _BY_MODEL, m.MILESTONES, milestone="first_token"),
                "time_to_first_token_seconds",
            ),
            width=12,
            height=10,
            beside=True,
            log=True,
        ),
    ),
)

_PACE = Row(
    "Pace and whole answers",
    (
        graph(
            "Gap between output events and between tokens, median",
            "Ours counts reads with output, the engine counts tokens: with several tokens an event ours is longer, and "
            "behind a buffer it falls towards zero." + _NOTE,
            SECONDS,
            *_pair(0.5, quantile(0.5, _BY_MODEL, m.CHUNK_GAPS), _GAP_NAME),
            width=12,
            height=10,
            beside=True,
        ),
        graph(
            "Whole answer, median",
            "From request to end. Equal at both ends with a late first token: the path holds back, it does not slow."
            + _NOTE,
            SECONDS,
            *_pair(0.5, quantile(0.5, _BY_MODEL, m.DURATION), "e2e_request_latency_seconds"),
            width=12,
            height=10,
            beside=True,
        ),
        graph(
            "Queue in the engine, p90",
            "Seconds that requests wait before the engine begins (vLLM). If first tokens are late and this is not, "
            "look elsewhere.",
            SECONDS,
            Query(_engine(0.9, "vllm:request_queue_time_seconds"), "vLLM: {{model_name}}"),
        ),
        graph(
            "Requests in the engine",
            "Running and waiting, as the engine says.",
            COUNT,
            Query('sum(vllm:num_requests_running{model_name=~"$model"})', "vLLM running"),
            Query('sum(vllm:num_requests_waiting{model_name=~"$model"})', "vLLM waiting"),
            Query('sum(sglang:num_running_reqs{model_name=~"$model"})', "SGLang running"),
            Query('sum(sglang:num_queue_reqs{model_name=~"$model"})', "SGLang waiting"),
        ),
        graph(
            "Mean gap on the wire",
            "Mean seconds between two reads with output. The mean survives buffering, the median does not: far apart "
            "means bursts.",
            SECONDS,
            Query(_GAP_MEAN, MODEL),
        ),
    ),
)

ENGINE = Board(
    "llm-engine",
    "LLM streams: engine versus wire",
    "First token, pace and duration as the serving engine measures them, beside what arrives on the wire.",
    (_FIRST, _PACE),
)
