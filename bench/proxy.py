"""What `sidecar run` costs against plain `mitmdump` that only streams, and against no proxy at all, in one run.

`python -m bench.proxy [--seconds S] [--rounds N] [--json]`. Paced streams (1, 50, 200, 1,000 at once; about 1,000 chunks a
second among them, 100 where there is one), saturation, full speed, short requests on new connections, and the callable by
itself. The kinds take turns, N times; each figure is the median of the rounds. CPU is that of the proxy's process alone;
what the analyzer needs is told beside it. Latency is from the upstream's write to the client's read; what is "added" is
that less what it is without a proxy.
"""

import argparse
import asyncio
import json
import statistics
from time import perf_counter_ns
from typing import Any

from bench import measuring
from bench.load import Load, many_files
from bench.machine import about
from bench.proxies import KINDS, Route
from bench.results import difference, median_of, percentile, ratio, save, table, told
from sidecar.capture.capture import Capture
from sidecar.capture.outbox import Outbox
from sidecar.capture.records import Opened
from tests.live.scrape import scrape

MEASURED = ("direct", "mitmdump", "sidecar")
STREAMS = (1, 50, 200, 1000)
RATE = 1000.0
RATE_OF_ONE = 100.0
GOALS = {"cpu per chunk": 0.85, "cpu per request": 0.45, "p99 latency added": 0.5}
CALLABLE_GOALS = {"p50_us": 2.0, "p99_us": 4.0}


async def rounds(number: int, seconds: float) -> dict[str, dict[str, Any]]:
    """By scenario and kind the medians of so many rounds."""
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    tee: list[dict[str, float]] = []
    for turn in range(number):
        kinds = MEASURED if turn % 2 == 0 else MEASURED[::-1]
        for kind in kinds:
            told(f"round {turn + 1} of {number}: {kind}")
            load = Load()
            async with load.serving(), KINDS[kind](load.port) as route:
                await load.short(route.address, 2, 0.3)  # everything imported, everything allocated
                for name, row in (await one(load, route, seconds)).items():
                    found.setdefault(name, {}).setdefault(kind, []).append(row)
                if route.metrics:
                    tee.append(await tee_times(route.metrics))
            assert not load.broken, f"{load.broken} connections through {kind} broke"
    results: dict[str, dict[str, Any]] = {
        name: {kind: median_of(rows) for kind, rows in by_kind.items()} for name, by_kind in found.items()
    }
    results["callable"] = {"alone": callable_alone(), "in the proxy": median_of(tee)}
    return results


async def one(load: Load, route: Route, seconds: float) -> dict[str, measuring.Row]:
    """One kind through all scenarios."""
    rows = {}
    for number in STREAMS:
        rows[f"{number} paced"] = await measuring.paced(
            load, route, number, RATE if number > 1 else RATE_OF_ONE, seconds
        )
    rows["saturated"] = await measuring.closed(load, route, 50, seconds)
    rows["full speed"] = await measuring.flood(load, route, 8, seconds)
    rows["short requests"] = await measuring.short(load, route, 8, seconds)
    return rows


async def tee_times(metrics: str) -> dict[str, float]:
    """What the proxy says of its own callable: the shares of sampled calls below bounds, while the machine is loaded."""
    await asyncio.sleep(1.5)  # it tells once a second
    samples = await scrape(metrics, "llm_sidecar_tee_seconds")
    calls = samples.total("llm_sidecar_tee_seconds_count")
    found = {"calls": calls, "mean_us": samples.total("llm_sidecar_tee_seconds_sum") / calls * 1e6}
    for label, bound in (("under_2_us", 2e-6), ("under_4_us", 4e-6)):
        counts = samples.by("llm_sidecar_tee_seconds_bucket", "le")
        found[label] = (
            sum(count for le, count in counts.items() if le != "+Inf" and abs(float(le) - bound) < 1e-9) / calls
        )
    return found


