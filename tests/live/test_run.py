"""`sidecar run` from start to stop: signals, what is left behind, and settings from everywhere."""

import asyncio
import signal
from pathlib import Path

import httpx
import pytest

from tests.live.exchanges import chat, chat_events
from tests.live.player import Player
from tests.live.processes import BIN, program, sidecar_analyzer, sidecar_run
from tests.live.raw_client import ask
from tests.live.scrape import counted, scrape, wait_until

SIGNALS = (signal.SIGINT, signal.SIGTERM)
NOWHERE = "http://127.0.0.1:9"
"""An upstream that nobody asks for anything."""


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
async def test_signal_stops_it_cleanly(number: signal.Signals, short_path: Path) -> None:
    async with sidecar_run("--upstream", NOWHERE, env={"TMPDIR": str(short_path)}) as sidecar:
        (analyzer,) = sidecar.program.children
        assert len(list(short_path.iterdir())) == 1, "the folder of its socket"
        assert alive(analyzer)
        assert await sidecar.program.stop(number) == 0
        assert not alive(analyzer), "an orphan"
        assert list(short_path.iterdir()) == []
        assert sidecar.program.stderr == ""


async def test_ctrl_c_in_a_terminal_stops_it_cleanly() -> None:
    """A terminal signals all its processes at once; the analyzer must not die of that before the proxy is done with it."""
    async with sidecar_run("--upstream", NOWHERE, own_group=True) as sidecar:
        sidecar.program.signal_group(signal.SIGINT)
        assert await sidecar.program.finish() == 0
        assert sidecar.program.stderr == ""


@pytest.mark.parametrize(
    "listen",
    [("--upstream", NOWHERE, "--listen", "[::1]:0"), ("--mode", f"reverse:{NOWHERE}@[::1]:0")],
    ids=["listen", "mode"],
)
async def test_it_listens_on_ipv6_addresses_as_everybody_writes_them(listen: tuple[str, ...]) -> None:
    async with sidecar_run(*listen, "--metrics-listen", "[::1]:0", "--set", "connection_strategy=lazy") as sidecar:
        assert sidecar.proxy[0] == "::1"
        assert sidecar.metrics.startswith("http://[::1]:")
        async with httpx.AsyncClient(trust_env=False) as client:
            assert (await client.get(f"http://[::1]:{sidecar.proxy[1]}/")).status_code == 502


async def test_signal_during_the_start_leaves_nothing_behind(short_path: Path) -> None:
    command = (str(BIN / "sidecar"), "run", "--upstream", NOWHERE)
    ports = ("--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0")
    async with program("sidecar run", *command, *ports, env={"TMPDIR": str(short_path)}) as running:
        while not list(short_path.iterdir()):  # the folder is made before the analyzer is started
            assert running.running, running.stderr
            await asyncio.sleep(0.005)
        children = running.children
        code = await running.stop(signal.SIGTERM)
        assert code == 0
        assert "Traceback" not in running.stderr
    assert list(short_path.iterdir()) == []
    assert not any(alive(child) for child in children)


async def test_killed_proxy_takes_its_analyzer_along() -> None:
    async with sidecar_run("--upstream", NOWHERE) as sidecar:
        (analyzer,) = sidecar.program.children
        await sidecar.program.stop(signal.SIGKILL)

        async def gone() -> bool:
            return not alive(analyzer)

        await wait_until(gone)


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
async def test_streams_in_flight_at_the_stop_are_counted_as_lost(number: signal.Signals, short_path: Path) -> None:
    records, player = short_path / "records.sock", Player()
    done = chat("done", chat_events({"content": "all"}))
    hung = chat("hung", chat_events({"content": "some"})[:1], end="hang")
    player.add([done, hung])
    async with player.serving(), sidecar_analyzer(records) as (_, metrics):
        async with sidecar_run("--upstream", player.url, "--socket", str(records)) as sidecar:
            assert (await ask(sidecar.proxy, done)).ending == "eof"
            asking = asyncio.create_task(ask(sidecar.proxy, hung))
            await wait_until(lambda: in_flight(metrics))
            assert await sidecar.program.stop(number) == 0
        answer = await asking
        assert (answer.body, answer.ending) == (hung.body, "broken")
        samples = await counted(metrics, 2)
        assert samples.by("llm_streams_total", "outcome") == {"complete": 1, "lost": 1}
        assert samples.by("llm_sidecar_streams_lost_total", "where") == {"capture": 1}
        assert not await in_flight(metrics)


async def in_flight(metrics: str) -> float:
    return (await scrape(metrics)).total("llm_streams_in_flight", phase="mid_stream")


async def test_settings_from_file_environment_and_flags(tmp_path: Path) -> None:
    """The later wins: flags over the environment over the file. Where the proxy went and what it counted shows it."""
    player = Player()
    names = ("in-file", "in-env", "elsewhere")
    cases = [chat(name, chat_events({"content": "x"}, model=name), model=name) for name in names]
    player.add(cases)
    file = tmp_path / "sidecar.toml"
    lines = (
        f'upstream = "{NOWHERE}"',
        'listen = "127.0.0.1:0"',
        'metrics_listen = "127.0.0.1:1"',
        'models = ["in-file"]',
    )
    file.write_text("\n".join(lines))
    env = {"SIDECAR_CONFIG": str(file), "SIDECAR_MODELS": "in-env second", "SIDECAR_METRICS_LISTEN": "127.0.0.1:0"}
    # No --listen: the file's holds. --upstream: the flag's beats the file's. Metrics: the environment's beats the file's.
    async with player.serving(), sidecar_run("--upstream", player.url, env=env, choose_ports=False) as sidecar:
        for case in cases:
            assert (await ask(sidecar.proxy, case)).body == case.body
        samples = await counted(sidecar.metrics, 3)
    assert samples.by("llm_streams_total", "gen_ai_request_model") == {"in-env": 1, "other": 2}


async def test_health_and_page() -> None:
    async with sidecar_run("--upstream", NOWHERE) as sidecar, httpx.AsyncClient(trust_env=False) as client:
        for path, content_type, text in (
            ("/healthz", "text/plain", "ok\n"),
            ("/readyz", "text/plain", "ready\n"),
            ("/", "text/html", "<html"),
            ("/api/streams", "application/json", '{"in_flight": [], "recent": [], "websockets": []}'),
            ("/metrics", "text/plain", "llm_sidecar_build_info{"),
        ):
            answer = await client.get(sidecar.endpoint(path))
            assert (answer.status_code, path) == (200, path)
            assert answer.headers["content-type"].startswith(content_type), path
            assert text in answer.text, path
        assert (await client.get(sidecar.endpoint("/nosuch"))).status_code == 404
        assert (await client.post(sidecar.endpoint("/metrics"))).status_code == 405
