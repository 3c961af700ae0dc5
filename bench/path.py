"""The whole way against what a user would pick instead: no proxy, nginx, Envoy, LiteLLM's proxy with its Prometheus callback.

`python -m bench.path [--seconds S] [--rounds N] [--json]`. The same upstream and clients for all. Each route carries paced
streams (20 at once, about 200 chunks a second: LiteLLM takes no more on a busy machine), saturation with 50 streams, and
short requests on new connections. CPU is that of all processes of a route; for the sidecar its analyzer is counted in,
because LiteLLM's callback, too, is. nginx and Envoy measure nothing: they are the floor.
"""

import argparse
import asyncio
import json
from typing import Any

import httpx

from bench import measuring
from bench.load import Load, many_files
from bench.machine import about
from bench.proxies import KEY, KINDS, NotThere, version
from bench.proxy import goal_row
from bench.results import difference, median_of, ratio, save, table, told

MEASURED = ("direct", "nginx", "envoy", "sidecar", "litellm")
STREAMS, RATE = 20, 200.0
GOALS = {"chunks per second per core, of LiteLLM's": 6.0, "requests per second per core, of LiteLLM's": 5.0}


async def rounds(number: int, seconds: float, kinds: tuple[str, ...]) -> tuple[dict[str, Any], list[str]]:
    """By scenario and kind the medians; and what could not be measured, and why."""
    found: dict[str, dict[str, list[Any]]] = {}
    missing: dict[str, str] = {}
    notes: dict[str, str] = {}
    for turn in range(number):
        for kind in kinds if turn % 2 == 0 else kinds[::-1]:
            if kind in missing:
                continue
            told(f"round {turn + 1} of {number}: {kind}")
            load = Load(authorization=KEY)
            try:
                async with load.serving(), KINDS[kind](load.port) as route:
                    await load.short(route.address, 2, 1.0)
                    for name, row in (
                        ("paced", await measuring.paced(load, route, STREAMS, RATE, seconds)),
                        ("saturated", await measuring.closed(load, route, 50, seconds)),
                        ("short requests", await measuring.short(load, route, 8, seconds)),
                    ):
                        found.setdefault(name, {}).setdefault(kind, []).append(row)
                    if kind == "litellm":
                        notes[kind] = await callback(route.metrics)
            except NotThere as error:
                missing[kind] = str(error)
                told(f"{kind} is left out: {error}")
    results = {name: {kind: with_all_cpu(rows) for kind, rows in by.items()} for name, by in found.items()}
    return results, [*notes.values(), *(f"{kind} was not measured: {why}" for kind, why in missing.items())]


async def callback(metrics: str) -> str:
    """Whether LiteLLM's callback did its work: what it counted, in words."""
    async with httpx.AsyncClient(trust_env=False, headers={"authorization": f"Bearer {KEY}"}) as client:
        text = (await client.get(metrics, timeout=30)).text
    series = sum(line.startswith("litellm_") for line in text.splitlines())
    return f"LiteLLM's Prometheus callback published {series:,} series"


def with_all_cpu(rows: list[measuring.Row]) -> dict[str, Any]:
    """The medians, and how many a second one core would carry."""
    row = median_of(rows)
    used = row["cpu_us"] + row["aside_us"]
    return row | {"all_cpu_us": round(used, 2), "per_core": round(1e6 / used) if used else None}


def verdicts(results: dict[str, Any]) -> list[tuple[str, str, float | None, float, bool | None]]:
    """Goal by goal; there is nothing to say where LiteLLM was not measured."""
    if "litellm" not in results["paced"]:
        return []
    found: list[tuple[str, str, float | None, float, bool | None]] = []
    chunks, requests = GOALS
    for what, name in ((chunks, "paced"), (chunks, "saturated"), (requests, "short requests")):
        value = ratio(results[name]["sidecar"]["per_core"], results[name]["litellm"]["per_core"])
        found.append((what, name, value, GOALS[what], None if value is None else value >= GOALS[what]))
    return found


def tables(results: dict[str, Any]) -> str:
    """All there is to see."""
    head: tuple[str, ...] = (
        "scenario",
        "route",
        "CPU µs",
        "of it analyzer",
        "per second per core",
        "per second",
        "p50 ms added",
    )
    head += ("p99 ms added", "first token p50 ms added", "load busy")
    rows = []
    for name, kinds in results.items():
        none = kinds["direct"]
        for kind, row in kinds.items():
            if kind == "direct":
                rows.append((name, kind, *[None] * 3, row["per_second"], *[None] * 3, row["load_busy"]))
                continue
            added = ["p50_ms", "p99_ms", "first_p50_ms"] if name != "saturated" else []
            times = [difference(row.get(key), none.get(key)) for key in added] + [None] * (3 - len(added))
            cost = (row["all_cpu_us"], row["aside_us"] or None, row["per_core"], row["per_second"])
            rows.append((name, kind, *cost, *times, row["load_busy"]))
    judged = [goal_row(row) for row in verdicts(results)]
    goals = table(("goal", "where", "found", "at least", "reached"), judged) if judged else ""
    return f"{table(head, rows)}\n\n{goals}".strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--routes", nargs="*", choices=MEASURED, default=MEASURED)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    many_files()
    kinds = tuple(kind for kind in MEASURED if kind in asked.routes or kind == "direct")
    results, missing = asyncio.run(rounds(asked.rounds, asked.seconds, kinds))
    versions = [said for kind in kinds if kind in results["paced"] and (said := version(kind))]
    command = f"python -m bench.path --seconds {asked.seconds:g} --rounds {asked.rounds}"
    save("path", results, command, [*versions, *missing])
    print(json.dumps({"about": about(), "results": results}, indent=1) if asked.json else tables(results))


if __name__ == "__main__":
    main()
