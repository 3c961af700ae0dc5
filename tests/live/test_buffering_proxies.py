"""Real proxies between a paced upstream and the sidecar: its verdict is what the emission log says."""

import asyncio
import contextlib
import os
import socket
import subprocess
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import pytest

from tests.live.emission_label import label
from tests.live.exchanges import Exchange, chat, chat_events
from tests.live.player import Player
from tests.live.processes import program, sidecar_run
from tests.live.raw_client import ask
from tests.live.scrape import streams, wait_until
from tests.parts import require_program

TOKENS = 120
EVERY = 0.015

NGINX = """
daemon off; pid {folder}/pid; error_log {folder}/error.log; worker_processes 1;
events {{ worker_connections 64; }}
http {{
  access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{
    listen 127.0.0.1:{port};
    location / {{ proxy_pass {upstream}; {options} }}
  }}
}}
"""
HAPROXY = """
defaults
  mode http
  timeout client 60s
  timeout server 60s
  timeout connect 5s
  {options}
listen hop
  bind 127.0.0.1:{port}
  server origin {upstream}
"""
NODE = """
const http = require("node:http");
http.createServer((request, response) => {{
  const out = http.request("{upstream}" + request.url, {{ method: request.method, headers: request.headers }}, (answer) => {{
    response.writeHead(answer.statusCode, {{ "content-type": answer.headers["content-type"] }});
    const pieces = [];
    answer.on("data", (piece) => {options} ? pieces.push(piece) : response.write(piece));
    answer.on("end", () => response.end(Buffer.concat(pieces)));
  }});
  request.pipe(out);
}}).listen({port}, "127.0.0.1");
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.asynccontextmanager
async def hop(kind: str, options: str, player: Player, folder: Path) -> AsyncIterator[str]:
    """A proxy of this kind in front of the player; its URL."""
    port = free_port()
    upstream = f"http://127.0.0.1:{player.port}"
    if kind == "nginx":
        config = folder / "nginx.conf"
        config.write_text(NGINX.format(folder=folder, port=port, upstream=upstream, options=options))
        command = [require_program("nginx", "apt-get install nginx-light"), "-p", str(folder), "-c", str(config)]
    elif kind == "haproxy":
        config = folder / "haproxy.cfg"
        config.write_text(HAPROXY.format(port=port, upstream=f"127.0.0.1:{player.port}", options=options))
        command = [require_program("haproxy", "apt-get install haproxy"), "-f", str(config), "-db"]
    else:
        script = folder / "relay.js"
        script.write_text(NODE.format(port=port, upstream=upstream, options=options))
        command = [require_program("node", "install Node.js 20"), str(script)]
    async with program(kind, *command):
        await wait_until(lambda: _listens(port), what=f"{kind} listens")
        yield f"http://127.0.0.1:{port}"


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


HOPS = [
    ("nginx", "proxy_buffering off;", {"none"}),
    ("nginx", "proxy_buffering on;", {"coalesced"}),
    ("nginx", "gzip on; gzip_types text/event-stream; gzip_min_length 0; gzip_proxied any;", {"buffered", "coalesced"}),
    ("haproxy", "option http-no-delay", {"none"}),
    ("haproxy", "", {"none", "coalesced"}),
    ("node", "false", {"none"}),
    ("node", "true", {"buffered"}),
]
"""A proxy, its options, and what it is known to do; which of it happened, the logs of the run say."""


def paced() -> Exchange:
    events = chat_events({"role": "assistant", "content": ""}, *({"content": f" word{n}"} for n in range(TOKENS)))
    exchange = chat("paced", events, every=EVERY)
    return replace(exchange, request_headers=(*exchange.request_headers, ("accept-encoding", "gzip")))


@pytest.mark.parametrize(("kind", "options", "known"), HOPS, ids=[f"{kind} {options}" for kind, options, _ in HOPS])
async def test_the_verdict_is_what_the_emission_log_says(kind: str, options: str, known: set[str], tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o755)  # nginx' worker is another user when root starts it
    for folder in tmp_path.parents:
        if folder.name.startswith("pytest-of"):
            subprocess.run(["chmod", "-R", "a+rX", str(folder)], check=False)
    player = Player()
    exchange = paced()
    player.add([exchange])
    async with (
        player.serving(),
        hop(kind, options, player, tmp_path) as url,
        sidecar_run("--upstream", url) as sidecar,
    ):
        answer = await ask(sidecar.proxy, exchange)
        (row,) = await wait_until(lambda: _recent(sidecar.metrics))
    assert answer.ending == "eof"
    emitted = [piece.before / 1e9 for piece in player.play("paced").pieces]
    arrived = _arrivals(answer.arrived, exchange) if "gzip" not in options else [answer.ended_at / 1e9] * len(emitted)
    if "gzip" in options:
        assert row["buffering"] in known  # the client's log has compressed bytes: which events they are, it cannot say
        return
    truth = label(emitted, arrived)
    assert truth in known
    assert row["buffering"] == truth


async def _recent(metrics: str) -> list[dict[str, object]]:
    recent: list[dict[str, object]] = (await streams(metrics))["recent"]
    return recent


def _arrivals(arrived: Callable[[int], int], exchange: Exchange) -> list[float]:
    return [arrived(size) / 1e9 for size in accumulate(len(piece.data) for piece in exchange.pieces)]
