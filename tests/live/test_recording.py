"""Recording by `sidecar run --record`: what the upstream sent, what was said of it, and what kills, full disks and
rotation leave of it."""

import asyncio
import contextlib
import json
import os
import random
import resource
import signal
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from sidecar.files.capture import Capture, CaptureError, read_captures
from tests.live.exchanges import CASE, Exchange, chat, chat_events, corpus, recorded
from tests.live.player import Player
from tests.live.processes import BIN, Sidecar, plain_mitmproxy, program, sidecar_run
from tests.live.raw_client import ask, ask_all
from tests.live.scrape import Samples, counted, scrape, wait_until
from tests.live.socket_player import SocketPlayer
from tests.sockets import captures as socket_captures

MIB = 1024 * 1024
BY_CASE = {"SIDECAR_ALLOW_HEADERS": CASE}
EXCHANGES = {exchange.id: exchange for exchange in (*corpus(), *recorded())}


@dataclass
class Round:
    """All exchanges, played and recorded."""

    folder: Path
    captures: dict[str, Capture]
    said: list[dict[str, Any]]
    """What `sidecar inspect --json` says of the recordings."""
    samples: Samples


def read(folder: Path) -> list[Capture]:
    """All captures of a directory of recordings, the oldest first; none of them may be damaged."""
    found: list[Capture] = []
    for file in sorted(folder.glob("*.jsonl")):
        for capture in read_captures(file):
            assert not isinstance(capture, CaptureError), capture
            found.append(capture)
    return found


def case_of(capture: Capture) -> str:
    return dict(capture.request.headers)[CASE]


async def inspected(folder: Path) -> list[dict[str, Any]]:
    files = [str(file) for file in sorted(folder.glob("*.jsonl"))]
    async with program("inspect", str(BIN / "sidecar"), "inspect", "--json", *files) as running:
        assert await running.finish() == 0, running.stderr
        return [json.loads(line) for line in running.stdout.splitlines()]


async def written(sidecar: Sidecar, number: int) -> Samples:
    """Wait until so many exchanges were recorded or dropped."""

    async def enough() -> Samples | None:
        samples = await scrape(sidecar.metrics, "llm_sidecar_recording")
        done = samples.total("llm_sidecar_recordings_total") + samples.total("llm_sidecar_recordings_dropped_total")
        return samples if done >= number else None

    return await wait_until(enough, what=f"{number} recordings")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def played(tmp_path_factory: pytest.TempPathFactory) -> Round:
    folder = tmp_path_factory.mktemp("r") / "recordings"
    player = Player(speed=50, longest=0.2)
    player.add(EXCHANGES.values())
    async with player.serving(), sidecar_run("--upstream", player.url, "--record", str(folder), env=BY_CASE) as sidecar:
        await ask_all(sidecar.proxy, list(EXCHANGES.values()))
        samples = await counted(sidecar.metrics, len(EXCHANGES))
        await written(sidecar, len(EXCHANGES))
    captures = {case_of(capture): capture for capture in read(folder)}
    return Round(folder, captures, await inspected(folder), samples)


@pytest.mark.parametrize("case", EXCHANGES)
def test_what_the_upstream_sent_is_recorded(played: Round, case: str) -> None:
    exchange, capture = EXCHANGES[case], played.captures[case]
    body = capture.request.body
    assert (body.data() if body is not None else b"") == exchange.request_body
    if exchange.end == "no_answer":
        assert (capture.response, capture.chunks, capture.end.kind) == (None, [], "upstream_failed")
        return
    assert capture.response is not None
    assert capture.response.status == exchange.status
    assert b"".join(chunk.data() for chunk in capture.chunks) == exchange.body
    times = [chunk.at_ms for chunk in capture.chunks]
    assert times == sorted(times)
    assert capture.end.at_ms >= (times[-1] if times else 0)


def test_recordings_say_what_the_live_metrics_said(played: Round) -> None:
    samples = played.samples
    outcomes = Counter((row["dialect"], row["outcome"]) for row in played.said)
    assert outcomes == Counter(samples.by("llm_streams_total", "dialect", "outcome"))
    quirks = Counter(quirk for row in played.said for quirk in row["quirks"])
    assert quirks == Counter(samples.by("llm_stream_quirks_total", "quirk"))
    verdicts = Counter(row["buffering"]["verdict"] for row in played.said)
    del verdicts["inconclusive"]  # what is no stream is not counted live
    live = Counter(samples.by("llm_stream_buffering_total", "verdict"))
    del live["inconclusive"]
    assert verdicts == live
    firsts = sum("first_token" in row["milestones_ms"] for row in played.said)
    assert firsts == samples.total("llm_stream_milestone_seconds_count", milestone="first_token")


