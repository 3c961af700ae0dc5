"""SSE: the cases of the specification, httpx-sse, and that neither the cut nor the fast path changes what is read."""

import base64
import json
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from httpx_sse._decoders import SSEDecoder as TheirEvents
from httpx_sse._decoders import SSELineDecoder as TheirLines
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.framing.frame import Frame, Notes
from sidecar.framing.sse import SseDecoder
from sidecar.framing.table import BY_NAME, Framing, by_content_type, sniff

SPEC = Path(__file__).parents[1] / "fixtures" / "sse" / "spec.jsonl"
LIMIT = 1 << 20


class Event(NamedTuple):
    event: str
    data: str
    id: str


class Case(NamedTuple):
    name: str
    why: str
    reads: list[bytes]
    eof: bool
    events: list[Event]
    comments: int | None
    """None where the specification leaves the number open."""
    retry: int | None
    unterminated: bool


def load() -> list[Case]:
    cases = []
    for line in SPEC.read_text().splitlines():
        row = json.loads(line)
        reads = [read["text"].encode() if "text" in read else base64.b64decode(read["b64"]) for read in row["reads"]]
        events = [Event(event["event"], event["data"], event["id"]) for event in row["events"]]
        rest = (row[key] for key in ("comments", "retry", "unterminated"))
        cases.append(Case(row["name"], row["why"], reads, row["eof"], events, *rest))
    return cases


CASES = load()
each_case = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])


class WithoutFastPath(SseDecoder):
    def feed(self, chunk: bytes, at: int) -> list[Frame]:
        return self._general(chunk, at) if chunk else []


def byte_by_byte(body: bytes) -> list[bytes]:
    return [body[i : i + 1] for i in range(len(body))]


def cut(body: bytes, points: list[int]) -> list[bytes]:
    """Reads of a body, empty ones included."""
    edges = [0, *sorted(min(point, len(body)) for point in points), len(body)]
    return [body[start:end] for start, end in pairwise(edges)]


def decode(
    reads: list[bytes], limit: int = LIMIT, *, eof: bool = True, decoder: SseDecoder | None = None
) -> tuple[list[Frame], Notes]:
    """The frames of a body whose read number n came at n."""
    decoder = decoder or SseDecoder(limit)
    frames = [frame for at, read in enumerate(reads) for frame in decoder.feed(read, at)]
    if eof:
        frames += decoder.close()
        assert not decoder.pending
    return frames, decoder.notes


def without_stamps(frames: list[Frame]) -> list[Frame]:
    return [msgspec.structs.replace(frame, at=0, started=0) for frame in frames]


def without_cuts(notes: Notes) -> Notes:
    return msgspec.structs.replace(notes, split_line_endings=0)


def event_of(frame: Frame) -> Event:
    return Event(frame.event, (frame.data or b"").decode("utf-8", "replace"), frame.id)


def check(case: Case, reads: list[bytes]) -> None:
    frames, notes = decode(reads, eof=case.eof)
    assert [event_of(frame) for frame in frames if frame.complete and frame.data is not None] == case.events, case.why
    assert notes.retry == case.retry, case.why
    assert any(frame.data is not None and not frame.complete for frame in frames) == case.unterminated, case.why
    if case.comments is not None:
        assert notes.comments == case.comments, case.why


@each_case
def test_the_specification(case: Case) -> None:
    body = b"".join(case.reads)
    check(case, case.reads)
    check(case, [body])
    check(case, byte_by_byte(body))


@each_case
@settings(max_examples=10)
@given(points=st.lists(st.integers(0, 200), max_size=10))
def test_frames_and_notes_do_not_depend_on_the_cut(case: Case, points: list[int]) -> None:
    body = b"".join(case.reads)
    whole, notes = decode([body])
    frames, again = decode(cut(body, points))
    assert without_stamps(frames) == without_stamps(whole)
    assert without_cuts(again) == without_cuts(notes)


@each_case
def test_the_fast_path_is_the_general_one(case: Case) -> None:
    """Each event of each case as a read of its own, behind one that uses the fast path up to its conditions."""
    body = b"".join(case.reads)
    reads = [b"data: first\n\n"]
    reads += [block + b"\n\n" for block in body.split(b"\n\n")]
    frames, notes = decode(reads)
    expected, expected_notes = decode(reads, decoder=WithoutFastPath())
    assert frames == expected
    assert notes == expected_notes
    bytewise, bytewise_notes = decode(byte_by_byte(b"".join(reads)))
    assert without_stamps(bytewise) == without_stamps(frames)
    assert without_cuts(bytewise_notes) == without_cuts(notes)


