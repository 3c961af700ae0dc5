"""Real proxies between a paced upstream and the sidecar: its verdict is what the emission log says."""

from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate

import pytest

from tests.live.exchanges import Exchange, chat, chat_events
from tests.live.player import Player
from tests.live.processes import sidecar_run
from tests.live.raw_client import ask
from tests.live.relays import relay
from tests.live.scrape import streams, wait_until
from tests.stream.emissions import truth

TOKENS = 120
EVERY = 0.015

HOPS = [
    ("nginx", "proxy_buffering off;", {"none"}),
    ("nginx", "proxy_buffering on;", {"coalesced"}),
    ("nginx", "gzip on; gzip_types text/event-stream; gzip_min_length 0; gzip_proxied any;", {"buffered", "coalesced"}),
    ("haproxy", "option http-no-delay", {"none"}),
    ("haproxy", "", {"none", "coalesced"}),
    ("node", "false", {"none"}),
    ("node", "true", {"buffered"}),
]
"""A proxy, its options, and what it is known to do; which of it happened, the logs of the run say."""


def paced() -> Exchange:
    events = chat_events({"role": "assistant", "content": ""}, *({"content": f" word{n}"} for n in range(TOKENS)))
    exchange = chat("paced", events, every=EVERY)
    return replace(exchange, request_headers=(*exchange.request_headers, ("accept-encoding", "gzip")))


@pytest.mark.parametrize(("kind", "options", "known"), HOPS, ids=[f"{kind} {options}" for kind, options, _ in HOPS])
async def test_the_verdict_is_what_the_emission_log_says(kind: str, options: str, known: set[str]) -> None:
    player = Player()
    exchange = paced()
    player.add([exchange])
    async with (
        player.serving(),
        relay(kind, options, f"127.0.0.1:{player.port}") as url,
        sidecar_run("--upstream", url) as sidecar,
    ):
        answer = await ask(sidecar.proxy, exchange)
        (row,) = await wait_until(lambda: _recent(sidecar.metrics))
    assert answer.ending == "eof"
    if "gzip" in options:
        assert row["buffering"] in known  # the client's log has compressed bytes: which events they are, it cannot say
        return
    emitted = [piece.before / 1e6 for piece in player.play("paced").pieces]
    verdict, borderline = truth(emitted, _arrivals(answer.arrived, exchange))
    assert verdict in known or borderline
    assert row["buffering"] == verdict or borderline


async def _recent(metrics: str) -> list[dict[str, object]]:
    recent: list[dict[str, object]] = (await streams(metrics))["recent"]
    return recent


def _arrivals(arrived: Callable[[int], int], exchange: Exchange) -> list[float]:
    """Milliseconds by event."""
    return [arrived(size) / 1e6 for size in accumulate(len(piece.data) for piece in exchange.pieces)]