def test_recordings_are_for_their_owner(played: Round) -> None:
    assert stat.S_IMODE(played.folder.stat().st_mode) == 0o700
    files = list(played.folder.iterdir())
    assert files
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def words(name: str, text: str = "word", count: int = 3, **options: Any) -> Exchange:
    deltas = ({"content": f"{text} "} for _ in range(count))
    return chat(name, chat_events(*deltas, model=name), model=name, every=0.002, **options)


async def test_credentials_are_never_recorded(player: Player, tmp_path: Path) -> None:
    asked = {
        "model": "m",
        "stream": True,
        "tools": [{"type": "mcp", "server_url": "https://joe:canary-user@mcp/", "authorization": "canary-tool-token"}],
        "messages": [{"role": "user", "content": "my key is sk-canaryCanaryCanary123 and Bearer canary.canary.canary"}],
    }
    exchange = Exchange(
        "secrets",
        target="/v1/chat/completions?api_key=canary-query&model=m",
        request_headers=(
            ("content-type", "application/json"),
            ("authorization", "Bearer canary-header"),
            ("cookie", "canary=cookie"),
            ("x-custom", "canary-custom"),
        ),
        request_body=json.dumps(asked).encode(),
        headers=(("content-type", "text/event-stream"), ("set-cookie", "canary-set")),
        pieces=words("x", "fine").pieces,
    )
    player.add([exchange])
    async with sidecar_run("--upstream", player.url, "--record", str(tmp_path / "r")) as sidecar:
        await ask(sidecar.proxy, exchange)
        await written(sidecar, 1)
    (file,) = (tmp_path / "r").iterdir()
    text = file.read_text()
    assert "canary" not in text.replace("x-canary", "").lower()
    assert "my key is ***" in text
    assert "fine" in text


async def test_scrubbed_recordings_hold_no_content(player: Player, tmp_path: Path) -> None:
    exchange = words("scrubbed", "Canaryword")
    player.add([exchange])
    async with sidecar_run("--upstream", player.url, "--record", str(tmp_path), "--record-scrub") as sidecar:
        assert (await ask(sidecar.proxy, exchange)).body == exchange.body
        await written(sidecar, 1)
    (capture,) = read(tmp_path)
    assert capture.recorded is not None
    assert capture.recorded.scrubbed
    assert [len(chunk.data()) for chunk in capture.chunks]
    assert sum(len(chunk.data()) for chunk in capture.chunks) == len(exchange.body)
    assert b"Canaryword" not in b"".join(file.read_bytes() for file in tmp_path.iterdir())
    (said,) = await inspected(tmp_path)
    assert (said["outcome"], said["output_chunks"], said["text_chars"]) == ("complete", 3, 33)


async def test_only_what_is_asked_for_is_recorded(player: Player, tmp_path: Path) -> None:
    fine, broken, slow = words("fine"), words("broken", end="reset"), words("slow", first=0.7)
    broken = replace(broken, pieces=broken.pieces[:2])
    player.add([fine, broken, slow])
    choice = ("--record-only", "outcome!=complete or ttft>500ms")
    async with sidecar_run("--upstream", player.url, "--record", str(tmp_path), *choice, env=BY_CASE) as sidecar:
        await ask_all(sidecar.proxy, [fine, broken, slow])
        await counted(sidecar.metrics, 3)
        samples = await written(sidecar, 2)
    assert sorted(case_of(capture) for capture in read(tmp_path)) == ["broken", "slow"]
    assert samples.total("llm_sidecar_recordings_dropped_total") == 0


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--record", "r", "--record-only", "outcom!=complete"), "at character 1, at 'outcom!=complete'"),
        (("--record-only", "outcome!=complete"), "give --record DIR"),
        (("--record", "r", "--socket", "s"), "exclude each other"),
        (("--record", "/proc/none"), "cannot record into /proc/none"),
        (("--record", "/dev/null"), "cannot record into /dev/null"),
    ],
)
async def test_mistakes_are_told_in_one_line(flags: tuple[str, ...], says: str, tmp_path: Path) -> None:
    here = tuple(str(tmp_path / flag) if flag == "r" else flag for flag in flags)
    command = (str(BIN / "sidecar"), "run", "--upstream", "http://localhost:1", "--listen", "127.0.0.1:0")
    async with program("sidecar run", *command, "--metrics-listen", "127.0.0.1:0", *here) as running:
        assert await running.finish() == 2
        assert says in running.stderr
        assert len(running.stderr.strip().splitlines()) == 1