BLOCKS = st.sampled_from(
    [
        b"data: x\n\n",
        b"data: \n\n",
        b"data: {}\r\n\r\n",
        b"data: a\rb\n\n",
        b"data: \xe2\x80\xa8\xff\n\n",
        b"data: a\ndata: b\n\n",
        b"id: 7\ndata: x\n\n",
        b"data: half",
        b"data: x\r",
        b"\n",
        b": ping\n\n",
        b"event: e\n",
    ]
)


@given(reads=st.lists(BLOCKS, max_size=12), limit=st.integers(0, 12))
def test_the_fast_path_is_the_general_one_after_anything(reads: list[bytes], limit: int) -> None:
    for bound in (limit, LIMIT):
        assert decode(reads, bound) == decode(reads, decoder=WithoutFastPath(bound))


def test_the_fast_path_is_taken() -> None:
    fed = []

    class Counting(SseDecoder):
        def _general(self, chunk: bytes, at: int) -> list[Frame]:
            fed.append(chunk)
            return super()._general(chunk, at)

    reads = [b"data: 1\n\n", b"data: 2\n\n", b"data: 3\r\n\r\n", b"data: 4\n\n", b"data: 5", b"data: 6\n\n"]
    decode(reads, decoder=Counting())
    assert fed == [b"data: 1\n\n", b"data: 3\r\n\r\n", b"data: 5", b"data: 6\n\n"]


FIELDS = ("data", "data: x", "data:é", "data:  [DONE]", "event: e", "event", "id: 1", "id", "retry: 5", ":c", "foo: x")
FIELD = st.sampled_from(FIELDS)
END = st.sampled_from(["\n", "\r\n", "\r"])


POINTS = st.lists(st.integers(0, 200), max_size=8)


@given(blocks=st.lists(st.tuples(st.lists(FIELD, max_size=4), END), max_size=6), points=POINTS)
def test_events_are_those_of_httpx_sse(blocks: list[tuple[list[str], str]], points: list[int]) -> None:
    """Of blocks with data: without, httpx-sse yields some that the standard does not."""
    source = "".join(end.join([*fields, "data: last", "", ""]) for fields, end in blocks)
    lines, events = TheirLines(), TheirEvents()
    found = [events.decode(line) for line in [*lines.decode(source), *lines.flush()]]
    theirs = [Event(event.event.removeprefix("message"), event.data, event.id) for event in found if event is not None]
    frames, _ = decode(cut(source.encode(), points))
    assert [event_of(frame) for frame in frames] == theirs


NAMES = (b"data", b"event", b"id", b"retry", b"x" * 9)
ALPHABET = (*NAMES, b":", b" ", b"\r", b"\n", b"\r\n", b"\xef\xbb\xbf", b"\0", b"1", b"\xff")
BODIES = st.lists(st.sampled_from(ALPHABET), max_size=40).map(b"".join)


@settings(max_examples=300)
@given(body=st.one_of(BODIES, st.binary(max_size=60)), points=POINTS, limit=st.integers(0, 30))
def test_any_bytes_any_cut_any_bound(body: bytes, points: list[int], limit: int) -> None:
    for bound in (limit, LIMIT):
        whole, notes = decode([body], bound)
        for reads in (byte_by_byte(body), cut(body, points)):
            frames, again = decode(reads, bound)
            assert without_stamps(frames) == without_stamps(whole)
            assert without_cuts(again) == without_cuts(notes)
        assert all(len(frame.data or b"") <= bound for frame in whole)


def test_stamps() -> None:
    reads = [b": hi\n", b"data: 1\n", b"\ndata: 2\n\nda", b"ta: 3\r", b"\r", b"\n", b"data: 4"]
    frames, notes = decode(reads)
    assert [(frame.data, frame.started, frame.at, frame.complete) for frame in frames] == [
        (b"1", 0, 2, True),
        (b"2", 2, 2, True),
        (b"3", 2, 4, True),  # complete with the CR: the LF that follows is no event's
        (b"4", 6, 6, False),
    ]
    assert (notes.cr, notes.crlf, notes.split_line_endings) == (1, 1, 1)


