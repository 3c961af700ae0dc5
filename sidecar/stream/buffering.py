"""Whether something on the path held a stream back, judged from when its events arrived.

An observer does not see when the model produced an event. It sees when events arrived, and knows that a model does not
emit a hundred tokens in a millisecond. A *group* is what arrived in one read or within 1 ms; a *clump* is a group of
four or more events, at least three of them produced one after the other. Events without output (the opening ones, the
finish reason, usage, the terminator) are emitted together with a neighbour, and so are the choices of one step: they
prove nothing. Heartbeats are not events. The *pace* is the typical time per event, read off the stream itself: the
weighted median, over its groups, of the time since the group before divided by the events that came in it.

The rules, the first that applies:

1. `inconclusive`: no stream, no times, telemetry lost, or fewer than 5 events.
2. The stream came as *one burst*: more than 90 % of its events in the larger of 20 ms and 2 % of its span, counted back
   from the last event, and faster than 2500 events a second or mostly in one clump: not produced while it arrived.
   - `buffered` if events before the burst show that the stream lasted 300 ms or more. Without such events the burst
     must have come late: 300 ms after the request, plus the time that we grant for a first token. That is 200 ms for an
     answer of up to 60 tokens. To produce a longer one in the last 300 ms took a faster model, which starts faster,
     too: the grant shrinks in proportion (100 ms for 120 tokens, 50 ms for 240).
   - `inconclusive` otherwise: it might have been produced in less than 300 ms, by a fast model or a cache. So is a
     burst of which the response says that it came from a cache (`x-cache: HIT`).
3. `inconclusive`: less than 50 ms from the first event to the last. (But `coalesced` if that was too fast for a model,
   in two or more clumps, and as late as in rule 2.)
4. The added delay is estimated: the events of a group of three or more were produced evenly between the group before
   and this one, but no slower than at half the stream's pace; what took longer was a pause of the model. (Pieces of one
   flush that follow each other faster than 2500 events a second, within 20 ms, are one group here.) `none` if no more
   than 5 % of the events were so delayed by the larger of 20 ms and one pace.
5. `coalesced`: two or more clumps hold half of the events. (But `inconclusive` if the first of them came too soon to
   be new, faster than 1000 events a second counted from the request, and twice as fast as the pace: it had been ready.)
6. `none` if no more than 20 % of the events were delayed: few bunches without clumps may be the model's own rhythm.
7. `inconclusive`: events were held back, but not in clumps.

Content coding, content-length, read sizes and the proxies' headers decide nothing; they are named as evidence, since
they tell where to look.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, pairwise
from math import ceil, inf
from typing import Literal

import msgspec

from sidecar.stream.arrivals import GROUP_NS, Arrivals
from sidecar.stream.gaps import Gaps

Verdict = Literal["none", "coalesced", "buffered", "inconclusive"]
type Found = dict[str, float | int | str | bool]

MIN_EVENTS = 5
MIN_SPAN = 50.0
"""Milliseconds from the first event to the last."""
BURST_WINDOW = 20.0
"""Milliseconds; or `BURST_WINDOW_SHARE` of the span, where that is more."""
BURST_WINDOW_SHARE = 0.02
BURST_SHARE = 0.9
BUFFERED_FROM = 300.0
"""Milliseconds that a stream must have taken to be produced for one burst to be called buffered."""
FIRST_TOKEN_GRANT = 200.0
"""Milliseconds granted for a first token, up to `GRANTED_TOKENS` tokens."""
GRANTED_TOKENS = 60
FASTEST = 2.5
"""Events per millisecond that no model exceeds."""
FAST = 1.0
"""Events per millisecond that a fast model reaches."""
DELAY_LIMIT = 20.0
"""Milliseconds of added delay that are none; or one pace, where that is more."""
DELAYED_SHARE = 0.05
BUNCHED_SHARE = 0.2
"""The same where the events do not come in clumps."""
SLOWER = 2.0
"""How much slower than its pace a stream may have been for a while: what took longer was a pause."""
CLUMP_EVENTS = 4
CLUMP_STEPS = 3
CLUMPED_SHARE = 0.5

_KIB = 1024
_CLOSING_EVENTS = 3  # finish reason, usage, terminator: assumed where it is not known which events carry output
_HEADER_CHARS = 64


class Buffering(msgspec.Struct, frozen=True):
    """A verdict and the figures it rests on.

    Of the evidence, `why` is a short phrase. `events`, `reads`, `events_per_read`, `arrival_groups`; `burst_share` (of
    the events, in the last burst); `share_below_1ms` (of the events, that came within 1 ms of the first of their
    group); `clumped_share` and `delayed_share` (of the events); `first_event_ms` and `span_ms` (from the request to the
    first event and from there to the last); `pace_ms` (estimated, per event). Present only where they tell something:
    `modal_read_size` (bytes; most reads had the size of a proxy's buffer), `content_coding`, `content_length`
    (a stream with one: some hop had it all), and of a stream that was held back `x_accel_buffering` (`missing` or the
    value), `server`, `via`.
    """

    verdict: Verdict
    evidence: Found


class Circumstances(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a stream besides its arrivals. Times are nanoseconds of the same clock."""

    t0: int | None = None
    streamed: bool = True
    timed: bool = True
    """Whether the reads are those of the wire."""
    lost: bool = False
    headers: Mapping[str, str] = {}
    """Of the response, by lower-case name."""
    outputs: int = 0
    """Events that carried output; 0 where that is not known."""
    first_output_at: int | None = None
    last_output_at: int | None = None
    gaps: Gaps | None = None
    """Between those events."""
    output_tokens: int | None = None
    """As reported."""
    choices: int = 1
    """Answers produced side by side, each with its own events."""


class _Group(msgspec.Struct, gc=False):
    at: float  # milliseconds since the first event
    events: int
    steps: int  # events that were produced one after the other


def judge(arrivals: Arrivals | None, known: Circumstances) -> Buffering:
    """The verdict on one stream that is over, or as far as it came."""
    events = arrivals.events if arrivals is not None else 0
    unfit = _unfit(arrivals, known)
    if unfit or arrivals is None:
        return Buffering("inconclusive", {"why": unfit, "events": events})
    found = _figures(arrivals, known)
    verdict, why = _decide(arrivals, known, found)
    if verdict in ("coalesced", "buffered"):
        found |= _whereabouts(known.headers)
    return Buffering(verdict, {"why": why, **found})


def _unfit(arrivals: Arrivals | None, known: Circumstances) -> str:
    """Why there is nothing to judge; empty if there is."""
    if known.lost:
        return "telemetry of the stream was dropped"
    if not known.streamed or arrivals is None:
        return "no stream: a whole body or none"
    if not known.timed:
        return "recorded without times"
    return "" if arrivals.events >= MIN_EVENTS else f"fewer than {MIN_EVENTS} events"


def _decide(arrivals: Arrivals, known: Circumstances, found: Found) -> tuple[Verdict, str]:
    """Verdict and why; the figures it took go to `found`."""
    groups = _groups(arrivals, known)
    listed = sum(group.events for group in groups)
    clumps = [group for group in groups if group.events >= CLUMP_EVENTS and group.steps >= CLUMP_STEPS]
    clumped = sum(group.events for group in clumps) / listed
    span = groups[-1].at if arrivals.complete else arrivals.span / 1e6
    burst = _last_burst(arrivals, groups, span)
    share = sum(group.events for group in burst) / arrivals.events
    found |= {"burst_share": round(share, 3), "clumped_share": round(clumped, 3)}
    if share > BURST_SHARE and _too_fast_to_be_live(burst):
        return _one_burst(arrivals, known, span)
    in_clumps = len(clumps) > 1 and clumped >= CLUMPED_SHARE
    coalesced = f"{len(clumps)} clumps hold {clumped:.0%} of the events"
    if span < MIN_SPAN:
        if in_clumps and _too_fast_to_be_live(groups) and _one_burst(arrivals, known, span)[0] == "buffered":
            return "coalesced", coalesced
        return "inconclusive", f"less than {MIN_SPAN:.0f} ms from the first event to the last"
    flushes = _flushes(groups)
    pace = _pace(flushes)
    limit = max(DELAY_LIMIT, pace)
    held_back = [(flush, since) for flush, since in _with_gaps(flushes) if flush.steps >= CLUMP_STEPS]
    delayed = sum(_delayed(flush, since, pace, limit) for flush, since in held_back) / listed
    found |= {"pace_ms": round(pace, 3), "delayed_share": round(delayed, 3)}
    if delayed <= DELAYED_SHARE:
        return "none", "events came at the pace of the stream"
    if in_clumps:
        if known.t0 is not None and _was_ready(flushes[0], pace, (arrivals.first - known.t0) / 1e6):
            return "inconclusive", "the first clump came too soon to be new: from a cache?"
        return "coalesced", coalesced
    if delayed <= BUNCHED_SHARE:
        return "none", "events came at the pace of the stream, but for a few"
    return "inconclusive", "events were held back, but not in clumps"


def _one_burst(arrivals: Arrivals, known: Circumstances, span: float) -> tuple[Verdict, str]:
    if span >= BUFFERED_FROM:
        return "buffered", "after a first few, all events came at once at the end"
    if span >= MIN_SPAN:
        return "inconclusive", f"one burst, perhaps produced in less than {BUFFERED_FROM:.0f} ms"
    if known.t0 is None:
        return "inconclusive", "one burst, and when it was asked for is unknown"
    if known.headers.get("x-cache", "").lower().startswith("hit"):
        return "inconclusive", "one burst, from a cache"
    tokens = max(known.outputs or arrivals.events, known.output_tokens or 0)
    grant = FIRST_TOKEN_GRANT * min(1.0, GRANTED_TOKENS / tokens)
    if (arrivals.first - known.t0) / 1e6 >= BUFFERED_FROM + grant:
        return "buffered", "all events came at once, late after the request"
    return "inconclusive", f"one burst, perhaps produced in less than {BUFFERED_FROM:.0f} ms"


def _groups(arrivals: Arrivals, known: Circumstances) -> list[_Group]:
    """The groups kept, with the steps in each: the events, but for those without output at the start and the end.

    Groups of closing events alone count with the one before.
    """
    groups = [_Group(at, count, count) for at, count in arrivals.listed()]
    if known.gaps is None or known.first_output_at is None or known.last_output_at is None:
        if arrivals.complete:
            _leave_out_closing(groups, _CLOSING_EVENTS)
    else:
        between = known.gaps.milliseconds()
        if arrivals.complete:
            _mark_end(groups, (known.last_output_at - arrivals.first) / 1e6, between)
        if known.gaps.exact:
            _mark_start(groups, (known.first_output_at - arrivals.first) / 1e6, between)
    while len(groups) > 1 and not groups[-1].steps:
        closing = groups.pop()
        groups[-1].events += closing.events
    if known.choices > 1:
        for group in groups:
            group.steps = ceil(group.steps / known.choices)
    return groups


def _leave_out_closing(groups: list[_Group], closing: int) -> None:
    for group in reversed(groups):
        group.steps = max(0, group.events - closing)
        closing -= group.events - group.steps


def _mark_start(groups: list[_Group], first_output: float, gaps: list[float]) -> None:
    for group in groups:
        room = group.at + GROUP_NS / 1e6 - first_output
        group.steps = min(group.steps, _within(gaps, room))
        if room >= 0:
            break


def _mark_end(groups: list[_Group], last_output: float, gaps: list[float]) -> None:
    for group in reversed(groups):
        room = last_output - group.at
        group.steps = min(group.steps, _within(reversed(gaps), room))
        if room >= 0:
            break


def _within(gaps: Iterable[float], room: float) -> int:
    """Of outputs these gaps apart, how many are within `room` (milliseconds) of the first."""
    count = 0
    for gap in chain((0.0,), gaps):
        room -= gap
        if room < 0:
            break
        count += 1
    return count


def _last_burst(arrivals: Arrivals, groups: list[_Group], span: float) -> list[_Group]:
    if not arrivals.complete:
        start, count = arrivals.last_group
        return [_Group((start - arrivals.first) / 1e6, count, count)]
    begin = span - max(BURST_WINDOW, BURST_WINDOW_SHARE * span)
    return [group for group in groups if group.at >= begin]


def _too_fast_to_be_live(groups: list[_Group]) -> bool:
    """Whether no model produced these while they arrived."""
    steps = sum(group.steps for group in groups)
    most = max(group.steps for group in groups)
    return steps - 1 > (groups[-1].at - groups[0].at) * FASTEST or (most >= CLUMP_STEPS and most > steps / 2)


def _flushes(groups: list[_Group]) -> list[_Group]:
    """Groups, the pieces of one flush joined into the first of them, which is changed."""
    flushes: list[_Group] = []
    before = 0.0
    for group in groups:
        at, steps = group.at, group.steps
        since = at - before
        before = at
        if steps >= CLUMP_EVENTS and flushes and steps > since * FASTEST:
            flush = flushes[-1]
            if at - flush.at <= BURST_WINDOW:
                flush.events += group.events
                flush.steps += steps
                continue
        flushes.append(group)
    return flushes


def _with_gaps(flushes: list[_Group]) -> Iterator[tuple[_Group, float]]:
    """Each flush and the milliseconds since the one before; of the first one that is not known."""
    return zip(flushes, chain((inf,), (later.at - flush.at for flush, later in pairwise(flushes))), strict=True)


def _pace(flushes: list[_Group]) -> float:
    """Milliseconds per step: the median over the steps of all flushes but the first."""
    paces = [((later.at - flush.at) / later.steps, later.steps) for flush, later in pairwise(flushes) if later.steps]
    paces.sort()
    half = sum(steps for _, steps in paces) / 2
    seen = 0
    for pace, steps in paces:
        seen += steps
        if seen >= half:
            return pace
    return 0.0


def _was_ready(first: _Group, pace: float, waited: float) -> bool:
    """Whether the first events came sooner after the request than a model produces them, at this pace or fast."""
    return first.steps >= CLUMP_STEPS and first.steps > waited * FAST and first.steps * pace > waited * SLOWER


def _delayed(flush: _Group, since: float, pace: float, limit: float) -> float:
    """Events of one flush delayed by the limit or more. Two at once are no evidence: clocks and queues jitter."""
    taken = flush.steps * pace if since == inf else min(since, flush.steps * pace * SLOWER)
    if flush.steps < CLUMP_STEPS or taken <= limit:
        return 0.0
    late = flush.steps * (1 - limit / taken) + 0.5  # even the last of them waited, for half a step on average
    return int(late) * flush.events / flush.steps


def _figures(arrivals: Arrivals, known: Circumstances) -> Found:
    events, reads = arrivals.events, arrivals.reads
    found: Found = {
        "events": events,
        "reads": reads,
        "events_per_read": round(events / max(reads, 1), 2),
        "arrival_groups": arrivals.groups,
        "share_below_1ms": round((events - arrivals.groups) / (events - 1), 3),
        "span_ms": round(arrivals.span / 1e6, 3),
    }
    if known.t0 is not None:
        found["first_event_ms"] = round((arrivals.first - known.t0) / 1e6, 3)
    size, count = arrivals.modal_size()
    if count > reads / 2 and size >= _KIB and size % _KIB == 0 and (count > 1 or reads == 1):
        found["modal_read_size"] = size
    coding = known.headers.get("content-encoding", "")
    if coding:
        found["content_coding"] = coding[:_HEADER_CHARS]
    if known.headers.get("content-length", "").isdecimal():
        found["content_length"] = True
    return found


def _whereabouts(headers: Mapping[str, str]) -> Found:
    """Headers that say where to look."""
    found: Found = {"x_accel_buffering": headers.get("x-accel-buffering", "missing")[:_HEADER_CHARS]}
    return found | {name: headers[name][:_HEADER_CHARS] for name in ("server", "via") if headers.get(name)}