async def test_a_stream_that_hangs_when_the_proxy_stops_is_recorded_as_open(player: Player, tmp_path: Path) -> None:
    hung = words("hung", end="hang")
    player.add([hung])
    async with sidecar_run("--upstream", player.url, "--record", str(tmp_path)) as sidecar:
        asking = asyncio.create_task(ask(sidecar.proxy, hung))

        async def came() -> bool:
            return (await scrape(sidecar.metrics)).total("llm_streams_in_flight", phase="after_finish") == 1

        await wait_until(came)
        assert await sidecar.program.stop() == 0
        await asking
    (capture,) = read(tmp_path)
    assert capture.end.kind == "open"
    assert b"".join(chunk.data() for chunk in capture.chunks) == hung.body


async def test_kill_of_the_analyzer_leaves_whole_lines_only(player: Player, tmp_path: Path) -> None:
    """Killed while it writes lines of megabytes, again and again; what was written before stays, and none is torn."""
    chance = random.Random(1)
    texts = ["x" * MIB * 2, "y" * MIB * 3]
    rounds = [[words(f"{number} {text[0]}", text, count=1) for text in texts] for number in range(4)]
    before = words("before")
    player.add([before, *(exchange for batch in rounds for exchange in batch)])
    async with sidecar_run("--upstream", player.url, "--record", str(tmp_path), env=BY_CASE) as sidecar:
        await ask(sidecar.proxy, before)
        await written(sidecar, 1)
        for batch in rounds:
            (analyzer,) = sidecar.program.children
            for answer in await ask_all(sidecar.proxy, batch):
                assert answer
            await asyncio.sleep(chance.random() * 0.05)
            os.kill(analyzer, signal.SIGKILL)
            await wait_until(lambda killed=analyzer: another(sidecar, killed))  # type: ignore[misc]
        after = words("after")
        player.add([after])
        await ask(sidecar.proxy, after)

        async def recorded() -> bool:
            return "after" in {case_of(capture) for capture in read(tmp_path)}

        await wait_until(recorded)
    found = [case_of(capture) for capture in read(tmp_path)]
    assert found[0] == "before"
    assert found[-1] == "after"
    for file in tmp_path.iterdir():
        assert file.read_bytes().endswith(b"\n")


async def another(sidecar: Sidecar, killed: int) -> bool:
    connected = (await scrape(sidecar.metrics)).total("llm_sidecar_proxies_connected") == 1
    return connected and sidecar.program.children not in ([], [killed])


async def test_a_full_disk_costs_recordings_and_nothing_else(player: Player, tmp_path: Path) -> None:
    cases = [words(f"case {number}", "z" * 2000, count=20) for number in range(6)]
    player.add(cases)
    async with sidecar_run("--upstream", player.url, "--record", str(tmp_path), env=BY_CASE) as sidecar:
        (analyzer,) = sidecar.program.children
        await ask_all(sidecar.proxy, cases[:2])
        await written(sidecar, 2)
        limits = resource.prlimit(analyzer, resource.RLIMIT_FSIZE)
        with limited(analyzer, 1000, limits[1]):
            answers = await ask_all(sidecar.proxy, cases[2:4])
            assert all(answers[case.id].body == case.body for case in cases[2:4])
            samples = await written(sidecar, 4)
            assert samples.by("llm_sidecar_recordings_dropped_total", "reason") == {"disk": 2}
            assert "cannot record into" in sidecar.program.stderr
        await ask_all(sidecar.proxy, cases[4:])
        samples = await written(sidecar, 6)
        assert samples.total("llm_sidecar_recordings_total") == 4
        samples = await counted(sidecar.metrics, 6)
        assert samples.by("llm_streams_total", "outcome") == {"complete": 6}
    assert {case_of(capture) for capture in read(tmp_path)} == {case.id for case in (*cases[:2], *cases[4:])}
    assert all(file.stat().st_size for file in tmp_path.iterdir())


