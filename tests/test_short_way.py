"""A body's short way through mitmproxy and mitmproxy's own: the same bytes at the same time, whatever is cut where."""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mitmproxy import connection
from mitmproxy.addons.proxyserver import Proxyserver
from mitmproxy.proxy import commands, context, events
from mitmproxy.proxy.layers.http import HttpLayer, HTTPMode, HttpStream, _http1
from mitmproxy.proxy.layers.http._hooks import HttpResponseHeadersHook
from mitmproxy.proxy.mode_specs import ProxyMode
from mitmproxy.test import taddons

from sidecar.capture.checks import Checks, watch_http
from sidecar.passivity import mend
from sidecar.short_way import shorten

REQUEST = b"GET / HTTP/1.1\r\nHost: upstream\r\n\r\n"

type Stream = Callable[[bytes], bytes | Sequence[bytes]] | bool


@pytest.fixture(autouse=True, scope="module")
def _as_it_was() -> Iterator[None]:
    client, server = _http1.Http1Client, _http1.Http1Server
    names: list[tuple[type, str]] = [(client, name) for name in ("read_headers", "read_body", "send")]
    names += [(server, name) for name in ("read_body", "send")]
    names += [(HttpStream, "state_wait_for_response_headers")]
    before = [(owner, name, getattr(owner, name)) for owner, name in names]
    reader = vars(_http1)["ChunkedReader"]
    mend()
    shorten()
    watch_http()
    logging.disable(logging.WARNING)  # what checks say goes to masters of mitmproxy that are gone
    yield
    logging.disable(logging.NOTSET)
    _http1.ChunkedReader = reader  # type: ignore[attr-defined]
    for owner, name, method in before:
        setattr(owner, name, method)


class Conversation:
    """mitmproxy's HTTP layer without sockets: what it does for each thing that happens."""

    def __init__(self, stream: Stream, options: Any) -> None:
        client = connection.Client(peername=("client", 1), sockname=("proxy", 2), timestamp_start=0.0)
        client.state = connection.ConnectionState.OPEN
        client.proxy_mode = ProxyMode.parse("reverse:http://upstream:80")
        self.context = context.Context(client, options)
        self.context.server = connection.Server(address=("upstream", 80))
        self.context.server.state = connection.ConnectionState.OPEN
        self.layer = HttpLayer(self.context, HTTPMode.transparent)
        self.stream = stream
        self.checks = Checks()
        """As it begins, it checks every exchange."""
        self.did: list[object] = []
        """In order: what was sent to the client (joined, for a step), hooks, closings."""
        self.called: list[bytes] = []
        self.sends = 0
        self.step(events.Start())
        self.step(events.DataReceived(client, REQUEST))

    def step(self, event: events.Event) -> None:
        self.did.append("step")
        waiting = deque([event])
        while waiting:
            for command in self.layer.handle_event(waiting.popleft()):
                waiting.extend(self.react(command))

    def react(self, command: commands.Command) -> list[events.Event]:
        if isinstance(command, commands.StartHook):
            self.did.append(command.name)
            if isinstance(command, HttpResponseHeadersHook):
                assert command.flow.response
                self.checks.response_head(command.flow.id)
                command.flow.response.stream = self.stream if self.stream is True else self.call
            return [events.HookCompleted(command)] if command.blocking else []
        if isinstance(command, commands.SendData) and command.connection is self.context.client:
            self.sends += 1
            last = self.did[-1]
            if isinstance(last, bytes):
                self.did[-1] = last + command.data
            else:
                self.did.append(command.data)
        elif isinstance(command, commands.CloseConnection):
            self.did.append("close " + ("client" if command.connection is self.context.client else "server"))
        return []

    def call(self, data: bytes) -> bytes | Sequence[bytes]:
        self.called.append(data)
        assert callable(self.stream)
        return self.stream(data)


def tampering(data: bytes) -> bytes | Sequence[bytes]:
    """A callable of somebody's: drops, splits, doubles, changes."""
    kind = len(data) % 5
    if kind == 0:
        return b""
    if kind == 1:
        return []
    return data.upper() if kind == 2 else [data[:1], data[1:]] if kind == 3 else (data, b"", data)


def failing(data: bytes) -> bytes:
    if b"\x07" in data:
        raise ValueError("a bug of somebody's")
    return data


STREAMS: tuple[Stream, ...] = (True, lambda data: data, tampering)
HEAD = b"HTTP/1.1 200 OK\r\n"


def chunked(pieces: Sequence[bytes], end: bytes) -> bytes:
    body = b"".join(b"%X;x=y\r\n%s\r\n" % (len(piece), piece) for piece in pieces if piece)
    return HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + body + end


def sized(pieces: Sequence[bytes], end: bytes) -> bytes:
    body = b"".join(pieces)
    return HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body + end


def unframed(pieces: Sequence[bytes], end: bytes) -> bytes:
    return HEAD + b"Connection: close\r\n\r\n" + b"".join(pieces) + end


ANSWERS = st.one_of(
    st.builds(
        chunked,
        st.lists(st.binary(min_size=1, max_size=40), max_size=6),
        st.sampled_from([b"0\r\n\r\n", b"0\r\nX-T: 1\r\n\r\n", b"", b"0\r\n", b"nonsense\r\n", b"0\r\n\r\n" + HEAD]),
    ),
    st.builds(sized, st.lists(st.binary(max_size=40), max_size=6), st.sampled_from([b"", b"more than was said"])),
    st.builds(unframed, st.lists(st.binary(max_size=40), max_size=6), st.just(b"")),
)


