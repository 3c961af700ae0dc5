"""Many exchanges on one connection, HTTP/2 and HTTP/1.1: each is one exchange, with its own text and its own times."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import pytest_asyncio

from tests.live.exchanges import CASE, Exchange, chat, chat_events
from tests.live.player import Player
from tests.live.processes import Sidecar, sidecar_run
from tests.live.raw_client import Client
from tests.live.raw_h2 import H2Answer, H2Client, H2Resetter
from tests.live.scrape import counted, scrape, streams, wait_until
from tests.live.tls import Certificate, trusting
from tests.parts import require_module

if TYPE_CHECKING:
    from tests.live.h2_upstream import H2Upstream

pytestmark = pytest.mark.asyncio(loop_scope="module")

NOISE = 0.25  # seconds by which a time may be off on a busy machine


def words(number: int, *, first: float, every: float = 0.03) -> Exchange:
    """A chat with so many words of output, of a model of its own."""
    model = f"m-{number}"
    deltas = [{"role": "assistant"}, *({"content": f"{model} {word} "} for word in range(number))]
    return chat(model, chat_events(*deltas, model=model), first=first, every=every, model=model)


async def seen(sidecar: Sidecar, cases: list[Exchange]) -> dict[str, dict[str, Any]]:
    """What the sidecar says of the exchanges, by model."""
    rows = [row for row in (await streams(sidecar.metrics))["recent"] if row["model"] in {case.id for case in cases}]
    assert len(rows) == len(cases)
    return {row["model"]: row for row in rows}


def check(row: dict[str, Any], words: int, first: float, every: float) -> None:
    """The row is that of this exchange and no other: its number of outputs and its times."""
    assert row["outcome"] == "complete"
    assert row["output_chunks"] == words
    times = row["milestones_seconds"]
    assert times["first_token"] == pytest.approx(first + every, abs=NOISE)
    assert times["first_token"] > first + every - 0.001, "earlier than it was sent"
    assert times["last_token"] - times["first_token"] == pytest.approx((words - 1) * every, abs=NOISE)


@dataclass
class Http2:
    upstream: "H2Upstream"
    sidecar: Sidecar
    client: httpx.AsyncClient
    authority: Path

    async def ask(self, exchange: Exchange) -> httpx.Response:
        self.upstream.exchanges[exchange.id] = exchange
        headers = dict(exchange.request_headers) | {CASE: exchange.id}
        return await self.client.post(exchange.target, content=exchange.request_body, headers=headers)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def http2(certificate: Certificate, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Http2]:
    """HTTP/2 over TLS on both sides of the proxy, the client's all on one connection."""
    require_module("hypercorn", "pip install --group test")
    require_module("h2", "pip install --group test")
    from tests.live.h2_upstream import H2Upstream

    upstream, private = H2Upstream(), tmp_path_factory.mktemp("mitmproxy")
    options = ("--set", f"confdir={private}", "--set", f"ssl_verify_upstream_trusted_ca={certificate.path}")
    async with upstream.serving(certificate), sidecar_run("--upstream", upstream.url, *options) as sidecar:
        authority = private / "mitmproxy-ca-cert.pem"
        async with httpx.AsyncClient(
            base_url=f"https://localhost:{sidecar.proxy[1]}",
            http2=True,
            http1=False,
            verify=trusting(authority),
            limits=httpx.Limits(max_connections=1),
            timeout=30,
            trust_env=False,
        ) as client:
            yield Http2(upstream, sidecar, client, authority)


