"""Both sides of a hop through one analyzer: what is counted, and what the live page is told."""

import json
from typing import Any

import pytest

from sidecar import metrics as m
from sidecar.analyzer import Analyzer
from sidecar.config import Settings
from sidecar.export.live import recent_exchanges
from sidecar.export.prometheus import Exposition
from sidecar.export.view import View
from sidecar.metrics import Metric
from tests.taps import START, Tap, inside

PACED = tuple(100.0 + 20 * number for number in range(20))
PAIR = ("gateway", "8000", "upstream", "9000")
STREAM = ("chat", "openai", "m", "gateway", "8000", "openai.chat")


def analyzed(*taps: Tap, connections: bool = False) -> Analyzer:
    """An analyzer that has received the records of these in the order of time, from one proxy or one each."""
    analyzer = Analyzer(Settings(), lambda: START)
    records = sorted(
        ((record.at, number, record) for number, tap in enumerate(taps) for record in tap.records()),
        key=lambda row: row[0],
    )
    for _, number, record in records:
        analyzer.receive(number if connections else 0, [record])
    assert not list(analyzer.series.values(m.STAGE_FAILURES))
    return analyzer


def values(analyzer: Analyzer, metric: Metric) -> dict[tuple[str, ...], float]:
    return {labels: value for labels, value, _ in analyzer.series.values(metric)}


def sums(analyzer: Analyzer, metric: Metric) -> dict[tuple[str, ...], float]:
    return {labels: found.sum for labels, found in analyzer.series.distributions(metric)}


@pytest.mark.parametrize("connections", [False, True])
def test_a_hop_is_measured(connections: bool) -> None:
    outer = Tap(1, tokens=(600.0,) * 20, end=600)
    inner = inside(Tap(1 if connections else 2, tokens=PACED, end=600), done=False)
    analyzer = analyzed(outer, inner, connections=connections)
    assert values(analyzer, m.HOPS) == {(*PAIR, "response_id"): 1}
    assert sums(analyzer, m.HOP_FIRST_TOKEN) == {PAIR: pytest.approx(0.501)}
    assert sums(analyzer, m.HOP_REQUEST_DELAY) == {PAIR: pytest.approx(0.002)}
    assert sums(analyzer, m.HOP_GAP_RATIO) == {PAIR: 0}
    assert values(analyzer, m.HOP_CHANGES) == {
        (*PAIR, change): 1
        for change in ("buffering_appeared", "gaps_compressed", "bytes_changed", "outcome_changed", "terminator_added")
    }
    assert values(analyzer, m.HOP_QUIRKS) == {
        (*PAIR, "buffered_delivery", "added"): 1,
        (*PAIR, "terminator_missing", "removed"): 1,
    }
    assert sums(analyzer, m.AFTER_DISCONNECT) == {}
    assert values(analyzer, m.HOP_UNJOINED) == {}


def test_an_upstream_that_is_read_on_after_the_client_left_is_measured() -> None:
    left: dict[str, Any] = {"kind": "client_disconnect", "finish": None, "done": False, "usage": False}
    outer = Tap(1, tokens=PACED[:3], end=150, **left)
    analyzer = analyzed(outer, inside(Tap(2, tokens=PACED, end=2151)))
    assert sums(analyzer, m.AFTER_DISCONNECT) == {STREAM: pytest.approx(2.0)}
    assert values(analyzer, m.HOP_CHANGES) == {}


def test_what_could_be_joined_in_two_ways_is_counted() -> None:
    outer = Tap(1, response_id=None)
    analyzer = analyzed(outer, inside(Tap(2, response_id=None)), inside(Tap(3, response_id=None)))
    assert values(analyzer, m.HOPS) == {}
    assert values(analyzer, m.HOP_UNJOINED) == {("ambiguous",): 1}


def test_the_live_page_is_told_what_the_hop_behind_a_stream_did() -> None:
    analyzer = analyzed(Tap(1), inside(Tap(2)), Tap(3, opened=1000, tokens=(1100,), end=1200, response_id="alone"))
    view = View(
        analyzer.exchanges.values,
        lambda: analyzer.recent,
        analyzer.lag,
        lambda: START,
        analyzer.stall_policy,
        5.0,
        analyzer.relations.hops,
    )
    rows = {str(row["id"]): row for row in json.loads(json.dumps(recent_exchanges(view)))}
    assert {name for name, row in rows.items() if "hop" in row} == {"outer-1"}
    assert rows["outer-1"]["hop"]["inner"]["id"] == "inner-2"
    assert rows["outer-1"]["hop"]["added_first_token_ms"] == 1.0


def test_the_memory_of_hops_is_bounded() -> None:
    taps = []
    for number in range(0, 500, 2):
        at = 1000.0 * number
        outer = Tap(number, at, (at + 100, at + 120), at + 200, response_id=f"r{number}")
        taps += [outer, inside(outer, stream=number + 1)]
    analyzer = analyzed(*taps)
    assert values(analyzer, m.HOPS) == {(*PAIR, "response_id"): 250}
    assert len(analyzer.relations.hops) == 200


def test_neither_the_client_nor_the_request_is_to_be_found_in_what_is_published() -> None:
    analyzer = analyzed(Tap(1, client="canary-client"), inside(Tap(2)), Tap(3, status=500), Tap(4))
    digest = analyzer.recent[0].body_digest
    assert digest
    text = Exposition(analyzer.series, lambda: None).render("")[0].decode()
    assert "llm_hop_streams_total{" in text
    assert "canary-client" not in text
    assert digest not in text
