"""Envoy and `sidecar analyzer` as processes: the analyzer may die, hang or be many, and clients do not notice."""

import asyncio
import itertools
import os
import signal
from pathlib import Path

from dashboards.generator.rules import rule_files
from dashboards.generator.thresholds import THRESHOLDS
from tests.live.envoy import Envoy, Listening, analyzer, configuration, each_with_a_log, envoy
from tests.live.exchanges import End, Exchange, Piece, chat, chat_events, words
from tests.live.monitoring import prometheus
from tests.live.player import Player
from tests.live.processes import sidecar_run
from tests.live.raw_client import Answer, ask, ask_all
from tests.live.scrape import counted, scrape, wait_until

_STREAMS = "llm_sidecar_envoy_streams_total"


def whole(case: Exchange, answer: Answer) -> bool:
    return (answer.status, answer.body, answer.ending) == (200, case.body, "eof")


async def in_the_middle(metrics: str, number: int) -> None:
    async def all_there() -> bool:
        return (await scrape(metrics)).total("llm_streams_in_flight", phase="mid_stream") == number

    await wait_until(all_there, what=f"{number} streams in the middle")


async def told_of(metrics: str, **expected: int) -> None:
    """How the exchanges went that Envoy began to tell of; the reader says it once a second."""

    async def said() -> bool:
        return (await scrape(metrics)).by(_STREAMS, "how") == expected

    await wait_until(said, what=f"streams by how they went: {expected}")


async def test_only_routes_of_interest_are_told_and_named_as_the_operator_says(player: Player, tmp_path: Path) -> None:
    case = words("named", 3)
    other = Exchange("other", "GET", "/v1/models", pieces=(Piece(0, b"[]"),), headers=(("content-type", "text/plain"),))
    player.add([case, other])
    async with analyzer() as told, envoy(tmp_path, configuration(player.port, [told.port], named=True)) as running:
        answers = await ask_all(running.proxy, [case, other])
        assert whole(case, answers["named"])
        assert whole(other, answers["other"])
        samples = await counted(told.metrics, 1)
        assert samples.by("llm_streams_total", "outcome", "server_address", "gen_ai_provider_name") == {
            ("complete", "api.openai.com", "openai"): 1
        }
        await told_of(told.metrics, copied=1)


async def test_what_is_none_of_ours_is_not_listened_to(player: Player, tmp_path: Path) -> None:
    case, kept = words("excluded", 3), words("kept", 3)
    player.add([case, kept])
    kept_path = Exchange(**{**vars(kept), "target": "/other/chat/completions"})
    async with analyzer("--config", str(_exclude(tmp_path))) as told:
        async with envoy(tmp_path, configuration(player.port, [told.port])) as running:
            answers = await ask_all(running.proxy, [case, kept_path])
        assert whole(case, answers["excluded"])
        assert whole(kept, answers["kept"])
        await counted(told.metrics, 1)
        await told_of(told.metrics, copied=1, passed=1)


def _exclude(folder: Path) -> Path:
    file = folder / "sidecar.toml"
    file.write_text("exclude = ['^localhost/v1/']")
    return file


async def test_without_any_analyzer_traffic_goes_on(player: Player, tmp_path: Path) -> None:
    cases = [words(f"alone-{number}", 5) for number in range(3)]
    player.add(cases)
    async with envoy(tmp_path, configuration(player.port, [9])) as running:
        answers = await ask_all(running.proxy, cases)
    assert all(whole(case, answers[case.id]) for case in cases)


async def test_analyzer_killed_in_the_middle_of_streams_and_another_one_after_it(
    player: Player, tmp_path: Path
) -> None:
    cases = [words("first", 40), words("second", 40)]
    player.add(cases)
    player.steps = {case.id: asyncio.Semaphore(20) for case in cases}
    async with analyzer() as told, envoy(tmp_path, configuration(player.port, [told.port])) as running:
        asking = [asyncio.create_task(ask(running.proxy, case)) for case in cases]
        await in_the_middle(told.metrics, 2)
        os.kill(told.program.process.pid, signal.SIGKILL)
        await told.program.finish()
        for step in player.steps.values():
            for _ in cases[0].pieces:
                step.release()
        for case, answer in zip(cases, await asyncio.gather(*asking), strict=True):
            assert whole(case, answer)
        async with analyzer(port=told.port) as another:
            await heard_again(player, running, another)


async def heard_again(player: Player, running: Envoy, another: Listening) -> None:
    """Envoy finds the new one, and its metrics know of whole streams only."""
    asked = 0

    async def heard() -> bool:
        nonlocal asked
        asked += 1
        case = words(f"after-{asked}", 3)
        player.add([case])
        assert whole(case, await ask(running.proxy, case))
        return (await scrape(another.metrics)).total("llm_streams_total", outcome="complete") > 0

    await wait_until(heard, what="a stream that the new analyzer hears of")
    assert set((await scrape(another.metrics)).by("llm_streams_total", "outcome")) == {"complete"}


async def test_analyzer_stopped_in_order_in_the_middle_of_a_stream(player: Player, tmp_path: Path) -> None:
    case = words("going", 40)
    player.add([case])
    player.steps = {case.id: asyncio.Semaphore(20)}
    async with analyzer() as told, envoy(tmp_path, configuration(player.port, [told.port])) as running:
        asking = asyncio.create_task(ask(running.proxy, case))
        await in_the_middle(told.metrics, 1)
        assert await told.program.stop() == 0
        for _ in case.pieces:
            player.steps[case.id].release()
        assert whole(case, await asking)


