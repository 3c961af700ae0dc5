"""Recordings served again over real sockets: bytes, chunks, endings; and the verdicts that `sidecar run` reaches of them."""

import asyncio
import dataclasses
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
import pytest_asyncio
from click.testing import CliRunner
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from sidecar.cli import cli
from sidecar.files.capture import Capture
from sidecar.files.inspect import inspect_capture, report
from sidecar.files.replay import Recordings, Server
from sidecar.files.replay.recordings import BY_ID
from sidecar.files.sockets import SocketReport
from sidecar.stream.summary import Summary
from sidecar.thresholds import QuirkThresholds
from tests import sockets as socket_corpus
from tests.corpus import CORPUS, captures
from tests.live.exchanges import Exchange, corpus, end_to_end
from tests.live.processes import BIN, program, sidecar_run
from tests.live.raw_client import Answer, Client, ask, ask_all
from tests.live.scrape import wait_until
from tests.live.sdks.answers import Observer
from tests.live.tls import Certificate, trusting
from tests.test_corpus import READ_DEPENDENT

ENDINGS = {"eof": "eof", "reset": "broken", "hang": "hanging", "client_leaves": "left"}
AT_ONCE = READ_DEPENDENT | {"long_gap", "long_prefill_silence", "heartbeat_gap_long", "eof_delayed_after_terminator"}
"""What only the recorded times show; a replay at once has others."""
in_module_loop = pytest.mark.asyncio(loop_scope="module")


def named(exchange: Exchange) -> Exchange:
    """An exchange whose request says which recording it wants."""
    return dataclasses.replace(exchange, request_headers=(*exchange.request_headers, (BY_ID, exchange.id)))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[Server]:
    async with Server(Recordings(captures().values()), speed=0).listening() as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def answers(server: Server) -> dict[str, Answer]:
    return await ask_all(server.address, [named(exchange) for exchange in corpus()])


@pytest.mark.parametrize("exchange", corpus(), ids=lambda exchange: exchange.id)
@in_module_loop
async def test_a_recording_is_answered_as_it_was(answers: dict[str, Answer], exchange: Exchange) -> None:
    answer = answers[exchange.id]
    if exchange.end == "no_answer":
        assert (answer.status, answer.ending) == (None, "broken")
        return
    assert answer.status == exchange.status
    assert end_to_end(answer.headers) == exchange.headers
    assert answer.body == exchange.body
    assert answer.ending == ENDINGS[exchange.end]


def raw(server: Server, id: str) -> tuple[bytes, str]:
    """All bytes of an answer, head and chunk sizes and all, and how the connection ended."""
    capture = captures()[id]
    request = (
        f"POST {capture.request.url.partition('.example')[2]} HTTP/1.1\r\nhost: x\r\n{BY_ID}: {id}\r\n"
        "content-length: 2\r\nconnection: close\r\n\r\n{}"
    )
    found = b""
    with socket.create_connection(server.address, timeout=30) as link:
        link.sendall(request.encode())
        try:
            while data := link.recv(1 << 16):
                found += data
        except ConnectionResetError:
            return found, "RST"
    return found, "FIN"


def chunk_sizes(wire: bytes) -> list[int]:
    """The sizes of the HTTP chunks of an answer, the last one of zero included."""
    body = wire.partition(b"\r\n\r\n")[2]
    sizes = []
    while body:
        line, _, body = body.partition(b"\r\n")
        sizes.append(int(line, 16))
        body = body[sizes[-1] + 2 :]
    return sizes


@pytest.mark.parametrize("case", ["a02-overloaded-mid-stream", "a08-message-stop-truncated"])
@in_module_loop
async def test_each_recorded_chunk_is_one_http_chunk(server: Server, case: str) -> None:
    wire, _ = await asyncio.to_thread(raw, server, case)
    recorded = [len(chunk.data()) for chunk in captures()[case].chunks]
    assert chunk_sizes(wire) == [*recorded, *([0] if captures()[case].end.kind == "eof" else [])]


def with_end(capture: Capture, **changes: Any) -> Capture:
    return msgspec.structs.replace(capture, end=msgspec.structs.replace(capture.end, **changes))


@pytest.mark.parametrize(
    ("error", "ending"), [("", "RST"), ("peer closed connection without … (incomplete chunked read)", "FIN")]
)
@in_module_loop
async def test_a_break_is_a_reset_unless_the_recording_says_that_the_body_was_just_incomplete(
    error: str, ending: str
) -> None:
    case = "a08-message-stop-truncated"
    recordings = Recordings([with_end(captures()[case], kind="upstream_reset", error=error)])
    async with Server(recordings, speed=0).listening() as server:
        wire, how = await asyncio.to_thread(raw, server, case)
    assert how == ending
    assert sum(chunk_sizes(wire)) == sum(len(chunk.data()) for chunk in captures()[case].chunks)
    assert not wire.endswith(b"0\r\n\r\n")


