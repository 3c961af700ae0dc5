"""A long WebSocket through the real proxy: what a message costs, and that neither proxy nor analyzer grows.

`python -m bench.websocket [--messages N] [--size BYTES] [--history keep] [--json]`. A server sends N audio deltas in one
response, the client speaks one message in ten, in one socket through `sidecar run`. Resident memory of both processes is
read at ten points; with `--history keep` mitmproxy keeps every message, as it does by itself. Growth is counted from the
first point on, when buffers have their size.
"""

import argparse
import asyncio
import json
import platform
import sys
import time

from tests.live.processes import sidecar_run
from tests.live.scrape import scrape, wait_until
from tests.live.socket_player import SocketPlayer
from tests.live.test_websocket import exchange, memory

MIB = 1024 * 1024
POINTS = 10


async def measure(messages: int, size: int, history: str) -> dict[str, object]:
    """One socket; MiB of proxy and analyzer at each point, and messages a second."""
    audio = json.dumps({"type": "response.output_audio.delta", "response_id": "r1", "delta": "A" * size})
    said = json.dumps({"type": "input_audio_buffer.append", "audio": "A" * size})
    environment = {"SIDECAR_WEBSOCKET_HISTORY": history}
    found: list[tuple[float, float]] = []
    player = SocketPlayer()
    async with player.serving(), sidecar_run("--upstream", player.url, env=environment) as sidecar:
        (analyzer,) = sidecar.program.children
        processes = (sidecar.program.process.pid, analyzer)
        async with player.meet(sidecar.proxy, "/v1/realtime?model=m", "bench", compress=False) as (client, upstream):
            await client.send('{"type":"response.create"}')
            await exchange(upstream, client, '{"type":"response.created","response":{"id":"r1"}}', 1)
            start = time.monotonic()
            for _ in range(POINTS):
                await exchange(upstream, client, audio, messages // POINTS)
                await exchange(client, upstream, said, messages // POINTS // 10)
                proxy, child = (memory(pid) / MIB for pid in processes)
                found.append((round(proxy, 1), round(child, 1)))
            seconds = time.monotonic() - start
            await exchange(upstream, client, '{"type":"response.done","response":{"id":"r1","status":"completed"}}', 1)

        async def judged() -> bool:
            return (await scrape(sidecar.metrics)).total("llm_streams_total") == 1

        await wait_until(judged)
        samples = await scrape(sidecar.metrics)
    return {
        "messages": messages + messages // 10,
        "mib_through": round(messages * 1.1 * len(audio) / MIB),
        "messages_per_second": round(messages * 1.1 / seconds),
        "proxy_mib": [proxy for proxy, _ in found],
        "analyzer_mib": [child for _, child in found],
        "outcomes": samples.by("llm_streams_total", "outcome"),
        "records_dropped": samples.total("llm_sidecar_records_dropped_total"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--size", type=int, default=4000)
    parser.add_argument("--history", choices=("auto", "keep"), default="auto")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    found = asyncio.run(measure(asked.messages, asked.size, asked.history))
    if asked.json:
        json.dump({"python": sys.version, "machine": platform.machine(), **found}, sys.stdout, indent=1)
        return
    print(f"Python {platform.python_version()}, {platform.machine()}")
    for name, value in found.items():
        print(f"{name:20} {value}")


if __name__ == "__main__":
    main()
