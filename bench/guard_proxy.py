"""The second guard for CI: CPU of `sidecar run` as a multiple of plain mitmdump's, per chunk at saturation and per request.

`python -m bench.guard_proxy [--update]`. Both run at once on one core and take turns of a second; what counts is the best
turn of each. It fails where a multiple is more than 30 % above what is in bench/guard_proxy.json.
"""

import argparse
import asyncio
from pathlib import Path

from bench import measuring
from bench.guard import judge
from bench.load import Load, many_files
from bench.proxies import Route, mitmdump, sidecar

REFERENCE = Path(__file__).with_suffix(".json")
ROUNDS = 6
SECONDS = 1.0
STREAMS = 20
AT_ONCE = 8


async def ratios(*arguments: str, rounds: int = ROUNDS) -> dict[str, float]:
    """The multiples; `arguments` are further ones of `sidecar run`."""
    many_files()
    load = Load()
    async with load.serving(), mitmdump(load.port) as plain, sidecar(load.port, *arguments) as ours:
        chunks: dict[str, list[float]] = {}
        requests: dict[str, list[float]] = {}
        for route in (plain, ours):
            await load.short(route.address, 2, 0.5)
        for _ in range(rounds):
            for route in (plain, ours):
                chunks.setdefault(route.kind, []).append(await _chunk(load, route))
                requests.setdefault(route.kind, []).append(await _request(load, route))
    assert not load.broken, f"{load.broken} connections broke"
    return {
        what: round(min(by["sidecar"]) / min(by["mitmdump"]), 3)
        for what, by in (("chunk", chunks), ("request", requests))
    }


async def _chunk(load: Load, route: Route) -> float:
    row = await measuring.closed(load, route, STREAMS, SECONDS)
    return row["cpu_us"] or 0.0


async def _request(load: Load, route: Route) -> float:
    row = await measuring.short(load, route, AT_ONCE, SECONDS)
    return row["cpu_us"] or 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--update", action="store_true")
    asked = parser.parse_args()
    judge(asyncio.run(ratios()), REFERENCE, ("per", "of mitmdump's CPU"), update=asked.update)


if __name__ == "__main__":
    main()
