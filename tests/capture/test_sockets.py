"""The tee of WebSockets: what it copies, what it does when it cannot, and which messages mitmproxy is left with."""

from pathlib import Path
from typing import Any

import pytest
from mitmproxy import http
from mitmproxy.proxy.mode_specs import ProxyMode
from mitmproxy.test import tflow
from mitmproxy.websocket import WebSocketMessage

from sidecar.capture.capture import Capture
from sidecar.capture.flows import FlowTaps, History
from sidecar.capture.interest import Chooser, Interest
from sidecar.capture.outbox import Outbox
from sidecar.capture.records import AnyRecord, Ended, Lost, Message, Opened, RequestSent, ResponseHead
from sidecar.capture.redaction import REDACTED, redact_headers, redact_target
from sidecar.capture.sockets import BEGINNING, MESSAGE_COPY_LIMIT, SocketTap
from sidecar.dialects.request import Head
from sidecar.dialects.socket_table import SOCKETS, pick
from sidecar.transport.wire import LENGTH, decode_batch, encode
from tests.sockets import captures

HEAD = ResponseHead(1, 7, 101, "HTTP/1.1", [])


def opened(stream: int = 1) -> Opened:
    return Opened(stream, 5, "flow", 6, "GET", "https", "host", 443, "/v1/realtime", "HTTP/1.1", [])


def over_the_wire(outbox: Outbox) -> list[AnyRecord]:
    """What the analyzer would get of all that is in the outbox."""
    return decode_batch(encode(outbox.take(1 << 40))[LENGTH.size :])


def test_a_socket_becomes_its_records_in_order() -> None:
    outbox = Outbox()
    tap = SocketTap(opened(), outbox, held=False)
    tap.request_sent()
    tap.upgraded(HEAD)
    tap.message(b"hi", from_client=True, text=True)
    tap.message(b"\0\1", from_client=False, text=False)
    tap.closed("eof", 1011, "quota")
    records = over_the_wire(outbox)
    assert [type(record) for record in records] == [Opened, RequestSent, ResponseHead, Message, Message, Ended]
    messages = [(r.data, r.from_client, r.text, r.size) for r in records if isinstance(r, Message)]
    assert messages == [(b"hi", True, True, 2), (b"\0\1", False, False, 2)]
    end = records[-1]
    assert isinstance(end, Ended)
    assert (end.kind, end.code, end.error) == ("eof", 1011, "quota")
    assert [record.at for record in records[3:]] == sorted(record.at for record in records[3:])


def test_of_a_very_long_message_the_beginning_is_copied() -> None:
    outbox = Outbox()
    tap = SocketTap(opened(), outbox, held=False)
    tap.upgraded(HEAD)
    tap.message(b"x" * (MESSAGE_COPY_LIMIT + 1), from_client=False, text=True)
    message = over_the_wire(outbox)[-1]
    assert isinstance(message, Message)
    assert (len(message.data), message.size) == (BEGINNING, MESSAGE_COPY_LIMIT + 1)


def test_a_full_outbox_drops_messages_says_so_and_goes_on() -> None:
    outbox = Outbox(limit=4000)
    tap = SocketTap(opened(), outbox, held=False)
    tap.upgraded(HEAD)
    outbox.take(1 << 20)
    for size in (500, 3900, 3900):
        tap.message(b"x" * size, from_client=False, text=True)
    assert [len(r.data) for r in over_the_wire(outbox) if isinstance(r, Message)] == [500]
    tap.message(b"y", from_client=False, text=True)
    lost, message = over_the_wire(outbox)
    assert isinstance(lost, Lost)
    assert (lost.records, lost.bytes) == (2, 7800)
    assert isinstance(message, Message)
    assert message.data == b"y"
    assert outbox.dropped == 2


def test_a_loss_at_the_end_is_told_before_it() -> None:
    outbox = Outbox(limit=100)
    tap = SocketTap(opened(), Outbox(), held=False)
    tap._outbox = outbox
    tap.message(b"x" * 200, from_client=False, text=True)
    tap.closed("client_disconnect", 1000, "")
    assert [type(record) for record in over_the_wire(outbox)] == [Lost, Ended]


def test_a_new_analyzer_is_told_of_a_socket_and_of_what_comes_after() -> None:
    capture = Capture(Outbox())
    tap = capture.open_socket(opened(), held=False)
    tap.upgraded(HEAD)
    tap.message(b"old", from_client=False, text=True)
    capture.outbox.take(1 << 20)
    tap.message(b"waiting", from_client=False, text=True)
    capture.analyzer_gone()
    tap.message(b"new", from_client=False, text=True)
    records = over_the_wire(capture.outbox)
    assert [type(record) for record in records] == [Opened, ResponseHead, Lost, Message]
    assert [record.data for record in records if isinstance(record, Message)] == [b"new"]


def test_a_bug_in_the_tee_is_counted_and_raises_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    outbox = Outbox()
    tap = SocketTap(opened(), outbox, held=False)

    def broken(*_: Any) -> bool:
        raise MemoryError

    monkeypatch.setattr(Outbox, "put", broken)
    tap.message(b"data", from_client=False, text=True)
    assert outbox.failures == 1


def flow_of(path: str) -> http.HTTPFlow:
    flow = tflow.twebsocketflow(messages=False)
    flow.client_conn.proxy_mode = ProxyMode.parse("regular")
    flow.request.path = path
    assert flow.websocket is not None
    flow.websocket.messages.clear()
    flow.websocket.closed_by_client = None
    return flow


