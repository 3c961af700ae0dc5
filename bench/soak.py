"""A long load through the real proxy: that neither proxy nor analyzer grows with the exchanges that have been.

`python -m bench.soak [--exchanges N] [--streams M] [--seconds S] [--json]`. First N short streams over kept connections,
resident memory and descriptors of both processes read at twenty points; then M slow streams at once, one event a second
for S seconds, three times: what a stream in flight costs, and that it is given back. Growth is counted from the third point on
(a tenth into the load), when buffers, code and bounded tables have their size. `--exchanges 200000` is the long form.
"""

import argparse
import asyncio
import json
import platform
import resource
import sys
from dataclasses import asdict

from tests.live.processes import sidecar_run
from tests.live.scrape import scrape, wait_until
from tests.live.soaking import Load, Point, upstream

POINTS = 20
ROUNDS = 3
_WARM = 2  # points


def growth(points: list[Point], which: str) -> dict[str, float]:
    """MiB when warm, at half and at the end, and the second half's growth as a share of what there was when warm."""
    warm, half, end = (float(getattr(points[at], which)) for at in (_WARM, len(points) // 2, -1))
    return {"warm": warm, "half": half, "end": end, "second_half": round((end - half) / warm, 4)}


async def measure(exchanges: int, streams: int, seconds: int) -> dict[str, object]:
    """Both loads, one after the other."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    needed = 2 * streams + 200
    if hard < needed:
        sys.exit(f"{streams} streams need {needed} descriptors in the proxy, the limit is {hard}: raise ulimit -Hn")
    release = asyncio.Event()
    async with upstream(release) as url, sidecar_run("--upstream", url) as sidecar:
        load = Load(sidecar)
        load.look()
        for _ in range(POINTS):
            await load.short(exchanges // POINTS)
            load.look()
        short = list(load.points)
        rounds = []
        for _ in range(ROUNDS if streams else 0):
            before = load.look()
            peak = await load.slow(streams, seconds, release)
            await asyncio.sleep(2)
            after = load.look()
            rounds.append({"before": asdict(before), "peak": asdict(peak), "after": asdict(after)})

        async def judged() -> bool:
            return (await scrape(sidecar.metrics)).total("llm_streams_total") >= load.done

        await wait_until(judged)
        samples = await scrape(sidecar.metrics)
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "exchanges": exchanges,
        "seconds": short[-1].at,
        "exchanges_per_second": round(exchanges / short[-1].at),
        "growth_mib": {which: growth(short, which) for which in ("proxy", "analyzer")},
        "points": [asdict(point) for point in short],
        "streams": streams,
        "streams_broken": load.broken,
        "rounds": rounds,
        "outcomes": samples.by("llm_streams_total", "outcome"),
        "records_dropped": samples.total("llm_sidecar_records_dropped_total"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--exchanges", type=int, default=10_000)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--seconds", type=int, default=10, help="for which all slow streams are open")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    if asked.exchanges < POINTS:
        parser.error(f"--exchanges is {asked.exchanges}, at least {POINTS} are needed for a figure")
    found = asyncio.run(measure(asked.exchanges, asked.streams, asked.seconds))
    if asked.json:
        json.dump(found, sys.stdout, indent=1)
        return
    _show(found)


def _show(found: dict[str, object]) -> None:
    points, rounds = found.pop("points"), found.pop("rounds")
    assert isinstance(points, list)
    assert isinstance(rounds, list)
    print("seconds  exchanges   open  proxy MiB  analyzer MiB  proxy fds  analyzer fds")
    shown = [*points, *(point for each in rounds for point in each.values())]
    for point in shown:
        print(
            f"{point['at']:7.0f} {point['done']:10} {point['open']:6} {point['proxy']:10.1f} {point['analyzer']:13.1f}"
            f" {point['proxy_files']:10} {point['analyzer_files']:13}"
        )
    for name, value in found.items():
        print(f"{name:21} {value}")


if __name__ == "__main__":
    main()
