"""NDJSON: every case whole, byte by byte and cut at random; the lines may not depend on the cut."""

from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.framing.frame import Frame, Notes
from sidecar.framing.ndjson import NdjsonDecoder

LIMIT = 1 << 20
ALPHABET = (b"{}", b'"a"', b"\r", b"\n", b"\r\n", b" ", b"\t", b"\x1e", b"\xef\xbb\xbf", b"\xff", b"0123456789")
BODIES = st.lists(st.sampled_from(ALPHABET), max_size=40).map(b"".join)


class Case(NamedTuple):
    body: bytes
    lines: list[tuple[bytes | None, bool]]
    notes: Notes


CASES = {
    "lf": Case(b'{"a":1}\n{"b":2}\n', [(b'{"a":1}', True), (b'{"b":2}', True)], Notes(lf=2)),
    "crlf": Case(b'{"a":1}\r\n{"b":2}\r\n', [(b'{"a":1}', True), (b'{"b":2}', True)], Notes(crlf=2)),
    "mixed": Case(b"1\n2\r\n3\n", [(b"1", True), (b"2", True), (b"3", True)], Notes(lf=2, crlf=1)),
    "no final newline": Case(b"1\n2", [(b"1", True), (b"2", False)], Notes(lf=1, missing_final_newline=1)),
    "cut off": Case(b'{"a":', [(b'{"a":', False)], Notes(missing_final_newline=1)),
    "a lone CR ends no line": Case(b"1\r2\n", [(b"1\r2", True)], Notes(lf=1)),
    "a CR more": Case(b"1\r\r\n", [(b"1\r", True)], Notes(crlf=1)),
    "CR at the end": Case(b"1\r", [(b"1\r", False)], Notes(missing_final_newline=1)),
    "blank lines": Case(b"\n1\n\r\n \t\n2\n\n", [(b"1", True), (b"2", True)], Notes(lf=5, crlf=1, blank_lines=4)),
    "ends in blanks": Case(b"1\n  ", [(b"1", True)], Notes(lf=1)),
    "byte order mark": Case(b"\xef\xbb\xbf1\n2\n", [(b"1", True), (b"2", True)], Notes(lf=2, bom=1)),
    "a mark later on": Case(b"1\n\xef\xbb\xbf2\n", [(b"1", True), (b"\xef\xbb\xbf2", True)], Notes(lf=2)),
    "nothing but a mark": Case(b"\xef\xbb\xbf", [], Notes(bom=1)),
    "text sequence": Case(b'\x1e{"a":1}\n\x1e2\n', [(b'{"a":1}', True), (b"2", True)], Notes(lf=2)),
    "bad UTF-8 and NUL": Case(b"\xff\x00\n", [(b"\xff\x00", True)], Notes(lf=1)),
    "other separators": Case("\u2028\x0b\x85\n".encode(), [("\u2028\x0b\x85".encode(), True)], Notes(lf=1)),
    "empty": Case(b"", [], Notes()),
}


def byte_by_byte(body: bytes) -> list[bytes]:
    return [body[i : i + 1] for i in range(len(body))]


def cut(body: bytes, points: list[int]) -> list[bytes]:
    """Reads of a body, empty ones included."""
    edges = [0, *sorted(min(point, len(body)) for point in points), len(body)]
    return [body[start:end] for start, end in pairwise(edges)]


def decode(reads: list[bytes], limit: int = LIMIT) -> tuple[list[Frame], Notes]:
    """The frames of a body whose read number n came at n."""
    decoder = NdjsonDecoder(limit)
    frames = [frame for at, read in enumerate(reads) for frame in decoder.feed(read, at)]
    frames += decoder.close()
    assert not decoder.pending
    return frames, decoder.notes


def lines(frames: list[Frame]) -> list[tuple[bytes | None, bool, int]]:
    return [(frame.data, frame.complete, frame.size) for frame in frames]


def without_cuts(notes: Notes) -> Notes:
    notes.split_line_endings = 0
    return notes


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_lines(case: Case) -> None:
    frames, notes = decode([case.body])
    assert [(frame.data, frame.complete) for frame in frames] == case.lines
    assert notes == case.notes
    again, notes = decode(byte_by_byte(case.body))
    assert lines(again) == lines(frames)
    assert without_cuts(notes) == case.notes


@given(body=BODIES, points=st.lists(st.integers(0, 120), max_size=12), limit=st.integers(0, 12))
def test_lines_do_not_depend_on_the_cut(body: bytes, points: list[int], limit: int) -> None:
    for bound in (limit, LIMIT):
        whole, notes = decode([body], bound)
        for reads in (byte_by_byte(body), cut(body, points)):
            frames, their_notes = decode(reads, bound)
            assert lines(frames) == lines(whole)
            assert without_cuts(their_notes) == notes


@given(body=st.binary(max_size=200))
def test_lines_are_those_of_a_plain_split(body: bytes) -> None:
    frames, notes = decode(byte_by_byte(body))
    *ended, rest = body.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    ended = [line.removesuffix(b"\r").removeprefix(b"\x1e") for line in ended]
    expected = [(line, True) for line in ended if line.strip(b" \t\r\x1e")]
    if rest.strip(b" \t\r\x1e"):
        expected.append((rest.removeprefix(b"\x1e"), False))
    assert [(frame.data, frame.complete) for frame in frames] == expected
    assert notes.lf + notes.crlf == len(ended)
    assert notes.blank_lines == len(ended) - sum(frame.complete for frame in frames)


def test_crlf_in_two_reads_is_one_line_end_and_is_noted() -> None:
    frames, notes = decode([b"1\r", b"\n2\r", b"", b"\n", b"3\r\n"])
    assert [(frame.data, frame.at) for frame in frames] == [(b"1", 1), (b"2", 3), (b"3", 4)]
    assert notes == Notes(crlf=3, split_line_endings=2)


def test_stamps() -> None:
    frames, _ = decode([b"1", b"2\n3\n4", b"", b"5", b"\n6", b"7"])
    assert [(frame.data, frame.started, frame.at) for frame in frames] == [
        (b"12", 0, 1),
        (b"3", 1, 1),
        (b"45", 1, 4),
        (b"67", 4, 5),
    ]


def test_pending_is_about_lines_not_about_blanks() -> None:
    decoder = NdjsonDecoder()
    states = []
    for read in (b"1\n", b" ", b"\r", b"\n", b"{", b"}", b"\n"):
        decoder.feed(read, 0)
        states.append(decoder.pending)
    assert states == [False, False, False, False, True, True, False]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_line_at_the_bound_is_kept_and_one_beyond_it_dropped(end: bytes) -> None:
    body = b"x" * 100 + end + b"y" * 101 + end + b"z\n"
    for start in (b"", b"\xef\xbb\xbf"):
        for reads in ([start + body], byte_by_byte(start + body)):
            frames, notes = decode(reads, limit=100)
            assert [(frame.data, frame.size) for frame in frames] == [(b"x" * 100, 100), (None, 101), (b"z", 1)]
            assert notes.oversized == 1


def test_an_endless_line_is_not_kept() -> None:
    decoder = NdjsonDecoder(limit=1000)
    most = 0
    for at in range(2000):
        assert decoder.feed(b"x" * 100, at) == []
        most = max(most, sum(len(value) for value in vars(decoder).values() if isinstance(value, (bytes, bytearray))))
    assert most <= 1008
    (frame,) = decoder.close()
    assert (frame.data, frame.size, frame.complete, frame.started, frame.at) == (None, 200_000, False, 0, 1999)
    assert decoder.notes == Notes(oversized=1, missing_final_newline=1)
    assert decoder.close() == ()