def say(taps: FlowTaps, flow: http.HTTPFlow, number: int) -> None:
    assert flow.websocket is not None
    flow.websocket.messages.append(WebSocketMessage(1, number % 2 == 0, b"%d" % number))
    taps.message(flow)


@pytest.mark.parametrize(
    ("history", "path", "kept"),
    [
        ("all", "/v1/realtime", 10),
        ("not copied", "/v1/realtime", 1),
        ("not copied", "/chat", 10),
        ("none", "/v1/realtime", 1),
        ("none", "/chat", 1),
    ],
)
def test_messages_that_nobody_looks_at_are_let_go_of_but_the_latest(history: History, path: str, kept: int) -> None:
    capture = Capture(Outbox())
    taps = FlowTaps(capture, Chooser())
    taps.history = history
    flow = flow_of(path)
    taps.request_head(flow)
    taps.request_done(flow)
    taps.response_head(flow)
    taps.response_done(flow)
    for number in range(10):
        say(taps, flow, number)
        assert flow.websocket is not None
        assert flow.websocket.messages[-1].content == b"%d" % number, "other addons read the latest one"
    assert flow.websocket is not None
    assert len(flow.websocket.messages) == kept
    flow.websocket.closed_by_client = True
    taps.socket_closed(flow)
    records = over_the_wire(capture.outbox)
    copied = [record.data for record in records if isinstance(record, Message)]
    assert copied == ([b"%d" % number for number in range(10)] if "realtime" in path else [])
    assert isinstance(records[-1], Ended)
    assert records[-1].kind == "client_disconnect"


@pytest.mark.parametrize(
    ("by_client", "code", "kind"),
    [(True, 1000, "client_disconnect"), (True, 1006, "client_disconnect"), (False, 1006, "upstream_reset"), (False, 1011, "eof")],
)  # fmt: skip
def test_who_closed_a_socket_is_told_from_its_close(by_client: bool, code: int, kind: str) -> None:
    capture = Capture(Outbox())
    taps = FlowTaps(capture, Chooser())
    flow = flow_of("/v1/responses")
    for hook in (taps.request_head, taps.request_done, taps.response_head, taps.response_done):
        hook(flow)
    assert flow.websocket is not None
    flow.websocket.closed_by_client, flow.websocket.close_code = by_client, code
    taps.socket_closed(flow)
    end = over_the_wire(capture.outbox)[-1]
    assert isinstance(end, Ended)
    assert (end.kind, end.code) == (kind, code)


def test_a_message_that_another_addon_dropped_is_not_copied() -> None:
    capture = Capture(Outbox())
    taps = FlowTaps(capture, Chooser())
    flow = flow_of("/v1/realtime")
    for hook in (taps.request_head, taps.request_done, taps.response_head):
        hook(flow)
    assert flow.websocket is not None
    message = WebSocketMessage(1, True, b"no")
    message.drop()
    flow.websocket.messages.append(message)
    taps.message(flow)
    assert not any(isinstance(record, Message) for record in over_the_wire(capture.outbox))


def test_flows_out_of_a_file_keep_their_messages() -> None:
    taps = FlowTaps(Capture(Outbox()), Chooser())
    taps.history = "none"
    flow = flow_of("/v1/realtime")
    flow.live = False
    for number in range(3):
        say(taps, flow, number)
    assert flow.websocket is not None
    assert len(flow.websocket.messages) == 3


def test_sockets_that_are_excluded_leave_no_trace() -> None:
    capture = Capture(Outbox())
    taps = FlowTaps(capture, Chooser(exclude=("realtime",)))
    flow = flow_of("/v1/realtime")
    for hook in (taps.request_head, taps.request_done, taps.response_head, taps.response_done):
        hook(flow)
    say(taps, flow, 1)
    taps.socket_closed(flow)
    assert over_the_wire(capture.outbox) == []


@pytest.mark.parametrize("case", sorted(captures()))
def test_sockets_whose_dialect_is_known_are_those_that_are_copied(case: str) -> None:
    url = captures()[case].request.url
    host, _, target = url.removeprefix("wss://").partition("/")
    known = pick(Head.of("GET", host, 443, f"/{target}", {})) is not None
    assert Chooser().of_socket(host, f"/{target}") is (Interest.YES if known else Interest.MAYBE)


def test_every_dialect_of_sockets_has_a_capture() -> None:
    heads = [Head.of("GET", "", 443, "/" + each.request.url.split("/", 3)[3], {}) for each in captures().values()]
    assert {pick(head) for head in heads} >= set(SOCKETS)


def test_credentials_of_browsers_stay_in_the_proxy() -> None:
    offered = b"realtime, openai-insecure-api-key.canary, openai-beta.realtime-v1"
    kept = redact_headers([(b"Sec-WebSocket-Protocol", offered), (b"Sec-WebSocket-Key", b"canary")])
    assert kept == [
        ("sec-websocket-protocol", f"realtime, {REDACTED}, openai-beta.realtime-v1"),
        ("sec-websocket-key", REDACTED),
    ]
    for name in ("key", "access_token", "api-key", "Authorization", "call_id"):
        assert "canary" not in redact_target(f"/v1/realtime?model=m&{name}=canary")


def test_the_fixtures_hold_no_credential() -> None:
    text = (Path(__file__).parents[1] / "fixtures" / "websocket" / "sockets.jsonl").read_text()
    assert "sk-" not in text
