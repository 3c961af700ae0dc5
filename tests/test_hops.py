"""Which exchanges are joined as the two sides of a hop, and above all which are not."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from sidecar.hops import Hops, Unjoined
from sidecar.stream.hop import Hop
from sidecar.stream.summary import Summary
from tests.taps import MS, START, Tap, inside, summary_of

TRACE = "00-{trace:032x}-{span:016x}-01"
OUTER = Tap()
INNER = inside(OUTER)
NO_ID: dict[str, Any] = {"response_id": None}


def trace(span: int, number: int = 1) -> str:
    return TRACE.format(trace=number, span=span)


class Joined:
    """Taps played in the order of time."""

    def __init__(self, taps: Sequence[Tap], *, digests: bool = True, **limits: Any) -> None:
        self.unjoined: list[tuple[Unjoined, str]] = []
        self.hops: list[Hop] = []
        self.joining = Hops(lambda why, summary: self.unjoined.append((why, summary.id)), **limits)
        steps = []
        for number, tap in enumerate(taps):
            steps += [(tap.opened, 0, number), (tap.end, 1, number)]
        for _, ended, number in sorted(steps):
            tap = taps[number]
            if ended:
                self.end(number, tap)
            else:
                self.joining.opened(number, START + round(tap.opened * MS), (tap.worker, tap.listener))
                self.joining.requested(number, tap.traceparent, tap.body.hex() if digests else "")

    def end(self, number: int, tap: Tap) -> None:
        self.hops += [pair.hop for pair in self.joining.ended(number, summary_of(tap))]

    @property
    def pairs(self) -> list[tuple[str, str, str]]:
        return [(hop.outer.id, hop.inner.id, hop.evidence) for hop in self.hops]


PAIR = ("outer-1", "inner-1")


@pytest.mark.parametrize(
    ("outer", "inner", "evidence"),
    [
        ({}, {}, "response_id"),
        ({}, {"response_id": "other"}, "request"),
        (NO_ID, {}, "request"),
        ({"traceparent": trace(1)}, {"traceparent": trace(2), "response_id": "other"}, "trace"),
        ({"traceparent": trace(1)}, {"traceparent": trace(2), "response_id": "x", "body": b"translated"}, "trace"),
        ({"traceparent": trace(1)}, {"traceparent": trace(2), "body": b"translated"}, "response_id"),
        ({}, {"listener": "outer", "worker": 2}, "response_id"),
    ],
)
def test_the_two_sides_are_joined_by_the_strongest_evidence(
    outer: dict[str, Any], inner: dict[str, Any], evidence: str
) -> None:
    first = replace(OUTER, **outer)
    second = replace(inside(first), **inner)
    assert Joined([first, second]).pairs == [(first.id, second.id, evidence)]


@pytest.mark.parametrize(
    "inner",
    [
        {"listener": "outer", "stream": 2},  # the same place
        {"server": OUTER.server},  # the same server: no hop lies between
        {"opened": -1.0},  # opened before the outer one
        {"opened": 201.0, "tokens": (210.0, 220.0), "end": 230.0},  # one after the other
        {"tokens": (150.0, 170.0, 190.0)},  # came in after it had come out
        {"tokens": (), "finish": None, "done": False, "usage": False},  # an answer out of nothing
        {"tokens": (99.0, 119.0, 2000.0), "end": 2001.0},  # went on although the outer one was complete
    ],
)
@pytest.mark.parametrize("traceparent", [None, trace(1)])
def test_what_cannot_be_one_stream_is_not_joined(inner: dict[str, Any], traceparent: str | None) -> None:
    outer = replace(OUTER, traceparent=traceparent)
    joined = Joined([outer, replace(inside(outer), **inner)])
    assert joined.pairs == []
    assert joined.unjoined == []


def test_the_id_of_a_cached_answer_comes_again_without_an_inner_side() -> None:
    cached = replace(OUTER, stream=2, opened=1000.0, tokens=(1001.0, 1001.0, 1001.0), end=1002.0)
    assert Joined([OUTER, INNER, cached]).pairs == [(*PAIR, "response_id")]


def test_an_id_that_a_server_uses_again_joins_nothing_any_more() -> None:
    """A demo that calls every answer the same, two of its streams being in flight at once on two ways."""
    taps = [OUTER, INNER]
    for number in range(2, 5):
        outer = replace(OUTER, stream=number, **_later(OUTER, 1000 * number))
        taps += [outer, inside(outer)]
    joined = Joined(taps, digests=False)
    assert joined.pairs == [(*PAIR, "response_id")]
    assert [evidence for _, _, evidence in Joined(taps).pairs] == ["response_id", "request", "request", "request"]


def test_two_servers_with_the_same_fixed_id_are_no_hop() -> None:
    """Two ways without a hop, both to a demo: the later stream began while the earlier one was flowing already."""
    one = replace(OUTER, tokens=tuple(10.0 + 20 * n for n in range(20)), end=420.0)
    other = replace(one, stream=2, listener="inner", server=("upstream", 9000), **_later(one, 50))
    assert Joined([one, other]).pairs == []
    assert Joined([one, replace(other, end=415.0)]).pairs == []


def test_two_requests_of_one_trace_one_after_the_other_are_no_hop() -> None:
    first = replace(OUTER, traceparent=trace(1), **NO_ID)
    second = replace(inside(first), traceparent=trace(2), body=b"second", **_later(INNER, 300))
    assert Joined([first, second]).pairs == []


def test_two_requests_of_one_trace_at_once_are_no_hop_unless_their_answers_agree() -> None:
    """An agent that asks two models at the same time."""
    first = replace(OUTER, traceparent=trace(1), **NO_ID)
    second = replace(inside(first), traceparent=trace(2), body=b"second", word="another", client=first.client)
    assert Joined([first, second]).pairs == []
    assert Joined([first, replace(second, word="word")]).pairs == [(*PAIR, "trace")]


def test_a_request_that_a_client_hedges_is_no_hop() -> None:
    """The same body to two providers, the second one later, because the first one is slow; then the first is left."""
    left: dict[str, Any] = {"kind": "client_disconnect", "finish": None, "done": False, "usage": False, "tokens": ()}
    slow = replace(OUTER, end=900.0, **left)
    hedge = Tap(2, 400.0, (500.0, 510.0), 800.0, "inner", server=("other", 1), response_id="r2", client=slow.client)
    assert Joined([slow, hedge]).pairs == []


@pytest.mark.parametrize(("client", "opened", "joined"), [("c1", 2.0, True), ("c1", 400.0, False), ("gw", 400.0, True)])
def test_without_an_answer_on_the_outer_side_the_request_has_to_tell(client: str, opened: float, joined: bool) -> None:
    left: dict[str, Any] = {"kind": "client_disconnect", "finish": None, "done": False, "usage": False, "tokens": ()}
    outer = replace(OUTER, end=1000.0, **left)
    inner = replace(INNER, opened=opened, tokens=(1100.0, 1120.0), end=1500.0, client=client)
    found = Joined([outer, inner])
    assert found.pairs == ([(*PAIR, "request")] if joined else [])
    assert [hop.after_disconnect for hop in found.hops] == ([pytest.approx(0.5)] if joined else [])


def test_concurrent_requests_with_one_body_are_told_apart_by_their_ids() -> None:
    outers = [replace(OUTER, stream=n, response_id=f"r{n}", **_later(OUTER, n)) for n in range(20)]
    joined = Joined([tap for outer in outers for tap in (outer, inside(outer))])
    assert joined.pairs == [(f"outer-{n}", f"inner-{n}", "response_id") for n in range(20)]
    assert joined.unjoined == []


def test_concurrent_requests_that_nothing_tells_apart_are_not_joined_but_counted() -> None:
    outers = [replace(OUTER, stream=n, **NO_ID, **_later(OUTER, n * 0.5)) for n in range(4)]
    outers = [replace(outer, tokens=(150.0, 170.0), end=200.0 + outer.stream) for outer in outers]
    joined = Joined([tap for outer in outers for tap in (outer, inside(outer, tokens=(100.0, 120.0), end=150.0))])
    assert joined.pairs == []
    assert joined.unjoined == [("ambiguous", f"outer-{n}") for n in range(4)]


def test_the_request_decides_between_several_of_one_trace() -> None:
    """A gateway that asks two upstreams, one of them for a check of its own."""
    outer = replace(OUTER, traceparent=trace(1), **NO_ID)
    check = inside(outer, stream=7, traceparent=trace(3), body=b"is this harmful?", server=("checker", 1))
    joined = Joined([outer, inside(outer, traceparent=trace(2)), check])
    assert joined.pairs == [(*PAIR, "request")]


def test_an_outer_side_that_is_over_waits_for_the_inner_one_in_flight() -> None:
    """The client left; of two upstream requests only the one that is still going on can be the answer it had."""
    left: dict[str, Any] = {"kind": "client_disconnect", "finish": None, "done": False, "usage": False}
    outer = replace(OUTER, end=200.0, **left, **NO_ID)
    failed = inside(outer, stream=7, tokens=(), end=50.0, status=503, kind="eof")
    going_on = replace(INNER, opened=60.0, tokens=(99.0, 119.0, 139.0, 300.0), end=400.0)
    joined = Joined([outer, failed, going_on])
    assert joined.pairs == [(*PAIR, "request")]
    assert joined.hops[0].after_disconnect == pytest.approx(0.2)


def test_a_chain_of_hops_is_joined_link_by_link() -> None:
    middle = INNER
    last = inside(middle, listener="last", server=("engine", 7000))
    joined = Joined([OUTER, middle, last])
    assert set(joined.pairs) == {("inner-1", "last-1", "response_id"), ("outer-1", "inner-1", "response_id")}


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (1, 2, 0), (2, 1, 0)])
def test_a_hop_is_found_in_whatever_order_the_ends_arrive(order: tuple[int, ...]) -> None:
    """The records of several proxies come over several connections."""
    taps = [OUTER, INNER, inside(INNER, listener="last", server=("engine", 7000))]
    joined = Joined([])
    for number, tap in enumerate(taps):
        joined.joining.opened(number, START + round(tap.opened * MS), (tap.worker, tap.listener))
        joined.joining.requested(number, None, "digest")
    for number in order:
        joined.end(number, taps[number])
    assert {pair[:2] for pair in joined.pairs} == {PAIR, ("inner-1", "last-1")}


def test_an_exchange_that_is_opened_again_takes_the_place_of_the_first_one() -> None:
    joined = Joined([])
    for _ in range(3):
        joined.joining.opened(1, START, (1, "outer"))
        joined.joining.requested(1, trace(1), "digest")
    assert len(joined.joining) == 1


def test_what_was_lost_is_joined_with_nothing() -> None:
    joined = Joined([OUTER])
    joined.joining.opened(8, START, (1, "inner"))
    joined.joining.dropped(8)
    joined.joining.dropped(8)
    joined.end(8, INNER)
    assert joined.pairs == []


def test_exchanges_of_one_place_are_not_kept() -> None:
    joined = Joined([replace(OUTER, stream=n, **_later(OUTER, n)) for n in range(100)])
    assert len(joined.joining) == 0


def test_what_is_over_is_kept_while_something_in_flight_can_belong_to_it_and_no_longer() -> None:
    others = [replace(OUTER, stream=n, response_id=f"x{n}", **_later(OUTER, 1000 * n)) for n in range(1, 50)]
    assert len(Joined([INNER, *others]).joining) <= 4
    hung = replace(INNER, stream=99, opened=-1.0, end=1e6, response_id="h")
    alive = Joined([], limit=20)
    alive.joining.opened(99, START, (1, "inner"))
    for number, tap in enumerate(others):
        alive.joining.opened(number, START + round(tap.opened * MS), (1, "outer"))
        alive.end(number, tap)
    assert len(alive.joining) == 21
    assert alive.unjoined == [("evicted", f"outer-{n}") for n in range(1, 30)]
    alive.end(99, hung)
    assert len(alive.joining) == 1


def test_a_side_waits_no_longer_than_it_is_told() -> None:
    left: dict[str, Any] = {"kind": "client_disconnect", "finish": None, "done": False, "usage": False}
    outer = replace(OUTER, **left)
    inner = replace(INNER, end=4000.0)
    between = [replace(OUTER, stream=n, response_id="x", **_later(OUTER, 1000 * n)) for n in (1, 2, 3)]
    assert Joined([outer, inner, *between]).pairs == [(*PAIR, "response_id")]
    assert Joined([outer, inner, *between], kept_seconds=2).pairs == []


def test_a_crowd_with_one_body_costs_little_and_is_counted() -> None:
    outers = [replace(OUTER, stream=n, **NO_ID, **_later(OUTER, n * 0.1)) for n in range(200)]
    joined = Joined([tap for outer in outers for tap in (outer, inside(outer))])
    late = [replace(OUTER, stream=1000, response_id="late", body=b"late", **_later(OUTER, 10_000))]
    for number, tap in enumerate(late, 1000):
        joined.joining.opened(number, START + round(tap.opened * MS), (1, "outer"))
        joined.end(number, tap)
    assert joined.pairs == []
    assert {why for why, _ in joined.unjoined} == {"ambiguous"}
    assert len(joined.unjoined) >= 200


def test_a_crowd_with_one_body_at_one_place_is_no_hop() -> None:
    same = [replace(OUTER, stream=n, **NO_ID, **_later(OUTER, n * 0.1)) for n in range(200)]
    late = [replace(OUTER, stream=1000 + n, **NO_ID, body=b"late", **_later(OUTER, 10_000 * n)) for n in range(1, 4)]
    elsewhere = replace(INNER, stream=2000, response_id="other", body=b"other", opened=-1.0, end=5000.0)
    joined = Joined([*same, *late, elsewhere])
    assert (joined.pairs, joined.unjoined) == ([], [])


def test_long_texts_are_kept_by_their_beginning_only() -> None:
    long = "x" * 100_000
    seen: list[Summary] = []
    hops = Hops(lambda why, summary: seen.append(summary), limit=0)
    hops.opened(1, START, (1, "a"))
    hops.opened(2, START, (1, "b"))
    summary = replace_text(summary_of(OUTER), long)
    hops.ended(1, summary)
    assert [len(kept.text) for kept in seen] == [4096]


def replace_text(summary: Summary, text: str) -> Summary:
    return msgspec.structs.replace(summary, text=text)


def _later(tap: Tap, milliseconds: float) -> dict[str, Any]:
    return {
        "opened": tap.opened + milliseconds,
        "tokens": tuple(at + milliseconds for at in tap.tokens),
        "end": tap.end + milliseconds,
    }