@contextlib.contextmanager
def limited(pid: int, size: int, hard: int) -> Iterator[None]:
    """A process whose files cannot grow beyond some bytes: what a full disk is to it, without being root."""
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))


async def test_files_are_rotated_and_the_oldest_deleted(player: Player, tmp_path: Path) -> None:
    cases = [words(f"{number:02}", "z" * 100_000, count=4) for number in range(14)]
    player.add(cases)
    bounds = ("--record-file-mib", "1", "--record-total-mib", "3")
    async with sidecar_run("--upstream", player.url, "--record", str(tmp_path), *bounds, env=BY_CASE) as sidecar:
        for number, case in enumerate(cases, 1):
            await ask(sidecar.proxy, case)
            samples = await written(sidecar, number)
            assert disk(tmp_path) <= 3 * MIB
        assert samples.value("llm_sidecar_recording_disk_bytes") == disk(tmp_path)
        assert samples.total("llm_sidecar_recordings_total") == len(cases)
    files = list(tmp_path.iterdir())
    assert len(files) >= 3
    assert all(file.stat().st_size <= MIB for file in files)
    kept = [case_of(capture) for capture in read(tmp_path)]
    assert kept == [case.id for case in cases[-len(kept) :]]


def disk(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


async def test_an_exchange_too_large_is_dropped_and_counted(player: Player, tmp_path: Path) -> None:
    large, small = words("large", "z" * MIB, count=3), words("small")
    player.add([large, small])
    settings = BY_CASE | {"SIDECAR_RECORD_EXCHANGE_MIB": "2"}
    async with sidecar_run("--upstream", player.url, "--record", str(tmp_path), env=settings) as sidecar:
        assert (await ask(sidecar.proxy, large)).body == large.body
        await ask(sidecar.proxy, small)
        samples = await written(sidecar, 2)
    assert samples.by("llm_sidecar_recordings_dropped_total", "reason") == {"too_large": 1}
    assert [case_of(capture) for capture in read(tmp_path)] == ["small"]


SOCKETS = {
    case: socket_captures()[case]
    for case in ("rt05-azure-preview-beta-audio", "gl04-manual-activity", "rt10-barge-in-server-vad")
}


def audio_in(capture: Capture) -> Iterator[str]:
    for message in capture.messages:
        value = json.loads(message.data())
        if "audio.delta" in value.get("type", ""):
            yield value["delta"]
        elif "realtimeInput" in value and "audio" in value["realtimeInput"]:
            yield value["realtimeInput"]["audio"]["data"]


async def test_websockets_are_recorded_without_their_audio(tmp_path: Path) -> None:
    async with (
        SocketPlayer().serving() as sockets,
        sidecar_run("--upstream", sockets.url, "--record", str(tmp_path), env=BY_CASE) as sidecar,
    ):
        for capture in SOCKETS.values():
            await sockets.play(sidecar.proxy, capture)
        await written(sidecar, len(SOCKETS))
        samples = await scrape(sidecar.metrics)
    text = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    found = {case_of(capture): capture for capture in read(tmp_path)}
    for case, original in SOCKETS.items():
        recorded = found[case]
        spoken, silent = list(audio_in(original)), list(audio_in(recorded))
        assert spoken
        assert [len(audio) for audio in silent] == [len(audio) for audio in spoken]
        assert all(set(audio) <= {"A"} for audio in silent)
        assert not any(audio.encode() in text for audio in spoken)
        assert [message.sender for message in recorded.messages] == [message.sender for message in original.messages]
    said = await inspected(tmp_path)
    assert Counter(row["outcome"] for row in said) == Counter(samples.by("llm_streams_total", "outcome"))
    quirks = Counter(quirk for row in said for quirk in row["quirks"])
    assert quirks == Counter(samples.by("llm_stream_quirks_total", "quirk"))


async def test_under_plain_mitmproxy(player: Player, tmp_path: Path) -> None:
    exchange = words("plain")
    player.add([exchange])
    async with plain_mitmproxy("mitmdump", player.url, "--set", f"sidecar_record={tmp_path}") as sidecar:
        await ask(sidecar.proxy, exchange)
        await written(sidecar, 1)
    (capture,) = read(tmp_path)
    assert b"".join(chunk.data() for chunk in capture.chunks) == exchange.body