def callable_alone(calls: int = 200_000) -> dict[str, float]:
    """The callable by itself, each call timed; what the reading of the clock takes is taken off."""
    outbox = Outbox()
    opened = Opened(1, 1, "id", 1, "POST", "https", "host", 443, "/v1/chat/completions", "HTTP/1.1", [])
    tap = Capture(outbox).open(opened, held=False)
    data = b'data: {"choices":[{"index":0,"delta":{"content":"word"}}]}\n\n'
    idle = []
    for _ in range(20_000):
        begun = perf_counter_ns()
        idle.append(perf_counter_ns() - begun)
    clock = statistics.median(idle)
    took = []
    for call in range(calls):
        begun = perf_counter_ns()
        tap.response_chunk(data)
        took.append(perf_counter_ns() - begun)
        if call % 64 == 0:
            outbox.take(1 << 30)
    values = {name: percentile(took, share) for name, share in (("p50_us", 0.5), ("p99_us", 0.99), ("p999_us", 0.999))}
    return {name: round(max((value or 0) - clock, 0) / 1000, 2) for name, value in values.items()}


def verdicts(results: dict[str, Any]) -> list[tuple[str, str, float | None, float, bool | None]]:
    """Goal by goal: what, where, the figure, the goal, and whether it is reached."""
    found: list[tuple[str, str, float | None, float, bool | None]] = []

    def judge(what: str, where: str, value: float | None, goal: float) -> None:
        found.append((what, where, value, goal, None if value is None else value <= goal))

    for name, kinds in results.items():
        if name == "callable":
            continue
        mine, plain, none = (kinds[kind] for kind in ("sidecar", "mitmdump", "direct"))
        what = "cpu per request" if name == "short requests" else "cpu per chunk"
        judge(f"{what}, of mitmdump's", name, ratio(mine["cpu_us"], plain["cpu_us"]), GOALS[what])
        if name not in ("saturated", "full speed"):  # there the load sends as fast as it is let: no latency of a chunk
            added = [difference(row["p99_ms"], none["p99_ms"]) for row in (mine, plain)]
            judge("p99 latency added, of mitmdump's", name, ratio(*added), GOALS["p99 latency added"])
    for label, goal in CALLABLE_GOALS.items():
        judge("callable, µs", label.removesuffix("_us"), results["callable"]["alone"][label], goal)
    return found


def tables(results: dict[str, Any]) -> str:
    """All there is to see."""
    head: tuple[str, ...] = (
        "scenario",
        "proxy",
        "CPU µs",
        "analyzer µs",
        "per second",
        "p50 ms",
        "p99 ms",
        "p99.9 ms",
        "added p99 ms",
    )
    head += ("first token p50 ms", "p99 ms", "load busy")
    rows = []
    for name, kinds in results.items():
        if name == "callable":
            continue
        for kind, row in kinds.items():
            added = None if kind == "direct" else difference(row["p99_ms"], kinds["direct"]["p99_ms"])
            cost = (None, None) if kind == "direct" else (row["cpu_us"], row["aside_us"] or None)
            first = (row.get("first_p50_ms"), row.get("first_p99_ms"))
            latency = (row["p50_ms"], row["p99_ms"], row["p999_ms"], added)
            rows.append((name, kind, *cost, row["per_second"], *latency, *first, row["load_busy"]))
    alone, inside = results["callable"]["alone"], results["callable"]["in the proxy"]
    shares = f"{inside['under_2_us']:.1%} within 2 µs, {inside['under_4_us']:.1%} within 4 µs"
    return "\n".join(
        [
            table(head, rows),
            "",
            f"The callable alone: {alone['p50_us']} µs at the median, {alone['p99_us']} at p99, {alone['p999_us']} at "
            f"p99.9. In the proxy, sampled and with a clock reading more: {shares}.",
            "",
            table(("goal", "where", "found", "at most", "reached"), (goal_row(row) for row in verdicts(results))),
        ]
    )


def goal_row(row: tuple[str, str, float | None, float, bool | None]) -> tuple[Any, ...]:
    """One line of a table of goals."""
    *rest, reached = row
    return (*rest, {True: "yes", False: "**no**", None: "not known"}[reached])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    many_files()
    results = asyncio.run(rounds(asked.rounds, asked.seconds))
    save("proxy", results, f"python -m bench.proxy --seconds {asked.seconds:g} --rounds {asked.rounds}")
    if asked.json:
        print(json.dumps({"about": about(), "results": results}, indent=1))
        return
    print(about(), tables(results), sep="\n\n")


if __name__ == "__main__":
    main()
