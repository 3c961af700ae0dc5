"""Buffering verdicts: on recorded arrivals, through the whole pipeline, and on streams whose emission times are known.

`streams.jsonl` holds arrivals behind real proxies, one stream a line; a read is milliseconds since the request, bytes,
events that it completed, and how many of those carried output. `dev.jsonl.gz` holds whole captures. The verdicts in
both come from the origin's emission times, which the judge does not see.
"""

import gzip
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.files.inspect import inspect_file
from sidecar.stream.arrivals import GROUPS_KEPT, Arrivals
from sidecar.stream.buffering import Buffering, Circumstances, judge
from sidecar.stream.gaps import Gaps
from sidecar.stream.summary import Summary
from sidecar.thresholds import QuirkThresholds
from tests.stream.emissions import stream

FIXTURES = Path(__file__).parent.parent / "fixtures" / "buffering"
MS = 1_000_000
T0 = 1_000 * MS

type Read = tuple[float, int, int, int]
"""Milliseconds since the request, bytes, events, events with output."""


def verdict_on(reads: Iterable[Read], *, outputs_known: bool = True, **known: Any) -> Buffering:
    """The judgement on these reads; `known` adds to the circumstances or replaces them."""
    arrivals, gaps, output_at = Arrivals(), Gaps(), list[int]()
    for at_ms, size, events, outputs in reads:
        at = T0 + round(at_ms * MS)
        arrivals.read(size)
        if events:
            arrivals.add(events, at)
        for _ in range(outputs):
            if output_at:
                gaps.add(at - output_at[-1])
            output_at.append(at)
    spoken = {
        "outputs": len(output_at),
        "first_output_at": output_at[0] if output_at else None,
        "last_output_at": output_at[-1] if output_at else None,
        "gaps": gaps,
    }
    return judge(arrivals, Circumstances(**{"t0": T0} | (spoken if outputs_known else {}) | known))


def paced(count: int, every: float, *, start: float = 300.0) -> list[Read]:
    """Role, `count` tokens one by one, and the three closing events with the last of them."""
    reads = [(start, 180, 1, 0), *((start + every * number, 180, 1, 1) for number in range(1, count))]
    return [*reads, (start + every * count, 500, 4, 1)]


def in_one(reads: Iterable[Read], at: float) -> Read:
    """The same as one read."""
    _, sizes, events, outputs = zip(*reads, strict=True)
    return (at, sum(sizes), sum(events), sum(outputs))


def in_clumps(reads: list[Read], of: int) -> list[Read]:
    """The same, `of` reads at a time, each time with the last of them."""
    parts = [reads[begin : begin + of] for begin in range(0, len(reads), of)]
    return [in_one(part, part[-1][0]) for part in parts]


STREAMS = [json.loads(line) for line in (FIXTURES / "streams.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("case", STREAMS, ids=lambda case: case["name"])
def test_behind_real_proxies(case: dict[str, Any]) -> None:
    found = verdict_on(case["reads"], headers=case["headers"], output_tokens=case["output_tokens"])
    assert found.verdict == case["verdict"], found


def test_captures_through_the_pipeline(tmp_path: Path) -> None:
    """All clear traces right, nearly all of the others, and no unbuffered stream ever called buffered."""
    path = tmp_path / "dev.jsonl"
    path.write_bytes(gzip.decompress((FIXTURES / "dev.jsonl.gz").read_bytes()))
    labels = {capture["id"]: capture["label"] for capture in map(json.loads, path.read_text().splitlines())}
    found: dict[str, str] = {}
    for summary in inspect_file(path, QuirkThresholds()):
        assert isinstance(summary, Summary), summary
        found[summary.id] = summary.buffering.verdict
    wrong = {id: (label["verdict"], found[id]) for id, label in labels.items() if found[id] != label["verdict"]}
    assert not {id for id in wrong if not labels[id]["borderline"]}
    assert ("none", "buffered") not in wrong.values()
    assert len(wrong) <= 0.04 * len(labels)


def test_streams_of_known_emission_times() -> None:
    """At 5 to 1000 tokens a second in all rhythms: what is wrong is rare, and is caution."""
    clear: Counter[tuple[str | None, str]] = Counter()
    for seed in range(400):
        made = stream(seed)
        reads = [(at, event.size, 1, int(event.output)) for event, at in zip(made.events, made.arrived, strict=True)]
        found = verdict_on(reads, output_tokens=made.tokens)
        assert (made.verdict, found.verdict) != ("none", "buffered"), made.name
        if not made.borderline:
            clear[made.verdict, found.verdict] += 1
    right = sum(count for (true, judged), count in clear.items() if true == judged)
    assert right >= 0.98 * clear.total(), clear
    assert {judged for true, judged in clear if true != judged} <= {"inconclusive"}, clear


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(1, 30)), min_size=1, max_size=60), st.booleans())
def test_events_of_one_moment_are_the_same_in_one_piece_or_many(steps: list[tuple[int, int]], known: bool) -> None:
    at, whole, pieces = 0, list[Read](), list[Read]()
    for wait, events in steps:
        at += wait
        whole.append((at, 100 * events, events, events))
        pieces += [(at, 100, 1, 1)] * events
    one, other = verdict_on(whole, outputs_known=known), verdict_on(pieces, outputs_known=known)
    assert one.verdict == other.verdict
    assert one.evidence["why"] == other.evidence["why"]


