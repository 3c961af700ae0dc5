"""Passivity under load: big uploads, slow readers, many streams, TLS that closes early, gRPC. docs/passivity.md."""

import asyncio
import contextlib
import hashlib
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.conversations import CHUNKED, chunk, ok, post
from tests.live.exchanges import chat, chat_events
from tests.live.player import Player
from tests.live.processes import Program, Sidecar, sidecar_run
from tests.live.raw_client import ask
from tests.live.raw_h2 import H2Answer, H2Client
from tests.live.scrape import wait_until
from tests.live.tls import Certificate, trusting
from tests.live.wire import End, Wire
from tests.parts import require_module

MIB = 1024 * 1024
BLOCK = random.Random(1).randbytes(MIB)
GROWTH = 60 * MIB  # of the proxy's memory; what it must not hold is more
OUTBOX = {"SIDECAR_OUTBOX_MIB": "8"}


def most_memory(program: Program) -> int:
    """Bytes that were resident at most so far."""
    status = Path(f"/proc/{program.process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


@contextlib.asynccontextmanager
async def proxied(certificate: Certificate, folder: Path, upstream: str) -> AsyncIterator[Sidecar]:
    options = ("--set", f"confdir={folder}", "--set", f"ssl_verify_upstream_trusted_ca={certificate.path}")
    async with sidecar_run("--upstream", upstream, *options, env=OUTBOX) as sidecar:
        yield sidecar


def authority(folder: Path) -> Any:
    return trusting(folder / "mitmproxy-ca-cert.pem")


@contextlib.asynccontextmanager
async def serving(part: Any, tls: Any = None) -> AsyncIterator[str]:
    """An upstream that does this on every connection; its URL."""
    wire = Wire(tls=tls, part=part)
    async with wire.serving():
        yield wire.url
    assert not wire.errors, wire.errors


@pytest.mark.parametrize("target", ["/v1/files", "/v1/chat/completions"])
async def test_upload_of_100_mb_does_not_stay_in_memory(target: str) -> None:
    size, got = 100, hashlib.sha256()

    async def takes(end: End) -> None:
        head = await end.reader.readuntil(b"\r\n\r\n")
        assert b"content-length: %d\r\n" % (size * MIB) in head
        left = size * MIB
        while left:
            data = await end.reader.read(MIB)
            left -= len(data)
            got.update(data)
        await end.write(ok(b"taken"))

    async with serving(takes) as url, sidecar_run("--upstream", url, env=OUTBOX) as sidecar:
        client = End(*await asyncio.open_connection(*sidecar.proxy))
        before = most_memory(sidecar.program)
        head = post(b"", target=target.encode()).replace(b"{host}", b"x").replace(b": 0", b": %d" % (size * MIB))
        await client.write(head)
        expected = hashlib.sha256()
        for _ in range(size):
            expected.update(BLOCK)
            await client.write(BLOCK)
        await client.until(b"taken")
        client.writer.close()
        grown = most_memory(sidecar.program) - before
    assert got.digest() == expected.digest()
    assert grown < GROWTH, f"grew by {grown // MIB} MiB"


class Flood:
    """An upstream that sends `size` MiB as fast as they are taken; `sent` of them have gone out."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.sent = 0

    async def __call__(self, end: End) -> None:
        await end.until(b"\r\n\r\n")
        await end.write(ok(b"").replace(b": 0", b": %d" % (self.size * MIB)))
        for _ in range(self.size):
            await end.write(BLOCK)
            self.sent += 1


async def test_slow_reader_throttles_the_upstream() -> None:
    flood = Flood(150)
    async with serving(flood) as url, sidecar_run("--upstream", url, env=OUTBOX) as sidecar:
        reader, writer = await asyncio.open_connection(*sidecar.proxy, limit=MIB)
        before = most_memory(sidecar.program)
        writer.write(b"GET /big HTTP/1.1\r\nhost: x\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        held = -1

        async def still() -> bool:
            """Whether the upstream has come to a halt."""
            nonlocal held
            was, held = held, flood.sent
            await asyncio.sleep(0.5)
            return was == flood.sent

        await wait_until(still, what="the upstream to be throttled")
        assert held < 60, f"{held} MiB on the way to a client that does not read"
        total = hashlib.sha256()
        for _ in range(flood.size):
            total.update(await reader.readexactly(MIB))
        writer.close()
        grown = most_memory(sidecar.program) - before
    assert total.digest() == hashlib.sha256(BLOCK * flood.size).digest()
    assert grown < GROWTH, f"grew by {grown // MIB} MiB"


async def test_slow_reader_of_one_http2_stream_is_not_throttled(certificate: Certificate, tmp_path: Path) -> None:
    """A known limit: mitmproxy grants its upstream all the credit there is, and holds what the client does not take.

    The other streams of the connection are better off for it. Here the client takes its first 64 KiB, and no more.
    """
    flood = Flood(30)
    async with serving(flood) as url, proxied(certificate, tmp_path, url) as sidecar:
        client = await H2Client.connect(sidecar.proxy, authority(tmp_path))
        await client.send(chat("m-slow", []))

        async def all_sent() -> bool:
            return flood.sent == flood.size

        await wait_until(all_sent, what="the proxy to take it all")
        client.close()


async def test_many_streams_of_one_http2_client_to_an_http1_upstream(certificate: Certificate, tmp_path: Path) -> None:
    """Each gets its first token while all others are still streaming; mitmproxy alone lets five of them begin.

    The client says no length of its requests, for which HTTP/1.1 has chunks; mitmproxy alone sends them unframed.
    """
    cases = [chat(f"m-{n}", chat_events({"content": f"{n}"}, model=f"m-{n}"), every=0) for n in range(40)]
    player = Player()
    player.add(cases)
    player.steps = {case.id: asyncio.Semaphore(1) for case in cases}
    async with player.serving(), proxied(certificate, tmp_path, player.url) as sidecar:
        client = await H2Client.connect(sidecar.proxy, authority(tmp_path))
        for case in cases:
            await client.send(case)
        async with asyncio.timeout(30):
            while not all(answer.body for answer in client.answers.values()):
                await client.receive()
        assert not any(answer.ended for answer in client.answers.values())
        for case in cases:
            for _ in case.pieces:
                player.steps[case.id].release()
        async with asyncio.timeout(30):
            while not all(answer.ended for answer in client.answers.values()):
                await client.receive()
        client.close()
        assert {case.id: client.answers[case.id].body for case in cases} == {case.id: case.body for case in cases}
        assert {case.id: player.play(case.id).request_body for case in cases} == {c.id: c.request_body for c in cases}


async def test_http2_client_of_an_http1_upstream_with_interim_responses_and_trailers(
    certificate: Certificate, tmp_path: Path
) -> None:
    """HTTP/2 has a place for trailers; what nobody asked for before the response is dropped, and the response is not."""
    event = b"data: [DONE]\n\n"

    async def answers(end: End) -> None:
        await end.until(b"\r\n\r\n")
        await end.write(b"HTTP/1.1 103 Early Hints\r\nlin", b"k: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n")
        await end.write(CHUNKED + chunk(event) + b"0\r\nx-sum: 1\r\n\r\n")

    async with serving(answers) as url, proxied(certificate, tmp_path, url) as sidecar:
        client = await H2Client.connect(sidecar.proxy, authority(tmp_path))
        case = chat("m", [])
        await client.send(case)
        async with asyncio.timeout(20):
            while not client.answers[case.id].ended:
                await client.receive()
        client.close()
        assert client.answers[case.id] == H2Answer(event, ended=True, trailers=((b"x-sum", b"1"),))


@pytest.mark.parametrize("framing", ["close", "length"])
async def test_tls_upstream_that_closes_right_behind_events_of_megabytes(
    certificate: Certificate, tmp_path: Path, framing: Any
) -> None:
    """Nothing of the last event is lost on the way from the closing connection, ten times over."""
    event = b'data: {"choices":[{"index":0,"delta":{"content":"' + b"x" * (MIB + 12345) + b'"}}]}\n\n'
    body = event * 2 + b"data: [DONE]\n\n"
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n"
    head += b"content-length: %d\r\n\r\n" % len(body) if framing == "length" else b"\r\n"

    async def answers_and_closes(end: End) -> None:
        await end.until(b"\r\n\r\n")
        end.writer.write(head + body)
        end.writer.close()

    async with serving(answers_and_closes, certificate.server()) as url, proxied(certificate, tmp_path, url) as sidecar:
        for _ in range(10):
            case = chat("m", [])
            answer = await ask(sidecar.proxy, case, authority(tmp_path), linger=20)
            assert answer.ending == "eof"
            assert len(answer.body) == len(body)
            assert answer.body == body


async def test_connect_to_a_protocol_that_is_no_http() -> None:
    """As an explicit proxy: a tunnel passes both ways."""

    async def echoes(end: End) -> None:
        await end.write(b"\x00\xffgreeting\r\n")
        await end.until(b"bye")
        await end.write(bytes(end.seen[::-1]))

    async with serving(echoes) as url, sidecar_run("--mode", "regular@127.0.0.1:0", choose_ports=False) as sidecar:
        client = End(*await asyncio.open_connection(*sidecar.proxy))
        target = url.partition("//")[2].encode()
        await client.write(b"CONNECT %s HTTP/1.1\r\nhost: %s\r\n\r\n" % (target, target))
        await client.until(b"\r\n\r\n")
        assert client.seen.startswith(b"HTTP/1.1 200")
        await client.until(b"greeting\r\n")
        await client.write(b"\x01\x02 bye")
        await client.until(b"eyb \x02\x01")
        client.writer.close()


async def test_grpc(certificate: Certificate, tmp_path: Path) -> None:
    """A real gRPC client and server: metadata, streams both ways message by message, trailers, status."""
    grpc: Any = require_module("grpc", "pip install --group test")
    require_module("grpc.aio", "pip install --group test")

    async def talk(messages: Any, context: Any) -> AsyncIterator[bytes]:
        seen = dict(context.invocation_metadata())
        await context.send_initial_metadata((("x-seen", seen["x-asked"]),))
        async for message in messages:
            if message == b"fail":
                context.set_trailing_metadata((("x-why", "asked to"), ("x-why-bin", b"\x00\xff")))
                await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "no more: ü")
            yield message[::-1]
        context.set_trailing_metadata((("x-sum", "7"),))

    server = grpc.aio.server()
    method = grpc.stream_stream_rpc_method_handler(talk)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t.T", {"Talk": method}),))
    pem = certificate.path.read_bytes()
    port = server.add_secure_port("localhost:0", grpc.ssl_server_credentials([(pem, pem)]))
    await server.start()
    try:
        async with proxied(certificate, tmp_path, f"https://localhost:{port}") as sidecar:
            trusted = grpc.ssl_channel_credentials((tmp_path / "mitmproxy-ca-cert.pem").read_bytes())
            address = f"localhost:{sidecar.proxy[1]}"
            async with grpc.aio.secure_channel(address, trusted) as channel:
                await _talk(channel.stream_stream("/t.T/Talk"), grpc)
    finally:
        await server.stop(None)


async def _talk(method: Any, grpc: Any) -> None:
    good = method(metadata=(("x-asked", "yes"),), timeout=20)
    for word in (b"one", b"two", b"x" * MIB):
        await good.write(word)
        assert await good.read() == word[::-1]
    await good.done_writing()
    assert await good.read() is grpc.aio.EOF
    assert dict(await good.initial_metadata())["x-seen"] == "yes"
    assert dict(await good.trailing_metadata())["x-sum"] == "7"
    assert await good.code() is grpc.StatusCode.OK
    bad = method(metadata=(("x-asked", "no"),), timeout=20)
    await bad.write(b"fail")
    with pytest.raises(grpc.aio.AioRpcError):
        await bad.read()
    assert (await bad.code(), await bad.details()) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "no more: ü")
    assert dict(await bad.trailing_metadata())["x-why-bin"] == b"\x00\xff"