@pytest.mark.parametrize("speed", [1.0, 4.0])
@in_module_loop
async def test_nothing_comes_before_its_time(speed: float) -> None:
    exchange = named(next(each for each in corpus() if each.id == "a04-no-event-lines"))
    async with Server(Recordings([captures()[exchange.id]]), speed=speed).listening() as server:
        answer = await ask(server.address, exchange)
    sizes = 0
    for piece in exchange.pieces:
        sizes += len(piece.data)
        assert (answer.arrived(sizes) - answer.sent_at) / 1e9 >= piece.at / speed
    assert (answer.ended_at - answer.sent_at) / 1e9 >= exchange.end_at / speed
    assert len(answer.reads) > 1


@in_module_loop
async def test_the_hang_lasts_as_long_as_the_client_stays(server: Server) -> None:
    exchange = named(next(each for each in corpus() if each.end == "hang"))
    before = len(server.served)
    answer = await ask(server.address, exchange, linger=0.5)
    assert answer.ending == "hanging"
    await wait_until(lambda: _true(len(server.served) > before), what="the end of the exchange")
    assert (server.served[-1].id, server.served[-1].how) == (exchange.id, "client left")


async def _true(value: bool) -> bool:
    return value


@in_module_loop
async def test_one_connection_serves_many_requests_and_says_what_it_has_not(server: Server) -> None:
    exchange = named(next(each for each in corpus() if each.id == "a02-overloaded-mid-stream"))
    lost = dataclasses.replace(exchange, target="/v1/nothing?key=secret", request_headers=())
    client = await Client.connect(server.address)
    answers = [await client.ask(each) for each in (exchange, lost, exchange)]
    client.close()
    assert [answer.status for answer in answers] == [200, 404, 200]
    said = json.loads(answers[1].body)
    assert said["error"] == {"message": "nothing was recorded of POST /v1/nothing", "type": "no_recording"}
    assert "POST /v1/messages" in said["recorded"]
    assert answers[2].body == exchange.body


@in_module_loop
async def test_what_is_no_http_is_told_so(server: Server) -> None:
    reader, writer = await asyncio.open_connection(*server.address)
    writer.write(b"\x16\x03\x01 this is TLS\r\n\r\n")
    assert b"400 Bad Request" in await asyncio.wait_for(reader.read(), 30)
    writer.close()


@in_module_loop
async def test_over_tls(certificate: Certificate) -> None:
    exchange = named(next(each for each in corpus() if each.id == "a02-overloaded-mid-stream"))
    recordings = Recordings([captures()[exchange.id]])
    async with Server(recordings, speed=0, tls=certificate.server()).listening() as server:
        assert server.url.startswith("https://127.0.0.1:")
        answer = await ask(server.address, exchange, trusting(certificate.path))
    assert answer.body == exchange.body


# The verdicts of `sidecar run` in front of it


@dataclasses.dataclass
class Verdicts:
    """What the sidecar said of each capture."""

    summaries: dict[str, Summary]

    def of(self, case: str) -> dict[str, Any]:
        said: dict[str, Any] = json.loads(msgspec.json.encode(report(self.summaries[case], show_content=True)))
        return said


async def through_the_sidecar(folder: Path, speed: float, exchanges: list[Exchange]) -> Verdicts:
    """Replay these with `sidecar run` in front; told apart by a trace id that each request has."""
    observer = Observer(folder / "s")
    summaries: list[Summary] = []
    observer.analyzer.listeners.append(summaries.append)
    await observer.receiver.start()
    traced = {f"00-{number:032x}-{1:016x}-01": exchange.id for number, exchange in enumerate(exchanges, 1)}
    asked = [
        dataclasses.replace(named(each), request_headers=(*named(each).request_headers, ("traceparent", trace)))
        for trace, each in zip(traced, exchanges, strict=True)
    ]
    recordings = Recordings(captures()[each.id] for each in exchanges)
    async with Server(recordings, speed=speed).listening() as server:
        to = ("--upstream", server.url, "--socket", observer.analyzer.settings.socket or "")
        async with sidecar_run(*to) as sidecar:
            await ask_all(sidecar.proxy, asked)
            await wait_until(lambda: _true(len(summaries) >= len(asked)), what="all verdicts")
    await observer.receiver.stop()
    return Verdicts({traced[summary.traceparent or ""]: summary for summary in summaries})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def verdicts(tmp_path_factory: pytest.TempPathFactory) -> Verdicts:
    return await through_the_sidecar(tmp_path_factory.mktemp("v"), 0, list(corpus()))


def of_the_file(capture: Capture) -> dict[str, Any]:
    found = inspect_capture(capture, QuirkThresholds())
    assert isinstance(found, Summary)
    said: dict[str, Any] = json.loads(msgspec.json.encode(report(found, show_content=True)))
    return said


