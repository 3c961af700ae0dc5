"""Byte identity: whatever the upstream sends arrives as it was sent, in order, with the ending it had."""

import asyncio
import contextlib
import ssl
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from tests.live.exchanges import Exchange, corpus, end_to_end, recorded
from tests.live.player import Player
from tests.live.processes import Sidecar, sidecar_run
from tests.live.raw_client import Answer, ask_all
from tests.live.scrape import Samples, counted
from tests.live.tls import Certificate, trusting

pytestmark = pytest.mark.asyncio(loop_scope="module")

PLAYED = {exchange.id: exchange for exchange in (*corpus(), *recorded())}
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


@pytest.mark.parametrize("case", [case for case in PLAYED if PLAYED[case].end != "no_answer"])
def test_response_arrives_as_it_was_sent(played: Round, case: str) -> None:
    exchange, answer = PLAYED[case], played.answers[case]
    assert answer.status == exchange.status
    assert answer.headers == end_to_end(exchange.headers)
    assert answer.body == exchange.body
    assert answer.ending == ENDINGS[exchange.end]
