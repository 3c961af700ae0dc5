"""Engine versus wire: what the serving engine says of itself beside what arrives. The difference is the path."""

from dashboards.generator import promql
from dashboards.generator.board import Board, Row
from dashboards.generator.boards.queries import MODEL, RATE, ladder, per_second, quantile
from dashboards.generator.panels import COUNT, SECONDS, Column, Query, graph, rows
from dashboards.generator.promql import ratio
from sidecar import metrics as m
from sidecar.metrics import Metric

_BY_MODEL = ("gen_ai_request_model",)
_WINDOW = "5m"
_NOTE = (
    " Needs the engine's own metrics in the same Prometheus, and the model's name there (model_name) equal to the one "
    "that is requested."
)
_ENGINE_FIRST = "time_to_first_token_seconds"


def _engine(share: float, name: str, by: tuple[str, ...] = (), window: str = RATE) -> str:
    return promql.quantile(share, by, f'rate({name}_bucket{{model_name=~"$model"}}[{window}])')


def _both_ends(metric: Metric, name: str, **where: str) -> tuple[Query, ...]:
    """Median and 90th percentile on the wire and in the engine."""
    found = []
    for share, words in ((0.5, "p50"), (0.9, "p90")):
        found.append(Query(quantile(share, (), metric, **where), f"wire {words}"))
        found.append(Query(_engine(share, f"vllm:{name}"), f"vLLM {words}"))
        found.append(Query(_engine(share, f"sglang:{name}"), f"SGLang {words}"))
    return tuple(found)


def _named_as_ours(expr: str) -> str:
    """The engine's series under our label, so that they can be subtracted."""
    renamed = f'label_replace({expr}, "gen_ai_request_model", "$1", "model_name", "(.*)")'
    return f"sum without (model_name) ({renamed})"


def _engine_by_model(share: float) -> str:
    """The first token of whichever engine there is, under our label."""
    return " or ".join(
        _named_as_ours(_engine(share, f"{engine}:{_ENGINE_FIRST}", ("model_name",), _WINDOW))
        for engine in ("vllm", "sglang")
    )


_WIRE = ladder(0.5, _BY_MODEL, "first_token")
_ADDED = f"{_WIRE} - on (gen_ai_request_model) ({_engine_by_model(0.5)})"
_GAP_MEAN = ratio(
    per_second(_BY_MODEL, m.CHUNK_GAPS, suffix="_sum"), per_second(_BY_MODEL, m.CHUNK_GAPS, suffix="_count")
)

_FIRST = Row(
    "First token",
    (
        graph(
            "First token that the path adds, by model",
            "Our median first token minus the engine's, over five minutes: what queues, gateways, buffers and the "
            "network add between the engine and here. Milliseconds are fine; seconds are a hop that buffers." + _NOTE,
            SECONDS,
            Query(_ADDED, MODEL),
            width=12,
            height=10,
            beside=True,
        ),
        rows(
            "By model",
            "Median first tokens of the last five minutes. Added is wire minus engine." + _NOTE,
            {"gen_ai_request_model": "Model"},
            (
                (Column("Wire", SECONDS), f"{_WIRE} >= 0"),
                (Column("Engine", SECONDS), f"({_engine_by_model(0.5)}) >= 0"),
                (Column("Added", SECONDS, red_from=0.5), f"({_ADDED}) > -1"),
            ),
            width=12,
            height=10,
            sort_by="Added",
        ),
        graph(
            "First token",
            "The same number from both ends, over the chosen models. The distance is the path." + _NOTE,
            SECONDS,
            *_both_ends(m.MILESTONES, _ENGINE_FIRST, milestone="first_token"),
        ),
        graph(
            "Gap between output events, and between tokens",
            "Ours counts reads with output, the engine counts tokens: with several tokens an event ours is longer, and "
            "behind a buffer it falls towards zero." + _NOTE,
            SECONDS,
            *_both_ends(m.CHUNK_GAPS, "inter_token_latency_seconds"),
        ),
        graph(
            "Whole answer",
            "From request to end. Equal at both ends with a late first token: the path holds back, it does not slow."
            + _NOTE,
            SECONDS,
            *_both_ends(m.DURATION, "e2e_request_latency_seconds"),
        ),
    ),
)

_INSIDE = Row(
    "In the engine, and what the mean says",
    (
        graph(
            "Queue in the engine",
            "Seconds that requests wait before the engine begins (vLLM). If first tokens are late and this is not, "
            "look elsewhere.",
            SECONDS,
            Query(_engine(0.5, "vllm:request_queue_time_seconds"), "vLLM p50"),
            Query(_engine(0.9, "vllm:request_queue_time_seconds"), "vLLM p90"),
        ),
        graph(
            "Requests in the engine",
            "Running and waiting, as the engine says. Waiting above zero for long: too little capacity.",
            COUNT,
            Query('sum(vllm:num_requests_running{model_name=~"$model"})', "vLLM running"),
            Query('sum(vllm:num_requests_waiting{model_name=~"$model"})', "vLLM waiting"),
            Query('sum(sglang:num_running_reqs{model_name=~"$model"})', "SGLang running"),
            Query('sum(sglang:num_queue_reqs{model_name=~"$model"})', "SGLang waiting"),
        ),
        graph(
            "Mean gap on the wire, by model",
            "Mean seconds between two reads with output. The mean survives buffering, the median does not: far apart "
            "means bursts.",
            SECONDS,
            Query(_GAP_MEAN, MODEL),
            beside=True,
        ),
    ),
)

ENGINE = Board(
    "llm-engine",
    "LLM streams: engine versus wire",
    "First token, pace and duration as the serving engine measures them, beside what arrives on the wire.",
    (_FIRST, _INSIDE),
)
