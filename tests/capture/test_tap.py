"""The tee: what it copies, what it does when it cannot, and that it never touches the bytes."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from sidecar.capture.capture import Capture
from sidecar.capture.outbox import Outbox
from sidecar.capture.records import (
    AnyRecord,
    Chunk,
    Ended,
    Headers,
    Lost,
    Opened,
    RequestBody,
    RequestSent,
    ResponseHead,
)
from sidecar.capture.tap import REQUEST_COPY_LIMIT, Tap
from sidecar.transport.wire import LENGTH, decode_batch, encode


def opened(stream: int = 1, headers: Headers | None = None) -> Opened:
    target = "/v1/chat/completions"
    return Opened(stream, 5, "flow", 6, "POST", "https", "host", 443, target, "HTTP/1.1", headers or [])


def over_the_wire(outbox: Outbox) -> list[AnyRecord]:
    """What the analyzer would get of all that is in the outbox."""
    return decode_batch(encode(outbox.take(1 << 40))[LENGTH.size :])


def play(tap: Tap) -> None:
    tap.request_chunk(b'{"a":')
    tap.request_chunk(b"1}")
    tap.request_chunk(b"")
    tap.response_head(ResponseHead(tap.stream, 9, 200, "HTTP/1.1", [("content-type", "text/event-stream")]))
    tap.response_chunk(b"data: x\n\n")
    tap.response_chunk(b"")
    tap.end("eof")


def test_an_exchange_becomes_its_records_in_order() -> None:
    outbox = Outbox()
    play(Tap(opened(), outbox, held=False))
    records = over_the_wire(outbox)
    kinds = [type(record) for record in records]
    assert kinds == [Opened, RequestBody, RequestBody, RequestSent, ResponseHead, Chunk, Ended]
    assert [record.data for record in records if isinstance(record, (RequestBody, Chunk))] == [
        b'{"a":',
        b"1}",
        b"data: x\n\n",
    ]
    sent, chunk, ended = records[3], records[5], records[6]
    assert sent.at <= chunk.at <= ended.at


@pytest.mark.parametrize(
    ("headers", "t0"), [([("content-length", "7")], 200), ([("transfer-encoding", "chunked")], 300), ([], 300)]
)
def test_t0_is_the_last_byte_of_the_request(headers: Headers, t0: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a body with a length that is its last byte; else the mark of its end, for which the upstream waits."""
    outbox = Outbox()
    tap = Tap(opened(headers=headers), outbox, held=False)
    for now, data in ((100, b'{"a":'), (200, b"1}"), (300, b"")):
        monkeypatch.setattr("sidecar.capture.tap.monotonic_ns", lambda now=now: now)
        tap.request_chunk(data)
    assert [record.at for record in over_the_wire(outbox) if isinstance(record, RequestSent)] == [t0]


@pytest.mark.parametrize("callable_of", [lambda tap: tap.request_chunk, lambda tap: tap.response_chunk])
@pytest.mark.parametrize("data", [b"", b"x", bytes(range(256)) * 1000])
def test_the_bytes_come_back_untouched(callable_of: Callable[[Tap], Callable[[bytes], bytes]], data: bytes) -> None:
    assert callable_of(Tap(opened(), Outbox(), held=False))(data) is data


def test_a_bug_in_the_tee_is_counted_and_the_bytes_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    outbox = Outbox()
    tap = Tap(opened(), outbox, held=False)

    def broken(*_: Any) -> bool:
        raise MemoryError

    monkeypatch.setattr(Outbox, "put", broken)
    assert tap.response_chunk(b"data") == b"data"
    assert tap.request_chunk(b"body") == b"body"
    assert outbox.failures == 2


def test_a_full_outbox_loses_the_stream_and_says_how_much() -> None:
    outbox = Outbox(limit=1000)
    tap = Tap(opened(), Outbox(), held=False)
    tap._outbox = outbox  # opened while there was room
    assert tap.response_chunk(b"x" * 800) == b"x" * 800
    assert tap.response_chunk(b"y" * 800) == b"y" * 800
    assert tap.lost
    tap.response_chunk(b"z")
    tap.end("eof")
    records = over_the_wire(outbox)
    assert [type(record) for record in records] == [Chunk, Lost, Ended]
    lost = records[1]
    assert isinstance(lost, Lost)
    assert (lost.records, lost.bytes) == (1, 800)
    assert outbox.dropped == 1


