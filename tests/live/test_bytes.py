"""Byte identity: whatever the upstream sends arrives as it was sent, in order, with the ending it had."""

import json
from collections import Counter
from dataclasses import dataclass

import pytest
import pytest_asyncio

from tests.live.exchanges import FIXTURES, corpus, end_to_end, recorded
from tests.live.player import Player
from tests.live.processes import sidecar_run
from tests.live.raw_client import Answer, ask_all
from tests.live.scrape import Samples, counted
from tests.live.tls import Certificate, trusting

PLAYED = {exchange.id: exchange for exchange in (*corpus(), *recorded())}
ANSWERED = [case for case, exchange in PLAYED.items() if exchange.end != "no_answer"]
ENDINGS = {"eof": "eof", "reset": "broken", "hang": "hanging", "client_leaves": "left"}


@dataclass
class Round:
    """All exchanges on one route, played."""

    player: Player
    answers: dict[str, Answer]
    samples: Samples


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["plain", "tls upstream", "tls on both sides"])
async def played(
    request: pytest.FixtureRequest, certificate: Certificate, tmp_path_factory: pytest.TempPathFactory
) -> Round:
    """Every capture through the proxy, many at a time and fifty times as fast as recorded."""
    player = Player(speed=50, longest=0.2, tls=None if request.param == "plain" else certificate.server())
    player.add(PLAYED.values())
    private = tmp_path_factory.mktemp("mitmproxy")
    options = ("--set", f"confdir={private}", "--set", f"ssl_verify_upstream_trusted_ca={certificate.path}")
    async with player.serving(), sidecar_run("--upstream", player.url, *options) as sidecar:
        tls = trusting(private / "mitmproxy-ca-cert.pem") if request.param == "tls on both sides" else None
        answers = await ask_all(sidecar.proxy, PLAYED.values(), tls=tls)
        samples = await counted(sidecar.metrics, len(PLAYED))
    return Round(player, answers, samples)


@pytest.mark.parametrize("case", ANSWERED)
def test_response_arrives_as_it_was_sent(played: Round, case: str) -> None:
    exchange, answer = PLAYED[case], played.answers[case]
    assert answer.status == exchange.status
    assert answer.headers == end_to_end(exchange.headers)
    assert answer.body == exchange.body
    assert answer.ending == ENDINGS[exchange.end]


@pytest.mark.parametrize("case", PLAYED)
def test_request_arrives_as_it_was_sent(played: Round, case: str) -> None:
    exchange, play = PLAYED[case], played.player.play(case)
    assert (play.method, play.target) == (exchange.method, exchange.target)
    assert end_to_end(play.headers) == end_to_end(exchange.request_headers)
    assert play.request_body == exchange.request_body


def test_upstream_that_does_not_answer_is_a_bad_gateway(played: Round) -> None:
    (case,) = PLAYED.keys() - set(ANSWERED)
    answer = played.answers[case]
    assert (answer.status, answer.ending) == (502, "eof")


def test_upstream_is_left_when_the_client_leaves(played: Round) -> None:
    """Generation costs money: a proxy that kept the upstream connection would let it go on."""
    left = [case for case, exchange in PLAYED.items() if exchange.end == "client_leaves"]
    assert left
    assert [case for case in left if not played.player.play(case).client_left] == []


def test_outcomes_are_those_expected_of_the_captures(played: Round) -> None:
    lines = (FIXTURES / "corpus" / "streams.expected.jsonl").read_text(encoding="utf-8").split("\n")
    expected = Counter(row["outcome"] for row in map(json.loads, filter(None, lines)))
    expected["client_disconnect"] += expected.pop("open")  # the test's client leaves those that hang
    found = Counter(played.samples.by("llm_streams_total", "outcome", gen_ai_request_model=""))
    found = Counter(played.samples.by("llm_streams_total", "outcome")) - Counter(
        played.samples.by("llm_streams_total", "outcome", gen_ai_request_model="recorded")
    )
    assert found == expected
