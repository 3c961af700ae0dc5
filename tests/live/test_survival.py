"""The analyzer may die or hang: traffic does not notice, and what could not be followed is counted as lost."""

import asyncio
import contextlib
import os
import random
import signal
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from sidecar.capture.records import VERSION, Chunk, Ended, Health, Hello, Opened, RequestSent, ResponseHead
from sidecar.transport.wire import LENGTH, encode
from tests.live.exchanges import chat, chat_events, words
from tests.live.player import Player
from tests.live.processes import Sidecar, sidecar_analyzer, sidecar_run
from tests.live.raw_client import Answer, Client, ask, ask_all
from tests.live.scrape import Samples, counted, scrape, wait_until

NOISE = 0.25


@pytest.fixture
async def sidecar(player: Player) -> AsyncIterator[Sidecar]:
    async with sidecar_run("--upstream", player.url) as sidecar:
        yield sidecar


async def restarted(sidecar: Sidecar, killed: int) -> None:
    """Wait for another analyzer that answers where the first one did and hears of the proxy."""

    async def another() -> bool:
        answers = (await scrape(sidecar.metrics)).total("llm_sidecar_proxies_connected") == 1
        return answers and sidecar.program.children not in ([], [killed])

    await wait_until(another, what="a new analyzer")


async def test_analyzer_killed_in_the_middle_of_streams(player: Player, sidecar: Sidecar) -> None:
    cases = [words("first", 40), words("second", 40)]
    after = words("after", 5)
    player.add([*cases, after])
    (analyzer,) = sidecar.program.children
    player.steps = {case.id: asyncio.Semaphore(20) for case in cases}
    asking = [asyncio.create_task(ask(sidecar.proxy, case)) for case in cases]

    async def both_in_the_middle() -> bool:
        return (await scrape(sidecar.metrics)).total("llm_streams_in_flight", phase="mid_stream") == 2

    await wait_until(both_in_the_middle)
    os.kill(analyzer, signal.SIGKILL)
    for step in player.steps.values():
        for _ in cases[0].pieces:
            step.release()
    answers = await asyncio.gather(*asking)
    for case, answer in zip(cases, answers, strict=True):
        assert (answer.body, answer.ending) == (case.body, "eof")
    await restarted(sidecar, analyzer)
    samples = await counted(sidecar.metrics, 2)
    assert samples.by("llm_streams_total", "outcome") == {"lost": 2}
    assert samples.total("llm_stream_quirks_total") == 0, "no verdict on what was lost"
    assert (await ask(sidecar.proxy, after)).body == after.body
    samples = await counted(sidecar.metrics, 1, since=samples)
    assert samples.by("llm_streams_total", "gen_ai_request_model", "outcome") == {("after", "complete"): 1}
    assert "analyzer ended with code -9" in sidecar.program.stderr


