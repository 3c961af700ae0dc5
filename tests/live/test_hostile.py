"""Requests that are barely HTTP, through a real sidecar: they are counted, and so is what comes after them."""

import asyncio

from tests.live.exchanges import CASE, chat, chat_events
from tests.live.player import Player
from tests.live.processes import sidecar_run
from tests.live.raw_client import ask
from tests.live.scrape import counted

HEADS = (
    b"/v1/chat/completions?model=\xff\xfe",
    b"/v1beta/models/\xff\xc3\xed\xa0\x80:streamGenerateContent?alt=sse",
    b"/v1/chat/completions?model=" + b"x" * 1_000_000,
    b"/v1/chat/completions HTTP/1.1\r\nserver: " + b"s" * 4_000_000,
    b"/v1/chat/completions HTTP/1.1" + b"\r\naccept: a" * 100_000,
)
"""Targets, two of them with headers behind."""


async def test_heads_that_are_no_text_or_have_no_end_are_no_end_of_telemetry() -> None:
    player, after = Player(), chat("after", chat_events({"content": "a"}, model="after"), model="after")
    player.add([after])
    async with player.serving(), sidecar_run("--upstream", player.url) as sidecar:
        for head in HEADS:
            reader, writer = await asyncio.open_connection(*sidecar.proxy, limit=2**24)
            begin = head if b"HTTP/1.1" in head else head + b" HTTP/1.1"
            rest = f"\r\nhost: localhost\r\n{CASE}: after\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{{}}"
            writer.write(b"POST " + begin + rest.encode())
            await asyncio.wait_for(reader.read(), 20)  # whatever the upstream thinks of it
            writer.close()
        assert (await ask(sidecar.proxy, after)).body == after.body
        samples = await counted(sidecar.metrics, len(HEADS) + 1)
        assert samples.total("llm_streams_total", gen_ai_request_model="after", outcome="complete") == 1
        assert samples.total("llm_sidecar_streams_lost_total") == 0
