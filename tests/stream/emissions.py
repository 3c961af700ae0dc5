"""Synthetic streams of which the emission times are known, through hops that hold them back, and what is true of them.

All times are milliseconds since the request. Everything follows from the seed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, exp, floor
from random import Random
from statistics import median

from sidecar.stream.buffering import Verdict

CLOSING = 3  # finish reason, usage, terminator: emitted with the last token
_MSS = 1448


@dataclass(frozen=True)
class Event:
    """One event: when the origin wrote it, whether it carried output, its bytes."""

    at: float
    output: bool
    size: int


@dataclass(frozen=True)
class Delivered:
    """One stream at both ends of its path. `verdict` is None where the definitions name none."""

    name: str
    events: tuple[Event, ...]
    arrived: tuple[float, ...]
    tokens: int
    verdict: Verdict | None
    borderline: bool


type Hop = Callable[[Random, Sequence[Event]], list[float]]


def passing(latency: float) -> Hop:
    """Passes every event on, in order, with some jitter."""

    def arrivals(random: Random, events: Sequence[Event]) -> list[float]:
        last = 0.0
        times = []
        for event in events:
            last = max(last, event.at + latency + random.lognormvariate(-1, 0.8))
            times.append(last)
        return times

    return arrivals


def flushing_every(size: int) -> Hop:
    """Holds bytes until its buffer of `size` is full; an event arrives with its last byte."""

    def arrivals(random: Random, events: Sequence[Event]) -> list[float]:
        times: list[float] = []
        waiting: list[int] = []  # ends of the events that wait, in bytes of the stream
        written = 0
        for event in events:
            written += event.size
            waiting.append(written)
            flushed = written - written % size
            while waiting and waiting[0] <= flushed:
                del waiting[0]
                times.append(event.at + 0.5)
        return times + [events[-1].at + 1.0] * len(waiting)

    return arrivals


def ticking(period: float) -> Hop:
    """Flushes by the clock, and at the end."""

    def arrivals(random: Random, events: Sequence[Event]) -> list[float]:
        phase = random.uniform(0, period)
        end = events[-1].at + 0.5
        return [min((floor((event.at - phase) / period) + 1) * period + phase, end) for event in events]

    return arrivals


def collecting(passed: int) -> Hop:
    """Collects the stream and sends it when it is over; the first `passed` events get through."""

    def arrivals(random: Random, events: Sequence[Event]) -> list[float]:
        end = events[-1].at + random.uniform(0.5, 8)
        return [event.at + 1.0 for event in events[:passed]] + [end] * (len(events) - passed)

    return arrivals


HOPS: dict[str, Hop] = {
    "direct": passing(0),
    "far away": passing(120),
    "very far away": passing(300),
    "1 KiB": flushing_every(1024),
    "4 KiB": flushing_every(4096),
    "8 KiB": flushing_every(8192),
    "16 KiB": flushing_every(16384),
    "64 KiB": flushing_every(65536),
    "40 ms": ticking(40),
    "200 ms": ticking(200),
    "500 ms": ticking(500),
    "whole": collecting(0),
    "whole but for the first": collecting(1),
}


def stream(seed: int) -> Delivered:
    """The stream of this seed."""
    random = Random(seed)
    hop = random.choice(list(HOPS))
    events, tokens = _emitted(random)
    arrived = _in_segments(random, HOPS[hop](random, events), [event.size for event in events])
    verdict, borderline = truth([event.at for event in events], arrived)
    return Delivered(f"{seed}, {hop}", tuple(events), tuple(arrived), tokens, verdict, borderline)


def _emitted(random: Random) -> tuple[list[Event], int]:
    """A model at 5 to 1000 tokens a second, in a rhythm of its own, or a cache that has the answer ready."""
    speed = random.choice((5, 8, 15, 20, 30, 50, 80, 100, 150, 200, 300, 500, 700, 1000))
    per_event = random.choice((1, 1, 1, 1, 2, 6))
    count = max(1, min(600, int(speed / per_event * random.choice((0.2, 0.5, 1, 2, 4, 8)))))
    gap = 1000 / speed * per_event
    rhythm = random.choice(("even", "jitter", "lognormal", "poisson", "pause", "speeds up"))
    pause = random.randrange(count) if rhythm == "pause" else 0
    at: float = random.choice((2, 50, 200, 250, 400, 800, 1500)) + random.choice((0, 0, 0, 1500, 5000))
    if random.random() < 0.05:
        gap, at, pause = 0.02, random.choice((5, 30, 100)), 0
    opening: float = at
    times: list[float] = []
    for number in range(count):
        step = {
            "jitter": random.uniform(0.5, 1.5),
            "lognormal": exp(random.gauss(-0.125, 0.5)),
            "poisson": random.expovariate(1),
            "speeds up": 1.6 - 1.2 * number / count,
        }.get(rhythm, random.uniform(0.9, 1.1))
        if number:
            at += gap * step + (random.choice((300, 1000, 3000)) if number == pause else 0)
        times.append(at)
    size = [random.randrange(150, 230) for _ in range(count + CLOSING + 1)]
    events = [Event(opening, False, size[-1])] if random.random() < 0.6 else []
    events += [Event(at, True, size[number]) for number, at in enumerate(times)]
    return events + [Event(at, False, size[count + number]) for number in range(CLOSING)], count * per_event


def _in_segments(random: Random, times: list[float], sizes: list[int]) -> list[float]:
    """What one flush holds, in segments a fraction of a millisecond apart, as over a real link."""
    if random.random() < 0.7:
        return times
    arrived: list[float] = []
    flushed, pending, late = -1.0, 0, 0.0
    for at, size in zip(times, sizes, strict=True):
        if at != flushed:
            flushed, pending, late = at, 0, 0.0
        pending += size
        if pending > _MSS:
            pending = 0
            late += random.uniform(0.02, 0.4)
        arrived.append(max(at + late, arrived[-1] if arrived else 0.0))
    return arrived


def truth(emitted: Sequence[float], arrived: Sequence[float]) -> tuple[Verdict | None, bool]:
    """The verdict by definition, from both logs, and whether another one is close by or the wire cannot tell."""
    events = len(emitted)
    produced = emitted[-1] - emitted[0]
    if events < 5 or produced < 50:
        return "inconclusive", produced > 40 or arrived[0] > 300
    burst_share = sum(at >= arrived[-1] - max(20, 0.02 * (arrived[-1] - arrived[0])) for at in arrived) / events
    close = produced < 62 or 0.85 < burst_share < 0.95
    if burst_share > 0.9:
        return ("buffered", close or produced < 360) if produced >= 300 else ("inconclusive", True)
    delays = [came - went for went, came in zip(emitted, arrived, strict=True)]
    delay = sorted(each - min(delays) for each in delays)[ceil(0.95 * events) - 1]
    limit = max(20, median(after - before for before, after in pairwise(emitted) if after > before))
    close = close or 0.75 * limit < delay < 1.3 * limit
    groups = _groups(emitted, arrived)
    in_groups = len(groups) >= 2 and sum(groups) >= events / 2
    if delay < limit:
        return "none", close or in_groups
    return ("coalesced", close) if in_groups else (None, True)


def _groups(emitted: Sequence[float], arrived: Sequence[float]) -> list[int]:
    """Sizes of the groups: four or more events, emitted at three or more times, that arrived within a millisecond."""
    groups: list[tuple[float, list[float]]] = []
    for went, came in zip(emitted, arrived, strict=True):
        if groups and came - groups[-1][0] <= 1:
            groups[-1][1].append(went)
        else:
            groups.append((came, [went]))
    return [len(times) for _, times in groups if len(times) >= 4 and len(set(times)) >= 3]