async def test_concurrent_streams_on_one_http2_connection(http2: Http2) -> None:
    cases = [words(number, first=0.1 * number) for number in range(3, 11)]
    before = await scrape(http2.sidecar.metrics)
    answers = await asyncio.gather(*(http2.ask(case) for case in cases))
    plays = http2.upstream.plays
    assert http2.upstream.at_once == len(cases)
    assert {play.http_version for play in plays.values()} == {"2"}
    assert len({play.connection for play in plays.values()}) == 1
    for case, answer in zip(cases, answers, strict=True):
        assert (answer.http_version, answer.status_code) == ("HTTP/2", 200)
        assert answer.content == case.body
        assert plays[case.id].request_body == case.request_body
    samples = await counted(http2.sidecar.metrics, len(cases), since=before)
    assert samples.by("llm_streams_total", "gen_ai_request_model") == {case.id: 1 for case in cases}
    rows = await seen(http2.sidecar, cases)
    for number, case in enumerate(cases, 3):
        check(rows[case.id], number, 0.1 * number, 0.03)


async def test_upstream_that_resets_one_http2_stream(certificate: Certificate, tmp_path: Path) -> None:
    """The other stream of the same connection goes on."""
    good = words(15, first=0.1)
    bad = chat("m-reset", chat_events({"content": "so far"}, model="m-reset")[:1], model="m-reset", end="reset")
    upstream = H2Resetter({case.id: case for case in (good, bad)})
    options = ("--set", f"confdir={tmp_path}", "--set", f"ssl_verify_upstream_trusted_ca={certificate.path}")
    async with upstream.serving(certificate.server()), sidecar_run("--upstream", upstream.url, *options) as sidecar:
        client = await H2Client.connect(sidecar.proxy, trusting(tmp_path / "mitmproxy-ca-cert.pem"))
        await client.send(bad)
        await client.send(good)
        while not client.answers[good.id].ended:
            await client.receive()
        client.close()
        assert client.answers[good.id] == H2Answer(good.body, ended=True)
        assert client.answers[bad.id] == H2Answer(bad.body, reset=True)
        assert upstream.connections == 1
        samples = await counted(sidecar.metrics, 2)
    expected = {("m-15", "complete"): 1, ("m-reset", "upstream_reset"): 1}
    assert samples.by("llm_streams_total", "gen_ai_request_model", "outcome") == expected


async def test_client_that_cancels_one_http2_stream(http2: Http2) -> None:
    good, left = words(13, first=0.3), words(100, first=0.0)
    http2.upstream.exchanges |= {case.id: case for case in (good, left)}
    before = await scrape(http2.sidecar.metrics)
    client = await H2Client.connect(http2.sidecar.proxy, trusting(http2.authority))
    await client.send(left)
    await client.send(good)
    while not client.answers[left.id].body:
        await client.receive()
    await client.cancel(left)
    while not client.answers[good.id].ended:
        await client.receive()
    client.close()
    assert client.answers[good.id].body == good.body
    samples = await counted(http2.sidecar.metrics, 2, since=before)
    expected = {("m-13", "complete"): 1, ("m-100", "client_disconnect"): 1}
    assert samples.by("llm_streams_total", "gen_ai_request_model", "outcome") == expected
    plays = http2.upstream.plays
    assert plays[good.id].connection == plays[left.id].connection

    async def upstream_knows() -> bool:
        return plays[left.id].client_left

    await wait_until(upstream_knows, what="the upstream to be told, that it may stop")
    assert len(plays[left.id].pieces) < len(left.pieces)


async def test_sequential_requests_on_one_http1_connection() -> None:
    cases = [words(number, first=0.05 * number) for number in (5, 2, 7)]
    player = Player()
    player.add(cases)
    async with player.serving(), sidecar_run("--upstream", player.url) as sidecar:
        client = await Client.connect(sidecar.proxy)
        answers = [await client.ask(case) for case in cases]
        client.close()
        assert [answer.body for answer in answers] == [case.body for case in cases]
        samples = await counted(sidecar.metrics, len(cases))
        assert samples.by("llm_streams_total", "gen_ai_request_model") == {case.id: 1 for case in cases}
        assert player.connections == 1, "the test wants them on one connection"
        rows = await seen(sidecar, cases)
    for number, case in zip((5, 2, 7), cases, strict=True):
        check(rows[case.id], number, 0.05 * number, 0.03)
