"""Recordings served again over real sockets: bytes, chunks, endings; and the verdicts that `sidecar run` reaches of them."""

import asyncio
import dataclasses
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from click.testing import CliRunner
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from sidecar.capture.records import RequestSent
from sidecar.cli import cli
from sidecar.files.capture import Capture, end_at, records_of
from sidecar.files.inspect import inspect_capture, report, run
from sidecar.files.replay import Recordings, Server
from sidecar.files.replay.recordings import BY_ID
from sidecar.stream.summary import Summary
from sidecar.thresholds import QuirkThresholds
from tests import sockets as socket_corpus
from tests.corpus import CORPUS, captures
from tests.live.exchanges import Exchange, corpus, end_to_end
from tests.live.processes import BIN, program, sidecar_run
from tests.live.raw_client import Answer, Client, ask, ask_all
from tests.live.scrape import wait_until
from tests.live.sdks.answers import Observer
from tests.live.tls import Certificate, trusting
from tests.test_corpus import READ_DEPENDENT

ENDINGS = {"eof": "eof", "reset": "broken", "hang": "hanging", "client_leaves": "left"}
AT_ONCE = READ_DEPENDENT | {"long_gap", "long_prefill_silence", "heartbeat_gap_long", "eof_delayed_after_terminator"}
"""What only the recorded times show; a replay at once has others."""
OF_THE_HOP = {
    # Recorded over HTTP/2 or behind something that answered for the upstream; what stands here is between the two hops.
    "content_length_on_stream",
}
in_module_loop = pytest.mark.asyncio(loop_scope="module")


def named(exchange: Exchange) -> Exchange:
    """An exchange whose request says which recording it wants."""
    return dataclasses.replace(exchange, request_headers=(*exchange.request_headers, (BY_ID, exchange.id)))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[Server]:
    async with Server(Recordings(captures().values()), speed=0).listening() as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def answers(server: Server) -> dict[str, Answer]:
    return await ask_all(server.address, [named(exchange) for exchange in corpus()])


@pytest.mark.parametrize("exchange", corpus(), ids=lambda exchange: exchange.id)
@in_module_loop
async def test_a_recording_is_answered_as_it_was(answers: dict[str, Answer], exchange: Exchange) -> None:
    answer = answers[exchange.id]
    if exchange.end == "no_answer":
        assert (answer.status, answer.ending) == (None, "broken")
        return
    assert answer.status == exchange.status
    assert end_to_end(answer.headers) == exchange.headers
    assert answer.body == exchange.body
    assert answer.ending == ENDINGS[exchange.end]