@given(st.lists(st.tuples(st.integers(0, 10**10), st.integers(1, 10**6)), max_size=200))
def test_any_arrivals_are_judged(steps: list[tuple[int, int]]) -> None:
    arrivals = Arrivals()
    for at, count in steps:  # in no order, as in a capture edited by hand
        arrivals.read(count)
        arrivals.add(count, at)
    found = judge(arrivals, Circumstances(t0=5 * 10**9, choices=3))
    assert json.loads(msgspec.json.encode(found))["verdict"] == found.verdict


TEN_A_SECOND = paced(60, 100)


@pytest.mark.parametrize("every", [1, 3.3, 20, 200])
@pytest.mark.parametrize("start", [5, 300, 5000])
def test_a_paced_stream_is_none(every: float, start: float) -> None:
    assert verdict_on(paced(100, every, start=start)).verdict == "none"


def test_a_pause_of_the_model_is_no_buffering() -> None:
    reads = [*paced(40, 20), *((at + 5000, size, events, outputs) for at, size, events, outputs in paced(40, 20))]
    assert verdict_on(reads).verdict == "none"


def test_an_early_role_and_a_short_answer_after_long_thought_is_no_burst() -> None:
    """All tokens fall into the last 2 % of the span, but each came by itself."""
    assert verdict_on([(20, 180, 1, 0), *paced(9, 10, start=6000)[1:]]).verdict == "none"


def test_one_burst_is_buffered_where_it_came_late_for_its_length() -> None:
    def at(ms: float, tokens: int) -> str:
        return verdict_on([in_one(paced(tokens, 1), ms)]).verdict

    assert [at(ms, 20) for ms in (30, 310, 480, 510)] == ["inconclusive"] * 3 + ["buffered"]
    assert [at(ms, 240) for ms in (30, 310, 340, 360)] == ["inconclusive"] * 2 + ["inconclusive", "buffered"]


def test_tokens_in_few_events_count_as_tokens() -> None:
    burst = [in_one(paced(40, 1), 380)]
    assert verdict_on(burst).verdict == "inconclusive"
    assert verdict_on(burst, output_tokens=240).verdict == "buffered"


def test_a_burst_that_a_cache_answered_is_not_buffered() -> None:
    burst = [in_one(paced(40, 20), 900)]
    assert verdict_on(burst).verdict == "buffered"
    assert verdict_on(burst, headers={"x-cache": "Hit from cloudfront"}).verdict == "inconclusive"
    assert verdict_on(burst, headers={"x-cache": "MISS"}).verdict == "buffered"


def test_a_first_event_that_got_through_does_not_hide_the_burst() -> None:
    reads = paced(60, 20)
    assert verdict_on([reads[0], in_one(reads[1:], 1500)]).verdict == "buffered"


