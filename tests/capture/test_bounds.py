"""What of a head becomes a record: bounded, and fit for the encoder, whatever stood on the wire."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from sidecar.capture import bounds
from sidecar.capture.bounds import fitted, fitted_headers
from sidecar.capture.outbox import Outbox
from sidecar.capture.records import ResponseHead


@given(st.binary(max_size=300), st.integers(0, 200))
def test_bytes_that_are_no_text_can_be_encoded_and_text_stays_as_it_is(data: bytes, limit: int) -> None:
    text = data.decode("utf-8", "surrogateescape")
    found = fitted(text, limit)
    msgspec.msgpack.encode(found)
    assert len(found) == min(len(text), limit)
    if "\ufffd" not in found:
        assert found == text[:limit]


def test_headers_without_end_are_cut() -> None:
    usual = [("content-type", "text/event-stream"), ("vary", "a"), ("vary", "b")]
    assert fitted_headers(usual) == usual
    assert len(fitted_headers([("x", "y")] * 100_000)) == bounds.HEADERS
    assert fitted_headers([*usual, ("server", "s" * 1_000_000), ("date", "d")]) == usual


def test_the_outbox_takes_a_head_for_as_large_as_it_is() -> None:
    outbox = Outbox(1024 * 1024)
    head = ResponseHead(1, 1, 200, "HTTP/1.1", [("server", "s" * bounds.HEADER_CHARS)])
    room = 0
    while outbox.put_control(head):
        room += 1
    assert room * bounds.HEADER_CHARS <= 2 * 1024 * 1024, "its limit and the reserve"
    assert len(outbox.take(10**9)) == room
    assert outbox.size == 0
