"""AWS event stream: frames built from the format's description, checked against botocore's parser and every cut."""

import struct
from itertools import pairwise
from zlib import crc32

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given
from hypothesis import strategies as st

from sidecar.framing.eventstream import EventStreamDecoder
from sidecar.framing.frame import Frame, Notes
from sidecar.framing.table import BY_NAME, sniff

LIMIT = 1 << 20
STRING = 7


def message(headers: bytes, payload: bytes) -> bytes:
    """A frame of raw headers and payload, with both checksums right."""
    lengths = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    body = lengths + struct.pack(">I", crc32(lengths)) + headers + payload
    return body + struct.pack(">I", crc32(body))


def header(name: str, kind: int, value: bytes) -> bytes:
    raw = name.encode()
    return bytes([len(raw)]) + raw + bytes([kind]) + value


def string(name: str, value: str) -> bytes:
    raw = value.encode()
    return header(name, STRING, struct.pack(">H", len(raw)) + raw)


def event(name: str, payload: bytes) -> bytes:
    return message(string(":message-type", "event") + string(":event-type", name), payload)


def sized(value: bytes) -> bytes:
    return struct.pack(">H", len(value)) + value


VALUES = st.one_of(
    st.just((0, b"")),
    st.just((1, b"")),
    *(
        st.tuples(st.just(kind), st.binary(min_size=size, max_size=size))
        for kind, size in ((2, 1), (3, 2), (4, 4), (5, 8), (8, 8), (9, 16))
    ),
    st.tuples(st.just(6), st.binary(max_size=20).map(sized)),
    st.tuples(st.just(STRING), st.text(max_size=20).map(lambda text: sized(text.encode()))),
)
NAMES = st.one_of(st.sampled_from([":event-type", ":exception-type", ":error-code"]), st.text(min_size=1, max_size=12))
HEADERS = st.dictionaries(NAMES, VALUES, max_size=5).map(
    lambda headers: b"".join(header(name, kind, value) for name, (kind, value) in headers.items())
)
MESSAGES = st.lists(st.builds(message, HEADERS, st.binary(max_size=60)), min_size=1, max_size=6)
POINTS = st.lists(st.integers(0, 600), max_size=12)


def byte_by_byte(body: bytes) -> list[bytes]:
    return [body[i : i + 1] for i in range(len(body))]


def cut(body: bytes, points: list[int]) -> list[bytes]:
    """Reads of a body, empty ones included."""
    edges = [0, *sorted(min(point, len(body)) for point in points), len(body)]
    return [body[start:end] for start, end in pairwise(edges)]


def decode(reads: list[bytes], limit: int = LIMIT) -> tuple[list[Frame], Notes]:
    """The frames of a body whose read number n came at n."""
    decoder = EventStreamDecoder(limit)
    frames = [frame for at, read in enumerate(reads) for frame in decoder.feed(read, at)]
    frames += decoder.close()
    assert not decoder.pending
    return frames, decoder.notes


type Summary = list[tuple[bytes | None, str, dict[str, str] | None, bool, int]]


def summary(frames: list[Frame]) -> Summary:
    return [(frame.data, frame.event, frame.headers, frame.complete, frame.size) for frame in frames]


@given(messages=MESSAGES, points=POINTS)
def test_frames_are_those_of_botocore_however_they_are_cut(messages: list[bytes], points: list[int]) -> None:
    body = b"".join(messages)
    oracle = EventStreamBuffer()
    oracle.add_data(body)
    expected = [
        ({name: value for name, value in theirs.headers.items() if isinstance(value, str)}, theirs.payload)
        for theirs in oracle
    ]
    whole, notes = decode([body])
    assert [(frame.headers, frame.data) for frame in whole] == expected
    assert notes == Notes()
    for frame in whole:
        headers = frame.headers or {}
        named = [headers[name] for name in (":event-type", ":exception-type", ":error-code") if name in headers]
        assert frame.event == (named[0] if named else "")
    for reads in (byte_by_byte(body), cut(body, points)):
        frames, notes = decode(reads)
        assert summary(frames) == summary(whole)
        assert notes == Notes()


