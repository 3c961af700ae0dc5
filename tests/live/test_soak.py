"""The short form of bench/soak.py: neither process grows with the exchanges that have been, and all is given back."""

import asyncio

from tests.live.processes import sidecar_run
from tests.live.scrape import counted
from tests.live.soaking import Load, upstream

WARM, EXCHANGES, STREAMS = 500, 2000, 100
_GROWTH_MIB = 2.0
"""By how much a process may grow over EXCHANGES: 1 KiB each. Without a leak it is 0.2 MiB; taps that are kept make 3."""


async def test_exchanges_that_are_over_are_not_kept() -> None:
    release = asyncio.Event()
    async with upstream(release) as url, sidecar_run("--upstream", url) as sidecar:
        load = Load(sidecar)
        await load.slow(STREAMS, 1, release)
        before = load.look()
        await load.short(WARM)
        warm = load.look()
        await load.short(EXCHANGES)
        samples = await counted(sidecar.metrics, STREAMS + WARM + EXCHANGES)
        end = load.look()
    assert samples.by("llm_streams_total", "outcome") == {"complete": STREAMS + WARM + EXCHANGES}
    assert load.broken == 0
    for which in ("proxy", "analyzer"):
        grown = getattr(end, which) - getattr(warm, which)
        assert grown < _GROWTH_MIB, (which, load.points)
        files = getattr(end, f"{which}_files") - getattr(before, f"{which}_files")
        assert files < STREAMS / 2, (which, load.points)
