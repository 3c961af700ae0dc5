"""Envoy and an analyzer that is slow, or hangs: clients wait for nothing, Envoy's memory comes back, losses are counted."""

import asyncio
import contextlib
import os
import signal
import statistics
from collections.abc import AsyncIterator, Coroutine, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.live.envoy import Envoy, Listening, analyzer, configuration, envoy
from tests.live.exchanges import Exchange, Piece, chat, chat_events
from tests.live.player import Player
from tests.live.raw_client import Answer, ask, ask_all
from tests.live.scrape import scrape, wait_until

MIB = 1 << 20


def flood(name: str, seconds: float, kib: int) -> Exchange:
    """So many KiB every ten milliseconds."""
    piece = b"data: " + b"x" * (kib * 1024 - 8) + b"\n\n"
    return Exchange(name, pieces=tuple(Piece(number / 100, piece) for number in range(int(seconds * 100))))


def words(name: str) -> Exchange:
    return chat(name, chat_events({"content": "a"}, {"content": "b"}, model=name), every=0.02, model=name)


def whole(case: Exchange, answer: Answer) -> bool:
    return (answer.status, answer.body, answer.ending) == (200, case.body, "eof")


def waits(player: Player, cases: Sequence[Exchange], answers: dict[str, Answer]) -> list[float]:
    """Seconds from the player's write of each piece to the client's read of its end."""
    found: list[float] = []
    for case in cases:
        size = 0
        for piece, sent in zip(case.pieces, player.play(case.id).pieces, strict=True):
            size += len(piece.data)
            found.append((answers[case.id].arrived(size) - sent.before) / 1e9)
    return found


async def allocated(running: Envoy) -> int:
    """Bytes that Envoy has in use; its RSS keeps what it once had."""
    async with httpx.AsyncClient(trust_env=False) as client:
        return int((await client.get(f"{running.admin}/memory")).json()["allocated"])


class Peak:
    """The most that Envoy had in use while this runs."""

    def __init__(self, running: Envoy) -> None:
        self._running = running
        self.bytes = 0

    async def watch(self) -> None:
        while True:
            self.bytes = max(self.bytes, await allocated(self._running))
            await asyncio.sleep(0.1)


@contextlib.asynccontextmanager
async def meanwhile(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def signal_all(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        os.kill(pid, number)


async def starve(pids: Sequence[int]) -> None:
    """They get a tenth of the time, until cancelled."""
    try:
        while True:
            signal_all(pids, signal.SIGSTOP)
            await asyncio.sleep(0.9)
            signal_all(pids, signal.SIGCONT)
            await asyncio.sleep(0.1)
    finally:
        signal_all(pids, signal.SIGCONT)


async def heard_again(player: Player, running: Envoy, told: Listening) -> None:
    """What is told from now on is told whole, after a while."""
    asked = 0

    async def complete() -> bool:
        nonlocal asked
        asked += 1
        case = words(f"after-{asked}")
        player.add([case])
        assert whole(case, await ask(running.proxy, case))
        counts = (await scrape(told.metrics)).by("llm_streams_total", "gen_ai_request_model", "outcome")
        return any(model.startswith("after-") and outcome == "complete" for model, outcome in counts)

    await wait_until(complete, what="a whole stream")


@pytest.mark.parametrize("starved", ["analyzer", "analyzer and reader"])
async def test_slow_analyzer_costs_telemetry_and_nothing_else(player: Player, tmp_path: Path, starved: str) -> None:
    before, during = ([flood(f"{name}-{number}", 4, 64) for number in range(2)] for name in ("before", "during"))
    small = [words(f"small-{number}") for number in range(5)]
    player.add([*before, *during, *small])
    config = tmp_path / "sidecar.toml"
    config.write_text("outbox_mib = 1")
    async with (
        analyzer("--config", str(config)) as told,
        envoy(tmp_path, configuration(player.port, [told.port])) as running,
    ):
        answers = await ask_all(running.proxy, before, at_once=2)
        peak = Peak(running)
        pids = [told.program.process.pid, *(told.program.children if "reader" in starved else ())]
        async with meanwhile(starve(pids)), meanwhile(peak.watch()):
            answers |= await ask_all(running.proxy, [*during, *small], at_once=7)
        assert all(whole(case, answers[case.id]) for case in (*before, *during, *small))
        usual, slow = (statistics.median(waits(player, cases, answers)) for cases in (before, during))
        assert slow < 3 * usual + 0.05
        assert max(waits(player, during, answers)) < 1.5
        assert peak.bytes < 48 * MIB, "more than what comes in the longest pause"
        await heard_again(player, running, told)

        async def counted() -> bool:
            found = await scrape(told.metrics)
            dropped = found.by("llm_sidecar_envoy_streams_total", "how").get("dropped", 0)
            lost = found.total("llm_sidecar_streams_lost_total", where="capture")
            return found.total("llm_sidecar_records_dropped_total") >= dropped == lost >= 2

        await wait_until(counted, what="what was dropped")
        assert await allocated(running) < 16 * MIB


def patient(upstream: int, told: int, patience: str | None) -> Any:
    """What is shipped, with as much patience for an analyzer that does not answer."""
    found = configuration(upstream, [told])
    if patience is not None:
        (options,) = found["static_resources"]["clusters"][1]["typed_extension_protocol_options"].values()
        keepalive = options["explicit_http_config"]["http2_protocol_options"]["connection_keepalive"]
        keepalive |= {"interval": patience, "timeout": patience}
    return found


@pytest.mark.parametrize("patience", [None, "4s"], ids=["as shipped", "patient"])
async def test_analyzer_that_hangs_is_given_up_and_nobody_waits(
    player: Player, tmp_path: Path, patience: str | None
) -> None:
    """Reader included, and with more to tell than one stream's window takes: 16 MiB, beyond which Envoy would stop
    reading from the endpoint, for as long as it has patience."""
    big, later = flood("big", 9 if patience else 5, 256), [words(f"later-{number}") for number in range(5)]
    player.add([big, *later])
    async with analyzer() as told, envoy(tmp_path, patient(player.port, told.port, patience)) as running:
        await heard_again(player, running, told)
        pids = [told.program.process.pid, *told.program.children]
        asking, peak = asyncio.create_task(ask(running.proxy, big)), Peak(running)

        async def in_the_middle() -> bool:
            return (await scrape(told.metrics)).total("llm_streams_in_flight") == 1

        await wait_until(in_the_middle, what="the stream")
        signal_all(pids, signal.SIGSTOP)
        try:
            async with meanwhile(peak.watch()):
                answer = await asking
            answers = await ask_all(running.proxy, later, at_once=5)

            async def given_up() -> bool:
                return await running.stat(r"cluster\.llm-sidecar\.http2\.keepalive_timeout") >= 1

            await wait_until(given_up, what="the end of Envoy's patience")
            assert await allocated(running) < 16 * MIB, "what could not be told was let go"
        finally:
            signal_all(pids, signal.SIGCONT)
        assert whole(big, answer)
        assert all(whole(case, answers[case.id]) for case in later)
        assert max(waits(player, [big], {"big": answer})) < 1.2
        if patience:
            assert peak.bytes > 16 * MIB, "more than one stream's window"
        assert peak.bytes < (256 if patience else 96) * MIB, "at most what comes before Envoy gives up"
        await heard_again(player, running, told)
        assert (await scrape(told.metrics)).by("llm_streams_total", "outcome")["lost"] >= 1
        failed = await running.stat(r"http\.llm\.ext_proc\.failure_mode_allowed")
        assert failed >= 1, "Envoy counts the copies that came to nothing"