def test_a_held_exchange_goes_out_when_it_is_confirmed_and_only_then() -> None:
    outbox = Outbox()
    tap = Tap(opened(), outbox, held=True)
    tap.request_chunk(b"body")
    tap.request_chunk(b"")
    assert not outbox.records
    tap.confirm()
    assert [type(record) for record in over_the_wire(outbox)] == [Opened, RequestBody, RequestSent]


def test_held_request_bodies_stay_within_the_bound_of_the_outbox() -> None:
    outbox = Outbox(limit=10_000)
    tap = Tap(opened(), outbox, held=True)
    for _ in range(100):
        tap.request_chunk(b"x" * 1000)
    tap.confirm()
    assert outbox.size <= 10_000 + 1024 * 1024
    assert sum(len(r.data) for r in over_the_wire(outbox) if isinstance(r, RequestBody)) <= 10_000


def test_of_a_large_upload_only_the_beginning_is_copied() -> None:
    outbox = Outbox()
    tap = Tap(opened(), outbox, held=False)
    piece = b"x" * (1024 * 1024)
    for _ in range(10):
        assert tap.request_chunk(piece) is piece
    tap.request_chunk(b"")
    records = over_the_wire(outbox)
    assert sum(len(record.data) for record in records if isinstance(record, RequestBody)) == REQUEST_COPY_LIMIT
    assert isinstance(records[-1], RequestSent)
    assert not tap.lost


def test_a_new_analyzer_hears_of_every_exchange_that_the_old_one_knew() -> None:
    capture = Capture(Outbox())
    known = capture.open(opened(capture.next_stream()), held=False)
    over = capture.open(opened(capture.next_stream()), held=False)
    capture.handed_over(capture.outbox.take(1 << 40))
    capture.acknowledged(1)
    known.response_chunk(b"on its way when the analyzer died")
    over.end("eof")
    fresh = capture.open(opened(capture.next_stream()), held=False)
    capture.analyzer_gone()
    known.response_chunk(b"later")
    known.end("eof")
    records = over_the_wire(capture.outbox)
    assert [(type(record), record.stream) for record in records] == [
        (Opened, fresh.stream),
        (Opened, known.stream),
        (Lost, known.stream),
        (Opened, over.stream),
        (Lost, over.stream),
        (Ended, over.stream),
        (Lost, known.stream),
        (Ended, known.stream),
    ]


def test_the_fast_form_of_a_chunk_is_what_the_record_encodes_to() -> None:
    encoder = msgspec.msgpack.Encoder()
    assert encoder.encode(("c", 7, 8, b"data")) == encoder.encode(Chunk(7, 8, b"data"))
    assert encoder.encode(("b", 7, 8, b"data")) == encoder.encode(RequestBody(7, 8, b"data"))


def stuck(capture: Capture, streams: range) -> None:
    """So many exchanges while nobody takes anything out of the outbox."""
    for stream in streams:
        play(capture.open(opened(stream), held=False))


def test_ends_without_room_are_told_once_there_is_some() -> None:
    """Else the analyzer would take them for hanging for ever."""
    capture = Capture(Outbox(limit=2000))
    before = [capture.open(opened(stream), held=False) for stream in (1, 2)]
    known = {record.stream for record in over_the_wire(capture.outbox) if isinstance(record, Opened)}
    stuck(capture, range(3, 3000))
    for tap in before:
        tap.end("eof")
    assert not any(tap.end_told for tap in before), "the test wants a full outbox"
    drops = capture.outbox.dropped
    capture.tell_ends()
    assert capture.outbox.dropped == drops, "there is no room yet, and trying is no drop"
    ended: list[int] = []
    while capture.outbox.records:
        records = over_the_wire(capture.outbox)
        known |= {record.stream for record in records if isinstance(record, Opened)}
        ended += [record.stream for record in records if isinstance(record, Ended)]
        lost = {record.stream for record in records if isinstance(record, Lost)}
        assert {record.stream for record in records if isinstance(record, Ended)} <= lost
        capture.tell_ends()
    assert sorted(ended) == sorted(known), "each once"
    assert {1, 2} < known


def test_exchanges_that_nobody_heard_of_are_not_kept() -> None:
    """An analyzer that hangs for days must not fill the proxy's memory."""
    capture = Capture(Outbox(limit=2000))
    stuck(capture, range(1, 5000))
    capture.tell_ends()
    told = sum(isinstance(record, Opened) for record in over_the_wire(capture.outbox))
    assert len(capture._taps) == told < 600
    assert capture.streams_lost == 4999 - told
