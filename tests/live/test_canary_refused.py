"""What mitmproxy cannot read and refuses, it quotes; here with credentials in it, which must come out nowhere."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import h2.connection
import h2.events
import pytest

from tests.collector import Collector
from tests.live.exchanges import CASE, chat, chat_events
from tests.live.player import Player
from tests.live.processes import sidecar_run
from tests.live.relays import free_port
from tests.live.scrape import scrape, wait_until
from tests.live.test_canary import KEY, SECRET, Said, published
from tests.live.tls import trusting

type Address = tuple[str, int]
BODY = b'{"model":"m","stream":true}'
LENGTH = b"content-length: %d\r\nconnection: close\r\n\r\n" % len(BODY)


def post(line: bytes, *headers: bytes) -> bytes:
    return b"\r\n".join([b"POST %s HTTP/1.1" % line, *headers, LENGTH]) + BODY


def requests(port: int) -> dict[str, bytes]:
    """User info in an absolute-form target, and other requests that mitmproxy does not take."""
    host, secret, key = b"localhost:%d" % port, SECRET.encode(), KEY.encode()
    path = b"/v1/chat/completions"
    return {
        "password": post(b"http://joe:%s@%s%s" % (secret, host, path), b"Host: " + host),
        "user": post(b"http://%s@%s%s" % (secret, host, path), b"Host: " + host),
        "host, too": post(b"http://joe:%s@%s%s" % (secret, host, path), b"Host: joe:%s@%s" % (secret, host)),
        "connect": b"CONNECT joe:%s@%s HTTP/1.1\r\nHost: %s\r\n\r\n" % (secret, host, host),
        "version": b"POST %s?key=%s HTTP/x\r\nHost: %s\r\n\r\n" % (path, key, host),
        "header line": post(path, b"Host: " + host, b"Authorization Bearer %s" % key),
        "header name": post(path, b"Host: " + host, b"x %s: 1" % key),
        "quotes": post(b"http://'\"%s\\'@%s%s" % (secret, host, path), b"Host: " + host),
    }


ANSWERS = {
    "status line": b"HTTP/1.1 abc %s\r\n\r\n",
    "header line": b"HTTP/1.1 200 OK\r\nset-cookie %s\r\n\r\n",
    "length": b"HTTP/1.1 200 OK\r\ncontent-length: %s\r\n\r\n",
    "coding": b"HTTP/1.1 200 OK\r\ntransfer-encoding: %s\r\n\r\n",
    "chunk": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n%s\r\n\r\n",
    "unasked": b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 %s\r\n\r\n",
}


@contextlib.asynccontextmanager
async def answering() -> AsyncIterator[int]:
    """An upstream that answers as the path asks for it."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            case = next(line[8:] for line in head.decode().split("\r\n") if line.startswith(f"{CASE}: "))
            writer.write(ANSWERS[case] % SECRET.encode())
            await writer.drain()
            await asyncio.sleep(0.2)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def tell(address: Address, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(*address)
    writer.write(data)
    answer = bytearray()
    with contextlib.suppress(TimeoutError, ConnectionError):
        async with asyncio.timeout(5):
            while read := await reader.read(65536):
                answer += read
    writer.close()
    return bytes(answer)


async def over_http2(address: Address, authority: Path) -> int:
    """User info in `:authority`; how the stream ended: a status, or the code of a reset."""
    tls = trusting(authority)
    tls.set_alpn_protocols(["h2"])
    reader, writer = await asyncio.open_connection(*address, ssl=tls, server_hostname="localhost")
    http = h2.connection.H2Connection()
    http.initiate_connection()
    head = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", f"joe:{SECRET}@localhost"),
        (":path", f"/v1/chat/completions?key={SECRET}"),
    ]
    http.send_headers(1, head, end_stream=True)
    writer.write(http.data_to_send())
    try:
        async with asyncio.timeout(10):
            while data := await reader.read(65536):
                for event in http.receive_data(data):
                    if isinstance(event, h2.events.ResponseReceived):
                        return int(dict(event.headers)[b":status"])
                    if isinstance(event, (h2.events.StreamReset, h2.events.ConnectionTerminated)):
                        return int(event.error_code or 0)
    finally:
        writer.close()
    return -1


async def test_credentials_in_what_is_refused_come_out_nowhere(tmp_path: Path) -> None:
    said, player = Said(), Player()
    player.add([chat("fine", chat_events({"content": "x"}))])
    regular, reverse, answers = free_port(), free_port(), free_port()
    env = {"OTEL_BSP_SCHEDULE_DELAY": "50", "SIDECAR_LOG_LEVEL": "debug"}
    async with contextlib.AsyncExitStack() as running:
        await running.enter_async_context(player.serving())
        upstream = await running.enter_async_context(answering())
        collector = running.enter_context(Collector().over_http())
        modes = (
            f"regular@127.0.0.1:{regular}",
            f"reverse:{player.url}@127.0.0.1:{reverse}",
            f"reverse:http://127.0.0.1:{upstream}@127.0.0.1:{answers}",
        )
        flags = [flag for mode in modes for flag in ("--mode", mode)]
        flags += ["--set", f"confdir={tmp_path}", "--record", str(tmp_path / "r"), "--otel-endpoint", collector.url]
        sidecar = await running.enter_async_context(sidecar_run(*flags, env=env))
        for port in (regular, reverse):
            for name, data in requests(player.port).items():
                answer = await tell(("127.0.0.1", port), data)
                assert answer.startswith(b"HTTP/1.1 400 "), (name, answer)
        assert await over_http2(("127.0.0.1", reverse), tmp_path / "mitmproxy-ca-cert.pem") >= 0
        assert not player.plays, "the upstream is not bothered"
        for case in ANSWERS:
            head = (b"Host: localhost", f"{CASE}: {case}".encode(), b"content-type: application/json")
            await tell(("127.0.0.1", answers), post(b"/v1/chat/completions", *head))

        async def told() -> bool:
            samples = await scrape(sidecar.metrics)
            recorded = samples.total("llm_sidecar_recordings_total")
            return samples.total("llm_streams_total") >= len(ANSWERS) and recorded >= len(ANSWERS)

        await wait_until(told)
        await published(sidecar, said, "http")
        assert await sidecar.program.stop() == 0
        said.places["log"] = sidecar.program.stdout + sidecar.program.stderr
        said.places["spans"] = "\n".join(map(str, collector.spans))
        said.places["recordings"] = "\n".join(file.read_text() for file in (tmp_path / "r").rglob("*.jsonl"))
    for words in ("Bad HTTP request line: ", "Invalid header line: "):
        assert f"{words}[redacted]" in said.places["log"], f"mitmproxy words it otherwise: {words}"
    assert said.having(SECRET) == []


@pytest.mark.parametrize("name", ["password", "quotes"])
async def test_the_canary_would_sing(name: str) -> None:
    """The request has the canary as it is searched for."""
    assert Said({"request": requests(1)[name].decode()}).having(SECRET) == ["request"]