TIMES = {"id", "milestones_ms", "gaps_ms", "buffering"}


@pytest.mark.parametrize("case", sorted(captures()))
@in_module_loop
async def test_the_verdict_on_a_replay_is_that_on_the_recording(verdicts: Verdicts, case: str) -> None:
    capture = captures()[case]
    if capture.end.kind == "open":  # the client of the test leaves in the end
        capture = with_end(capture, kind="client_disconnect")
    live, file = verdicts.of(case), of_the_file(capture)
    different = {
        name: (file[name], live[name]) for name in file.keys() - TIMES - {"quirks"} if live[name] != file[name]
    }
    assert different == {}
    assert set(live["quirks"]) ^ set(file["quirks"]) <= AT_ONCE


PACED = [
    "m05-usage-tail-after-finish",
    "n14-clumped-delivery",
    "n15-fixed-4k-buffer",
    "n2-an-brotli-unflushed",
    "n2-bc-all-frames-in-one-read",
    "n2-long-bedrock-converse-tcp-segments",
    "n2-re-zstd-unflushed",
    "n23-content-length-sse",
]


@in_module_loop
async def test_in_time_the_verdict_on_buffering_is_the_same_too(tmp_path: Path) -> None:
    played = await through_the_sidecar(tmp_path, 1.0, [each for each in corpus() if each.id in PACED])
    for case in PACED:
        live, file = played.of(case), of_the_file(captures()[case])
        assert (case, live["buffering"]["verdict"]) == (case, file["buffering"]["verdict"])
        assert set(live["quirks"]) >= set(file["quirks"]) & {"buffered_delivery", "burst_delivery"}
        for name in ("first_token", "last_token", "end"):
            assert live["milestones_ms"][name] >= file["milestones_ms"][name] - 1, (case, name)


# WebSockets


SOCKETS = {case: each for case, each in socket_corpus.captures().items() if each.response is not None}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sockets() -> AsyncIterator[Server]:
    async with Server(Recordings(SOCKETS.values()), speed=0).listening() as server:
        yield server


async def converse(address: tuple[str, int], capture: Capture) -> tuple[list[bytes | str], int | None, str]:
    """The client's part: what came, and how the socket was closed."""
    url = urlsplit(capture.request.url)
    target = url.path + (f"?{url.query}" if url.query else "")
    offered = dict(capture.request.headers).get("sec-websocket-protocol", "")
    names: Any = [name.strip() for name in offered.split(",") if name.strip()] or None
    came: list[bytes | str] = []
    async with connect(
        f"ws://{address[0]}:{address[1]}{target}",
        additional_headers={BY_ID: capture.id},
        subprotocols=names,
        proxy=None,
        max_size=None,
    ) as client:
        try:
            for message in capture.messages:
                if message.sender == "client":
                    await client.send(message.data() if message.binary else message.data().decode())
                else:
                    came.append(await asyncio.wait_for(client.recv(), 20))
            if capture.end.kind in ("client_disconnect", "open"):
                await client.close(capture.end.code or 1000, capture.end.reason)
            else:
                came.append(await asyncio.wait_for(client.recv(), 20))
        except ConnectionClosed:
            pass
    return came, client.close_code, client.close_reason or ""


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
                await wait_until(lambda n=number: _true(_closed(observer) >= n), what=f"the end of {case}")  # type: ignore[misc]
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


# The command


async def test_the_command_lists_serves_and_stops() -> None:
    listed = CliRunner().invoke(
        cli, ["replay", "--list", "--id", "a02-overloaded-mid-stream", str(CORPUS / "streams.jsonl")]
    )
    assert listed.output.split() == [
        "a02-overloaded-mid-stream",
        "POST",
        "/v1/messages",
        "200,",
        "4",
        "chunks",
        "0.080",
        "s",
        "ends",
    ]
    exchange = named(next(each for each in corpus() if each.id == "a02-overloaded-mid-stream"))
    arguments = ("--listen", "127.0.0.1:0", "--speed", "0", str(CORPUS / "streams.jsonl"))
    async with program("sidecar replay", str(BIN / "sidecar"), "replay", *arguments) as running:
        url = await running.says(r"replay +http://(\S+)")
        host, _, port = url.rpartition(":")
        answer = await ask((host, int(port)), exchange)
        assert answer.body == exchange.body
        assert await running.says(r"(POST /v1/messages  a02-\S+: ended)")
        assert await running.stop() == 0
        assert running.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--id", "nobody"], "no recording has the id nobody; --list shows those there are"),
        (["--certificate", "/nowhere.pem"], "--certificate /nowhere.pem: No such file or directory"),
        (["--listen", "here"], "bad setting: listen is 'here', not HOST:PORT"),
    ],
)
def test_mistakes_are_told(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(cli, ["replay", *arguments, str(CORPUS / "streams.jsonl")], standalone_mode=False)
    assert said in str(result.exception)
