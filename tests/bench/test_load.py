"""The load of the benches: what it counts is what went over the wire, and a proxy that breaks streams is no silence."""

import asyncio
from time import monotonic_ns

import pytest

from bench.load import Load


@pytest.mark.parametrize("mode", ["paced", "closed", "flood"])
async def test_every_event_that_was_written_is_read_at_some_later_time(mode: str) -> None:
    load = Load(logs=True)
    async with load.serving():
        address = ("127.0.0.1", load.port)
        streams = await load.open(address, 5, mode, 0.01)
        window = await load.measure(0.3)
        await load.close(streams)
    assert load.broken == 0
    assert window.chunks == len(window.latencies) > 20
    assert min(window.latencies) > 0
    for stream in streams:
        assert len(stream.sent) == len(stream.arrived)
        assert all(sent < arrived for sent, arrived in zip(stream.sent, stream.arrived, strict=True))
        assert stream.asked < stream.requested <= stream.sent[0]


async def test_latency_is_what_stands_between_the_two_ends() -> None:
    """A relay that holds everything back for 50 ms is seen to do so."""

    async def held(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            await asyncio.sleep(0.05)
            writer.write(data)
        writer.close()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection("127.0.0.1", load.port)
        await asyncio.gather(held(reader, there[1]), held(there[0], writer))

    load = Load()
    server = await asyncio.start_server(relay, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()[:2]
    async with load.serving():
        streams = await load.open(address, 2, "paced", 0.1)
        window = await load.measure(0.5)
        begun = monotonic_ns()
        probes = await load.probe(address, 0.1, 0.01)
        assert monotonic_ns() - begun >= min(probes) >= 100_000_000  # there and back
        await load.close(streams)
    server.close()
    assert window.latencies
    assert min(window.latencies) >= 50_000_000


async def test_an_answer_that_is_an_error_is_raised() -> None:
    async def refuses(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65536)
        writer.write(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    load = Load()
    server = await asyncio.start_server(refuses, "127.0.0.1", 0)
    with pytest.raises(ConnectionError, match="502 Bad Gateway"):
        await load.open(server.sockets[0].getsockname()[:2], 1, "paced", 0.1)
    server.close()
    assert load.broken == 1
