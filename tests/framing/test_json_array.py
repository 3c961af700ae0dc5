"""A streamed JSON array: its elements against the json module, whole, byte by byte and cut at random."""

import json
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sidecar.framing.frame import Frame, Notes
from sidecar.framing.json_array import JsonArrayDecoder

LIMIT = 1 << 20
NAMES = st.text(alphabet='x"\\]}', max_size=3)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(alphabet='ab"\\[]{},é\n ')),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(NAMES, inner, max_size=4)),
    max_leaves=12,
)
SEPARATORS = st.sampled_from([(",", ":"), (", ", ": "), ("\n,\r\n", " : ")])
POINTS = st.lists(st.integers(0, 300), max_size=12)
ALPHABET = (b"[", b"]", b"{", b"}", b'"', b"\\", b",", b" ", b"\n", b"a", b"1", b"\xef\xbb\xbf", b"\xff")
HOSTILE = st.lists(st.sampled_from(ALPHABET))


class Case(NamedTuple):
    body: bytes
    elements: list[bytes]
    closed: bool = True
    cut_off: bytes | None = None


CASES = {
    "gemini": Case(b'[{"a": [1, 2]}\n,\r\n{"b": {}}\n]\n', [b'{"a": [1, 2]}', b'{"b": {}}']),
    "empty": Case(b"[]", []),
    "white space only": Case(b" \r\n[ \t\r\n ] ", []),
    "strings hide brackets": Case(b'[{"a":"]}[{"},["}]","]"]]', [b'{"a":"]}[{"}', b'["}]","]"]']),
    "escapes hide quotes": Case(rb'[{"a":"\"}\\"},{"b":"\\\""}]', [rb'{"a":"\"}\\"}', rb'{"b":"\\\""}']),
    "scalars": Case(b'[1,-2.5e3 ,true\n,null,"a,]"]', [b"1", b"-2.5e3", b"true", b"null", b'"a,]"']),
    "behind the end": Case(b'[{}] {"error":1} [2]', [b"{}"]),
    "not closed": Case(b"[{},", [b"{}"], closed=False),
    "cut off": Case(b'[{},{"a":"b', [b"{}"], closed=False, cut_off=b'{"a":"b'),
    "cut off in a number": Case(b"[1,23", [b"1"], closed=False, cut_off=b"23"),
    "cut off behind a backslash": Case(b'["\\', [], closed=False, cut_off=b'"\\'),
    "byte order mark": Case(b"\xef\xbb\xbf[{}]", [b"{}"]),
    "commas missing or too many": Case(b"[{}{},,{},]", [b"{}", b"{}", b"{}"]),
    "the wrong bracket": Case(b'[{"a":1],{}]', [b'{"a":1]', b"{}"]),
    "a stray bracket": Case(b"[},{}]", [b"}", b"{}"]),
    "deep": Case(b"[" + b"[" * 5000 + b"]" * 5000 + b",[]]", [b"[" * 5000 + b"]" * 5000, b"[]"]),
}


def byte_by_byte(body: bytes) -> list[bytes]:
    return [body[i : i + 1] for i in range(len(body))]


def cut(body: bytes, points: list[int]) -> list[bytes]:
    """Reads of a body, empty ones included."""
    edges = [0, *sorted(min(point, len(body)) for point in points), len(body)]
    return [body[start:end] for start, end in pairwise(edges)]


def decode(reads: list[bytes], limit: int = LIMIT) -> tuple[list[Frame], Notes]:
    """The frames of a body whose read number n came at n."""
    decoder = JsonArrayDecoder(limit)
    frames = [frame for at, read in enumerate(reads) for frame in decoder.feed(read, at)]
    frames += decoder.close()
    assert not decoder.pending
    return frames, decoder.notes


def summary(frames: list[Frame]) -> list[tuple[bytes | None, bool, int]]:
    return [(frame.data, frame.complete, frame.size) for frame in frames]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_elements(case: Case) -> None:
    for reads in ([case.body], byte_by_byte(case.body)):
        frames, notes = decode(reads)
        assert [frame.data for frame in frames if frame.complete] == case.elements
        cut_off = [] if case.cut_off is None else [case.cut_off]
        assert [frame.data for frame in frames if not frame.complete] == cut_off
        assert notes == Notes(array_closed=case.closed, bom=case.body.startswith(b"\xef"))


