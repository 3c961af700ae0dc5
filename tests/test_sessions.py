"""Records of WebSockets in, metrics out, without a proxy: gauges, losses, bounds, and what a bug of ours costs."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from sidecar import metrics as m
from sidecar.analyzer import Analyzer
from sidecar.capture.records import AnyRecord, Ended, Lost, Message, Opened, RequestSent, ResponseHead
from sidecar.config import Settings
from sidecar.dialects.lanes import TURNS_KEPT
from sidecar.files.capture import records_of
from tests.sockets import captures, expectations

SECOND = 1_000_000_000
BASE = ("chat", "openai", "m-live", "127.0.0.1", "8000", "openai.realtime")


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


def upgrade(clock: Clock, path: str = "/v1/realtime?model=m-live", stream: int = 1) -> Iterator[AnyRecord]:
    headers = [("connection", "Upgrade"), ("upgrade", "websocket")]
    yield Opened(stream, clock.now, f"s{stream}", 1, "GET", "http", "127.0.0.1", 8000, path, "HTTP/1.1", headers)
    yield RequestSent(stream, clock.now)
    yield ResponseHead(stream, clock.now, 101, "HTTP/1.1", headers)


def says(clock: Clock, event: dict[str, Any] | bytes, *, client: bool = False, stream: int = 1) -> Message:
    data = event if isinstance(event, bytes) else json.dumps(event).encode()
    return Message(stream, clock.now, data, client, True, len(data))


def created(response_id: str = "r1") -> dict[str, Any]:
    return {"type": "response.created", "response": {"id": response_id, "status": "in_progress"}}


def delta(text: str, response_id: str = "r1") -> dict[str, Any]:
    return {"type": "response.output_text.delta", "response_id": response_id, "delta": text}


def done(response_id: str = "r1", status: str = "completed") -> dict[str, Any]:
    return {"type": "response.done", "response": {"id": response_id, "status": status}}


CREATE = {"type": "response.create"}


def phases(analyzer: Analyzer) -> dict[str, float]:
    analyzer.refresh()
    return {labels[-1]: value for labels, value, _ in analyzer.series.values(m.IN_FLIGHT) if value}


def outcomes(analyzer: Analyzer) -> dict[str, float]:
    return {labels[-2]: value for labels, value, _ in analyzer.series.values(m.STREAMS)}


def test_each_response_of_a_socket_is_counted_as_a_stream(analyzer: Analyzer, clock: Clock) -> None:
    analyzer.receive(1, list(upgrade(clock)))
    for number in range(3):
        analyzer.receive(1, [says(clock, CREATE, client=True)])
        clock.now += SECOND // 2
        name = f"r{number}"
        analyzer.receive(1, [says(clock, event) for event in (created(name), delta("a", name), done(name))])
    assert analyzer.series.value(m.STREAMS, (*BASE, "complete", "true")) == 3
    (first,) = (d for labels, d in analyzer.series.distributions(m.MILESTONES) if labels[-1] == "first_token")
    assert sum(first.counts) == 3
    assert first.sum == pytest.approx(1.5)
    assert [summary.id for summary in analyzer.recent] == ["s1.1", "s1.2", "s1.3"]


def test_a_hung_response_shows_and_a_quiet_session_does_not(analyzer: Analyzer, clock: Clock) -> None:
    analyzer.receive(1, [*upgrade(clock), says(clock, CREATE, client=True)])
    assert phases(analyzer) == {"before_first_token": 1}
    analyzer.receive(1, [says(clock, created()), says(clock, delta("a"))])
    for _ in range(80):
        clock.now += SECOND // 4
        analyzer.receive(1, [says(clock, {"type": "input_audio_buffer.append", "audio": "AAAA"}, client=True)])
        analyzer.tick()
    assert phases(analyzer) == {"mid_stream": 1}
    assert analyzer.series.value(m.STALLED, (*BASE, "mid_stream")) == 1
    assert analyzer.series.value(m.STALLS, (*BASE, "mid_stream")) == 1
    assert analyzer.series.value(m.OLDEST_SILENCE, (*BASE, "mid_stream")) == 20
    analyzer.receive(1, [says(clock, done())])
    for _ in range(2000):
        clock.now += SECOND // 4
        analyzer.tick()
    assert phases(analyzer) == {}
    assert analyzer.series.value(m.STALLED, (*BASE, "mid_stream")) == 0
    assert analyzer.series.value(m.SESSIONS_IN_FLIGHT, BASE) == 1
    assert sum(value for _, value, _ in analyzer.series.values(m.STALLS)) == 1


def test_a_client_that_runs_a_tool_and_an_answer_that_is_played_are_no_stall(analyzer: Analyzer, clock: Clock) -> None:
    path = "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent"
    asks: dict[str, Any] = {"client_content": {"turns": [], "turn_complete": True}}
    tool = {"toolCall": {"functionCalls": [{"id": "1", "name": "roll", "args": {}}]}}
    told: dict[str, Any] = {"tool_response": {"functionResponses": []}}
    audio = {"serverContent": {"modelTurn": {"parts": [{"inlineData": {"mimeType": "audio/pcm", "data": "AAAA"}}]}}}
    analyzer.receive(1, [*upgrade(clock, path), says(clock, asks, client=True), says(clock, tool)])
    clock.now += 600 * SECOND
    analyzer.tick()
    analyzer.receive(1, [says(clock, told, client=True)])
    clock.now += SECOND
    analyzer.receive(1, [says(clock, audio), says(clock, {"serverContent": {"generationComplete": True}})])
    clock.now += 600 * SECOND
    analyzer.tick()
    assert phases(analyzer) == {"after_finish": 1}
    analyzer.receive(1, [says(clock, {"serverContent": {"turnComplete": True}})])
    assert phases(analyzer) == {}
    clock.now += 10 * SECOND
    analyzer.tick()
    assert outcomes(analyzer) == {"complete": 1}
    assert not list(analyzer.series.values(m.STALLS))
    (summary,) = analyzer.recent
    assert summary.gaps.longest == SECOND
    assert all(seconds <= 1 for seconds in summary.silences.values())


def test_a_tool_that_was_answered_and_then_silence_is_a_stall(analyzer: Analyzer, clock: Clock) -> None:
    path = "/ws/google.cloud.aiplatform.v1.LlmBidiService/BidiGenerateContent"
    asks: dict[str, Any] = {"clientContent": {"turnComplete": True}}
    tool = {"toolCall": {"functionCalls": [{"id": "1", "name": "roll", "args": {}}]}}
    analyzer.receive(1, [*upgrade(clock, path), says(clock, asks, client=True), says(clock, tool)])
    clock.now += 60 * SECOND
    analyzer.tick()
    analyzer.receive(1, [says(clock, {"toolResponse": {}}, client=True)])
    for _ in range(80):
        clock.now += SECOND // 4
        analyzer.tick()
    assert {labels[-1]: value for labels, value, _ in analyzer.series.values(m.STALLS)} == {"mid_stream": 1}


def test_all_sockets_of_the_corpus_are_counted_as_expected(clock: Clock) -> None:
    analyzer = Analyzer(Settings(), clock)
    found: Counter[str] = Counter()
    for number, (case, capture) in enumerate(captures().items()):
        for record in records_of(capture):
            analyzer.receive(number, [record])  # type: ignore[list-item]  # it makes no others
        found.update(stream["outcome"] for stream in expectations()[case]["streams"])
    assert phases(analyzer) == {"before_first_token": 1, "mid_stream": 1}
    analyzer.stop()
    found["lost"] = found.pop("open")
    refused = ("chat", "openai", "rt-model", "api.openai.com", "443", "openai.realtime", "upstream_failed", "false")
    assert analyzer.series.value(m.STREAMS, refused) == 1
    totals = Counter({"upstream_failed": 1})
    for labels, value, _ in analyzer.series.values(m.STREAMS):
        found[labels[-2]] -= int(value)
    found.update(totals)
    assert not +found, found
    assert not -found, found
    assert not list(analyzer.series.values(m.STAGE_FAILURES))
    codes = Counter[str]()
    for labels, value, _ in analyzer.series.values(m.SESSIONS):
        codes[labels[-2]] += int(value)
    expected = Counter(
        str(each["socket"]["close_code"]) if each["socket"]["close_code"] is not None else ""
        for each in expectations().values()
        if each["socket"]["outcome"] is None
    )
    assert codes == expected
    audio = [d for labels, d in analyzer.series.distributions(m.MILESTONES) if labels[-1] == "first_audio"]
    reached = sum("ttft_audio_ms" in stream for each in expectations().values() for stream in each["streams"])
    assert sum(sum(each.counts) for each in audio) == reached
    reasons = {labels[-1] for labels, _, _ in analyzer.series.values(m.FINISH_REASONS)}
    assert {"client_cancelled", "turn_detected", "interrupted", "generationComplete"} <= reasons


def test_a_socket_of_an_unknown_dialect_is_counted_and_its_address_is_not_told(
    analyzer: Analyzer, clock: Clock
) -> None:
    analyzer.receive(1, [*upgrade(clock, "/socket"), says(clock, created())])
    analyzer.refresh()
    unknown = ("unknown", "unknown", "", "", "", "unknown")
    assert analyzer.series.value(m.SESSIONS_IN_FLIGHT, unknown) == 1
    clock.now += 5 * SECOND
    analyzer.receive(1, [Ended(1, clock.now, "eof", "", 1000)])
    assert analyzer.series.value(m.SESSIONS, (*unknown, "1000", "server")) == 1
    ((_, seconds),) = analyzer.series.distributions(m.SESSION_SECONDS)
    assert seconds.sum == 5
    assert not analyzer.recent


def test_lost_messages_cost_the_responses_in_flight_their_verdict_and_later_ones_their_t0(
    analyzer: Analyzer, clock: Clock
) -> None:
    analyzer.receive(
        1, [*upgrade(clock), says(clock, CREATE, client=True), says(clock, created()), says(clock, delta("a"))]
    )
    analyzer.receive(1, [Lost(1, clock.now, 1, 100), says(clock, delta("b")), says(clock, done())])
    assert outcomes(analyzer) == {"lost": 1}
    assert analyzer.series.value(m.STREAMS_LOST, ("capture",)) == 1
    later = [
        says(clock, CREATE, client=True),
        says(clock, created("r2")),
        says(clock, delta("c", "r2")),
        says(clock, done("r2")),
    ]
    analyzer.receive(1, later)
    assert outcomes(analyzer) == {"lost": 1, "complete": 1}
    assert analyzer.recent[-1].t0 is None
    assert analyzer.recent[-1].no_first_token == "no_t0"


RESPONSES_DONE = {"type": "response.completed", "response": {"id": "r1", "status": "completed"}}


@pytest.mark.parametrize(
    ("path", "rest"),
    [
        ("/v1/realtime?model=m-live", [delta("b"), done(), done()]),
        ("/v1/responses", [{"type": "response.output_text.delta", "delta": "b"}, RESPONSES_DONE, RESPONSES_DONE]),
        (
            "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent",
            [{"serverContent": {"modelTurn": {"parts": [{"text": "b"}]}}}, {"serverContent": {"turnComplete": True}}],
        ),
    ],
)
def test_a_response_that_was_in_flight_when_another_analyzer_died_is_counted_as_lost_when_it_ends(
    analyzer: Analyzer, clock: Clock, path: str, rest: list[dict[str, Any]]
) -> None:
    analyzer.receive(1, [*upgrade(clock, path), Lost(1, clock.now, 5, 500)])
    assert outcomes(analyzer) == {}
    for event in rest:
        analyzer.receive(1, [says(clock, event)])
    assert outcomes(analyzer) == {"lost": 1}
    assert analyzer.series.value(m.STREAMS_LOST, ("capture",)) == 1
    assert not analyzer.in_flight()


def test_a_proxy_that_goes_away_takes_its_sockets_along(analyzer: Analyzer, clock: Clock) -> None:
    analyzer.receive(1, [*upgrade(clock), says(clock, CREATE, client=True)])
    analyzer.receive(2, [*upgrade(clock), says(clock, CREATE, client=True)])
    analyzer.closed(1)
    assert outcomes(analyzer) == {"lost": 1}
    assert analyzer.series.value(m.SESSIONS, (*BASE, "", "unknown")) == 1
    assert phases(analyzer) == {"before_first_token": 1}


def test_responses_at_once_are_bounded_in_a_socket_and_over_all(clock: Clock) -> None:
    analyzer = Analyzer(Settings(max_streams=TURNS_KEPT + 10), clock)
    analyzer.receive(1, list(upgrade(clock)))
    analyzer.receive(1, [says(clock, CREATE, client=True) for _ in range(3 * TURNS_KEPT)])
    assert len(analyzer.in_flight()) == TURNS_KEPT
    analyzer.receive(1, [record for number in range(20) for record in upgrade(clock, stream=number + 2)])
    assert analyzer.series.value(m.STREAMS_LOST, ("analyzer_full",)) > 0
    analyzer.refresh()
    assert analyzer.series.value(m.TRACKED) <= TURNS_KEPT + 10


def test_a_bug_in_the_reading_of_a_response_costs_that_one_its_verdict(
    analyzer: Analyzer, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    analyzer.receive(1, [*upgrade(clock), *(says(clock, CREATE, client=True) for _ in range(2))])
    analyzer.receive(1, [says(clock, created("r1")), says(clock, created("r2"))])

    def boom(*_: Any) -> Any:
        raise RuntimeError("injected")

    with monkeypatch.context() as broken:
        broken.setattr("sidecar.dialects.openai_realtime.OpenAIRealtime.read", boom)
        analyzer.receive(1, [says(clock, delta("a", "r1"))])
    analyzer.receive(1, [says(clock, event) for event in (delta("a", "r2"), done("r1"), done("r2"))])
    assert outcomes(analyzer) == {"lost": 1, "complete": 1}
    assert analyzer.series.value(m.STAGE_FAILURES, ("dialects",)) == 1


def test_a_bug_in_telling_responses_apart_costs_the_responses_in_flight_their_verdict(
    analyzer: Analyzer, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    analyzer.receive(1, [*upgrade(clock), says(clock, CREATE, client=True)])

    def boom(*_: Any) -> Any:
        raise RuntimeError("injected")

    with monkeypatch.context() as broken:
        broken.setattr("sidecar.dialects.openai_realtime_lanes.RealtimeLanes.said", boom)
        analyzer.receive(1, [says(clock, created())])
    assert analyzer.series.value(m.STAGE_FAILURES, ("dialects",)) == 1
    assert outcomes(analyzer) == {"lost": 1}
    analyzer.receive(1, [says(clock, created()), Ended(1, clock.now, "eof", "", 1000)])
    assert analyzer.series.value(m.SESSIONS, (*BASE, "1000", "server")) == 1


def test_an_upgrade_that_is_refused_is_an_exchange_with_an_error(analyzer: Analyzer, clock: Clock) -> None:
    opened, sent, _ = upgrade(clock)
    head = ResponseHead(1, clock.now, 401, "HTTP/1.1", [("content-type", "application/json")])
    analyzer.receive(1, [opened, sent, head, Ended(1, clock.now, "eof")])
    assert outcomes(analyzer) == {"http_error": 1}
    assert not list(analyzer.series.values(m.SESSIONS))


@pytest.mark.parametrize("key", ["delta", "audio"])
def test_a_message_of_which_only_the_beginning_was_copied_is_read_as_far_as_it_goes(
    analyzer: Analyzer, clock: Clock, key: str
) -> None:
    event = {"type": "response.output_audio.delta", "response_id": "r1", "item_id": 'i\\"', "delta": "A" * 200_000}
    whole = json.dumps(event).encode()
    cut = Message(1, clock.now, whole[:65_536], False, True, len(whole))
    head = [*upgrade(clock), says(clock, CREATE, client=True), says(clock, created())]
    analyzer.receive(1, [*head, cut, says(clock, done())])
    (summary,) = analyzer.recent
    assert (summary.outcome, summary.output_chunks) == ("complete", 1)
    assert "first_audio" in summary.milestones
