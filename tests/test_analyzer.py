"""Records in, metrics out, without a proxy: what is counted, what is bounded, and what a bug of ours costs."""

from collections.abc import Iterator
from typing import Any

import pytest

from sidecar import metrics as m
from sidecar.analyzer import Analyzer
from sidecar.capture.records import (
    AnyRecord,
    Chunk,
    Ended,
    Health,
    Lost,
    Opened,
    RequestBody,
    RequestSent,
    ResponseHead,
)
from sidecar.config import Settings
from sidecar.metrics import Metric

SECOND = 1_000_000_000
BASE = ("chat", "openai", "m-test", "127.0.0.1", "8000", "openai.chat")


class Clock:
    """A clock that stands where it is put."""

    def __init__(self) -> None:
        self.now = 100 * SECOND

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def analyzer(clock: Clock) -> Analyzer:
    return Analyzer(Settings(), clock)


def event(content: str | None = None, finish: str | None = None) -> bytes:
    delta = "{}" if content is None else f'{{"content":"{content}"}}'
    reason = "null" if finish is None else f'"{finish}"'
    return f'data: {{"id":"c","choices":[{{"index":0,"delta":{delta},"finish_reason":{reason}}}]}}\n\n'.encode()


def start(clock: Clock, stream: int = 1, model: str = "m-test") -> Iterator[AnyRecord]:
    path = "/v1/chat/completions"
    yield Opened(stream, clock.now, f"id-{stream}", 1, "POST", "http", "127.0.0.1", 8000, path, "HTTP/1.1", [])
    yield RequestBody(stream, clock.now, f'{{"model":"{model}","stream":true}}'.encode())
    yield RequestSent(stream, clock.now)


def head(clock: Clock, stream: int = 1) -> ResponseHead:
    return ResponseHead(stream, clock.now, 200, "HTTP/1.1", [("content-type", "text/event-stream")])