@given(values=st.lists(VALUES, max_size=5), separators=SEPARATORS, ascii_only=st.booleans(), points=POINTS)
@example(values=['\\"', "\\"], separators=(",", ":"), ascii_only=False, points=[2, 3, 4])
def test_elements_are_those_of_the_json_module(
    values: list[object], separators: tuple[str, str], ascii_only: bool, points: list[int]
) -> None:
    body = json.dumps(values, separators=separators, ensure_ascii=ascii_only).encode()
    expected = [json.dumps(value, separators=separators, ensure_ascii=ascii_only).encode() for value in values]
    for reads in ([body], byte_by_byte(body), cut(body, points)):
        frames, notes = decode(reads)
        assert [(frame.data, frame.complete) for frame in frames] == [(element, True) for element in expected]
        assert notes == Notes(array_closed=1)


@given(values=st.lists(VALUES, min_size=1, max_size=5), data=st.data())
def test_a_body_cut_off_anywhere_gives_the_elements_before_that(values: list[object], data: st.DataObject) -> None:
    body = json.dumps(values).encode()
    end = data.draw(st.integers(0, len(body) - 1))
    frames, notes = decode([body[:end]])
    complete = [frame.data for frame in frames if frame.complete]
    assert complete == [json.dumps(value).encode() for value in values[: len(complete)]]
    assert notes.array_closed == 0
    assert b"".join(frame.data or b"" for frame in frames if not frame.complete) in body[:end]
    assert sum(not frame.complete for frame in frames) <= 1


@given(pieces=HOSTILE, points=POINTS, limit=st.integers(0, 8))
def test_any_bytes_any_cut(pieces: list[bytes], points: list[int], limit: int) -> None:
    body = b"[" + b"".join(pieces)
    for bound in (limit, LIMIT):
        whole, notes = decode([body], bound)
        for reads in (byte_by_byte(body), cut(body, points)):
            frames, again = decode(reads, bound)
            assert summary(frames) == summary(whole)
            assert again == notes
        assert all(frame.size <= bound if frame.data is not None else frame.size > bound for frame in whole)


@given(body=st.binary(max_size=100))
def test_what_is_no_array_at_all_yields_nothing_before_a_bracket(body: bytes) -> None:
    frames, _ = decode(byte_by_byte(body))
    assert summary(frames) == summary(decode([body])[0])
    assert b"[" in body or not frames


def test_stamps() -> None:
    frames, _ = decode([b"[", b'{"a"', b"", b":1}", b",{},1", b"2", b" ", b',{"', b"x"])
    assert [(frame.data, frame.started, frame.at, frame.complete) for frame in frames] == [
        (b'{"a":1}', 1, 3, True),
        (b"{}", 4, 4, True),
        (b"12", 4, 6, True),  # only the delimiter tells that a number has ended
        (b'{"x', 7, 8, False),
    ]


def test_pending_only_inside_an_element() -> None:
    decoder = JsonArrayDecoder()
    states = []
    for read in (b"[", b"{", b'"', b'"', b"}", b" ,", b"1", b",", b"]", b"{"):
        decoder.feed(read, 0)
        states.append(decoder.pending)
    assert states == [False, True, True, True, False, False, True, False, False, False]


def test_an_element_over_the_bound_is_dropped_and_the_next_one_read() -> None:
    body = b'[{"a":1},{"a":"' + b"]\\\\" * 100 + b'"},{"b":2}]'
    for reads in ([body], byte_by_byte(body), cut(body, list(range(0, len(body), 7)))):
        frames, notes = decode(reads, limit=50)
        assert summary(frames) == [(b'{"a":1}', True, 7), (None, True, 308), (b'{"b":2}', True, 7)]
        assert notes == Notes(oversized=1, array_closed=1)


@pytest.mark.parametrize("fill", [b'["', b"[", b"x", b"\\", b'"', b'[{"a":"'])
def test_nothing_endless_is_kept(fill: bytes) -> None:
    decoder = JsonArrayDecoder(limit=1000)
    decoder.feed(b"[[", 0)
    most = 0
    for at in range(300):
        decoder.feed(fill * 30, at)
        most = max(most, sum(len(value) for value in vars(decoder).values() if isinstance(value, (bytes, bytearray))))
    assert most <= 1000
    (frame,) = decoder.close()
    assert (frame.data, frame.size, frame.complete) == (None, 1 + 300 * 30 * len(fill), False)
    assert decoder.notes == Notes(oversized=1)
