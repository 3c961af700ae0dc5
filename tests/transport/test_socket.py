"""Sender and receiver over a real unix socket."""

import asyncio
import os
import socket
import stat
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.capture.capture import Capture
from sidecar.capture.outbox import Outbox
from sidecar.capture.records import VERSION, AnyRecord, Chunk, Ended, Hello, Lost, Opened, Welcome
from sidecar.transport.receiver import Receiver
from sidecar.transport.sender import Sender
from sidecar.transport.wire import LENGTH, MESSAGE_LIMIT, WireError, body_length, decode_batch, decode_hello, encode
from tests.capture.test_tap import opened


class Sink:
    """Collects what a receiver hands on."""

    def __init__(self) -> None:
        self.records: list[AnyRecord] = []
        self.closed: list[int] = []

    def __call__(self, connection: int, records: Sequence[AnyRecord]) -> None:
        self.records += records


async def until(condition: object, seconds: float = 10.0) -> None:
    assert callable(condition)
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


async def test_records_arrive_in_order_and_once(tmp_path: Path) -> None:
    sink = Sink()
    receiver = Receiver(tmp_path / "s", sink, sink.closed.append)
    await receiver.start()
    capture = Capture(Outbox())
    sending = asyncio.create_task(Sender(capture, str(tmp_path / "s"), 1).run())
    tap = capture.open(opened(capture.next_stream()), held=False)
    for number in range(5000):
        tap.response_chunk(b"%d" % number)
    tap.end("eof")
    await until(lambda: sink.records and isinstance(sink.records[-1], Ended))
    assert [record.data for record in sink.records if isinstance(record, Chunk)] == [b"%d" % n for n in range(5000)]
    assert not list(capture.live())
    assert capture.outbox.size == 0
    sending.cancel()
    await receiver.stop()


async def test_only_the_owner_may_open_the_socket_and_it_is_removed_again(tmp_path: Path) -> None:
    path = tmp_path / "s"
    receiver = Receiver(path, Sink(), lambda _: None)
    await receiver.start()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    await receiver.stop()
    assert not path.exists()


async def test_a_stale_socket_is_replaced_and_a_living_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "s"
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(path))
    stale.close()
    first = Receiver(path, Sink(), lambda _: None)
    await first.start()
    with pytest.raises(FileExistsError, match="another analyzer listens"):
        await Receiver(path, Sink(), lambda _: None).start()
    await first.stop()
    path.write_text("a file of somebody's")
    with pytest.raises(FileExistsError, match="is no socket"):
        await Receiver(path, Sink(), lambda _: None).start()
    assert path.read_text() == "a file of somebody's"