def whole(clock: Clock, stream: int = 1, model: str = "m-test") -> list[AnyRecord]:
    """A healthy exchange: first token after 0.5 s, a second one 20 ms later."""
    t0 = clock.now
    return [
        *start(clock, stream, model),
        head(clock, stream),
        Chunk(stream, t0 + SECOND // 2, event("a")),
        Chunk(stream, t0 + SECOND // 2 + 20_000_000, event("b") + event(finish="stop")),
        Chunk(stream, t0 + SECOND, b"data: [DONE]\n\n"),
        Ended(stream, t0 + SECOND, "eof"),
    ]


def buckets(analyzer: Analyzer, metric: Metric) -> dict[tuple[str, ...], int]:
    return {labels: sum(found.counts) for labels, found in analyzer.series.distributions(metric)}


def test_a_healthy_exchange_is_measured(analyzer: Analyzer, clock: Clock) -> None:
    analyzer.receive(1, whole(clock))
    assert analyzer.series.value(m.STREAMS, (*BASE, "complete", "true")) == 1
    assert buckets(analyzer, m.MILESTONES)[(*BASE, "first_token")] == 1
    (gaps,) = (found for _, found in analyzer.series.distributions(m.CHUNK_GAPS))
    assert sum(gaps.counts) == 1
    assert gaps.sum == pytest.approx(0.02)
    assert analyzer.series.value(m.FINISH_REASONS, (*BASE, "stop")) == 1
    assert not analyzer.exchanges


def test_records_in_any_batches_count_the_same(analyzer: Analyzer, clock: Clock) -> None:
    for record in whole(clock):
        analyzer.receive(1, [record])
    assert analyzer.series.value(m.STREAMS, (*BASE, "complete", "true")) == 1


def test_two_proxies_may_use_the_same_numbers(analyzer: Analyzer, clock: Clock) -> None:
    first, second = whole(clock), whole(clock, model="other")
    for one, two in zip(first, second, strict=True):
        analyzer.receive(1, [one])
        analyzer.receive(2, [two])
    assert analyzer.series.value(m.STREAMS, (*BASE, "complete", "true")) == 1
    assert analyzer.series.value(m.STREAMS, ("chat", "openai", "other", *BASE[3:], "complete", "true")) == 1


def test_a_lost_stream_gets_no_verdict(analyzer: Analyzer, clock: Clock) -> None:
    records = whole(clock)
    records.insert(-1, Lost(1, clock.now, 3, 300))
    analyzer.receive(1, records)
    assert analyzer.series.value(m.STREAMS, (*BASE, "lost", "true")) == 1
    assert not list(analyzer.series.values(m.QUIRKS))
    assert not buckets(analyzer, m.MILESTONES)
    assert analyzer.series.value(m.STREAMS_LOST, ("capture",)) == 1


def test_a_proxy_that_goes_away_takes_its_streams_along_as_lost(analyzer: Analyzer, clock: Clock) -> None:
    analyzer.receive(1, [*start(clock), head(clock), Chunk(1, clock.now, event("a"))])
    analyzer.receive(2, [*start(clock)])
    analyzer.closed(1)
    assert analyzer.series.value(m.STREAMS, (*BASE, "lost", "true")) == 1
    assert len(analyzer.exchanges) == 1


@pytest.mark.parametrize(
    ("place", "stage", "outcome"),
    [
        ("sidecar.framing.sse.SseDecoder._general", "framing", "lost"),
        ("sidecar.dialects.openai_chat.OpenAIChat._read_general", "dialects", "lost"),
        ("sidecar.stream.stream.Stream._close_event", "stream", "lost"),
        ("sidecar.export.observe._exemplar", "export", "complete"),
    ],
)
def test_a_bug_in_a_stage_costs_that_stream_its_verdict_and_nothing_else(
    analyzer: Analyzer, clock: Clock, monkeypatch: pytest.MonkeyPatch, place: str, stage: str, outcome: str
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(place, _boom)
        analyzer.receive(1, whole(clock))
    assert analyzer.series.value(m.STAGE_FAILURES, (stage,)) == 1
    assert [summary.outcome for summary in analyzer.recent] == [outcome]
    analyzer.receive(1, whole(clock, stream=2))
    assert analyzer.series.value(m.STREAMS, (*BASE, "complete", "true")) == 1


def _boom(*_: Any) -> Any:
    raise RuntimeError("injected")


def test_an_exporter_that_fails_is_counted_and_the_others_go_on(analyzer: Analyzer, clock: Clock) -> None:
    seen: list[str] = []
    analyzer.listeners += [_boom, lambda summary: seen.append(summary.id)]
    analyzer.receive(1, whole(clock))
    assert seen == ["id-1"]
    assert sum(value for _, value, _ in analyzer.series.values(m.STAGE_FAILURES)) == 1


def test_silent_streams_move_the_gauges_and_stall_once(analyzer: Analyzer, clock: Clock) -> None:
    analyzer.receive(1, [*start(clock), head(clock), Chunk(1, clock.now, event("a"))])
    key = (*BASE, "mid_stream")
    for _ in range(100):
        clock.now += SECOND // 4
        analyzer.tick()
    analyzer.refresh()
    assert analyzer.series.value(m.IN_FLIGHT, key) == 1
    assert analyzer.series.value(m.STALLED, key) == 1
    assert analyzer.series.value(m.OLDEST_SILENCE, key) == 25
    assert analyzer.series.value(m.STALLS, key) == 1
    analyzer.receive(1, [Chunk(1, clock.now, event("b"))])
    analyzer.refresh()
    assert analyzer.series.value(m.STALLED, key) == 0
    analyzer.receive(1, [Ended(1, clock.now, "client_disconnect")])
    analyzer.refresh()
    assert analyzer.series.value(m.IN_FLIGHT, key) == 0


@pytest.mark.parametrize(
    ("records", "phase"),
    [
        ([], "waiting_headers"),
        ([head], "before_first_token"),
        ([head, event("a")], "mid_stream"),
        ([head, event("a"), b": ping\n\n"], "keepalive_only"),
        ([head, b": ping\n\n"], "keepalive_only"),
        ([head, b"\n"], "keepalive_only"),
        ([head, event("a"), b": ping\n\n", event("b")], "mid_stream"),
        ([head, event("a") + event(finish="stop")], "after_finish"),
        ([head, event("a") + event(finish="stop"), b": ping\n\n"], "after_finish"),
    ],
)
def test_phases(analyzer: Analyzer, clock: Clock, records: list[Any], phase: str) -> None:
    analyzer.receive(1, list(start(clock)))
    for record in records:
        analyzer.receive(1, [record(clock) if callable(record) else Chunk(1, clock.now, record)])
    analyzer.refresh()
    found = {labels[-1] for labels, value, _ in analyzer.series.values(m.IN_FLIGHT) if value}
    assert found == {phase}


def test_models_beyond_the_cap_become_other_and_are_counted(clock: Clock) -> None:
    analyzer = Analyzer(Settings(max_models=3), clock)
    for number in range(10):
        analyzer.receive(1, whole(clock, stream=number, model=f"m{number}"))
    models = {labels[2] for labels, _, _ in analyzer.series.values(m.STREAMS)}
    assert models == {"m0", "m1", "m2", "other"}
    assert analyzer.series.value(m.FOLDED, ("gen_ai_request_model",)) == 7


def test_an_allow_list_names_the_only_models_that_become_labels(clock: Clock) -> None:
    analyzer = Analyzer(Settings(models=("good",)), clock)
    analyzer.receive(1, [*whole(clock, 1, "good"), *whole(clock, 2, "typo")])
    assert {labels[2] for labels, _, _ in analyzer.series.values(m.STREAMS)} == {"good", "other"}


def test_streams_beyond_the_bound_are_not_followed_but_counted(clock: Clock) -> None:
    analyzer = Analyzer(Settings(max_streams=2), clock)
    for number in range(5):
        analyzer.receive(1, list(start(clock, number)))
    assert len(analyzer.exchanges) == 2
    assert analyzer.series.value(m.STREAMS_LOST, ("analyzer_full",)) == 3


def test_the_proxys_health_is_published(analyzer: Analyzer, clock: Clock) -> None:
    counts = [0] * len(m.TEE_SECONDS.buckets) + [5]
    analyzer.receive(1, [Health(0, clock.now, 77, 1, 2, 3, 4, 5, 0.5, counts, 0.25, {}, 9, 6)])
    assert analyzer.series.value(m.OUTBOX_BYTES, ("77",)) == 3
    assert analyzer.series.value(m.TEE_FAILURES, ("77",)) == 4
    assert analyzer.series.value(m.PASSIVITY_CHECKS, ("77",)) == 9
    assert analyzer.series.value(m.PASSIVITY_VIOLATIONS, ("77",)) == 6
    assert analyzer.series.value(m.LOOP_LAG, ("77",)) == 0.25
    assert buckets(analyzer, m.TEE_SECONDS) == {("77",): 5}


def test_lag_is_the_age_of_what_is_processed_and_is_forgotten(analyzer: Analyzer, clock: Clock) -> None:
    analyzer.receive(1, [RequestSent(9, clock.now - 3 * SECOND)])
    assert analyzer.lag() == 3
    clock.now += 11 * SECOND
    assert analyzer.lag() == 0


def test_stopping_counts_what_is_in_flight(analyzer: Analyzer, clock: Clock) -> None:
    analyzer.receive(1, list(start(clock)))
    analyzer.stop()
    assert analyzer.series.value(m.STREAMS, (*BASE, "lost", "true")) == 1
