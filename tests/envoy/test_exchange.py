"""What Envoy tells, as records: without an Envoy, and with messages in any order."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.capture.bounds import HEADERS, HOST, TARGET
from sidecar.capture.capture import Capture
from sidecar.capture.interest import Chooser
from sidecar.capture.outbox import RECORD_OVERHEAD, Outbox
from sidecar.capture.records import AnyRecord, Chunk, Ended, Lost, Opened, RequestBody, RequestSent, ResponseHead
from sidecar.capture.redaction import REDACTED
from sidecar.envoy.ends import End, Ends, entry_of, key_of, unanswered
from sidecar.envoy.exchange import FILTER, Context, EnvoyExchange
from sidecar.envoy.protocol import message as message_of
from sidecar.transport.wire import LENGTH, decode_batch, encode

BEGAN = "2026-01-02T03:04:05.6789+00:00"
KEY = ("127.0.0.1:4711", 1_767_323_045_678_900)


def head(kind: str, fields: dict[str, str], attributes: dict[str, Any] | None = None, *, last: bool = False) -> Any:
    message = message_of("ProcessingRequest")()
    part = getattr(message, kind)
    part.end_of_stream = last
    for name, value in fields.items():
        part.headers.headers.add(key=name, raw_value=value.encode())
    message.attributes[FILTER].update(attributes or {})
    return message


def body(kind: str, data: bytes, *, last: bool = False) -> Any:
    message = message_of("ProcessingRequest")()
    part = getattr(message, kind)
    part.body, part.end_of_stream = data, last
    return message


def request(path: str = "/v1/chat/completions?key=k", **more: str) -> Any:
    fields = {":method": "POST", ":path": path, ":scheme": "http", ":authority": "LLM.example:8000"} | more
    return head("request_headers", fields, {"source.address": KEY[0], "request.time": BEGAN})


class Told(EnvoyExchange):
    """With the outbox it fills."""

    def __init__(self, limit: int = 1 << 20, upstream: str = "") -> None:
        self.outbox = Outbox(limit)
        super().__init__(Context(Capture(self.outbox), Chooser(), frozenset(), b"salt"), upstream)

    def records(self) -> list[AnyRecord]:
        """What the analyzer would get since the last time."""
        return decode_batch(encode(self.outbox.take(1 << 40))[LENGTH.size :])


def play(told: Told, *found: Any) -> list[AnyRecord]:
    for message in found:
        told.take(message)
    return told.records()


ANSWER = head("response_headers", {":status": "200", "content-type": "text/event-stream"})


def test_a_whole_exchange() -> None:
    told = Told()
    found = play(
        told,
        request(authorization="Bearer secret"),
        body("request_body", b"{}", last=True),
        ANSWER,
        body("response_body", b"data: x\n\n"),
        body("response_body", b"", last=True),
    )
    assert [type(record) for record in found] == [Opened, RequestBody, RequestSent, ResponseHead, Chunk, Ended]
    opened, *_, ended = found
    assert isinstance(opened, Opened)
    assert (opened.host, opened.port, opened.target) == ("llm.example", 8000, f"/v1/chat/completions?key={REDACTED}")
    assert ("authorization", REDACTED) in opened.headers
    assert isinstance(ended, Ended)
    assert (ended.kind, told.over, told.key) == ("eof", True, KEY)
    assert [record.at for record in found] == sorted(record.at for record in found)


def test_operator_says_whom_it_is_for() -> None:
    (opened,) = play(Told(upstream="https://api.openai.com"), request())
    assert isinstance(opened, Opened)
    assert (opened.scheme, opened.host, opened.port) == ("https", "api.openai.com", 443)


@pytest.mark.parametrize(("kind", "wanted"), [("text/event-stream", True), ("text/html", False)])
def test_unknown_requests_wait_for_the_response(kind: str, wanted: bool) -> None:
    told = Told(4096)
    assert (
        play(told, request("/upload"), body("request_body", b"{}"), body("request_body", b"x" * 4096, last=True)) == []
    )
    found = play(told, head("response_headers", {":status": "200", "content-type": kind}))
    assert told.wanted is wanted
    assert [type(record) for record in found] == ([Opened, RequestBody, RequestSent, ResponseHead] if wanted else [])


def test_answers_of_envoys_own_are_a_failed_upstream() -> None:
    attributes = {"response.flags": 32, "response.code_details": "upstream_reset_before_response_started{x}"}
    *_, ended = play(
        Told(),
        request(),
        head("response_headers", {":status": "503"}, attributes),
        body("response_body", b"no", last=True),
    )
    assert isinstance(ended, Ended)
    assert ended.kind == "upstream_failed"
    assert "upstream_connection_failure" in ended.error
    assert unanswered(32, "via_upstream") == unanswered(32, "") == unanswered(0, "direct_response") == ""


def test_what_breaks_off_is_lost_unless_the_log_tells() -> None:
    told = Told()
    play(told, request())
    assert told.broken_off(None)
    lost, ended = told.records()
    assert isinstance(lost, Lost)
    assert isinstance(ended, Ended)
    told = Told()
    play(told, request(), ANSWER)
    assert told.broken_off(End("client_disconnect", "flag", 5))
    (ended,) = told.records()
    assert isinstance(ended, Ended)
    assert (ended.kind, ended.at) == ("client_disconnect", 5)


def test_an_answer_without_a_request_is_none_of_ours() -> None:
    told = Told()
    assert play(told, ANSWER) == []
    assert not told.wanted
    assert not told.broken_off(None)


def test_heads_obey_the_bounds_of_all_heads() -> None:
    told = Told(upstream="http://" + "h" * 999)
    many = {f"x-{number}": "v" for number in range(999)}
    (opened,) = play(told, request("/v1/messages?" + "q" * 99_999, **many))
    assert isinstance(opened, Opened)
    assert (len(opened.host), len(opened.headers)) == (HOST, HEADERS)
    assert len(opened.target) <= TARGET
    *_, answer = play(told, head("response_headers", {":status": "200"} | many))
    assert isinstance(answer, ResponseHead)
    assert len(answer.headers) == HEADERS


def test_what_does_not_fit_is_lost_and_said() -> None:
    told = Told(2 * 4096)
    found = play(told, request(), ANSWER, body("response_body", b"x" * 9000))
    assert told.lost
    assert not any(isinstance(record, Chunk) for record in found)
    told.broken_off(None)
    lost, _ = told.records()
    assert isinstance(lost, Lost)
    assert (lost.records, lost.bytes, told.outbox.dropped) == (1, 9000, 1)


def test_what_is_held_counts_against_one_bound_for_all() -> None:
    outbox = Outbox(10 + 2 * RECORD_OVERHEAD)
    context = Context(Capture(outbox), Chooser(), frozenset(), b"")
    first, second = EnvoyExchange(context), EnvoyExchange(context)
    for told in (first, second):
        told.take(request("/upload"))
        told.take(body("request_body", b"12345678"))
    assert outbox.held == 8 + RECORD_OVERHEAD
    first.release()
    second.take(body("request_body", b"12345678"))
    assert outbox.held == 8 + RECORD_OVERHEAD
    second.take(head("response_headers", {":status": "200", "content-type": "text/event-stream"}))
    assert outbox.held == 0


def test_log_and_attributes_give_the_same_key() -> None:
    entry = message_of("HTTPAccessLogEntry")()
    common = entry.common_properties
    common.downstream_remote_address.socket_address.address = "127.0.0.1"
    common.downstream_remote_address.socket_address.port_value = 4711
    common.start_time.seconds, common.start_time.nanos = 1_767_323_045, 678_900_999
    assert entry_of(entry, 1) is None, "nothing went wrong"
    common.response_flags.downstream_connection_termination = True
    found = entry_of(entry, 1)
    assert found is not None
    assert found[0] == KEY == key_of(KEY[0], BEGAN)
    assert found[1].kind == "client_disconnect"
    assert key_of("", BEGAN) is key_of("a", "yesterday") is key_of("a", "2026-01-02T03:04:05") is None


def test_ends_that_nobody_asks_for_are_forgotten() -> None:
    ends = Ends(kept=2)
    for number in range(3):
        ends.note(("a", number), End("eof", "", number))
    assert [ends.take(("a", number)) is None for number in range(3)] == [True, False, False]
    assert ends.take(("a", 2)) is ends.take(None) is None


KINDS = ("request_headers", "response_headers")
ANY = st.one_of(
    st.builds(body, st.sampled_from(("request_body", "response_body")), st.binary(max_size=9), last=st.booleans()),
    st.builds(
        head,
        st.sampled_from(KINDS),
        st.dictionaries(
            st.sampled_from((":status", ":method", ":path", ":scheme", ":authority", "content-type", "upgrade")),
            st.one_of(st.text(max_size=9), st.sampled_from(("200", "POST", "/v1/messages", "http", "[::1", "h:99999"))),
        ),
        st.dictionaries(st.sampled_from(("request.time", "source.address")), st.text(max_size=9)),
        last=st.booleans(),
    ),
)


@given(st.lists(ANY, max_size=8))
def test_no_message_is_an_exception(found: list[Any]) -> None:
    told = Told()
    for message in found:
        told.take(message)
        if told.over or not told.wanted:
            break
    else:
        told.broken_off(None)
    told.release()
    told.records()
    assert (told.outbox.failures, told.outbox.held) == (0, 0)
