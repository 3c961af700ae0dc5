"""Recorded WebSockets served again: the server's part, in step with its client, and the verdicts of `sidecar run`."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import pytest
import pytest_asyncio
from websockets.asyncio.client import connect

from sidecar.files.capture import Capture
from sidecar.files.inspect import inspect_capture
from sidecar.files.replay import Recordings, Server
from sidecar.files.sockets import SocketReport
from sidecar.stream.summary import Summary
from sidecar.thresholds import QuirkThresholds
from tests.live.processes import sidecar_run
from tests.live.replayed import SOCKETS, converse, truth, with_end
from tests.live.scrape import wait_until
from tests.live.sdks.answers import Observer

in_module_loop = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sockets() -> AsyncIterator[Server]:
    async with Server(Recordings(SOCKETS.values()), speed=0).listening() as server:
        yield server


@pytest.mark.parametrize("case", SOCKETS)
@in_module_loop
async def test_the_server_of_a_socket_says_what_it_said(sockets: Server, case: str) -> None:
    capture = SOCKETS[case]
    came, code, reason = await converse(sockets.address, capture)
    sent = [message for message in capture.messages if message.sender == "server"]
    assert came == [message.data() if message.binary else message.data().decode() for message in sent]
    assert code == (capture.end.code or 1000)
    assert reason == capture.end.reason


@in_module_loop
async def test_a_client_may_send_its_audio_in_other_pieces_than_were_recorded() -> None:
    once = SOCKETS["rt10-barge-in-server-vad"]
    thrice = [copy for each in once.messages for copy in [each] * (3 if b".append" in each.data() else 1)]
    more = msgspec.structs.replace(once, messages=thrice)
    assert len(more.messages) > len(once.messages)
    for recorded, sent in ((once, more), (more, once)):
        async with Server(Recordings([recorded]), speed=0).listening() as server:
            came, _, _ = await converse(server.address, sent)
        assert len(came) == sum(each.sender == "server" for each in once.messages)


@in_module_loop
async def test_answers_of_a_socket_follow_the_messages_they_answer() -> None:
    """The client takes longer than the recorded one: what it asks for comes as long after that as it did."""
    capture = SOCKETS["ot02-plain-websocket"]
    pauses = [each.at_ms for each in capture.messages]
    late = 0.5
    async with Server(Recordings([capture]), speed=1).listening() as server:
        url = f"ws://{server.address[0]}:{server.address[1]}{urlsplit(capture.request.url).path}"
        async with connect(url, proxy=None) as client:
            await asyncio.wait_for(client.recv(), 20)
            await asyncio.sleep(late)
            begun = asyncio.get_running_loop().time()
            asked, answered = [each for each in capture.messages if each.at_ms > pauses[0]][:2]
            await client.send(asked.data().decode())
            await asyncio.wait_for(client.recv(), 20)
            assert asyncio.get_running_loop().time() - begun >= (answered.at_ms - asked.at_ms) / 1000


@in_module_loop
async def test_the_verdicts_on_responses_in_sockets_are_those_on_the_recording(short_path: Path) -> None:
    observer = Observer(short_path / "s")
    summaries: list[Summary] = []
    observer.analyzer.listeners.append(summaries.append)
    await observer.receiver.start()
    async with Server(Recordings(SOCKETS.values()), speed=0).listening() as server:
        to = ("--upstream", server.url, "--socket", observer.analyzer.settings.socket or "")
        async with sidecar_run(*to) as sidecar:
            for number, (case, capture) in enumerate(SOCKETS.items(), 1):
                await converse(sidecar.proxy, capture)
                await wait_until(lambda n=number: truth(_closed(observer) >= n), what=f"the end of {case}")  # type: ignore[misc]
                live = sorted(summaries, key=lambda summary: summary.opened_at)
                summaries.clear()
                assert [_essence(each) for each in live] == [_essence(each) for each in _responses(capture)], case
    await observer.receiver.stop()


def _closed(observer: Observer) -> float:
    return observer.scrape().total("llm_websocket_sessions_total")


def _responses(capture: Capture) -> tuple[Summary, ...]:
    if capture.end.kind == "open":
        capture = with_end(capture, kind="client_disconnect", code=1000)
    found = inspect_capture(capture, QuirkThresholds())
    assert isinstance(found, SocketReport)
    return found.responses


def _essence(summary: Summary) -> tuple[object, ...]:
    calls = [(call.name, call.verdict) for call in summary.tool_calls]
    return summary.response_id, summary.outcome, summary.finish_reason, summary.usage, summary.text, calls