def test_a_block_without_data_is_kept() -> None:
    frames, notes = decode([b": ping\n\nevent: e\n\nfoo: bar\nerror: x\n\n\n"])
    assert [(frame.data, frame.event, frame.comments, frame.stray) for frame in frames] == [
        (None, "", 1, ()),
        (None, "e", 0, ()),
        (None, "", 0, (b"foo: bar", b"error: x")),
    ]
    assert (notes.comments, notes.heartbeat_comments, notes.control_only, notes.blank_lines) == (1, 1, 1, 1)


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_the_bound_is_on_data_and_the_same_for_every_cut(end: bytes) -> None:
    block = end.join([b"event: e", b"data: " + b"x" * 60, b"data: " + b"y" * 39, b"", b""])
    over = end.join([b"event: e", b"data: " + b"x" * 60, b"data: " + b"y" * 40, b":c", b"id: 1", b"data: z", b"", b""])
    for reads in ([block + over + block], byte_by_byte(block + over + block)):
        frames, notes = decode(reads, limit=100)
        kept = b"x" * 60 + b"\n" + b"y" * 39
        assert [(frame.data, frame.size, frame.event, frame.id) for frame in frames] == [
            (kept, 99, "e", ""),
            (None, 101, "e", "1"),
            (kept, 99, "e", "1"),
        ]
        assert notes.oversized == 1
        assert notes.comments == 1


def test_what_follows_dropped_bytes_is_not_read_as_a_line_of_its_own() -> None:
    frames, notes = decode([b"data: " + b"x" * 200, b":ping", b"data: y", b"\n\ndata: z\n\n"], limit=100)
    assert [(frame.data, frame.size) for frame in frames] == [(None, 212), (b"z", 1)]
    assert notes.comments == 0


def test_lines_that_are_no_data_are_cut_off() -> None:
    long = b"e" * 100_000
    pieces = [long, b": 1\nevent: " + long, b"\nid: " + long + b"\n\n"]
    for reads in (pieces, [b"".join(pieces)]):
        (frame,), notes = decode(reads)
        assert (len(frame.event), len(frame.id), [len(line) for line in frame.stray]) == (65536, 65536, [65536])
        assert notes.oversized == 0


def held(decoder: SseDecoder) -> int:
    """Bytes held, list slots included."""
    size = 0
    for value in (getattr(decoder, name) for name in decoder.__slots__):
        if isinstance(value, list):
            size += 8 * len(value) + sum(len(item) for item in value)
        elif isinstance(value, (bytes, bytearray, str)):
            size += len(value)
    return size


@pytest.mark.parametrize("fill", [b"x", b":", b"data: x\n", b"data\n", b"stray\n", b"event: x", b": c\n", b"id: 1\r"])
def test_nothing_endless_is_kept(fill: bytes) -> None:
    decoder = SseDecoder(limit=1000)
    decoder.feed(b"data: begin\n", 0)
    most = 0
    for at in range(300):
        assert decoder.feed(fill * (400 // len(fill)), at) == []
        most = max(most, held(decoder))
    assert most <= 2 * 1000 + 100
    (frame,) = decoder.close()
    assert (frame.complete, frame.started) == (False, 0)


@pytest.mark.parametrize(
    ("head", "told"),
    [
        (b"data:", "sse"),
        (b"id:", "sse"),
        (b":", "sse"),
        (b"\n\r\n  event: x", "sse"),
        (b"\xef\xbb\xbfdata: x", "sse"),
        (b"\xef\xbb", None),
        (b"", None),
        (b"\n\n", None),
        (b"dat", None),
        (b"retry", None),
        (b"{", "whole"),
        (b"[{", "json_array"),
        (b"[", None),
        (b"<html>", "whole"),
    ],
)
def test_the_framing_is_told_by_the_first_bytes(head: bytes, told: str | None) -> None:
    framing = sniff(head, by_content_type("application/json; charset=utf-8"), asked_stream=True)
    assert framing == (BY_NAME[told] if told is not None else None)


@pytest.mark.parametrize(
    ("content_type", "name"), [("Text/Event-Stream;charset=utf-8", "sse"), ("application/x-ndjson", "ndjson")]
)
def test_a_declared_framing_is_kept_where_the_first_bytes_leave_it_open(content_type: str, name: str) -> None:
    declared: Framing | None = by_content_type(content_type)
    assert declared is BY_NAME[name]
    assert sniff(b"something else", declared, asked_stream=True) is declared