def played(stream: Stream, reads: Sequence[bytes], leaves_after: int | None, options: Any) -> Conversation:
    """An answer in these reads; the client leaves after so many of them, the upstream closes behind the last."""
    talk = Conversation(stream, options)
    for number, read in enumerate(reads):
        if number == leaves_after:
            talk.context.client.state = connection.ConnectionState.CLOSED
            talk.step(events.ConnectionClosed(talk.context.client))
        talk.step(events.DataReceived(talk.context.server, read))
    talk.context.server.state = connection.ConnectionState.CLOSED
    talk.step(events.ConnectionClosed(talk.context.server))
    return talk


def both(
    stream: Stream, reads: Sequence[bytes], leaves_after: int | None = None, **options: Any
) -> tuple[Conversation, Conversation]:
    short_way = _http1.Http1Client.read_body
    with taddons.context(Proxyserver()) as given_options:
        given_options.options.update(connection_strategy="lazy", **options)
        short = played(stream, reads, leaves_after, given_options.options)
        _http1.Http1Client.read_body = short_way.long_way  # type: ignore[attr-defined, method-assign]
        try:
            long = played(stream, reads, leaves_after, given_options.options)
        finally:
            _http1.Http1Client.read_body = short_way  # type: ignore[method-assign]
    return short, long


def cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    at = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[begin:end] for begin, end in pairwise(at)]


@given(
    ANSWERS,
    st.lists(st.integers(0, 500), max_size=12),
    st.sampled_from(STREAMS),
    st.one_of(st.none(), st.integers(0, 8)),
    st.booleans(),
)
@example(chunked([b"a", b"b"], b"0\r\nX-T: 1\r\n\r\n"), [], STREAMS[1], None, False)
def test_both_ways_are_the_same(
    answer: bytes, places: list[int], stream: Stream, leaves_after: int | None, stored: bool
) -> None:
    short, long = both(stream, cut(answer, places), leaves_after, store_streamed_bodies=stored)
    assert short.did == long.did
    assert short.called == long.called
    assert short.checks.so_far() == long.checks.so_far()


READS = st.one_of(
    st.builds(lambda data: b"%x\r\n%s\r\n" % (len(data), data), st.binary(min_size=1, max_size=40)),
    st.sampled_from(
        [
            *(b"A\r\n0123456789\r\n", b"0a\r\n0123456789\r\n", b"1;x\r\na\r\n", b"000000000000000000001\r\na\r\n"),
            *(b"+1\r\na\r\n", b"0x1\r\na\r\n", b"1 \r\na\r\n", b"1_0\r\n0123456789012345\r\n", b"\r\n", b"1\na\r\n"),
            *(
                b"1\r\n\r\n",
                b"2\r\n\r\n\r\n",
                b"1\r\nab\r\n",
                b"3\r\nab\r\n",
                b"0\r\n\r\n",
                b"1\r\na\r\n1\r\nb\r\n",
                b"1\r\na",
            ),
        ]
    ),
)


@given(st.lists(READS, max_size=8), st.sampled_from(STREAMS))
def test_reads_that_are_whole_chunks_and_what_looks_like_it(reads: list[bytes], stream: Stream) -> None:
    short, long = both(stream, [HEAD + b"Transfer-Encoding: chunked\r\n\r\n", *reads])
    assert short.did == long.did
    assert short.called == long.called


def test_the_check_sees_what_takes_the_short_way() -> None:
    for body, violations in ((b"12345", 1), (b"1234", 0)):  # the first is dropped
        reads = [HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)]
        short, long = both(tampering if violations else STREAMS[1], reads)
        assert short.did == long.did
        assert short.sends <= long.sends
        assert short.checks.so_far() == long.checks.so_far() == (1, violations)


def test_it_is_taken_and_sends_a_read_at_once() -> None:
    answer = chunked([b"one", b"two", b"three"], b"0\r\n\r\n")
    head, body = answer[: answer.index(b"\r\n\r\n") + 4], answer[answer.index(b"\r\n\r\n") + 4 :]
    short, long = both(STREAMS[1], [head, body])
    assert short.did == long.did
    assert long.sends == 5  # the head, three chunks, the end
    assert short.sends == 3
    assert short.called == [b"one", b"two", b"three", b""]


def test_what_came_before_a_callable_failed_is_sent() -> None:
    head, body = HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n1\r\n\x07\r\n1\r\nb\r\n"
    for reads in ([head, body], [head, *cut(body, range(len(body)))]):
        talks = []
        for way in ("short", "long"):
            talk: list[Any] = []
            talks.append(talk)
            short_way = _http1.Http1Client.read_body
            if way == "long":
                _http1.Http1Client.read_body = short_way.long_way  # type: ignore[attr-defined, method-assign]
            try:
                with taddons.context(Proxyserver()) as options:
                    found = Conversation(failing, options.options)
                    for read in reads:
                        try:
                            found.step(events.DataReceived(found.context.server, read))
                        except ValueError:
                            talk.append("failed")
                    talk += [each for each in found.did if isinstance(each, bytes)]
            finally:
                _http1.Http1Client.read_body = short_way  # type: ignore[method-assign]
        assert talks[0] == talks[1]
        assert "failed" in talks[0]
        assert any(b"1\r\na\r\n" in each for each in talks[0] if isinstance(each, bytes))
