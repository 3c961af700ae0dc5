"""Real proxies as the hop between two ends: configured, started, gone at the end."""

import asyncio
import contextlib
import os
import socket
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from tests.live.processes import program
from tests.live.scrape import wait_until
from tests.parts import require_program

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
async def relay(kind: str, options: str, upstream: str, port: int = 0) -> AsyncIterator[str]:
    """nginx, haproxy or a Node script in front of `upstream` (host:port); its URL. It listens where it is told to."""
    port = port or free_port()
    with tempfile.TemporaryDirectory(prefix="live-") as name:
        folder = Path(name)
        os.chmod(folder, 0o755)  # nginx' worker is another user when root starts it
        command = _configured(kind, options, upstream, port, folder)
        async with program(kind, *command):
            await wait_until(lambda: _listens(port), what=f"{kind} listens")
            yield f"http://127.0.0.1:{port}"


def _configured(kind: str, options: str, upstream: str, port: int, folder: Path) -> list[str]:
    """Its configuration is written; the command that starts it."""
    if kind == "nginx":
        nginx = require_program("nginx", "apt-get install nginx-light")
        config = folder / "nginx.conf"
        config.write_text(NGINX.format(folder=folder, port=port, upstream=f"http://{upstream}", options=options))
        return [nginx, "-p", str(folder), "-c", str(config)]
    if kind == "haproxy":
        haproxy = require_program("haproxy", "apt-get install haproxy")
        config = folder / "haproxy.cfg"
        config.write_text(HAPROXY.format(port=port, upstream=upstream, options=options))
        return [haproxy, "-f", str(config), "-db"]
    node = require_program("node", "install Node.js 20")
    script = folder / "relay.js"
    script.write_text(NODE.format(port=port, upstream=f"http://{upstream}", options=options))
    return [node, str(script)]


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True
