"""The comparison of what came with what went, on mitmproxy's own HTTP stream, with other addons in between."""

from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mitmproxy.options import Options
from mitmproxy.proxy import commands
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers import http
from mitmproxy.proxy.layers.http._events import ResponseData, ResponseEndOfMessage, ResponseHeaders
from mitmproxy.proxy.layers.http._hooks import HttpResponseHeadersHook, HttpResponseHook
from mitmproxy.test import tflow

from sidecar.capture.checks import Checks, watch_http
from tests.budget import budget

type Stream = bool | Callable[[bytes], Iterable[bytes] | bytes]


def play(pieces: list[bytes], stream: Stream, checks: Checks, *, content: bytes | None = None) -> bytes:
    """A response through mitmproxy's layer, as another addon wants it; what is written to the client."""
    watch_http()
    flow = tflow.tflow(resp=True)
    layer = http.HttpStream(Context(flow.client_conn, Options()), 1)
    layer.flow = flow
    layer.context.options.add_option("store_streamed_bodies", bool, False, "")
    for name in ("stream_large_bodies", "body_size_limit"):
        layer.context.options.add_option(name, str | None, None, "")
    layer.context.options.add_option("validate_inbound_headers", bool, False, "")
    layer.context.options.add_option("websocket", bool, True, "")
    layer.client_state, layer.server_state = layer.state_done, layer.state_wait_for_response_headers
    written = bytearray()
    response = flow.response
    assert response is not None
    for event in (ResponseHeaders(1, response), *(ResponseData(1, piece) for piece in pieces), ResponseEndOfMessage(1)):
        for command in layer.server_state(event):
            if isinstance(command, HttpResponseHeadersHook):
                checks.response_head(flow.id)
                response.stream = stream
            elif isinstance(command, HttpResponseHook):
                if content is not None:
                    response.content = content
                checks.over(flow.id, broken_off=False)
            elif isinstance(command, http.SendHttp) and isinstance(command.event, ResponseData):
                written += command.event.data
            assert isinstance(command, commands.Command)
    return bytes(written)


PIECES = st.lists(st.binary(min_size=1, max_size=4), max_size=5)


@budget(100)
@given(came=PIECES, went=PIECES)
def test_bytes_that_differ_are_found_and_only_those(came: list[bytes], went: list[bytes]) -> None:
    """However the pieces are cut: one at a time, or all of them with the end."""
    checks = Checks()
    written = play(came, lambda data: [] if data else went, checks)
    assert written == b"".join(went)
    assert (checks.settled, checks.violations) == (1, int(b"".join(came) != b"".join(went)))


@pytest.mark.parametrize(("content", "violations"), [(None, 0), (b"ab", 0), (b"something else", 1), (b"", 1)], ids=str)
def test_a_response_that_an_addon_has_buffered_is_compared_too(content: bytes | None, violations: int) -> None:
    checks = Checks()
    assert play([b"a", b"b"], stream=False, checks=checks, content=content) == (b"ab" if content is None else content)
    assert (checks.settled, checks.violations) == (1, violations)


def test_a_callable_that_raises_has_its_piece_missed() -> None:
    def stream(data: bytes) -> bytes:
        if data == b"b":
            raise ZeroDivisionError
        return data

    checks = Checks()
    with pytest.raises(ZeroDivisionError):
        play([b"a", b"b"], stream, checks)
    (open_,) = checks._open.values()
    assert (open_.came, open_.went) == (2, 1)
    checks.over(next(iter(checks._open)), broken_off=True)
    assert (checks.settled, checks.violations) == (1, 1)


def test_what_is_broken_off_is_compared_so_far() -> None:
    checks = Checks()
    checks.response_head("f")
    check = checks._open["f"]
    for tell in (check.piece_came, check.piece_went):
        tell(b"so far")
    checks.over("f", broken_off=True)
    checks.over("f", broken_off=True)
    check.settle()
    assert (checks.settled, checks.violations) == (1, 0)


def test_the_first_are_all_checked_then_a_sample_and_never_too_many_at_once() -> None:
    checks = Checks()
    for number in range(1, 161):
        checks.response_head(str(number))
    assert [int(flow) for flow in checks._open] == [*range(1, 17), *range(32, 161, 16)]
    for number in range(161, 16 * 1000):
        checks.response_head(str(number))
    assert len(checks._open) == 256
    checks.stop()
    assert (checks.settled, checks._open) == (0, {})
