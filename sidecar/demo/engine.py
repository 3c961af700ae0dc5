"""What an inference engine says of itself, before any hop: the demo upstream's /metrics, under vLLM's names."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from time import monotonic

from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from tornado.web import RequestHandler

from sidecar.metrics import DURATION_BUCKETS, MILESTONE_BUCKETS, TOKEN_TIME_BUCKETS


class Run:
    """One request in the engine. `token` is called at each token, whenever the network lets it out."""

    def __init__(self, engine: "Engine", model: str) -> None:
        self._engine = engine
        self._model = model
        self._begun = self._last = monotonic()
        self._tokens = 0

    def token(self) -> None:
        """A token was generated."""
        now = monotonic()
        into = self._engine.first_token if self._tokens == 0 else self._engine.between_tokens
        into.labels(self._model, "0").observe(now - self._last)
        self._tokens += 1
        self._last = now

    def over(self) -> None:
        """The request is done with."""
        self._engine.whole.labels(self._model, "0").observe(monotonic() - self._begun)


class Engine:
    """The metrics of all requests. Those of a model named here wait for one another: it answers one at a time."""

    def __init__(self, one_at_a_time: frozenset[str] = frozenset()) -> None:
        self._turns = {model: asyncio.Lock() for model in one_at_a_time}
        self.registry = CollectorRegistry()
        self.first_token = self._histogram("vllm:time_to_first_token_seconds", MILESTONE_BUCKETS)
        self.between_tokens = self._histogram("vllm:inter_token_latency_seconds", TOKEN_TIME_BUCKETS)
        self.whole = self._histogram("vllm:e2e_request_latency_seconds", DURATION_BUCKETS)
        self.queued = self._histogram("vllm:request_queue_time_seconds", MILESTONE_BUCKETS)
        self.running = self._gauge("vllm:num_requests_running")
        self.waiting = self._gauge("vllm:num_requests_waiting")

    def _histogram(self, name: str, buckets: tuple[float, ...]) -> Histogram:
        text = "As the demo's engine sees it, in seconds."
        return Histogram(name, text, ["model_name", "engine"], buckets=buckets, registry=self.registry)

    def _gauge(self, name: str) -> Gauge:
        return Gauge(name, "Requests in the demo's engine.", ["model_name", "engine"], registry=self.registry)

    @contextlib.asynccontextmanager
    async def run(self, model: str) -> AsyncIterator[Run]:
        """A request, from its arrival until its answer is out or its client gone."""
        run = Run(self, model)
        arrived = monotonic()
        async with contextlib.AsyncExitStack() as stack:
            with self.waiting.labels(model, "0").track_inprogress():
                await stack.enter_async_context(self._turns.get(model) or contextlib.nullcontext())
            self.queued.labels(model, "0").observe(monotonic() - arrived)
            stack.callback(run.over)
            with self.running.labels(model, "0").track_inprogress():
                yield run


class EngineMetrics(RequestHandler):
    """The engine's /metrics."""

    def initialize(self, engine: Engine) -> None:
        self._engine = engine

    def get(self) -> None:
        self.set_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.finish(generate_latest(self._engine.registry))
