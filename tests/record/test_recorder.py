"""What becomes of an exchange between its first record and its line: what is kept, what is dropped, and why."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sidecar import metrics as m
from sidecar.analyzer import Analyzer
from sidecar.capture.records import (
    AnyRecord,
    Chunk,
    Ended,
    Lost,
    Message,
    Opened,
    RequestBody,
    RequestSent,
    ResponseHead,
)
from sidecar.capture.tap import STOPPED
from sidecar.config import Settings
from sidecar.files.capture import Capture, CaptureError, read_captures
from sidecar.record import writer
from sidecar.record.draft import Draft
from sidecar.record.folder import Bounds, Folder
from sidecar.record.line import line_of
from sidecar.record.recorder import Recorder
from sidecar.record.start import RecordError, start_recorder
from sidecar.record.writer import Writer
from tests.taps import Tap

MIB = 1024 * 1024
SOCKET: list[tuple[str, str]] = [("upgrade", "websocket"), ("connection", "Upgrade")]


class Bench:
    """An analyzer that records, its writer in a thread as ever."""

    def __init__(self, path: Path, **changes: Any) -> None:
        self.path = path
        folder = Folder(path, Bounds(64 * MIB, 3600.0, 1024 * MIB))
        folder.prepare()
        line: Callable[[Draft], bytes] = changes.pop("line", lambda draft: line_of(draft, by="test"))
        self.writer = Writer(folder, line)
        bounds = {"exchange_bytes": MIB, "memory_bytes": 8 * MIB} | changes
        self.analyzer = Analyzer(Settings())
        self.recorder = Recorder(self.writer, bounds.pop("wanted", lambda found: True), **bounds)
        self.analyzer.recorder = self.recorder

    def feed(self, *records: AnyRecord, connection: int = 1) -> None:
        self.analyzer.receive(connection, records)

    def ids(self) -> list[str]:
        """What was recorded, once all is written."""
        return [capture.id for capture in self.captures()]

    def captures(self) -> list[Capture]:
        self.writer.close(10)
        found = [capture for file in sorted(self.path.iterdir()) for capture in read_captures(file)]
        assert not any(isinstance(capture, CaptureError) for capture in found)
        return [capture for capture in found if isinstance(capture, Capture)]

    def dropped(self) -> dict[str, float]:
        self.recorder.publish(self.analyzer.series)
        return {labels[0]: value for labels, value, _ in self.analyzer.series.values(m.RECORDINGS_DROPPED)}

    def failures(self) -> dict[tuple[str, ...], float]:
        return {labels: value for labels, value, _ in self.analyzer.series.values(m.STAGE_FAILURES)}


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path / "r")
    yield bench
    assert bench.failures() == {}
    bench.writer.close(10)


def test_an_exchange_is_written_when_it_is_over(bench: Bench) -> None:
    *records, end = Tap().records()
    bench.feed(*records)
    assert bench.recorder.held_bytes > 0
    bench.feed(end)
    (capture,) = bench.captures()
    assert capture.end.kind == "eof"
    assert b"".join(chunk.data() for chunk in capture.chunks).endswith(b"data: [DONE]\n\n")
    assert bench.recorder.held_bytes == 0
    assert bench.writer.written == 1


def test_what_is_not_wanted_is_forgotten(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "r", wanted=lambda found: found.outcome != "complete")
    bench.feed(*Tap(stream=1).records(), *Tap(stream=2, done=False, finish=None).records())
    assert bench.ids() == ["outer-2"]
    assert bench.dropped() == {}
    assert bench.recorder.held_bytes == 0


def test_one_of_which_telemetry_was_lost_is_no_recording(bench: Bench) -> None:
    *records, end = Tap().records()
    bench.feed(*records, Lost(1, end.at, 3, 300), end)
    bench.feed(*Tap(stream=2).records())
    assert bench.ids() == ["outer-2"]
    assert bench.dropped() == {"lost": 1}


def test_one_that_an_analyzer_before_knew_is_no_recording(bench: Bench) -> None:
    """It is announced without what came of it; that nothing more was dropped since does not help."""
    opened, *_, end = Tap().records()
    bench.feed(opened, Lost(1, opened.at + 1, 0, 0), Lost(1, end.at, 0, 0), end)
    bench.feed(opened, Lost(1, opened.at + 1, 0, 0), connection=2)
    bench.analyzer.closed(2)
    assert bench.ids() == []
    assert bench.dropped() == {"lost": 2}


def test_one_that_was_in_flight_when_the_proxy_stopped_is_open(bench: Bench) -> None:
    *records, end = Tap().records()
    bench.feed(*records, Lost(1, end.at, 0, 0), Ended(1, end.at, "client_disconnect", STOPPED))
    (capture,) = bench.captures()
    assert (capture.end.kind, capture.end.error) == ("open", "")


def test_one_that_was_in_flight_when_its_proxy_died_is_open(bench: Bench) -> None:
    *records, _ = Tap().records()
    bench.feed(*records)
    bench.feed(*Tap(stream=2).records(), connection=2)
    bench.analyzer.closed(1)
    assert [capture.end.kind for capture in bench.captures()] == ["eof", "open"]


def test_one_that_is_in_flight_when_the_analyzer_stops_is_open(bench: Bench) -> None:
    *records, _ = Tap().records()
    bench.feed(*records)
    bench.analyzer.stop()
    bench.recorder.close(10)
    assert [capture.end.kind for capture in bench.captures()] == ["open"]


def big(stream: int, size: int) -> Iterator[AnyRecord]:
    *records, end = Tap(stream=stream).records()
    yield from records
    for _ in range(size // 100_000):
        yield Chunk(stream, end.at, b"x" * 100_000)
    yield end


def test_one_that_is_too_large_is_let_go_at_once_and_counted_at_its_end(bench: Bench) -> None:
    *records, end = big(1, 3 * MIB)
    for record in records:
        bench.feed(record)
        assert bench.recorder.held_bytes < 1.2 * MIB
    assert bench.dropped() == {}
    bench.feed(end)
    assert bench.dropped() == {"too_large": 1}
    assert bench.ids() == []


def test_all_of_them_together_are_bounded(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "r", memory_bytes=2 * MIB)
    ends = []
    for stream in range(1, 7):
        *records, end = big(stream, MIB * 3 // 4)
        bench.feed(*records)
        ends.append(end)
        assert bench.recorder.held_bytes <= 2 * MIB
    bench.feed(*ends)
    assert bench.dropped() == {"memory": 4}
    assert len(bench.ids()) == 2


def test_a_disk_that_is_too_slow_costs_recordings_and_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "WAITING", 4)
    go = threading.Event()

    def slow(draft: Draft) -> bytes:
        go.wait(10)
        return line_of(draft, by="test")

    bench = Bench(tmp_path / "r", line=slow)
    for stream in range(1, 21):
        bench.feed(*Tap(stream=stream).records())
    go.set()
    kept = bench.ids()
    assert 4 <= len(kept) <= 6
    assert bench.dropped() == {"queue_full": 20 - len(kept)}
    assert bench.recorder.held_bytes == 0


def test_a_bug_in_making_a_line_costs_that_exchange_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def line(draft: Draft) -> bytes:
        if draft.opened.stream == 1:
            raise RuntimeError("content that no log may show")
        return line_of(draft, by="test")

    bench = Bench(tmp_path / "r", line=line)
    bench.feed(*Tap(stream=1).records(), *Tap(stream=2).records())
    assert bench.ids() == ["outer-2"]
    assert bench.dropped() == {"failure": 1}
    assert "RuntimeError" in caplog.text
    assert "content that" not in caplog.text


def test_a_bug_in_choosing_costs_no_verdict(tmp_path: Path) -> None:
    def wanted(found: object) -> bool:
        raise RuntimeError

    bench = Bench(tmp_path / "r", wanted=wanted)
    bench.feed(*Tap().records())
    assert bench.failures() == {("record",): 1}
    assert [summary.outcome for summary in bench.analyzer.recent] == ["complete"]
    assert bench.ids() == []
    assert bench.recorder.held_bytes == 0


def test_a_number_that_is_used_again_is_another_exchange(bench: Bench) -> None:
    for _ in range(3):
        bench.feed(*Tap(stream=5).records())
    assert len(bench.ids()) == 3
    assert bench.recorder.held_bytes == 0


def test_exchanges_that_are_not_followed_are_not_held(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "r")
    bench.analyzer.settings = Settings(max_streams=1)
    *first, _ = Tap(stream=1).records()
    bench.feed(*first)
    held = bench.recorder.held_bytes
    *second, _ = Tap(stream=2).records()
    bench.feed(*second)
    assert bench.recorder.held_bytes == held


def socket(*messages: str, end: Ended | None = None) -> Iterator[AnyRecord]:
    target = "/v1/realtime?model=m"
    yield Opened(1, 0, "socket", 1_767_225_600_000_000_000, "GET", "ws", "h", 80, target, "HTTP/1.1", SOCKET)
    yield RequestSent(1, 5)
    yield ResponseHead(1, 10, 101, "HTTP/1.1", SOCKET)
    for number, text in enumerate(messages):
        yield Message(1, 20 + number, text.encode(), text.startswith('{"type":"response.create"'), True, len(text))
    yield end or Ended(1, 1000, "eof", "bye", 1000)


RESPONSE = (
    '{"type":"response.create"}',
    '{"type":"response.created","response":{"id":"r1"}}',
    '{"type":"response.output_text.delta","response_id":"r1","delta":"x"}',
    '{"type":"response.done","response":{"id":"r1","status":"completed"}}',
)


def test_a_socket_is_one_recording_if_one_of_its_responses_is_wanted(tmp_path: Path) -> None:
    told: list[object] = []

    def wanted(found: Any) -> bool:
        told.append(found)
        return getattr(found, "outcome", None) == "complete"

    bench = Bench(tmp_path / "r", wanted=wanted)
    bench.feed(*socket(*RESPONSE * 2))
    (capture,) = bench.captures()
    assert capture.id == "socket"
    assert [message.data().decode() for message in capture.messages] == [*RESPONSE * 2]
    assert (capture.end.code, capture.end.reason) == (1000, "bye")
    assert len(told) == 1, "one is enough"


def test_a_socket_without_responses_is_asked_about_as_a_whole(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "r", wanted=lambda found: isinstance(found, Draft))
    bench.feed(*socket())
    assert bench.ids() == ["socket"]


def test_a_socket_that_nobody_follows_is_not_recorded(bench: Bench) -> None:
    opened, *rest = socket()
    assert isinstance(opened, Opened)
    bench.feed(msgspec.structs.replace(opened, target="/chat"), *rest)
    assert bench.ids() == []
    assert bench.dropped() == {}


def test_a_request_that_was_never_complete_says_so(bench: Bench) -> None:
    opened = next(Tap().records())
    bench.feed(opened, RequestBody(1, opened.at, b"{"), Ended(1, opened.at + 1, "client_disconnect", "gone"))
    (capture,) = bench.captures()
    assert not capture.request.complete
    assert (capture.end.kind, capture.end.error) == ("client_disconnect", "gone")


@pytest.mark.parametrize("given", [{"record_only": "outcome!=complete"}, {"record_scrub": True}])
def test_how_to_record_without_where_is_a_mistake(given: dict[str, Any]) -> None:
    with pytest.raises(RecordError, match="give --record DIR"):
        start_recorder(Settings(**given), "1")


async def test_writing_never_blocks_the_loop(tmp_path: Path) -> None:
    """A disk that hangs holds up its thread, and at the end no longer than it is given."""
    go = threading.Event()

    def stuck(draft: Draft) -> bytes:
        go.wait(30)
        return b"\n"

    bench = Bench(tmp_path / "r", line=stuck)
    for stream in range(1, 10):
        bench.feed(*Tap(stream=stream).records())
    await asyncio.sleep(0)
    bench.recorder.close(0.05)
    go.set()
