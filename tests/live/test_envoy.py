"""The corpus through the real Envoy: what the tap makes of it is what `inspect` makes of the captures, and bytes pass."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from sidecar.capture.capture import Capture
from sidecar.capture.interest import Chooser
from sidecar.capture.outbox import Outbox
from sidecar.capture.records import AnyRecord, Chunk, Ended, Opened, Record, RequestBody
from sidecar.files.capture import records_of
from sidecar.files.inspect import report, run
from sidecar.thresholds import QuirkThresholds
from sidecar.transport.wire import LENGTH, decode_batch, encode
from tests.corpus import captures
from tests.live.envoy import configuration, envoy, everywhere
from tests.live.exchanges import CASE, Exchange, corpus, end_to_end
from tests.live.player import Player
from tests.live.raw_client import Answer, ask_all
from tests.live.scrape import wait_until
from tests.parts import require_module

require_module("grpc", "pip install 'llm-sidecar[envoy]'")

from sidecar.envoy.server import EnvoyServer  # noqa: E402  # where the extra is installed

EXCHANGES = corpus()
ENDINGS = {"eof": "eof", "reset": "broken", "hang": "hanging", "client_leaves": "left"}

each_exchange = pytest.mark.parametrize("exchange", [pytest.param(each, id=each.id) for each in EXCHANGES])
in_module_loop = pytest.mark.asyncio(loop_scope="module")


@dataclass
class Heard:
    """What an EnvoyServer said."""

    outbox: Outbox = field(default_factory=lambda: Outbox(1 << 30))

    def server(self, target: str) -> EnvoyServer:
        return EnvoyServer(target, Capture(self.outbox), Chooser(), frozenset({CASE}), max_streams=1000)

    def by_case(self) -> dict[str, list[AnyRecord]]:
        """What the analyzer would get of each, as it comes over the wire."""
        streams: dict[int, list[AnyRecord]] = {}
        for record in decode_batch(encode(self.outbox.take(1 << 40))[LENGTH.size :]):
            streams.setdefault(record.stream, []).append(record)
        return {case_of(records): records for records in streams.values()}


def case_of(records: Sequence[AnyRecord]) -> str:
    opened = records[0]
    assert isinstance(opened, Opened)
    return dict(opened.headers)[CASE]


@dataclass
class Round:
    """The corpus, played."""

    player: Player
    answers: dict[str, Answer]
    heard: dict[str, list[AnyRecord]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def played(tmp_path_factory: pytest.TempPathFactory) -> Round:
    folder = tmp_path_factory.mktemp("envoy")
    heard = Heard()
    server = heard.server(f"unix:{folder}/envoy.sock")
    await server.start()
    player = Player(speed=50, longest=0.2)
    player.add(EXCHANGES)
    async with player.serving():
        found = everywhere(configuration(player.port, [folder / "envoy.sock"]))
        async with envoy(folder, found) as running:
            answers = await ask_all(running.proxy, EXCHANGES)

            async def all_over() -> bool:
                return sum(server.told.values()) == len(EXCHANGES)

            await wait_until(all_over, what="the end of all streams")
    await server.stop()
    assert not {"failed", "dropped", "refused"} & server.told.keys()
    assert not heard.outbox.failures
    return Round(player, answers, heard.by_case())


@each_exchange
def test_bytes_pass_as_they_were_sent(played: Round, exchange: Exchange) -> None:
    play, answer = played.player.play(exchange.id), played.answers[exchange.id]
    assert (play.method, play.target) == (exchange.method, exchange.target)
    assert play.request_body == exchange.request_body
    if exchange.end == "no_answer":
        assert (answer.status, answer.ending) == (503, "eof")
        return
    assert answer.status == exchange.status
    assert set(end_to_end(exchange.headers)) <= set(end_to_end(answer.headers))
    assert answer.body == exchange.body
    assert answer.ending == ENDINGS[exchange.end]


@each_exchange
def test_records_hold_the_bytes(played: Round, exchange: Exchange) -> None:
    records = played.heard[exchange.id]
    assert b"".join(record.data for record in records if isinstance(record, RequestBody)) == exchange.request_body
    assert b"".join(record.data for record in records if isinstance(record, Chunk)) == exchange.body
    assert [isinstance(record, Ended) for record in records].count(True) == 1
    assert [record.at for record in records[:-1]] == sorted(record.at for record in records[:-1])


FIELDS = (
    "dialect",
    "outcome",
    "terminator",
    "finish_reason",
    "text",
    "reasoning_text",
    "usage",
    "tool_calls",
    "error",
    "heartbeats",
    "output_chunks",
)
PACE = frozenset(
    {
        "buffered_delivery",
        "burst_delivery",
        "eof_delayed_after_terminator",
        "event_split_across_reads",
        "long_gap",
        "long_prefill_silence",
        "multiple_events_per_read",
        "utf8_split_across_reads",
    }
)
"""What the captures show or not because of their pace, and the play, which is fifty times as fast, does not."""


@each_exchange
def test_verdict_is_that_of_the_capture(played: Round, exchange: Exchange) -> None:
    capture = captures()[exchange.id]
    recorded = [_as_played(record) for record in records_of(capture)]
    expected = said_of(recorded)
    said = said_of(played.heard[exchange.id])
    left = expected["outcome"] == "open"  # the capture stops while it hangs; the client that plays it leaves in the end
    outcome = "client_disconnect" if left else expected["outcome"]
    assert {name: said[name] for name in FIELDS} == {name: expected[name] for name in FIELDS} | {"outcome": outcome}
    quirks = set(expected["quirks"]) - PACE
    assert set(said["quirks"]) - PACE == (quirks - {"upstream_hang"} | {"client_disconnect"} if left else quirks)


def _as_played(record: Record) -> Record:
    """The client of the tests names another host, and fewer headers."""
    if isinstance(record, Opened):
        return msgspec.structs.replace(record, host="localhost", port=80, scheme="http")
    return record


def said_of(records: Sequence[Record]) -> dict[str, Any]:
    summary = run(list(records), records[-1].at, QuirkThresholds())
    said: dict[str, Any] = json.loads(msgspec.json.encode(report(summary, show_content=True)))
    return said
