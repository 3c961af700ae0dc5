"""`sidecar run --workers`: one port, several proxies, one analyzer."""

import asyncio
import contextlib
import os
import signal
import socket
from pathlib import Path

import pytest

from tests.live.exchanges import words
from tests.live.player import Player
from tests.live.processes import BIN, Sidecar, program, sidecar_run
from tests.live.raw_client import Client, ask, ask_all
from tests.live.scrape import counted, scrape, wait_until


def workers(sidecar: Sidecar) -> list[int]:
    """Process ids of the proxies."""
    return [pid for pid in sidecar.program.children if b"sidecar.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def connections(pid: int, port: int) -> int:
    """How many connections from clients a process holds."""
    held = set()
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            held.add(os.readlink(file))
    rows = (line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:])
    return sum(row[1].endswith(f":{port:04X}") and row[3] == "01" and f"socket:[{row[9]}]" in held for row in rows)


async def test_connections_spread_and_all_are_counted_once(player: Player) -> None:
    cases = [words(f"case-{number}", 10) for number in range(40)]
    player.add(cases)
    async with sidecar_run("--upstream", player.url, "--workers", "2") as sidecar:
        pids = workers(sidecar)
        assert len(pids) == 2
        idle = [await Client.connect(sidecar.proxy) for _ in range(40)]

        async def all_are_held() -> bool:
            return sum(connections(pid, sidecar.proxy[1]) for pid in pids) == 40

        await wait_until(all_are_held)
        spread = [connections(pid, sidecar.proxy[1]) for pid in pids]
        assert min(spread) >= 5, "of 40 one process has fewer than 5 once in 10,000,000 runs"
        answers = await ask_all(sidecar.proxy, cases, at_once=40)
        assert all(answers[case.id].body == case.body for case in cases)
        samples = await counted(sidecar.metrics, 40)
        assert samples.by("llm_streams_total", "outcome") == {"complete": 40}
        assert samples.total("llm_sidecar_proxies_connected") == 2
        for client in idle:
            client.close()


async def test_a_worker_that_dies_is_started_again_and_only_its_streams_end(player: Player) -> None:
    cases = [words(f"case-{number}", 30) for number in range(16)]
    after = [words(f"after-{number}", 3) for number in range(16)]
    player.add([*cases, *after])
    player.steps = {case.id: asyncio.Semaphore(10) for case in cases}
    async with sidecar_run("--upstream", player.url, "--workers", "2") as sidecar:
        asking = [asyncio.create_task(ask(sidecar.proxy, case)) for case in cases]

        async def all_in_the_middle() -> bool:
            return (await scrape(sidecar.metrics)).total("llm_streams_in_flight", phase="mid_stream") == 16

        await wait_until(all_in_the_middle)
        dies, lives = workers(sidecar)
        held = connections(dies, sidecar.proxy[1])
        os.kill(dies, signal.SIGKILL)

        async def another() -> bool:
            found = workers(sidecar)
            return len(found) == 2 and dies not in found and lives in found

        await wait_until(another)

        async def connected() -> bool:
            return (await scrape(sidecar.metrics)).total("llm_sidecar_proxies_connected") == 2

        await wait_until(connected)
        for step in player.steps.values():
            for _ in cases[0].pieces:
                step.release()
        answers = await asyncio.gather(*asking, return_exceptions=True)
        whole = [
            case.id
            for case, answer in zip(cases, answers, strict=True)
            if not isinstance(answer, BaseException) and answer.body == case.body
        ]
        assert len(whole) == 16 - held
        samples = await counted(sidecar.metrics, 16)
        assert samples.total("llm_streams_total", outcome="complete") == 16 - held
        assert samples.total("llm_streams_total", outcome="lost") == held
        again = await ask_all(sidecar.proxy, after, at_once=16)
        assert all(again[case.id].body == case.body for case in after)
        assert f"proxy ended with code {-signal.SIGKILL}" in sidecar.program.stderr


async def test_at_the_end_nobody_is_left(player: Player) -> None:
    async with sidecar_run("--upstream", player.url, "--workers", "3") as sidecar:
        everybody = sidecar.program.children
        assert len(everybody) == 4
        assert await sidecar.program.stop() == 0
        assert not [pid for pid in everybody if Path(f"/proc/{pid}").exists()]


async def refusal(*arguments: str) -> str:
    command = (str(BIN / "sidecar"), "run", "--workers", "2", "--metrics-listen", "127.0.0.1:0", *arguments)
    async with program("sidecar run", *command) as running:
        assert await running.finish() == 2
        assert running.stderr.count("\n") == 1, running.stderr
        return running.stderr


async def test_what_cannot_be_shared_is_refused_in_a_line() -> None:
    assert "only TCP ports are shared; leave --workers out" in await refusal("--mode", "wireguard")
    assert "only TCP ports are shared" in await refusal("--mode", "reverse:http3://127.0.0.1:1@127.0.0.1:0")
    assert "exclude each other" in await refusal("--upstream", "http://127.0.0.1:1", "--mode", "regular")


@pytest.mark.parametrize("shared", [False, True])
async def test_a_port_that_somebody_has_is_not_shared_with_them(shared: bool) -> None:
    """With SO_REUSEPORT the system would let us in, and give half of our connections to the other."""
    with socket.socket() as other:
        if shared:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        said = await refusal("--upstream", "http://127.0.0.1:1", "--listen", f"127.0.0.1:{port}")
    assert f"cannot listen on 127.0.0.1:{port}: somebody listens there" in said


async def test_a_mistake_in_an_option_of_mitmproxy_is_one_line() -> None:
    said = await refusal("--upstream", "http://127.0.0.1:1", "--listen", "127.0.0.1:0", "--set", "no_such_option=1")
    assert "no_such_option" in said
