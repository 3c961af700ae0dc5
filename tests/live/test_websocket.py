"""WebSockets through `sidecar run`: every message and frame as it was sent, and every response as the corpus has it."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import InvalidStatus

from sidecar.files.inspect import report
from sidecar.stream.summary import Summary
from tests.live.exchanges import CASE
from tests.live.processes import BIN, Sidecar, program, sidecar_run
from tests.live.scrape import counted, scrape, streams, wait_until
from tests.live.sdks.answers import Observer
from tests.live.socket_player import End, Noted, SocketPlayer
from tests.sockets import captures, expectations, wrong_of_turn

LONG = 8000
MIB = 1024 * 1024
PLAYED = {case: capture for case, capture in captures().items() if capture.response is not None}
MANNERS = {
    "plain": {"compress": False},
    "fragments": {"compress": False, "rough": True},
    "deflate": {"compress": True},
    "deflated fragments": {"compress": True, "rough": True},
}
_DATA = (0, 1, 2, 9, 10)  # continuation, text, binary, ping, pong; a close is answered by each side for itself
in_module_loop = pytest.mark.asyncio(loop_scope="module")


@dataclass
class Round:
    """All captures, played in one manner."""

    manner: str
    ends: dict[str, tuple[End, End]]
    summaries: dict[str, list[Summary]]
    codes: dict[str, int]
    sessions_left: float


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=MANNERS)
async def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Round:
    """Every capture through the proxy, one after the other, into an analyzer in this process."""
    observer = Observer(tmp_path_factory.mktemp("o") / "s")
    summaries: list[Summary] = []
    observer.analyzer.listeners.append(summaries.append)
    await observer.receiver.start()
    ends: dict[str, tuple[End, End]] = {}
    found: dict[str, list[Summary]] = {}
    async with SocketPlayer().serving() as player:
        arguments = ("--upstream", player.url, "--socket", observer.analyzer.settings.socket or "")
        async with sidecar_run(*arguments) as sidecar:
            for number, (case, capture) in enumerate(PLAYED.items()):
                ends[case] = await player.play(sidecar.proxy, capture, **MANNERS[request.param])
                await wait_until(lambda n=number: closed(observer, n + 1), what=f"the end of {case}")  # type: ignore[misc]
                found[case] = sorted(summaries, key=lambda summary: summary.opened_at)
                summaries.clear()
    sessions = observer.scrape()
    await observer.receiver.stop()
    return Round(
        request.param,
        ends,
        found,
        {code: int(count) for code, count in sessions.by("llm_websocket_sessions_total", "close_code").items()},
        sessions.total("llm_websocket_sessions_in_flight"),
    )


async def closed(observer: Observer, number: int) -> bool:
    return observer.scrape().total("llm_websocket_sessions_total") >= number


@pytest.mark.parametrize("case", PLAYED)
def test_every_frame_arrives_as_it_was_sent(played: Round, case: str) -> None:
    client, upstream = played.ends[case]
    for sender, receiver in ((client, upstream), (upstream, client)):
        sent, received = data_frames(sender.sent), data_frames(receiver.received)
        if played.manner == "deflated fragments":
            # mitmproxy's compressor lets go of a message at its end only: its fragments inflate to nothing before.
            assert [(opcode, fin) for opcode, fin, _ in received] == [(opcode, fin) for opcode, fin, _ in sent]
            assert joined(received) == joined(sent)
        else:
            assert received == sent


def data_frames(frames: list[Noted]) -> list[Noted]:
    return [frame for frame in frames if frame[0] in _DATA]


def joined(frames: list[Noted]) -> list[bytes]:
    """The messages, and what was in pings and pongs."""
    found: list[bytes] = []
    for opcode, _, data in frames:
        if opcode == 0:
            found[-1] += data
        else:
            found.append(data)
    return found


@pytest.mark.parametrize("case", PLAYED)
def test_the_upgrade_and_the_close_pass_unchanged(played: Round, case: str) -> None:
    client, upstream = played.ends[case]
    end = PLAYED[case].end
    assert client.path == upstream.path
    assert upstream.headers | {"host": ""} == client.headers | {"host": ""}  # a reverse proxy names its upstream
    if end.code == 1006:
        assert client.close_code == 1006 or upstream.close_code == 1006
    else:
        assert client.close_code == upstream.close_code == (end.code or 1000)
        assert client.close_reason == upstream.close_reason == end.reason


@pytest.mark.parametrize("case", PLAYED)
def test_every_response_is_judged_as_expected(played: Round, case: str) -> None:
    expected = expectations()[case]["streams"]
    found = played.summaries[case]
    assert len(found) == len(expected)
    for want, summary in zip(expected, found, strict=True):
        if want["outcome"] == "open":  # the test's client leaves in the end
            want = want | {"outcome": "client_disconnect"}
        said: dict[str, Any] = report(summary, show_content=True)
        assert dict(wrong_of_turn(want, said, timed=False)) == {}


def test_sessions_are_counted_by_their_close_codes(played: Round) -> None:
    codes: dict[str, int] = {}
    for capture in PLAYED.values():
        code = str(capture.end.code or 1000)
        codes[code] = codes.get(code, 0) + 1
    assert played.codes == codes
    assert played.sessions_left == 0


def test_a_credential_in_the_subprotocol_reaches_the_upstream_and_nothing_else(played: Round) -> None:
    case = "rt02-beta-text-subprotocol-key"
    _, upstream = played.ends[case]
    assert "openai-insecure-api-key.ek_test_not_a_secret" in upstream.headers["sec-websocket-protocol"]
    assert all("ek_test" not in repr(summary) for found in played.summaries.values() for summary in found)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def player() -> AsyncIterator[SocketPlayer]:
    async with SocketPlayer().serving() as player:
        yield player


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sidecar(player: SocketPlayer) -> AsyncIterator[Sidecar]:
    async with sidecar_run("--upstream", player.url) as sidecar:
        yield sidecar


@in_module_loop
async def test_an_upgrade_that_is_refused_is_an_http_error(player: SocketPlayer, sidecar: Sidecar) -> None:
    before = await scrape(sidecar.metrics)
    player.refuse["refused"] = 429
    address = f"ws://{sidecar.proxy[0]}:{sidecar.proxy[1]}/v1/realtime?model=m"
    with pytest.raises(InvalidStatus) as refused:
        await connect(address, additional_headers={CASE: "refused"}, proxy=None)
    assert refused.value.response.status_code == 429
    samples = await counted(sidecar.metrics, 1, since=before)
    assert samples.by("llm_streams_total", "outcome", "dialect") == {("http_error", "openai.realtime"): 1}
    assert samples.total("llm_websocket_sessions_total") == 0


@in_module_loop
async def test_a_socket_that_is_no_llm_is_counted_without_its_address(player: SocketPlayer, sidecar: Sidecar) -> None:
    before = await scrape(sidecar.metrics)
    plain = msgspec.structs.replace(PLAYED["ot02-plain-websocket"], id="plain")
    client, upstream = await player.play(sidecar.proxy, plain)
    assert client.received[:2] == upstream.sent[:2]

    async def counted_it() -> bool:
        return (await scrape(sidecar.metrics) - before).total("llm_websocket_sessions_total") >= 1

    await wait_until(counted_it)
    samples = await scrape(sidecar.metrics) - before
    assert samples.by("llm_websocket_sessions_total", "dialect", "server_address") == {("unknown", ""): 1}
    assert samples.total("llm_streams_total") == 0


@in_module_loop
async def test_a_hung_response_shows_while_it_hangs_and_a_quiet_session_does_not(
    player: SocketPlayer, sidecar: Sidecar
) -> None:
    async with player.meet(sidecar.proxy, "/v1/realtime?model=m-hung", "hung") as (client, upstream):

        async def phases(expected: dict[str, float]) -> bool:
            samples = await scrape(sidecar.metrics)
            found = samples.by("llm_streams_in_flight", "phase", gen_ai_request_model="m-hung")
            return found == expected

        async def says(event: str) -> None:
            await upstream.send(event)
            await client.recv()

        await client.send('{"type":"response.create"}')
        await wait_until(lambda: phases({"before_first_token": 1}))
        await says('{"type":"response.created","response":{"id":"r1"}}')
        await says('{"type":"response.output_text.delta","response_id":"r1","delta":"Half"}')
        await wait_until(lambda: phases({"mid_stream": 1}))
        await says('{"type":"ping"}')
        await wait_until(lambda: phases({"keepalive_only": 1}))
        await says('{"type":"response.done","response":{"id":"r1","status":"completed"}}')
        await wait_until(lambda: phases({}))
        samples = await scrape(sidecar.metrics)
        assert samples.total("llm_websocket_sessions_in_flight", gen_ai_request_model="m-hung") == 1
        (row,) = (row for row in (await streams(sidecar.metrics))["websockets"] if row["model"] == "m-hung")
        assert (row["responses"], row["in_flight"], row["messages"]) == (1, 0, 5)


async def test_compressed_fragments_are_those_of_a_mitmproxy_without_the_sidecar(tmp_path: Path) -> None:
    """What mitmproxy itself does to them it does with the sidecar, too, and nothing else."""
    cases = ("rt10-barge-in-server-vad", "gl17-realtime-text-and-unknown-fields", "rt28-audio-delta-over-1-mib")
    found: list[list[list[Noted]]] = []
    bare = (str(BIN / "mitmdump"), "--set", f"confdir={tmp_path}", "--mode")
    async with SocketPlayer().serving() as player:
        async with program("mitmdump", *bare, f"reverse:{player.url}@127.0.0.1:0") as running:
            port = int(await running.says(r"listening at \S*?127\.0\.0\.1:(\d+)"))
            found.append(await received(player, ("127.0.0.1", port), cases, "bare"))
        async with sidecar_run("--upstream", player.url) as sidecar:
            found.append(await received(player, sidecar.proxy, cases, "observed"))
    assert found[0] == found[1]


async def received(
    player: SocketPlayer, proxy: tuple[str, int], cases: tuple[str, ...], name: str
) -> list[list[Noted]]:
    """The frames that both ends received."""
    found: list[list[Noted]] = []
    for case in cases:
        capture = msgspec.structs.replace(PLAYED[case], id=f"{case} {name}")
        found += [end.received for end in await player.play(proxy, capture, compress=True, rough=True)]
    return found


@in_module_loop
async def test_a_long_socket_does_not_grow_the_proxy_or_the_analyzer(player: SocketPlayer, sidecar: Sidecar) -> None:
    """bench/websocket.py has the long form."""
    (analyzer,) = sidecar.program.children
    processes = (sidecar.program.process.pid, analyzer)
    audio = json.dumps({"type": "response.output_audio.delta", "response_id": "r1", "delta": "A" * 6000})
    async with player.meet(sidecar.proxy, "/v1/realtime?model=m-long", "long") as (client, upstream):
        await client.send('{"type":"response.create"}')
        await exchange(upstream, client, '{"type":"response.created","response":{"id":"r1"}}', 1)
        await exchange(upstream, client, audio, 1000)
        before = [memory(pid) for pid in processes]
        await exchange(upstream, client, audio, LONG)
        await exchange(client, upstream, audio, LONG // 10)
        grown = [memory(pid) - was for pid, was in zip(processes, before, strict=True)]
        await exchange(upstream, client, '{"type":"response.done","response":{"id":"r1","status":"completed"}}', 1)
    assert LONG * len(audio) > 40 * MIB
    assert all(each < 12 * MIB for each in grown), grown

    async def judged() -> bool:
        samples = await scrape(sidecar.metrics)
        return samples.total("llm_streams_total", gen_ai_request_model="m-long", outcome="complete") == 1

    await wait_until(judged)
    samples = await scrape(sidecar.metrics)
    assert samples.total("llm_sidecar_records_dropped_total") == 0


async def exchange(
    sender: ClientConnection | ServerConnection, receiver: ClientConnection | ServerConnection, text: str, number: int
) -> None:
    """So many messages, as fast as they go."""

    async def send() -> None:
        for _ in range(number):
            await sender.send(text)

    sending = asyncio.create_task(send())
    for _ in range(number):
        await asyncio.wait_for(receiver.recv(), 30)
    await sending


def memory(pid: int) -> int:
    """Resident bytes of a process."""
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


async def test_a_socket_outlives_its_analyzer_and_is_observed_by_the_next() -> None:
    """What was in flight is lost, as soon as it shows; what comes later has a verdict, but no t0 that may be wrong."""
    async with (
        SocketPlayer().serving() as own,
        sidecar_run("--upstream", own.url) as sidecar,
        own.meet(sidecar.proxy, "/v1/realtime?model=m-twice", "twice") as (client, upstream),
    ):

        async def says(event: str) -> None:
            await upstream.send(event)
            assert await asyncio.wait_for(client.recv(), 10) == event

        async def outcomes(expected: dict[str, float]) -> bool:
            return (await scrape(sidecar.metrics)).by("llm_streams_total", "outcome") == expected

        async def knows() -> bool:
            return (await scrape(sidecar.metrics)).total("llm_websocket_sessions_in_flight") == 1

        await client.send('{"type":"response.create"}')
        await says('{"type":"response.created","response":{"id":"r1"}}')
        await wait_until(knows)
        (analyzer,) = sidecar.program.children
        os.kill(analyzer, signal.SIGKILL)
        for number in range(20):
            await says(json.dumps({"type": "response.output_text.delta", "response_id": "r1", "delta": str(number)}))
        await wait_until(knows, what="the next analyzer has been told of the socket")
        await says('{"type":"response.done","response":{"id":"r1","status":"completed"}}')
        await client.send('{"type":"response.create"}')
        await says('{"type":"response.created","response":{"id":"r2"}}')
        await says('{"type":"response.output_text.delta","response_id":"r2","delta":"x"}')
        await says('{"type":"response.done","response":{"id":"r2","status":"completed"}}')
        await wait_until(lambda: outcomes({"lost": 1, "complete": 1}))
        samples = await scrape(sidecar.metrics)
        assert samples.by("llm_stream_no_first_token_total", "reason") == {"no_t0": 1}
