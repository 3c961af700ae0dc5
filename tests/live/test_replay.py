"""Recordings served again over real sockets: bytes, chunks, endings, and the command that serves them."""

import asyncio
import dataclasses
import json
import socket
from collections.abc import AsyncIterator

import msgspec
import pytest
import pytest_asyncio
from click.testing import CliRunner

from sidecar.capture.records import RESET
from sidecar.cli import cli
from sidecar.files.replay import Recordings, Server
from sidecar.files.replay.recordings import BY_ID
from tests.corpus import CORPUS, captures
from tests.live.exchanges import Exchange, corpus, end_to_end
from tests.live.processes import BIN, program
from tests.live.raw_client import Answer, Client, ask, ask_all
from tests.live.replayed import named, truth, with_end
from tests.live.scrape import wait_until
from tests.live.tls import Certificate, trusting

ENDINGS = {"eof": "eof", "reset": "broken", "hang": "hanging", "client_leaves": "left"}
in_module_loop = pytest.mark.asyncio(loop_scope="module")


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


@pytest.mark.parametrize(
    ("error", "ending"),
    [
        ("", "RST"),
        ("peer closed connection without … (incomplete chunked read)", "FIN"),
        (f"{RESET}: peer closed connection without … (incomplete chunked read)", "RST"),
    ],
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
async def test_a_body_that_the_close_of_the_connection_ended_does_so_again() -> None:
    capture = captures()["a02-overloaded-mid-stream"]
    assert capture.response is not None
    old = msgspec.structs.replace(capture, response=msgspec.structs.replace(capture.response, http_version="HTTP/1.0"))
    async with Server(Recordings([old]), speed=0).listening() as server:
        wire, how = await asyncio.to_thread(raw, server, capture.id)
    head, _, body = wire.partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head.lower()
    assert body == b"".join(chunk.data() for chunk in capture.chunks)
    assert how == "FIN"


@in_module_loop
async def test_a_recorded_length_is_kept_only_where_it_is_true() -> None:
    capture = captures()["n23-content-length-sse"]
    assert capture.response is not None
    size = sum(len(chunk.data()) for chunk in capture.chunks)
    for length, kept in ((size, True), (size + 5, False), (size - 5, False)):
        headers = [("content-type", "text/event-stream"), ("Content-Length", str(length))]
        told = msgspec.structs.replace(capture, response=msgspec.structs.replace(capture.response, headers=headers))
        async with Server(Recordings([told]), speed=0).listening() as server:
            wire, _ = await asyncio.to_thread(raw, server, capture.id)
        head = wire.partition(b"\r\n\r\n")[0].lower()
        assert (f"content-length: {length}".encode() in head, b"transfer-encoding: chunked" in head) == (kept, not kept)


@in_module_loop
async def test_the_hang_lasts_as_long_as_the_client_stays(server: Server) -> None:
    exchange = named(next(each for each in corpus() if each.end == "hang"))
    answer = await ask(server.address, exchange, linger=0.5)
    assert answer.ending == "hanging"
    served = server.served[-1]
    assert served.id == exchange.id
    await wait_until(lambda: truth(served.how == "client left"), what="the end of the exchange")


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
