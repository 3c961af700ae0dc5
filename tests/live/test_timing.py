"""Ground truth: the upstream's and the client's own logs of a run, on the same clock, against the sidecar's times.

The sidecar's times count from t0, the moment at which it passed on the last byte of the request. The client wrote it
before that, the upstream read it after, and likewise for every byte of the response in the other direction. So for
whatever was emitted at E, seen by the sidecar at t0 + m, and arrived at A:

    emitted - request arrived  <=  m  <=  arrived - request sent

That holds strictly, however busy the machine is; and the three are no further apart than noise.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import pytest
import pytest_asyncio

from tests.live.exchanges import Exchange, chat, chat_events
from tests.live.player import Play, Player
from tests.live.processes import Sidecar, sidecar_run
from tests.live.raw_client import Answer, ask
from tests.live.scrape import Samples, counted, streams

NOISE = 0.25
ROUNDING = 1e-6  # seconds; /api/streams rounds to microseconds

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass
class Run:
    """One exchange with all that is known of it."""

    exchange: Exchange
    play: Play
    answer: Answer
    milestones: dict[str, float]
    row: dict[str, Any]
    samples: Samples

    def bounds(self, piece: int) -> tuple[float, float]:
        """Seconds from t0 between which the sidecar must have seen a piece of the body."""
        ends = list(accumulate(len(piece.data) for piece in self.exchange.pieces))
        return self._bounds(self.play.pieces[piece].before, self.answer.arrived(ends[piece]))

    def bounds_of_end(self) -> tuple[float, float]:
        """The same for the end of the response."""
        assert self.play.end is not None
        return self._bounds(self.play.end.before, self.answer.ended_at)

    def _bounds(self, emitted: int, arrived: int) -> tuple[float, float]:
        return (emitted - self.play.request_at) / 1e9, (arrived - self.answer.sent_at) / 1e9

    def metric(self, milestone: str) -> float:
        """The same time from the metrics, where this exchange is the only one in the histogram."""
        assert self.samples.value("llm_stream_milestone_seconds_count", milestone=milestone) == 1
        return self.samples.value("llm_stream_milestone_seconds_sum", milestone=milestone)


def within(seen: float, bounds: tuple[float, float]) -> None:
    """Between emission and arrival, and close to both."""
    emitted, arrived = bounds
    assert emitted - ROUNDING <= seen <= arrived + ROUNDING
    assert seen - emitted < NOISE
    assert arrived - seen < NOISE


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def player() -> AsyncIterator[Player]:
    player = Player()
    async with player.serving():
        yield player


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sidecar(player: Player) -> AsyncIterator[Sidecar]:
    async with sidecar_run("--upstream", player.url) as sidecar:
        yield sidecar


async def run(player: Player, sidecar: Sidecar, exchange: Exchange) -> Run:
    """Play an exchange of a model of its own, so that its series hold nothing else."""
    player.add([exchange])
    answer = await ask(sidecar.proxy, exchange)
    samples = await counted(sidecar.metrics, 1, gen_ai_request_model=exchange.id)
    (row,) = [row for row in (await streams(sidecar.metrics))["recent"] if row["model"] == exchange.id]
    return Run(exchange, player.play(exchange.id), answer, row["milestones_seconds"], row, samples)


ROLE, REASONING, TEXT, FINISH, DONE = range(5)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ladder(player: Player, sidecar: Sidecar) -> Run:
    """A stream in which every milestone is a read of its own, 150 ms apart; the end comes after the terminator."""
    deltas = ({"role": "assistant", "content": ""}, {"reasoning_content": "hm"}, {"content": "yes"})
    return await run(player, sidecar, chat("ladder", chat_events(*deltas, model="ladder"), every=0.15, model="ladder"))


async def test_every_step_of_the_ladder_is_seen_between_emission_and_arrival(ladder: Run) -> None:
    seen = ladder.milestones
    assert ladder.row["outcome"] == "complete"
    within(seen["first_byte"], ladder.bounds(ROLE))
    within(seen["first_event"], ladder.bounds(ROLE))
    within(seen["first_token"], ladder.bounds(REASONING))
    within(seen["first_visible_token"], ladder.bounds(TEXT))
    within(seen["last_token"], ladder.bounds(TEXT))
    within(seen["terminator"], ladder.bounds(DONE))
    within(seen["end"], ladder.bounds_of_end())


async def test_steps_are_in_their_order(ladder: Run) -> None:
    seen = ladder.milestones
    order = ("headers", "first_byte", "first_token", "first_visible_token", "terminator", "end")
    times = [seen[name] for name in order]
    assert times == sorted(times)
    assert len(set(times)) == len(times), "each was a read of its own"


async def test_headers_are_seen_between_emission_and_arrival(ladder: Run) -> None:
    assert ladder.play.head is not None
    emitted = (ladder.play.head.before - ladder.play.request_at) / 1e9
    within(ladder.milestones["headers"], (emitted, (ladder.answer.head_at - ladder.answer.sent_at) / 1e9))


async def test_metrics_and_page_say_the_same(ladder: Run) -> None:
    for milestone in ("headers", "first_byte", "first_token", "first_visible_token"):
        assert ladder.metric(milestone) == pytest.approx(ladder.milestones[milestone], abs=ROUNDING)
    samples, seen = ladder.samples, ladder.milestones
    assert samples.value("gen_ai_client_operation_duration_seconds_sum") == pytest.approx(seen["end"], abs=ROUNDING)
    first_chunk = samples.value("gen_ai_client_operation_time_to_first_chunk_seconds_sum")
    assert first_chunk == pytest.approx(seen["first_event"], abs=ROUNDING)


async def test_gap_between_outputs_is_theirs(ladder: Run) -> None:
    gap = ladder.samples.value("gen_ai_client_operation_time_per_output_chunk_seconds_sum")
    assert ladder.samples.value("gen_ai_client_operation_time_per_output_chunk_seconds_count") == 1
    assert gap == pytest.approx(ladder.milestones["last_token"] - ladder.milestones["first_token"], abs=2 * ROUNDING)
    assert gap == pytest.approx(0.15, abs=NOISE)


async def test_silence_before_the_first_byte_is_the_upstreams(player: Player, sidecar: Sidecar) -> None:
    deltas = ({"role": "assistant"}, {"content": "at last"})
    slow = await run(player, sidecar, chat("slow", chat_events(*deltas, model="slow"), first=0.6, model="slow"))
    within(slow.milestones["first_byte"], slow.bounds(0))
    within(slow.milestones["first_token"], slow.bounds(1))
    assert slow.milestones["first_byte"] > 0.599
    silence = slow.samples.value("llm_stream_longest_silence_seconds_sum", phase="waiting_headers")
    assert silence == pytest.approx(slow.milestones["headers"], abs=ROUNDING)


async def test_upload_counts_before_t0(player: Player, sidecar: Sidecar) -> None:
    """A long upload is the client's time: t0 is when its last byte went out, not when the request began."""
    exchange = chat("upload", chat_events({"content": "seen"}, model="upload"), every=0.0, model="upload")
    pause = 1.0
    player.add([exchange])
    answer = await ask(sidecar.proxy, exchange, pause_before_body=pause)
    await counted(sidecar.metrics, 1, gen_ai_request_model="upload")
    (row,) = [row for row in (await streams(sidecar.metrics))["recent"] if row["model"] == "upload"]
    assert (answer.ended_at - answer.sent_at) / 1e9 >= pause
    assert row["milestones_seconds"]["end"] < pause


async def test_reset_is_seen_when_it_happens(player: Player, sidecar: Sidecar) -> None:
    events = chat_events({"content": "so far"}, {"content": "so good"}, model="cut")[:2]
    cut = await run(player, sidecar, chat("cut", events, every=0.2, model="cut", end="reset"))
    assert (cut.row["outcome"], cut.answer.ending) == ("upstream_reset", "broken")
    within(cut.milestones["last_token"], cut.bounds(1))
    within(cut.milestones["end"], cut.bounds_of_end())
    assert "terminator" not in cut.milestones