async def test_two_analyzers_share_the_streams_and_one_may_die(player: Player, tmp_path: Path) -> None:
    async with analyzer() as one, analyzer() as other:
        found = configuration(player.port, [one.port, other.port])
        targets = {"llm-sidecar": one.metrics, "llm-sidecar-other": other.metrics}
        rules = rule_files(THRESHOLDS)
        async with envoy(tmp_path, found) as running, prometheus(tmp_path, targets, rules) as watching:
            cases = [words(f"m-{number % 2}", 5) for number in range(20)]
            cases = [Exchange(**{**vars(case), "id": f"{case.id}-{number}"}) for number, case in enumerate(cases)]
            player.add(cases)
            answers = await ask_all(running.proxy, cases)
            assert all(whole(case, answers[case.id]) for case in cases)

            async def both() -> list[float] | None:
                each = [(await scrape(url)).total("llm_streams_total") for url in (one.metrics, other.metrics)]
                return each if sum(each) == 20 else None

            spread = await wait_until(both, what="twenty streams")
            assert min(spread) >= 5, spread

            async def first_tokens() -> float:
                found = await watching.query('sum(llm_stream_milestone_seconds_count{milestone="first_token"})')
                return sum(value for _, value in found)

            async def summed() -> bool:
                sums = await watching.query("sum by (gen_ai_request_model) (llm_streams_total)")
                models = {labels["gen_ai_request_model"]: value for labels, value in sums}
                return models == {"m-0": 10, "m-1": 10} and await first_tokens() == 20

            await wait_until(summed, what="the sums over both")
            one.program.process.kill()
            await one.program.finish()
            more = [words(f"more-{number}", 5) for number in range(10)]
            player.add(more)
            answers = await ask_all(running.proxy, more)
            assert all(whole(case, answers[case.id]) for case in more)

            async def rest() -> bool:
                return (await scrape(other.metrics)).total("llm_streams_total") > spread[1]

            await wait_until(rest, what="streams at the one that is left")


async def test_two_analyzers_both_know_how_exchanges_ended(player: Player, tmp_path: Path) -> None:
    """With the access log to each of them, as replicas.yaml has it; and the sums are right."""
    async with analyzer() as one, analyzer() as other:
        ports = [one.port, other.port]
        targets = {"llm-sidecar": one.metrics, "llm-sidecar-other": other.metrics}
        found = each_with_a_log(configuration(player.port, ports), ports)
        async with envoy(tmp_path, found) as running, prometheus(tmp_path, targets, rule_files(THRESHOLDS)) as watching:
            ends: tuple[End, ...] = ("reset", "client_leaves", "no_answer", "eof")
            events = chat_events({"content": "a"})
            cases = [
                chat(f"{end}-{number}", events if end == "eof" else events[:2], end=end)
                for number, end in itertools.product(range(6), ends)
            ]
            player.add(cases)
            await ask_all(running.proxy, cases)
            expected = {"upstream_reset": 6, "client_disconnect": 6, "upstream_failed": 6, "complete": 6}

            async def all_counted() -> list[dict[str, float]] | None:
                each = [(await scrape(url)).by("llm_streams_total", "outcome") for url in (one.metrics, other.metrics)]
                return each if sum(sum(counts.values()) for counts in each) == len(cases) else None

            each = await wait_until(all_counted, what="all exchanges")
            assert min(sum(counts.values()) for counts in each) >= 6, "both of them were told"
            assert not any("lost" in counts for counts in each), each

            async def summed() -> bool:
                sums = await watching.query("sum by (outcome) (llm_streams_total)")
                return {labels["outcome"]: value for labels, value in sums} == expected

            await wait_until(summed, what="the sums over both")


async def test_hop_between_an_envoy_and_a_mitmproxy(player: Player, tmp_path: Path, short_path: Path) -> None:
    """The tap before the gateway is Envoy's, the one behind it mitmproxy's; the gateway here passes everything on."""
    case = words("hop", 10)
    player.add([case])
    socket = short_path / "s"
    async with (
        analyzer("--socket", str(socket)) as told,
        sidecar_run("--upstream", player.url, "--socket", str(socket)) as inner,
        envoy(tmp_path, configuration(inner.proxy[1], [told.port])) as running,
    ):
        assert whole(case, await ask(running.proxy, case))
        await counted(told.metrics, 2)

        async def joined() -> bool:
            return (await scrape(told.metrics)).total("llm_hop_streams_total") > 0

        await wait_until(joined, what="a hop")


async def test_ends_come_from_the_access_log(player: Player, tmp_path: Path) -> None:
    ends: tuple[End, ...] = ("reset", "cut", "client_leaves", "no_answer")
    cases = [chat(f"end-{end}", chat_events({"content": "a"})[:2], end=end) for end in ends]
    player.add(cases)
    async with analyzer() as told, envoy(tmp_path, configuration(player.port, [told.port])) as running:
        await ask_all(running.proxy, cases)
        samples = await counted(told.metrics, len(cases))
    assert samples.by("llm_streams_total", "outcome") == {
        "upstream_reset": 2,
        "client_disconnect": 1,
        "upstream_failed": 1,
    }


async def test_without_the_access_log_ends_are_unknown(player: Player, tmp_path: Path) -> None:
    case = chat("reset", chat_events({"content": "a"})[:2], end="reset")
    player.add([case])
    async with analyzer() as told:
        found = configuration(player.port, [told.port])
        del found["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]["access_log"]
        async with envoy(tmp_path, found) as running:
            assert (await ask(running.proxy, case)).ending == "broken"
            samples = await counted(told.metrics, 1)
            await told_of(told.metrics, broken_off=1)
    assert samples.by("llm_streams_total", "outcome") == {"lost": 1}