async def test_what_waits_for_a_stuck_analyzer_stays_within_the_bound(tmp_path: Path) -> None:
    """The other end never reads: streams are lost and counted, memory stays bounded, callers never wait."""
    path = str(tmp_path / "s")

    async def stuck(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(encode(Welcome(VERSION)))
        await asyncio.Event().wait()

    server = await asyncio.start_unix_server(stuck, path)
    capture = Capture(Outbox(limit=1_000_000))
    sender = Sender(capture, path, 1)
    sending = asyncio.create_task(sender.run())
    await until(lambda: sender.connected)
    tap = capture.open(opened(capture.next_stream()), held=False)
    for _ in range(100):
        for _ in range(20):
            tap.response_chunk(b"x" * 10_000)
        await asyncio.sleep(0.001)
    assert tap.lost
    assert capture.outbox.size <= 1_000_000
    sending.cancel()
    server.close()


async def test_an_analyzer_of_another_version_is_refused_with_a_clear_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = str(tmp_path / "s")

    async def other(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(encode(Welcome(VERSION + 1)))
        await writer.drain()

    server = await asyncio.start_unix_server(other, path)
    sender = Sender(Capture(Outbox()), path, 1)
    sending = asyncio.create_task(sender.run())
    await until(lambda: caplog.records)
    assert f"version {VERSION + 1}" in caplog.text
    assert "same release" in caplog.text
    assert not sender.connected
    sending.cancel()
    server.close()


async def test_an_analyzer_that_dies_loses_what_it_knew_and_a_new_one_is_told(tmp_path: Path) -> None:
    path = tmp_path / "s"
    first, second = Sink(), Sink()
    receiver = Receiver(path, first, first.closed.append)
    await receiver.start()
    capture = Capture(Outbox())
    sending = asyncio.create_task(Sender(capture, str(path), 1).run())
    tap = capture.open(opened(capture.next_stream()), held=False)
    await until(lambda: first.records)
    await receiver.stop()
    again = Receiver(path, second, second.closed.append)
    await again.start()
    await until(lambda: len(second.records) >= 2)
    tap.response_chunk(b"unknown to the second")
    tap.end("eof")
    await until(lambda: isinstance(second.records[-1], Ended))
    assert [type(record) for record in second.records] == [Opened, Lost, Lost, Ended]
    assert first.closed
    sending.cancel()
    await again.stop()


async def test_an_analyzer_that_dies_while_it_is_written_to_is_no_end_of_telemetry(tmp_path: Path) -> None:
    """What was left in the outbox then has woken the sender before, and wakes nobody again."""
    path = tmp_path / "s"

    async def dies(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(encode(Welcome(VERSION)))
        await reader.readexactly(100_000)
        writer.transport.abort()

    server = await asyncio.start_unix_server(dies, str(path))
    capture = Capture(Outbox())
    sender = Sender(capture, str(path), 1)
    sending = asyncio.create_task(sender.run())
    await until(lambda: sender.connected)
    tap = capture.open(opened(capture.next_stream()), held=False)
    for _ in range(100):
        tap.response_chunk(b"x" * 100_000)
    await until(lambda: not sender.connected)
    server.close()
    path.unlink(missing_ok=True)
    sink = Sink()
    receiver = Receiver(path, sink, sink.closed.append)
    await receiver.start()
    tap.end("eof")
    await until(lambda: sink.records and isinstance(sink.records[-1], Ended))
    after = capture.open(opened(capture.next_stream()), held=False)
    after.end("eof")
    await until(lambda: sink.records[-1] == after.ended)
    sending.cancel()
    await receiver.stop()


async def test_an_exchange_whose_end_was_written_to_a_dying_analyzer_is_told_to_the_next(tmp_path: Path) -> None:
    """It had read all of it, perhaps, but it never said so."""
    path = tmp_path / "s"
    ended = asyncio.Event()

    async def dies(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(encode(Welcome(VERSION)))
        await ended.wait()
        await reader.read(100_000)
        writer.close()

    dying = await asyncio.start_unix_server(dies, str(path))
    capture, sink = Capture(Outbox()), Sink()
    sender = Sender(capture, str(path), 1)
    sending = asyncio.create_task(sender.run())
    await until(lambda: sender.connected)
    capture.open(opened(capture.next_stream()), held=False).end("eof")
    await until(lambda: capture.unacknowledged and not capture.outbox.records)
    assert capture.streams_lost == 0
    dying.close()
    path.unlink(missing_ok=True)
    receiver = Receiver(path, sink, sink.closed.append)
    await receiver.start()
    ended.set()
    await until(lambda: capture.streams_lost == 1)
    assert [type(record) for record in sink.records] == [Opened, Lost, Ended]
    await asyncio.wait_for(sender.drained(), 5)
    sending.cancel()
    await receiver.stop()


async def test_a_proxy_that_reads_no_acknowledgements_does_not_fill_the_analyzers_memory(tmp_path: Path) -> None:
    receiver = Receiver(tmp_path / "s", Sink(), lambda _: None)
    await receiver.start()
    _reader, writer = await asyncio.open_unix_connection(str(tmp_path / "s"), limit=1)
    writer.write(encode(Hello(VERSION, 1)))
    batch = encode([]) * 10_000
    for _ in range(50):
        writer.write(batch)
        await writer.drain()
    (connection,) = receiver._writers
    assert connection.transport.get_write_buffer_size() < 10_000
    writer.close()
    await receiver.stop()


@settings(max_examples=30, deadline=None)
@given(st.binary(min_size=1, max_size=400))
async def test_a_foreign_writer_is_cut_off_and_counted(data: bytes) -> None:
    sink = Sink()
    path = Path(os.environ.get("TMPDIR", "/tmp")) / f"foreign-{os.getpid()}.sock"
    receiver = Receiver(path, sink, sink.closed.append)
    await receiver.start()
    try:
        reader, writer = await asyncio.open_unix_connection(str(path))
        writer.write(data)
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()
        await until(lambda: sink.closed)
        assert sink.records == []
    finally:
        await receiver.stop()


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_a_wire_error(data: bytes) -> None:
    for decode in (decode_batch, decode_hello):
        try:
            decode(data)
        except WireError:
            continue


def test_an_absurd_length_is_refused_before_anything_is_read() -> None:
    with pytest.raises(WireError, match="bytes was announced"):
        body_length(LENGTH.pack(MESSAGE_LIMIT + 1))
    assert decode_hello(encode(Hello(3, 4))[LENGTH.size :]) == Hello(3, 4)
