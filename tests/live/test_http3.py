"""HTTP/3 on both sides, as mitmproxy speaks it: bytes, order of headers, times, and how streams end."""

import socket
from dataclasses import replace
from pathlib import Path

from tests.live.exchanges import CASE, chat, chat_events
from tests.live.h3_wire import H3Upstream, ask
from tests.live.processes import sidecar_run
from tests.live.scrape import counted, streams
from tests.live.tls import Certificate


def free_udp_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port


async def test_streams_over_http3_are_the_same_and_measured(certificate: Certificate, tmp_path: Path) -> None:
    deltas = [{"content": f"{word} "} for word in range(20)]
    whole = chat("whole", chat_events(*deltas, model="whole"), first=0.2, every=0.03, model="whole")
    whole = replace(whole, headers=(*whole.headers, ("set-cookie", "a=1"), ("x-empty", ""), ("set-cookie", "b=2")))
    other = chat("other", chat_events({"content": "x" * 50_000}, model="other"), every=0.05, model="other")
    broken = replace(chat("broken", chat_events(*deltas, model="broken")[:5], model="broken"), end="reset")
    upstream = H3Upstream({case.id: case for case in (whole, other, broken)})
    port = free_udp_port()
    async with upstream.serving(certificate):
        mode = f"reverse:http3://localhost:{upstream.port}@127.0.0.1:{port}"
        options = ("--set", f"confdir={tmp_path}", "--set", f"ssl_verify_upstream_trusted_ca={certificate.path}")
        async with sidecar_run("--mode", mode, *options) as sidecar:
            direct = await ask(upstream.port, certificate.path, whole, other, broken)
            through = await ask(port, tmp_path / "mitmproxy-ca-cert.pem", whole, other, broken)
            samples = await counted(sidecar.metrics, 3)
            rows = {row["model"]: row for row in (await streams(sidecar.metrics))["recent"]}
    for case, one, two in zip((whole, other, broken), direct, through, strict=True):
        assert one.body == two.body == case.body
        assert one.headers == two.headers, "all of them, in order"
        assert (one.ended, one.reset is None) == (two.ended, two.reset is None)
        head, body = upstream.requests[case.id]
        assert body == case.request_body
        assert dict(head)[CASE.encode()] == case.id.encode()
    assert through[0].pieces >= len(whole.pieces), "not each piece as it came"
    expected = {("whole", "complete"): 1, ("other", "complete"): 1, ("broken", "upstream_reset"): 1}
    assert samples.by("llm_streams_total", "gen_ai_request_model", "outcome") == expected
    first_token = rows["whole"]["milestones_seconds"]["first_token"]
    assert 0.199 < first_token < through[0].first_at - through[0].asked_at, "between what upstream and client know"
    assert rows["whole"]["output_chunks"] == 20
