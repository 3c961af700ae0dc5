"""What the dashboards may show nothing but zeros of while the demo runs: targets by `of_panels`, and why."""

HEALTHY = {
    "llm-quality: Streams seen on both sides: B": "ids and requests tell what belongs together",
    "llm-sidecar: Telemetry lost: A": "a sidecar that keeps up loses nothing",
    "llm-sidecar: Exceptions caught: A": "no bug shows",
    "llm-sidecar: Records dropped and exchanges lost: A": "a sidecar that keeps up drops nothing",
    "llm-sidecar: Records dropped and exchanges lost: B": "nothing restarts, and the analyzer is not full",
    "llm-sidecar: Exchanges checked for passivity: B": "nothing changes bodies",
    "llm-sidecar: Exceptions caught, by stage: A": "no bug shows",
    "llm-sidecar: Exceptions caught, by stage: B": "no bug shows",
    "llm-sidecar: Label values folded into other: A": "there are fewer models than max_models",
    "llm-sidecar: Spans and metrics sent over OTLP: B": "the trace back end takes all of them",
    "llm-sidecar: Spans and metrics sent over OTLP: C": "metrics are scraped, not exported",
    "llm-sidecar: Exchanges recorded: B": "the disk keeps up, and no exchange is too large",
    "llm-sidecar: Foreign writers on the records socket: A": "nobody else knows of the socket",
    "llm-sidecar: Records: B": "there is no Envoy in the demo",
}
"""Where 0 is as it should be: a line of zeros is drawn, and the panel's description says that 0 is healthy."""

OTHER_ENGINE = {
    f"llm-engine: {title}: {letter}": "the demo's engine speaks as vLLM, which the panel has beside it"
    for title, letters in {
        "First token": "CF",
        "Gap between output events, and between tokens": "CF",
        "Whole answer": "CF",
        "Requests in the engine": "CD",
    }.items()
    for letter in letters
}
"""Lines that a panel has for a second kind of engine: no line where there is none."""