def test_a_burst_in_segments_is_one_burst() -> None:
    flushed = [(2500 + number * 0.3, 1448, 8, 8) for number in range(20)]
    assert verdict_on(flushed).verdict == "buffered"


def test_clumps_are_coalesced() -> None:
    found = verdict_on(
        [(at, 4096, events, outputs) for at, _, events, outputs in in_clumps(TEN_A_SECOND, 10)],
        headers={"server": "nginx", "via": "1.1 relay", "content-encoding": "gzip"},
    )
    assert found.verdict == "coalesced"
    assert found.evidence == {
        "why": "6 clumps hold 94% of the events",
        "events": 64,
        "reads": 7,
        "events_per_read": 9.14,
        "arrival_groups": 7,
        "share_below_1ms": 0.905,
        "span_ms": 5100.0,
        "first_event_ms": 1200.0,
        "modal_read_size": 4096,
        "content_coding": "gzip",
        "burst_share": 0.219,
        "clumped_share": 0.938,
        "pace_ms": 100.0,
        "delayed_share": 0.842,
        "x_accel_buffering": "missing",
        "server": "nginx",
        "via": "1.1 relay",
    }


def test_clumps_that_delay_less_than_20_ms_are_none() -> None:
    assert verdict_on(in_clumps(paced(600, 1), 15)).verdict == "none"
    assert verdict_on(in_clumps(paced(600, 1), 50)).verdict == "coalesced"


def test_events_without_output_are_no_clump() -> None:
    """Dialects that open and close with four events each: two tokens, and two groups of five events."""
    assert verdict_on([(300, 900, 5, 1), (350, 200, 1, 1), (400, 900, 5, 1)]).verdict == "none"


def test_choices_side_by_side_are_no_clump() -> None:
    steps: list[Read] = [(300 + 50 * number, 800, 4, 4) for number in range(40)]
    assert verdict_on(steps, choices=4).verdict == "none"
    assert verdict_on(steps).verdict == "coalesced"


def test_what_was_ready_before_it_could_be_new_is_not_coalesced() -> None:
    """A cache's answer that a slow acknowledgement cut in two."""
    assert verdict_on([(5, 4000, 25, 25), (205, 9000, 60, 57)]).verdict == "inconclusive"


def test_bunches_without_clumps_are_inconclusive() -> None:
    assert verdict_on(in_clumps(TEN_A_SECOND, 3)).verdict == "inconclusive"


@pytest.mark.parametrize(
    ("known", "why"),
    [
        ({"timed": False}, "recorded without times"),
        ({"streamed": False}, "no stream: a whole body or none"),
        ({"lost": True}, "telemetry of the stream was dropped"),
    ],
)
def test_what_cannot_be_judged_says_why(known: dict[str, Any], why: str) -> None:
    found = verdict_on(TEN_A_SECOND, **known)
    assert (found.verdict, found.evidence["why"]) == ("inconclusive", why)


def test_too_little_says_why() -> None:
    assert verdict_on(TEN_A_SECOND[:4]).evidence["why"] == "fewer than 5 events"
    assert "less than 50 ms" in str(verdict_on(paced(8, 5)).evidence["why"])
    assert judge(None, Circumstances()).verdict == "inconclusive"
    assert "unknown" in str(verdict_on([in_one(TEN_A_SECOND, 6300)], t0=None).evidence["why"])


def test_a_content_length_is_named() -> None:
    assert (
        verdict_on([in_one(TEN_A_SECOND, 6300)], headers={"content-length": "9000"}).evidence["content_length"] is True
    )


def test_long_streams_are_bounded_and_still_judged() -> None:
    long = paced(3 * GROUPS_KEPT, 10)
    arrivals = Arrivals()
    for at, _, events, _ in long:
        arrivals.add(events, T0 + round(at * MS))
    assert (len(arrivals.listed()), arrivals.groups, arrivals.complete) == (GROUPS_KEPT, len(long), False)
    assert verdict_on(long).verdict == "none"
    assert verdict_on(in_clumps(paced(8 * GROUPS_KEPT, 10), 7)).verdict == "coalesced"