async def test_analyzer_killed_again_and_again(player: Player, sidecar: Sidecar) -> None:
    for round in range(2):
        (analyzer,) = sidecar.program.children
        os.kill(analyzer, signal.SIGKILL)
        await restarted(sidecar, analyzer)
        case = words(f"round {round}", 3)
        player.add([case])
        assert (await ask(sidecar.proxy, case)).body == case.body
        samples = await counted(sidecar.metrics, 1)
        assert samples.by("llm_streams_total", "outcome") == {"complete": 1}


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    """A process that does nothing for a while."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def largest_gap(answer: Answer) -> float:
    return max((b.at - a.at) / 1e9 for a, b in pairwise(answer.reads))


async def test_analyzer_that_hangs_does_not_slow_a_stream(player: Player, sidecar: Sidecar) -> None:
    baseline, during, after = (words(name, 50) for name in ("baseline", "during", "after"))
    player.add([baseline, during, after])
    (analyzer,) = sidecar.program.children
    usual = await ask(sidecar.proxy, baseline)
    await counted(sidecar.metrics, 1)
    with stopped(analyzer):
        answer = await ask(sidecar.proxy, during)
    assert (answer.body, answer.ending) == (during.body, "eof")
    assert largest_gap(answer) <= largest_gap(usual) + NOISE
    assert (await ask(sidecar.proxy, after)).body == after.body
    samples = await counted(sidecar.metrics, 3)  # the socket and the outbox held it all
    assert samples.by("llm_streams_total", "outcome") == {"complete": 3}
    assert sidecar.program.children == [analyzer]


async def test_analyzer_that_hangs_for_longer_than_the_outbox_lasts(player: Player) -> None:
    """Telemetry is dropped, traffic is not; and what was dropped is said."""
    megabyte = b'data: {"choices":[{"index":0,"delta":{"content":"' + b"x" * 1_000_000 + b'"}}]}\n\n'
    flood = chat("flood", [*[megabyte] * 12, *chat_events({"content": "end"}, model="flood")], every=0, model="flood")
    after = words("after", 3)
    player.add([flood, after])
    async with sidecar_run("--upstream", player.url, env={"SIDECAR_OUTBOX_MIB": "1"}) as sidecar:
        (analyzer,) = sidecar.program.children
        with stopped(analyzer):
            answer = await ask(sidecar.proxy, flood)
        assert (answer.body, answer.ending) == (flood.body, "eof")
        assert (await ask(sidecar.proxy, after)).body == after.body
        samples = await counted(sidecar.metrics, 2)
        labels = ("gen_ai_request_model", "outcome")
        assert samples.by("llm_streams_total", *labels) == {("flood", "lost"): 1, ("after", "complete"): 1}

        async def said() -> Samples | None:
            samples = await scrape(sidecar.metrics)
            return samples if samples.total("llm_sidecar_records_dropped_total") else None

        samples = await wait_until(said)
        assert samples.by("llm_sidecar_streams_lost_total", "where") == {"capture": 1}


async def test_stop_does_not_wait_for_an_analyzer_that_hangs(sidecar: Sidecar) -> None:
    (analyzer,) = sidecar.program.children
    with contextlib.suppress(ProcessLookupError), stopped(analyzer):
        assert await sidecar.program.stop() == 0
        assert not Path(f"/proc/{analyzer}").exists(), "an orphan"


async def test_streams_that_ended_while_the_analyzer_hung_do_not_hang_for_ever(player: Player) -> None:
    """Not even where there was no room for their ends: once there is, they are told."""
    megabyte = b'data: {"choices":[{"index":0,"delta":{"content":"' + b"x" * 1_000_000 + b'"}}]}\n\n'
    before = words("before", 2)
    flood = chat("flood", [megabyte] * 4, every=0.1, model="flood")  # fills the socket, then the outbox
    shorts = [chat(f"short {number}", chat_events({"content": "x"}, model="short"), every=0) for number in range(600)]
    player.add([before, flood, *shorts])
    player.steps = {before.id: asyncio.Semaphore(1)}
    async with sidecar_run("--upstream", player.url, env={"SIDECAR_OUTBOX_MIB": "1"}) as sidecar:
        (analyzer,) = sidecar.program.children
        asking = asyncio.create_task(ask(sidecar.proxy, before))

        async def in_flight() -> float:
            return (await scrape(sidecar.metrics)).total("llm_streams_in_flight")

        await wait_until(in_flight)
        with stopped(analyzer):
            await ask(sidecar.proxy, flood)
            answers = await ask_all(sidecar.proxy, shorts)
            assert {answers[case.id].body == case.body for case in shorts} == {True}
            for _ in before.pieces:
                player.steps[before.id].release()
            assert (await asking).body == before.body

        async def all_over() -> Samples | None:
            samples = await scrape(sidecar.metrics)
            return samples if not samples.total("llm_streams_in_flight") else None

        samples = await wait_until(all_over)
        models = samples.by("llm_streams_total", "gen_ai_request_model", outcome="lost")
        assert models["before"] == 1
        assert 1 < samples.total("llm_streams_total") < len(shorts), "the test wants more than the outbox takes"


async def test_a_killed_proxy_costs_what_was_in_its_outbox_and_no_more(short_path: Path, player: Player) -> None:
    """Its orphans end as lost, at once, and nothing is counted twice, by whatever proxy comes after it."""
    records = short_path / "records.sock"
    done = [words(f"done {number}", 2, every=0.001) for number in range(20)]  # with all others below max_models
    hung = [replace(case, pieces=case.pieces[:1], end="hang") for case in (words(f"hung {n}", 1) for n in range(10))]
    last = [words(f"last {number}", 2, every=0.001) for number in range(30)]
    after = [words(f"after {number}", 2, every=0.001) for number in range(10)]
    player.add([*done, *hung, *last, *after])
    async with sidecar_analyzer(records) as (_, metrics):
        async with sidecar_run("--upstream", player.url, "--socket", str(records)) as sidecar:
            await ask_all(sidecar.proxy, done)
            asking = [asyncio.create_task(ask(sidecar.proxy, case)) for case in hung]

            async def all_hang() -> bool:
                return (await scrape(metrics)).total("llm_streams_in_flight", phase="mid_stream") == len(hung)

            await wait_until(all_hang)
            await counted(metrics, len(done))
            await ask_all(sidecar.proxy, last)
            await sidecar.program.stop(signal.SIGKILL)  # what ended just now may be in the outbox still
            await asyncio.gather(*asking)

        async def no_orphans() -> bool:
            return not (await scrape(metrics)).total("llm_streams_in_flight")

        await wait_until(no_orphans, 5)
        async with sidecar_run("--upstream", player.url, "--socket", str(records)) as sidecar:
            await ask_all(sidecar.proxy, after)
        samples = await scrape(metrics)
    counts = samples.by("llm_streams_total", "gen_ai_request_model", "outcome")
    # Of the last, a batch may have had the head and not the body, so that nobody knows the model.
    nameless = {labels for labels in counts if labels[0] not in {case.id for case in (*done, *hung, *last, *after)}}
    assert {outcome for _, outcome in nameless} <= {"lost"}
    for labels in nameless:
        del counts[labels]
    assert set(counts.values()) == {1}, "nothing twice"
    outcomes = dict(counts.keys())
    assert len(outcomes) == len(counts)
    for cases, outcome in ((done, "complete"), (hung, "lost"), (after, "complete")):
        assert {outcomes[case.id] for case in cases} == {outcome}
    said = [outcomes.get(case.id) for case in last]
    assert set(said) <= {"complete", "lost", None}
    assert said.count("complete") > 0, "more was lost than was in the outbox"


async def test_what_ended_before_a_proxy_is_told_to_stop_is_counted(short_path: Path, player: Player) -> None:
    records = short_path / "records.sock"
    cases = [words(f"m-{number}", 3, every=0.001) for number in range(60)]
    player.add(cases)
    async with sidecar_analyzer(records) as (_, metrics):
        async with sidecar_run("--upstream", player.url, "--socket", str(records)) as sidecar:
            await ask_all(sidecar.proxy, cases, at_once=60)
            assert await sidecar.program.stop(signal.SIGTERM) == 0
        samples = await scrape(metrics)
    assert samples.by("llm_streams_total", "outcome") == {"complete": len(cases)}


HELLO = encode(Hello(VERSION, 1))
CHANCE = random.Random(0)
FOREIGN = {
    "noise": CHANCE.randbytes(5000),
    "http": b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a length beyond all bounds": b"\xff\xff\xff\xff",
    "an empty greeting": LENGTH.pack(0),
    "a greeting of noise": LENGTH.pack(100) + CHANCE.randbytes(100),
    "a batch without a greeting": encode([Ended(1, 1, "eof")]),
    "another version": encode(Hello(VERSION + 1, 1)),
    "noise behind a greeting": HELLO + LENGTH.pack(1000) + CHANCE.randbytes(1000),
    "a greeting twice": HELLO + HELLO,
    "a batch cut inside": HELLO + LENGTH.pack(3) + encode([Ended(1, 1, "eof")])[4:7],
}
"""What somebody else might write on the records socket."""


async def write(records: Path, data: bytes, *, stay: bool = False) -> None:
    """Write, and wait until the analyzer hangs up (or, to stay welcome, only until it has read)."""
    reader, writer = await asyncio.open_unix_connection(str(records))
    writer.write(data)
    if not stay:
        await asyncio.wait_for(reader.read(), 10)
    writer.close()


async def test_foreign_writers_are_dropped_and_counted(short_path: Path, player: Player) -> None:
    records, case = short_path / "records.sock", words("mine", 3)
    player.add([case])
    async with (
        sidecar_analyzer(records) as (analyzer, metrics),
        sidecar_run("--upstream", player.url, "--socket", str(records)) as sidecar,
    ):
        for number, (what, data) in enumerate(FOREIGN.items(), 1):
            await write(records, data)
            assert (await scrape(metrics)).total("llm_sidecar_writers_rejected_total") == number, what
        assert (await ask(sidecar.proxy, case)).body == case.body
        samples = await counted(metrics, 1)
        assert samples.by("llm_streams_total", "outcome") == {"complete": 1}
        assert samples.total("llm_sidecar_proxies_connected") == 1
        assert analyzer.running
        assert "Traceback" not in analyzer.stderr


async def test_records_that_make_no_sense_cost_nothing_but_themselves(short_path: Path) -> None:
    """Well-formed, from a proxy that lost its mind: out of order, twice, of no exchange, with times from anywhere."""
    huge = 2**62
    opened = Opened(7, 5, "", -huge, "", "", "", -1, "?", "", [("", "")])
    records = [
        Ended(99, 0, "eof"),
        Chunk(99, 0, b"of nothing"),
        opened,
        opened,
        Chunk(7, huge, b"data: {}\n\n"),
        RequestSent(7, huge),
        ResponseHead(7, -huge, -200, "", [("content-type", "\xff"), ("content-encoding", "gzip, br, what")]),
        Chunk(7, -huge, b"\x1f\x8b\x08" + CHANCE.randbytes(50)),
        ResponseHead(7, 0, 200, "", []),
        Chunk(7, 1, b"\x00" * 50),
        Health(0, huge, -5, -1, -1, -1, 0, -1, -1.0, [1], float("inf")),
        Ended(7, -huge, "upstream_reset", "x" * 10_000),
        Ended(7, 0, "eof"),
        Opened(8, 6, "\x00", 0, "POST", "http", "h" * 10_000, 80, "/v1/chat/completions", "HTTP/9", []),
    ]
    path = short_path / "records.sock"
    async with sidecar_analyzer(path) as (analyzer, metrics):
        await write(path, HELLO + b"".join(encode([record]) for record in records), stay=True)
        samples = await counted(metrics, 2)
        assert samples.total("llm_streams_total", outcome="lost") == 1, "the one in flight when its proxy went away"
        assert samples.total("llm_sidecar_writers_rejected_total") == 0
        assert analyzer.running


async def test_connection_of_the_proxy_is_not_the_clients(player: Player, sidecar: Sidecar) -> None:
    """A client that keeps its connection over the analyzer's death goes on with it."""
    before, after = words("before", 3), words("after", 3)
    player.add([before, after])
    client = await Client.connect(sidecar.proxy)
    assert (await client.ask(before)).ending == "eof"
    await counted(sidecar.metrics, 1)
    (analyzer,) = sidecar.program.children
    os.kill(analyzer, signal.SIGKILL)
    await restarted(sidecar, analyzer)
    answer = await client.ask(after)
    client.close()
    assert (answer.body, answer.ending) == (after.body, "eof")
    assert player.connections == 1, "the test wants one connection"
    samples = await counted(sidecar.metrics, 1)
    assert samples.by("llm_streams_total", "gen_ai_request_model", "outcome") == {("after", "complete"): 1}
