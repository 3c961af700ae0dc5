"""How an upstream fails, over real sockets, and what a real Prometheus says of it: each way has its `error_type`."""

import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

from tests.live.exchanges import Exchange, chat, chat_events
from tests.live.monitoring import JOB, prometheus
from tests.live.player import Player
from tests.live.processes import sidecar_run
from tests.live.raw_client import Client
from tests.live.raw_h2 import H2Client, H2Resetter
from tests.live.relays import free_port
from tests.live.scrape import wait_until
from tests.live.tls import Certificate, trusting

BEGUN = chat_events({"role": "assistant", "content": ""}, {"content": "Half"})[:2]

NO_ANSWER = replace(chat("reset before the head", []), end="no_answer")
RESET = chat("reset", BEGUN, end="reset")
CUT_CHUNKS = chat("chunks cut", BEGUN, end="cut")
CUT_LENGTH = replace(chat("length cut", BEGUN, end="cut"), framing="length")
RESET_LENGTH = replace(chat("length reset", BEGUN, end="reset"), framing="length")
RESET_CLOSE = replace(chat("reset of what a close would end", BEGUN, end="reset"), framing="close")
H2_RESET = chat("stream reset", BEGUN, end="reset")
H2_SILENT = replace(chat("stream reset before the first byte", []), end="reset")
REFUSED = chat("refused", [])
UNTRUSTED = chat("untrusted", BEGUN)

UNREAD = ""
"""Where the connection fails, the request's body is not read any more, so that its model stays unknown."""
ERRORS = {
    (NO_ANSWER.id, "connection_reset"): 1.0,
    (RESET.id, "connection_reset"): 1.0,
    (RESET_LENGTH.id, "connection_reset"): 1.0,
    (RESET_CLOSE.id, "connection_reset"): 1.0,
    (CUT_CHUNKS.id, "incomplete_chunked_body"): 1.0,
    (CUT_LENGTH.id, "incomplete_body"): 1.0,
    (H2_RESET.id, "http2_reset_INTERNAL_ERROR"): 1.0,
    (H2_SILENT.id, "http2_reset_INTERNAL_ERROR"): 1.0,
    (UNREAD, "connection_refused"): 1.0,
    (UNREAD, "tls_error"): 1.0,
}
"""Model (the exchange's id) and error type."""
OUTCOMES = {
    (NO_ANSWER.id, "upstream_failed"): 1.0,
    (UNREAD, "upstream_failed"): 2.0,
    **{
        (exchange.id, "upstream_reset"): 1.0
        for exchange in (RESET, RESET_LENGTH, RESET_CLOSE, CUT_CHUNKS, CUT_LENGTH, H2_RESET, H2_SILENT)
    },
}


def named(exchange: Exchange) -> Exchange:
    """The exchange, its model named after it."""
    return replace(exchange, request_body=exchange.request_body.replace(b"m-test", exchange.id.encode()))


@contextlib.asynccontextmanager
async def asked_all(certificate: Certificate, folder: Path) -> AsyncIterator[str]:
    """All of these happened: the URL of the metrics."""
    plain, untrusted, resetting = Player(), Player(tls=Certificate(folder).server()), H2Resetter({})
    ports = [free_port() for _ in range(4)]
    async with plain.serving(), untrusted.serving(), resetting.serving(certificate.server()):
        upstreams = (plain.url, untrusted.url, resetting.url, f"http://localhost:{free_port()}")
        modes = [
            word
            for upstream, port in zip(upstreams, ports, strict=True)
            for word in ("--mode", f"reverse:{upstream}@127.0.0.1:{port}")
        ]
        authority = ("--set", f"confdir={folder}", "--set", f"ssl_verify_upstream_trusted_ca={certificate.path}")
        async with sidecar_run(*modes, *authority) as sidecar:
            for port, player, exchanges in (
                (ports[0], plain, (NO_ANSWER, RESET, RESET_LENGTH, RESET_CLOSE, CUT_CHUNKS, CUT_LENGTH)),
                (ports[1], untrusted, (UNTRUSTED,)),
                (ports[3], plain, (REFUSED,)),
            ):
                for exchange in exchanges:
                    player.add([exchange])
                    client = await Client.connect(("127.0.0.1", port))
                    await client.ask(named(exchange))
                    client.close()
            await ask_http2(resetting, ports[2], trusting(folder / "mitmproxy-ca-cert.pem"))
            yield sidecar.metrics


async def ask_http2(upstream: H2Resetter, port: int, tls: ssl.SSLContext) -> None:
    """The exchanges whose streams are reset on a connection that goes on."""
    client = await H2Client.connect(("127.0.0.1", port), tls)
    for exchange in (H2_RESET, H2_SILENT):
        upstream.exchanges[exchange.id] = exchange
        await client.send(named(exchange))
        while not client.answers[exchange.id].reset:
            await client.receive()
    client.close()


async def test_each_failure_of_an_upstream_has_its_error_type_in_prometheus(
    certificate: Certificate, tmp_path: Path
) -> None:
    async with asked_all(certificate, tmp_path) as url, prometheus(tmp_path, {JOB: url}, {}) as metrics:

        async def told() -> dict[str, dict[tuple[str, str], float]]:
            return {
                label: {
                    (labels.get("gen_ai_request_model", ""), labels[label]): value
                    for labels, value in await metrics.query(
                        f"sum by (gen_ai_request_model, {label}) ({metric})",
                    )
                }
                for label, metric in (("error_type", "llm_stream_errors_total"), ("outcome", "llm_streams_total"))
            }

        async def all_told() -> bool:
            return sum((await told())["outcome"].values()) == sum(OUTCOMES.values())

        with contextlib.suppress(AssertionError):  # what is there says more
            await wait_until(all_told, 15)
        found = await told()
        assert found == {"error_type": ERRORS, "outcome": OUTCOMES}
