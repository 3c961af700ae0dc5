"""Byte identity: whatever the upstream sends arrives as it was sent, in order, with the ending it had."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

import pytest
import pytest_asyncio

from tests.live.exchanges import (
    FIXTURES,
    RECORDED_MODEL,
    Exchange,
    Piece,
    chat,
    chat_events,
    corpus,
    end_to_end,
    recorded,
)
from tests.live.player import Player
from tests.live.processes import Sidecar, sidecar_run
from tests.live.raw_client import Answer, Client, ask_all
from tests.live.scrape import Samples, counted, scrape
from tests.live.tls import Certificate, trusting

ROUTES = {
    "plain": (*corpus(), *recorded()),
    "tls upstream": tuple(exchange for exchange in recorded() if len(exchange.pieces) == 1),
    "tls on both sides": corpus(),
}
ENDINGS = {"eof": "eof", "reset": "broken", "hang": "hanging", "client_leaves": "left"}

each_exchange = pytest.mark.parametrize(
    ("route", "exchange"),
    [pytest.param(route, each, id=f"{route}, {each.id}") for route, all in ROUTES.items() for each in all],
)
with_corpus = pytest.mark.parametrize("route", ["plain", "tls on both sides"])
in_module_loop = pytest.mark.asyncio(loop_scope="module")


@dataclass
class Round:
    """All exchanges of one route, played."""

    player: Player
    answers: dict[str, Answer]
    samples: Samples


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def played(certificate: Certificate, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Round]:
    """Captures through the proxy on every route, many at a time and fifty times as fast as recorded."""
    return {route: await _play(route, certificate, tmp_path_factory.mktemp("mitmproxy")) for route in ROUTES}


async def _play(route: str, certificate: Certificate, private: Path) -> Round:
    exchanges = ROUTES[route]
    player = Player(speed=50, longest=0.2, tls=None if route == "plain" else certificate.server())
    player.add(exchanges)
    options = ("--set", f"confdir={private}", "--set", f"ssl_verify_upstream_trusted_ca={certificate.path}")
    async with player.serving(), sidecar_run("--upstream", player.url, *options) as sidecar:
        tls = trusting(private / "mitmproxy-ca-cert.pem") if route == "tls on both sides" else None
        answers = await ask_all(sidecar.proxy, exchanges, tls=tls)
        samples = await counted(sidecar.metrics, len(exchanges))
    return Round(player, answers, samples)


@each_exchange
def test_exchange_passes_as_it_was_sent(played: dict[str, Round], route: str, exchange: Exchange) -> None:
    play, answer = played[route].player.play(exchange.id), played[route].answers[exchange.id]
    assert (play.method, play.target) == (exchange.method, exchange.target)
    assert end_to_end(play.headers) == end_to_end(exchange.request_headers)
    assert play.request_body == exchange.request_body
    if exchange.end == "no_answer":
        assert (answer.status, answer.ending) == (502, "eof")
        return
    assert answer.status == exchange.status
    assert end_to_end(answer.headers) == end_to_end(exchange.headers)
    assert answer.body == exchange.body
    assert answer.ending == ENDINGS[exchange.end]


@with_corpus
def test_upstream_is_left_when_the_client_leaves(played: dict[str, Round], route: str) -> None:
    """Generation costs money: a proxy that kept the upstream connection would let it go on."""
    left = [exchange.id for exchange in corpus() if exchange.end == "client_leaves"]
    assert left
    assert [case for case in left if not played[route].player.play(case).client_left] == []


@with_corpus
def test_verdicts_are_those_expected_of_the_captures(played: dict[str, Round], route: str) -> None:
    lines = (FIXTURES / "corpus" / "streams.expected.jsonl").read_text(encoding="utf-8").split("\n")
    expected = Counter((row["dialect"], row["outcome"]) for row in map(json.loads, filter(None, lines)))
    for dialect, outcome in list(expected):
        if outcome == "open":  # the test's client leaves in the end
            expected[dialect, "client_disconnect"] += expected.pop((dialect, outcome))
    samples = played[route].samples
    found = Counter(samples.by("llm_streams_total", "dialect", "outcome"))
    found.subtract(samples.by("llm_streams_total", "dialect", "outcome", gen_ai_request_model=RECORDED_MODEL))
    assert +found == expected


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def player() -> AsyncIterator[Player]:
    player = Player()
    async with player.serving():
        yield player


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sidecar(player: Player) -> AsyncIterator[Sidecar]:
    async with sidecar_run("--upstream", player.url) as sidecar:
        yield sidecar


@in_module_loop
async def test_each_chunk_is_passed_on_before_the_next_is_sent(player: Player, sidecar: Sidecar) -> None:
    exchange = chat("lockstep", chat_events({"role": "assistant"}, *({"content": f"{n} "} for n in range(20))), every=0)
    player.add([exchange])
    step = player.steps[exchange.id] = asyncio.Semaphore(1)
    before = await scrape(sidecar.metrics)
    bounds = list(accumulate(len(piece.data) for piece in exchange.pieces))

    def received(body: bytes) -> None:
        if len(body) in bounds:
            step.release()

    client = await Client.connect(sidecar.proxy)
    answer = await client.ask(exchange, on_data=received, patience=10)
    client.close()
    assert answer.ending == "eof", f"stuck after {len(answer.body)} bytes: the proxy holds something back"
    assert [read.data for read in answer.reads] == [piece.data for piece in exchange.pieces]
    await counted(sidecar.metrics, 1, since=before)  # not in the midst of the next test


@in_module_loop
async def test_a_body_that_only_the_end_of_the_connection_delimits(player: Player, sidecar: Sidecar) -> None:
    """HTTP/1.0 style. mitmproxy tells a reset there as an end; the connection itself knows better."""
    whole = replace(chat("until the end", chat_events({"content": "all"})), framing="close")
    cut = replace(whole, id="until the reset", pieces=whole.pieces[:1], end="reset")
    player.add([whole, cut])
    before = await scrape(sidecar.metrics)
    answers = await ask_all(sidecar.proxy, [whole, cut])
    for exchange in (whole, cut):
        assert answers[exchange.id].body == exchange.body
        assert not {"transfer-encoding", "content-length"} & dict(answers[exchange.id].headers).keys()
    assert answers[whole.id].ending == "eof"
    samples = await counted(sidecar.metrics, 2, since=before)
    assert samples.by("llm_streams_total", "outcome") == {"complete": 1, "upstream_reset": 1}


@in_module_loop
async def test_traffic_that_is_no_llm_passes_unchanged_and_uncounted(player: Player, sidecar: Sidecar) -> None:
    page = (("content-type", "text/html"), ("x-thing", "kept"), ("set-cookie", "a=1"), ("set-cookie", "b=2"))
    noise = random.Random(1).randbytes(20 * 1024 * 1024)
    plain = Exchange(
        "get", "GET", "/index.html?q=1", (("accept", "*/*"),), headers=page, pieces=(Piece(0, noise[:99_999]),)
    )
    upload = replace(plain, id="upload", method="PUT", target="/files/1", request_body=noise)
    traffic = [
        plain,
        replace(plain, id="head", method="HEAD", pieces=()),
        upload,
        replace(upload, id="declared", framing="length"),
        replace(plain, id="no content", method="DELETE", status=204, headers=(("x-thing", "kept"),), pieces=()),
        replace(plain, id="not modified", status=304, headers=(("etag", '"1"'),), pieces=()),
        replace(plain, id="models", target="/v1/models", headers=(("content-type", "application/json"),)),
    ]
    chunked = replace(upload, id="chunked upload", target="/files/2")
    marker = chat("marker", chat_events({"content": "counted"}), every=0)
    player.add([*traffic, chunked, marker])
    before = await scrape(sidecar.metrics)
    answers = await ask_all(sidecar.proxy, traffic)
    client = await Client.connect(sidecar.proxy)
    answers[chunked.id] = await client.ask(chunked, chunked=True)
    for exchange in [*traffic, chunked]:
        answer, play = answers[exchange.id], player.play(exchange.id)
        assert play.request_body == exchange.request_body, exchange.id
        assert (answer.status, answer.ending) == (exchange.status, "eof"), exchange.id
        assert end_to_end(answer.headers) == exchange.headers, exchange.id
        assert answer.body == exchange.body, exchange.id
    assert ("transfer-encoding", "chunked") in player.play(chunked.id).headers
    await client.ask(marker)
    client.close()
    samples = await counted(sidecar.metrics, 1, since=before)  # the marker came last: what else was to be counted, was
    assert samples.by("llm_streams_total", "outcome", gen_ai_request_model="m-test") == {"complete": 1}
