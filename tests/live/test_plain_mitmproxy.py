"""The addon under mitmproxy's own programs, and proxies that feed an analyzer of its own."""

import asyncio
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.live.exchanges import Exchange, chat, chat_events
from tests.live.player import Player
from tests.live.processes import ADDON, BIN, plain_mitmproxy, program, sidecar_analyzer, sidecar_run
from tests.live.raw_client import ask
from tests.live.relays import free_port
from tests.live.scrape import counted, scrape, wait_until


def exchange(name: str) -> Exchange:
    deltas = ({"role": "assistant"}, {"content": "one "}, {"content": "two"})
    return chat(name, chat_events(*deltas, model=name), model=name)


@pytest.mark.parametrize(
    ("tool", "options"), [("mitmdump", ()), ("mitmweb", ("--no-web-open-browser", "--web-port", "0"))]
)
async def test_addon_in_a_program_of_mitmproxy(tool: str, options: tuple[str, ...]) -> None:
    case, player = exchange(tool), Player()
    player.add([case])
    async with player.serving(), plain_mitmproxy(tool, player.url, *options) as proxy:
        answer = await ask(proxy.proxy, case)
        assert (answer.body, answer.ending) == (case.body, "eof")
        samples = await counted(proxy.metrics, 1)
        labels = ("dialect", "gen_ai_request_model", "outcome", "streaming")
        assert samples.by("llm_streams_total", *labels) == {("openai.chat", tool, "complete", "true"): 1}
        assert samples.value("llm_stream_milestone_seconds_count", milestone="first_token") == 1
        (analyzer,) = proxy.program.children
        assert await proxy.program.stop() == 0
        assert not Path(f"/proc/{analyzer}").exists(), "the analyzer outlived its proxy"


async def test_mitmweb_shows_the_verdict_and_the_timeline_of_a_flow() -> None:
    """As the flow's comment, and as a contentview of its response."""
    whole = exchange("whole")
    cut = replace(exchange("cut"), pieces=whole.pieces[:2], end="reset")
    player = Player()
    player.add([whole, cut])
    port = free_port()
    settings = _sets("web_password=secret", "store_streamed_bodies=true")
    web = ("--no-web-open-browser", "--web-port", str(port), *settings)
    async with player.serving(), plain_mitmproxy("mitmweb", player.url, *web) as proxy:
        for case in (whole, cut):
            await ask(proxy.proxy, case)
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", params={"token": "secret"}, trust_env=False
        ) as client:

            async def commented() -> list[dict[str, Any]] | None:
                flows: list[dict[str, Any]] = (await client.get("/flows")).json()
                return flows if len(flows) == 2 and all(flow["comment"] for flow in flows) else None

            first, second = await wait_until(commented, what="comments of both flows")
            view = (await client.get(f"/flows/{first['id']}/response/content/LLM%20stream.json")).json()
    assert first["comment"] == "complete: finished as its dialect says"
    assert second["comment"].startswith("upstream_reset (connection_reset): ")
    assert view["view_name"] == "LLM stream"
    assert "first token" in view["text"]
    assert "Buffering: " in view["text"]
    assert "one " not in view["text"], "no content"


async def test_addon_takes_settings_as_options(short_path: Path) -> None:
    """Lists, numbers and a file; and it says what it does not take."""
    settings = short_path / "sidecar.toml"
    settings.write_text('models = ["known"]\n')
    player = Player()
    unwanted = replace(exchange("unwanted"), target="/unwanted/v1/chat/completions")
    player.add([exchange("known"), exchange("secret"), unwanted])
    options = (f"sidecar_config={settings}", "sidecar_exclude=/unwanted/")
    async with player.serving(), plain_mitmproxy("mitmdump", player.url, *_sets(*options)) as proxy:
        for case in (exchange("known"), unwanted, exchange("secret")):
            assert (await ask(proxy.proxy, case)).body == case.body
        samples = await counted(proxy.metrics, 2)
        assert samples.by("llm_streams_total", "gen_ai_request_model") == {"known": 1, "other": 1}


async def test_addon_refuses_an_option_it_cannot_use() -> None:
    options = _sets("sidecar_metrics_listen=nowhere")
    async with program("mitmdump", str(BIN / "mitmdump"), "-s", str(ADDON), *options) as running:
        assert await running.finish() != 0
        assert "metrics_listen is 'nowhere', not HOST:PORT" in running.stdout + running.stderr


async def test_addon_whose_analyzer_cannot_start_says_so_and_ends_the_proxy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        options = _sets(f"sidecar_metrics_listen=127.0.0.1:{taken.getsockname()[1]}")
        mode = ("--mode", "reverse:http://127.0.0.1:9@127.0.0.1:0")
        async with program("mitmdump", str(BIN / "mitmdump"), "-s", str(ADDON), *options, *mode) as running:
            assert await running.finish() == 1
            assert "Address already in use" in running.stdout + running.stderr


def _sets(*options: str) -> tuple[str, ...]:
    return tuple(part for option in options for part in ("--set", option))


async def test_two_proxies_feed_one_analyzer(short_path: Path) -> None:
    records, player = short_path / "records.sock", Player()
    cases = [exchange(f"m-{number}") for number in range(6)]
    player.add(cases)
    async with (
        player.serving(),
        sidecar_analyzer(records) as (_, metrics),
        sidecar_run("--upstream", player.url, "--socket", str(records)) as run,
        plain_mitmproxy("mitmdump", player.url, *_sets(f"sidecar_socket={records}")) as dump,
    ):

        async def both_connected() -> bool:
            return (await scrape(metrics)).total("llm_sidecar_proxies_connected") == 2

        await wait_until(both_connected)
        proxies = [run.proxy, dump.proxy] * 3
        answers = await asyncio.gather(*(ask(proxy, case) for proxy, case in zip(proxies, cases, strict=True)))
        assert [answer.body for answer in answers] == [case.body for case in cases]
        samples = await counted(metrics, len(cases))
        expected = {(case.id, "complete"): 1 for case in cases}
        assert samples.by("llm_streams_total", "gen_ai_request_model", "outcome") == expected
        assert run.program.children == [], "it has an analyzer already"
        workers = {str(run.program.process.pid), str(dump.program.process.pid)}

        async def both_report() -> bool:
            return (await scrape(metrics)).by("llm_sidecar_tee_seconds_count", "worker").keys() == workers

        await wait_until(both_report)
        await dump.program.stop()

        async def one_left() -> bool:
            return (await scrape(metrics)).total("llm_sidecar_proxies_connected") == 1

        await wait_until(one_left)
    assert not records.exists(), "the analyzer left its socket behind"