@given(messages=MESSAGES, points=POINTS, data=st.data())
def test_one_wrong_bit_costs_one_frame(messages: list[bytes], points: list[int], data: st.DataObject) -> None:
    """A checksum of 32 bits finds every single wrong bit, in the prelude as well as behind it."""
    broken = data.draw(st.integers(0, len(messages) - 1))
    bit = data.draw(st.integers(0, 8 * len(messages[broken]) - 1))
    raw = bytearray(messages[broken])
    raw[bit // 8] ^= 1 << bit % 8
    body = b"".join([*messages[:broken], bytes(raw), *messages[broken + 1 :]])
    expected = [frame for index, one in enumerate(messages) if index != broken for frame in decode([one])[0]]
    whole, notes = decode([body])
    assert summary([frame for frame in whole if frame.data is not None]) == summary(expected)
    assert notes.bad_checksums == 1
    in_prelude = bit // 8 < 12
    assert [frame.data for frame in whole].count(None) == (0 if in_prelude else 1)
    for reads in (byte_by_byte(body), cut(body, points)):
        frames, again = decode(reads)
        assert summary(frames) == summary(whole)
        assert again == notes


@given(
    pieces=st.lists(
        st.one_of(st.binary(max_size=40), st.sampled_from([b"\0" * 12, event("a", b"{}"), event("b", b"x")[:-5]]))
    ),
    points=POINTS,
    limit=st.integers(0, 100),
)
def test_any_bytes_any_cut(pieces: list[bytes], points: list[int], limit: int) -> None:
    body = b"".join(pieces)
    for bound in (limit, LIMIT):
        whole, notes = decode([body], bound)
        for reads in (byte_by_byte(body), cut(body, points)):
            frames, again = decode(reads, bound)
            assert summary(frames) == summary(whole)
            assert again == notes


def test_stamps() -> None:
    one, two, three = event("a", b"1"), event("b", b"2"), event("c", b"3")
    reads = [one[:5], one[5:20], b"", one[20:] + two + three[:1], three[1:]]
    frames, _ = decode(reads)
    assert [(frame.event, frame.started, frame.at) for frame in frames] == [("a", 0, 3), ("b", 3, 3), ("c", 3, 4)]
    frames, _ = decode(byte_by_byte(one + two))
    assert [(frame.started, frame.at) for frame in frames] == [
        (0, len(one) - 1),
        (len(one), len(one) + len(two) - 1),
    ]


@pytest.mark.parametrize("garbage", [b"<html>Bad Gateway</html>", b"\0" * 40, b"\0\0\0\x20" + b"\0" * 8, b"\x01" * 11])
def test_after_a_lost_prelude_reading_goes_on_at_the_next(garbage: bytes) -> None:
    first, last = event("a", b"1"), event("b", b"2")
    body = first + garbage + last
    for reads in ([body], byte_by_byte(body)):
        frames, notes = decode(reads)
        assert [(frame.event, frame.data) for frame in frames] == [("a", b"1"), ("b", b"2")]
        assert notes == Notes(bad_checksums=1)
    assert frames[1].started == len(first) + len(garbage)  # of its own first byte, not of the search


@pytest.mark.parametrize(
    ("total", "headers"),
    [(0, 0), (15, 0), (16, 1), (40, 25), (0xFFFFFFFF, 0xFFFFFFFF)],
)
def test_lengths_that_lie_are_no_prelude(total: int, headers: int) -> None:
    lengths = struct.pack(">II", total, headers)
    body = lengths + struct.pack(">I", crc32(lengths)) + event("a", b"1")
    frames, notes = decode([body])
    assert [(frame.event, frame.data) for frame in frames] == [("a", b"1")]
    assert notes == Notes(bad_checksums=1)


def test_a_wrong_checksum_keeps_the_payload_back() -> None:
    bad = bytearray(event("a", b'{"x":1}'))
    bad[-6] ^= 1
    frames, notes = decode([bytes(bad) + event("b", b"2")])
    assert summary(frames) == [
        (None, "", None, True, 7),
        (b"2", "b", {":message-type": "event", ":event-type": "b"}, True, 1),
    ]
    assert notes == Notes(bad_checksums=1)


def test_a_frame_over_the_bound_is_passed_over() -> None:
    small, large = event("a", b"1"), event("b", b"x" * 5000)
    body = small + large + small
    for reads in ([body], byte_by_byte(body), cut(body, list(range(0, len(body), 7)))):
        frames, notes = decode(reads, limit=1000)
        assert [(frame.data, frame.size, frame.complete) for frame in frames] == [
            (b"1", 1, True),
            (None, 5000, True),
            (b"1", 1, True),
        ]
        assert notes == Notes(oversized=1)
    assert len(decode([small], limit=len(small))[0]) == 1
    assert decode([small], limit=len(small) - 1)[0][0].data is None


@pytest.mark.parametrize("cut_off", [1, 11, 12, 30, -1])
@pytest.mark.parametrize("limit", [LIMIT, 20])
def test_a_frame_cut_off_is_incomplete_and_empty(cut_off: int, limit: int) -> None:
    body = event("a", b"1")[:cut_off]
    decoder = EventStreamDecoder(limit)
    frames = [*decoder.feed(body[:1], 3), *decoder.feed(body[1:], 4)]
    assert frames == []
    assert decoder.pending
    (frame,) = decoder.close()
    assert (frame.data, frame.complete, frame.started, frame.at) == (b"", False, 3, 3 if cut_off == 1 else 4)
    assert decoder.close() == ()


def test_headers_that_do_not_hold_together_are_read_as_far_as_they_do() -> None:
    good = string(":event-type", "a")
    cut_short = (header("x", STRING, b"\0\x05abc"), header("x", STRING, b"\0"), b"\x05ab", b"\x01x")
    for bad in (*cut_short, b"\xff", b"\x01x\x0a"):
        (frame,), notes = decode([message(good + bad, b"1")])
        assert (frame.data, frame.event, frame.headers) == (b"1", "a", {":event-type": "a"})
        assert notes == Notes()


@pytest.mark.parametrize("fill", [b"x", b"\0", b"\0\0\x10\0", event("a", b"1")[:-1] + b"?"])
def test_nothing_endless_is_kept(fill: bytes) -> None:
    decoder = EventStreamDecoder(limit=1000)
    read = fill * (400 // len(fill))
    most = 0
    for at in range(500):
        decoder.feed(b"?" + read if at == 0 else read, at)
        most = max(most, sum(len(value) for value in vars(decoder).values() if isinstance(value, (bytearray, list))))
    assert most <= 1000 + 12
    assert decoder.notes.bad_checksums


def test_a_frame_of_gigabytes_is_not_kept() -> None:
    lengths = struct.pack(">II", 0xFFFFFFFF, 0)
    decoder = EventStreamDecoder()
    decoder.feed(lengths + struct.pack(">I", crc32(lengths)), 0)
    for at in range(64):
        assert decoder.feed(b"x" * 65536, at) == []
        assert not any(vars(decoder)[name] for name, value in vars(decoder).items() if isinstance(value, bytearray))
    assert decoder.notes == Notes(oversized=1)
    assert [frame.complete for frame in decoder.close()] == [False]


def test_the_framing_is_told_by_the_first_bytes_without_a_content_type() -> None:
    body = event("a", b"1")
    told = [sniff(body[:size], None, asked_stream=True) for size in range(1, 12)]
    assert told == [None] * 4 + [BY_NAME["eventstream"]] * 7
