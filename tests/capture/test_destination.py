"""Which name a server gets: of redirected clients the one they ask for, not the address that mitmproxy knows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mitmproxy import http
from mitmproxy.proxy.mode_specs import ProxyMode
from mitmproxy.test import tflow, tutils

from sidecar.capture.capture import Capture
from sidecar.capture.destination import host_of
from sidecar.capture.flows import FlowTaps
from sidecar.capture.interest import Chooser
from sidecar.capture.outbox import Outbox
from sidecar.capture.records import Opened
from sidecar.dialects.providers import provider_name
from sidecar.transport.wire import LENGTH, decode_batch, encode

ADDRESS = "203.0.113.7"


def flow_of(mode: str, host: str, said: bytes | None, sni: str | None = None) -> http.HTTPFlow:
    headers = http.Headers(() if said is None else [(b"Host", said)])
    request = tutils.treq(host=host, port=443, path=b"/v1/chat/completions", method=b"POST", headers=headers)
    flow = tflow.tflow(req=request)
    flow.client_conn.proxy_mode = ProxyMode.parse(mode)
    flow.client_conn.sni = sni
    return flow


@pytest.mark.parametrize(
    ("mode", "host", "said", "sni", "expected"),
    [
        ("transparent", ADDRESS, b"api.openai.com", "api.openai.com", "api.openai.com"),
        ("transparent", ADDRESS, b"api.openai.com:443", None, "api.openai.com"),
        ("transparent", ADDRESS, b"API.OpenAI.com.", None, "api.openai.com"),
        ("transparent", ADDRESS, None, "api.openai.com", "api.openai.com"),
        # Two hosts over one connection of HTTP/2: the request says which.
        ("transparent", ADDRESS, b"b.example.com", "a.example.com", "b.example.com"),
        ("transparent", ADDRESS, b"203.0.113.7:8000", None, ADDRESS),
        ("transparent", ADDRESS, b"203.0.113.7", "a.example.com", "a.example.com"),
        ("transparent", ADDRESS, None, None, ADDRESS),
        ("transparent", ADDRESS, b"", "", ADDRESS),
        ("transparent", ADDRESS, b"no host at all", None, ADDRESS),
        ("transparent", "2001:db8::7", b"[2001:db8::7]:8000", None, "2001:db8::7"),
        ("transparent", "2001:db8::7", b"llm.internal", None, "llm.internal"),
        ("local", ADDRESS, b"api.openai.com", None, "api.openai.com"),
        ("wireguard", ADDRESS, b"api.openai.com", None, "api.openai.com"),
        ("socks5", ADDRESS, b"api.openai.com", None, "api.openai.com"),
        # Where the proxy was told a name or an operator wrote an address, that is it.
        ("regular", "api.openai.com", b"elsewhere.example.com", None, "api.openai.com"),
        ("reverse:http://203.0.113.7:8000", ADDRESS, b"elsewhere.example.com", None, ADDRESS),
        ("reverse:https://api.openai.com", "api.openai.com", b"127.0.0.1:8080", None, "api.openai.com"),
    ],
)
def test_the_name_of_the_server(mode: str, host: str, said: bytes | None, sni: str | None, expected: str) -> None:
    assert host_of(flow_of(mode, host, said, sni)) == expected


def test_of_http2_it_is_the_authority() -> None:
    flow = flow_of("transparent", ADDRESS, None, "a.example.com")
    flow.request.http_version = "HTTP/2.0"
    flow.request.authority = "b.example.com"
    assert host_of(flow) == "b.example.com"


@given(st.binary(max_size=300))
def test_a_host_that_is_none_costs_nothing_but_the_name(said: bytes) -> None:
    host = host_of(flow_of("transparent", ADDRESS, said))
    assert host == ADDRESS or host == host.strip(".").lower()


def test_records_and_choices_go_by_the_name() -> None:
    capture = Capture(Outbox())
    taps = FlowTaps(capture, Chooser(exclude=(r"^private\.example\.com/",)))
    taps.request_head(flow_of("transparent", ADDRESS, b"api.openai.com"))
    taps.request_head(flow_of("transparent", ADDRESS, b"private.example.com"))
    records = decode_batch(encode(capture.outbox.take(1 << 40))[LENGTH.size :])
    (opened,) = [record for record in records if isinstance(record, Opened)]
    assert (opened.host, opened.port) == ("api.openai.com", 443)
    assert provider_name(opened.host, "openai.chat") == "openai"
