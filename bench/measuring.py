"""The scenarios that a route is put through, and the figures that come out; bench/proxy.py and bench/path.py share them."""

from collections.abc import Callable
from typing import Any

from bench.load import Load, Window
from bench.machine import cpu
from bench.proxies import Route
from bench.results import milliseconds

PROBE_PAUSE = 0.02

type Row = dict[str, float | None]


class _Used:
    """CPU that a route's processes use from now on, in seconds."""

    def __init__(self, route: Route) -> None:
        self._route = route
        self._before = cpu(route.pids), cpu(route.aside)

    def per(self, number: int) -> Row:
        """Microseconds of it for each of so many."""
        now = cpu(self._route.pids), cpu(self._route.aside)
        mine, aside = (after - before for after, before in zip(now, self._before, strict=True))
        share = 1e6 / max(number, 1)
        return {"cpu_us": round(mine * share, 2), "aside_us": round(aside * share, 2)}


async def paced(load: Load, route: Route, number: int, rate: float, seconds: float) -> Row:
    """So many streams, `rate` chunks a second among them: CPU between their first and last chunks, latency of chunks, and
    the time to the first token of further requests meanwhile."""
    streams = await load.open(route.address, number, "paced", number / rate)
    row = await _window(load, route, seconds)
    probes = await load.probe(route.address, seconds / 2, PROBE_PAUSE)
    await load.close(streams)
    return row | {f"first_{name}": value for name, value in milliseconds(probes).items() if name != "p999_ms"}


async def closed(load: Load, route: Route, number: int, seconds: float) -> Row:
    """Saturation: each stream sends its next chunk as soon as the client has the last, so that each is a read of its own."""
    streams = await load.open(route.address, number, "closed")
    row = await _window(load, route, seconds)
    await load.close(streams)
    return row


async def flood(load: Load, route: Route, number: int, seconds: float) -> Row:
    """Full speed: as many events as are taken, many of them in one read."""
    streams = await load.open(route.address, number, "flood")
    row = await _window(load, route, seconds)
    await load.close(streams)
    return row


async def short(load: Load, route: Route, at_once: int, seconds: float) -> Row:
    """Requests with one event on new connections, always so many at once."""
    used = _Used(route)
    window = await load.short(route.address, at_once, seconds)
    return used.per(window.chunks) | _figures(window)


async def _window(load: Load, route: Route, seconds: float) -> Row:
    used = _Used(route)
    window = await load.measure(seconds)
    return used.per(window.chunks) | _figures(window)


def _figures(window: Window) -> Row:
    return {
        "per_second": round(window.chunks / window.seconds, 1),
        "number": window.chunks,
        **milliseconds(window.latencies),
        "load_busy": round(window.load_busy, 2),
    }


type Scenario = Callable[[Load, Route], Any]
