"""A collector that is absent, hangs, refuses or cuts: traffic and /metrics do not notice, spans are counted, we can go."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from itertools import accumulate
from statistics import median
from time import monotonic
from typing import Any

import pytest

from tests.collector import Collector
from tests.live.exchanges import Exchange, chat, chat_events
from tests.live.player import Player
from tests.live.processes import Sidecar, sidecar_run
from tests.live.raw_client import Answer, ask, ask_all
from tests.live.scrape import counted, scrape, wait_until

EXCHANGES = [chat(f"case-{number}", chat_events(*({"content": "word "},) * 8)) for number in range(24)]
ENVIRONMENT = {
    "OTEL_BSP_SCHEDULE_DELAY": "50",
    "OTEL_METRIC_EXPORT_INTERVAL": "200",
    "OTEL_EXPORTER_OTLP_TIMEOUT": "1",
    "SIDECAR_OTEL_FLUSH_SECONDS": "1",
}
STOP_SECONDS = 8.0  # the bound of one second, and what a busy machine takes for the rest


@contextlib.contextmanager
def bad_collector(kind: str) -> Iterator[str]:
    """Its URL."""
    if kind == "absent":
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            yield f"http://127.0.0.1:{closed.getsockname()[1]}"
        return
    behaviour: Any = "refuse" if kind.isdigit() else kind
    with Collector(behaviour, int(kind) if kind.isdigit() else 0).over_http() as collector:
        yield collector.url


async def slowest_scrape(sidecar: Sidecar, until: "asyncio.Task[Any]") -> float:
    """The longest that /metrics took while something else went on, seconds."""
    slowest = 0.0
    while not until.done():
        begun = monotonic()
        await scrape(sidecar.metrics)
        slowest = max(slowest, monotonic() - begun)
        await asyncio.sleep(0.05)
    return slowest


def delays(player: Player, answers: dict[str, Answer]) -> list[float]:
    """From each write of the upstream to its arrival at the client, seconds."""
    found = []
    for exchange in EXCHANGES:
        sizes = accumulate(len(piece.data) for piece in exchange.pieces)
        pieces = player.play(exchange.id).pieces
        found += [
            (answers[exchange.id].arrived(size) - piece.before) / 1e9 for size, piece in zip(sizes, pieces, strict=True)
        ]
    return found


@pytest.mark.parametrize("kind", ["absent", "hang", "429", "503", "cut"])
async def test_it_costs_spans_and_nothing_else(kind: str) -> None:
    player = Player()
    player.add(EXCHANGES)
    with bad_collector(kind) as url:
        options = ("--otel-endpoint", url, "--otel-metrics")
        async with player.serving(), sidecar_run("--upstream", player.url, *options, env=ENVIRONMENT) as sidecar:
            asking = asyncio.create_task(ask_all(sidecar.proxy, EXCHANGES))
            slowest = await slowest_scrape(sidecar, asking)
            answers = await asking
            await counted(sidecar.metrics, len(EXCHANGES))

            async def failed() -> bool:
                samples = await scrape(sidecar.metrics)
                spans = samples.total("llm_sidecar_span_export_failures_total", reason="export") == len(EXCHANGES)
                return spans and samples.total("llm_sidecar_metric_export_failures_total") > 0

            await wait_until(failed, what="all spans counted as failed")
            assert (await scrape(sidecar.metrics)).total("llm_sidecar_spans_exported_total") == 0
            begun = monotonic()
            assert await sidecar.program.stop() == 0
            assert monotonic() - begun < STOP_SECONDS
    for exchange in EXCHANGES:
        assert answers[exchange.id].body == exchange.body
    assert median(delays(player, answers)) < 0.1
    assert slowest < 2


async def test_the_end_does_not_wait_for_a_collector_that_hangs() -> None:
    exchange: Exchange = EXCHANGES[0]
    player = Player()
    player.add([exchange])
    with bad_collector("hang") as url:
        environment = ENVIRONMENT | {"OTEL_EXPORTER_OTLP_TIMEOUT": "600"}
        options = ("--otel-endpoint", url, "--otel-metrics")
        async with player.serving(), sidecar_run("--upstream", player.url, *options, env=environment) as sidecar:
            await ask(sidecar.proxy, exchange)
            await counted(sidecar.metrics, 1)
            begun = monotonic()
            assert await sidecar.program.stop() == 0
            assert monotonic() - begun < STOP_SECONDS
            assert "1 spans were not exported" in sidecar.program.stderr
