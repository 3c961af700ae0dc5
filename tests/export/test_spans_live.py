"""Spans of exchanges as the analyzer follows them: stalls, losses, exemplars, and markers of what is still in flight."""

import pytest
from opentelemetry.trace import format_span_id, format_trace_id

from sidecar import metrics as m
from sidecar.analyzer import Analyzer
from sidecar.capture.records import Chunk, Ended, Lost
from sidecar.config import Settings
from sidecar.export import span_attributes as table
from sidecar.export.prometheus import Exposition
from tests.export.spans import Caught
from tests.test_analyzer import SECOND, Clock, event, head, start, whole


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def caught() -> Caught:
    return Caught()


@pytest.fixture
def analyzer(clock: Clock, caught: Caught) -> Analyzer:
    analyzer = Analyzer(Settings(), clock)
    analyzer.record_span = caught.spans.record
    return analyzer


def test_each_stall_is_an_event_where_it_began(analyzer: Analyzer, clock: Clock, caught: Caught) -> None:
    began = clock.now
    analyzer.receive(1, [*start(clock), head(clock), Chunk(1, clock.now, event("a"))])
    for seconds in (16, 4):  # the first is a stall
        for _ in range(seconds * 4):
            clock.now += SECOND // 4
            analyzer.tick()
        analyzer.receive(1, [Chunk(1, clock.now, event("b"))])
    analyzer.receive(1, [Chunk(1, clock.now, event(finish="stop"))])
    clock.now += 6 * SECOND
    analyzer.tick()
    analyzer.receive(1, [Ended(1, clock.now, "client_disconnect")])
    span = caught.only()
    assert span.start_time is not None
    stalls = [one for one in span.events if one.name == "stall"]
    assert [(one.timestamp - span.start_time, dict(one.attributes or {})) for one in stalls] == [
        (0, {"llm_stream.phase": "mid_stream", "llm_stream.stall.duration": 16.0}),
        (20 * SECOND, {"llm_stream.phase": "after_finish", "llm_stream.stall.duration": 6.0}),
    ]
    assert span.attributes is not None
    assert span.attributes["llm_stream.stalls"] == 2
    assert span.end_time == span.start_time + clock.now - began


def test_stalls_are_remembered_within_a_bound(analyzer: Analyzer, clock: Clock, caught: Caught) -> None:
    analyzer.receive(1, [*start(clock), head(clock), Chunk(1, clock.now, event("a"))])
    for _ in range(40):
        clock.now += 20 * SECOND
        analyzer.tick()
        analyzer.receive(1, [Chunk(1, clock.now, event("b"))])
    analyzer.receive(1, [Ended(1, clock.now, "eof")])
    span = caught.only()
    assert sum(one.name == "stall" for one in span.events) == 16
    assert span.attributes is not None
    assert span.attributes["llm_stream.stalls"] == 40


def test_a_lost_exchange_says_so_and_nothing_that_was_only_half_seen(
    analyzer: Analyzer, clock: Clock, caught: Caught
) -> None:
    records = whole(clock)
    records.insert(-1, Lost(1, clock.now, 3, 300))
    analyzer.receive(1, records)
    span = caught.only()
    assert not span.events
    assert span.attributes is not None
    assert set(span.attributes) <= {row.name for row in table.ALWAYS}
    assert span.attributes["llm_stream.outcome"] == "lost"
    assert (span.attributes["llm_stream.lost.records"], span.attributes["llm_stream.lost.bytes"]) == (3, 300)


def test_exemplars_point_to_the_span(analyzer: Analyzer, clock: Clock, caught: Caught) -> None:
    analyzer.receive(1, whole(clock))
    context = caught.only().context
    page, _ = Exposition(analyzer.series, analyzer.refresh).render("application/openmetrics-text; version=1.0.0")
    ids = f'span_id="{format_span_id(context.span_id)}",trace_id="{format_trace_id(context.trace_id)}"'
    assert f"# {{{ids}}} 1.0" in page.decode()


def test_exemplars_point_to_no_span_that_was_not_sampled(clock: Clock) -> None:
    analyzer = Analyzer(Settings(), clock)
    analyzer.record_span = Caught(ratio=0.0).spans.record
    analyzer.receive(1, whole(clock))
    page, _ = Exposition(analyzer.series, analyzer.refresh).render("application/openmetrics-text; version=1.0.0")
    assert "trace_id" not in page.decode()


def test_a_bug_in_the_spans_costs_the_span_alone(analyzer: Analyzer, clock: Clock) -> None:
    analyzer.record_span = lambda summary: {}[summary.id]  # type: ignore[index]  # raises
    analyzer.receive(1, whole(clock))
    assert sum(value for _, value, _ in analyzer.series.values(m.STREAMS)) == 1
    assert sum(value for _, value, _ in analyzer.series.values(m.STAGE_FAILURES)) == 1


def test_an_exchange_in_flight_is_announced_once_as_a_child_of_its_span(
    analyzer: Analyzer, clock: Clock, caught: Caught
) -> None:
    analyzer.receive(1, [*start(clock), head(clock), Chunk(1, clock.now, event("a"))])
    (exchange,) = analyzer.exchanges.values()
    clock.now += 30 * SECOND
    assert caught.spans.announce(exchange, clock.now)
    assert not caught.spans.announce(exchange, clock.now + SECOND)
    analyzer.receive(1, [Ended(1, clock.now, "eof")])
    marker, span = caught.all()
    assert marker.name == "chat m-test (pending)"
    assert marker.start_time == marker.end_time == (span.start_time or 0) + 30 * SECOND
    assert marker.parent is not None
    assert (marker.parent.trace_id, marker.parent.span_id) == (span.context.trace_id, span.context.span_id)
    assert marker.attributes is not None
    assert set(marker.attributes) <= set(table.KINDS)
    assert marker.attributes["llm_stream.pending"] is True
    assert marker.attributes["llm_stream.phase"] == "mid_stream"
    assert marker.attributes["llm_stream.output_chunks"] == 1


def test_what_will_not_be_sampled_is_not_announced(clock: Clock) -> None:
    analyzer, caught = Analyzer(Settings(), clock), Caught(ratio=0.0)
    analyzer.receive(1, list(start(clock)))
    (exchange,) = analyzer.exchanges.values()
    assert not caught.spans.announce(exchange, clock.now)
    assert not caught.all()
