"""What stands in the path: each started on a port of its own, pinned to a core of its own, its processes known.

`direct` is nothing at all. The process measured (`pids`) has the first core for itself; the load and what is told
apart (`aside`: the sidecar's analyzer) share the others, so that what the analyzer costs the client is in the latency.
"""

import asyncio
import contextlib
import os
import re
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

import httpx
import yaml

from bench.machine import command_line, cores, descendants, pin
from tests.live.envoy import configuration, envoy
from tests.live.processes import BIN, PROJECT, program, sidecar_run

type Address = tuple[str, int]

LITELLM = PROJECT / ".venv-litellm" / "bin" / "python"
KEY = "sk-bench"
_NGINX = """daemon off;
pid {folder}/pid;
error_log stderr;
worker_processes 1;
worker_rlimit_nofile 8192;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{ proxy_pass http://127.0.0.1:{upstream}; proxy_buffering off; proxy_http_version 1.1; }}
  }}
}}
"""


@dataclass(frozen=True)
class Route:
    """A way from the client to the upstream."""

    kind: str
    address: Address
    pids: tuple[int, ...] = ()
    aside: tuple[int, ...] = ()
    metrics: str = ""


class NotThere(RuntimeError):
    """What was asked for is not installed; the text says how to get it."""


def free_port() -> int:
    """A port of the loopback that was free a moment ago, for programs that cannot choose one."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@contextlib.asynccontextmanager
async def direct(upstream: int) -> AsyncIterator[Route]:
    """No proxy: what the load itself adds."""
    yield Route("direct", ("127.0.0.1", upstream))


@contextlib.asynccontextmanager
async def mitmdump(upstream: int) -> AsyncIterator[Route]:
    """mitmproxy's own program with its default addons, streaming and silent."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        stream = ("--set", "stream_large_bodies=1", "--set", "flow_detail=0", "--set", f"confdir={folder}")
        mode = ("--mode", f"reverse:http://127.0.0.1:{upstream}@127.0.0.1:0")
        async with program("mitmdump", str(BIN / "mitmdump"), *mode, *stream) as running:
            port = await running.says(r"listening at \S*?127\.0\.0\.1:(\d+)")
            with _pinned(Route("mitmdump", ("127.0.0.1", int(port)), (running.process.pid,))) as route:
                yield route


@contextlib.asynccontextmanager
async def sidecar(upstream: int, *arguments: str) -> AsyncIterator[Route]:
    """`sidecar run` as it comes; its analyzer is told apart."""
    async with sidecar_run("--upstream", f"http://127.0.0.1:{upstream}", *arguments) as running:
        pid = running.program.process.pid
        family = descendants(pid)
        aside = tuple(child for child in family if "sidecar.child" in command_line(child))
        pids = (pid, *(child for child in family if child not in aside))
        with _pinned(Route("sidecar", running.proxy, pids, aside, running.metrics)) as route:
            yield route


@contextlib.asynccontextmanager
async def nginx(upstream: int) -> AsyncIterator[Route]:
    """One worker, buffering off: what a floor costs."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        port, file = free_port(), Path(folder, "nginx.conf")
        os.chmod(folder, 0o755)  # the worker may be another user
        file.write_text(_NGINX.format(folder=folder, port=port, upstream=upstream))
        async with program("nginx", _found("nginx", "apt-get install nginx-light"), "-c", str(file)) as running:
            await _answers(port, "nginx")
            with _pinned(Route("nginx", ("127.0.0.1", port), tuple(descendants(running.process.pid)))) as route:
                yield route


@contextlib.asynccontextmanager
async def plain_envoy(upstream: int) -> AsyncIterator[Route]:
    """Envoy as documented for the tap, without the tap."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        found = configuration(upstream, [9], tap=False)
        limits = {"max_connections": 8192, "max_pending_requests": 8192, "max_requests": 8192}
        found["static_resources"]["clusters"][0]["circuit_breakers"] = {"thresholds": [limits]}
        async with envoy(Path(folder), found) as running:
            with _pinned(Route("envoy", running.proxy, (running.program.process.pid,))) as route:
                yield route


@contextlib.asynccontextmanager
async def litellm(upstream: int) -> AsyncIterator[Route]:
    """LiteLLM's proxy, one worker, with its Prometheus callback. Raises NotThere."""
    if not LITELLM.exists():
        raise NotThere(f"{LITELLM} is missing: make bench-litellm installs LiteLLM (two minutes, 500 MB)")
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        file, port = Path(folder, "litellm.yaml"), free_port()
        model = {"model": "openai/m-bench", "api_key": "none", "api_base": f"http://127.0.0.1:{upstream}/v1"}
        names = {"model_list": [{"model_name": "m-bench", "litellm_params": model}]}
        file.write_text(yaml.safe_dump(names | {"litellm_settings": {"callbacks": ["prometheus"]}}))
        start = "from litellm.proxy.proxy_cli import run_server; run_server()"
        command = (str(LITELLM), "-c", start, "--config", str(file), "--host", "127.0.0.1", "--port", str(port))
        environment = {"LITELLM_MASTER_KEY": KEY, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR"}
        async with program("litellm", *command, env=environment) as running:
            await _answers(port, "litellm", "/health/liveliness", 120.0)
            pid = running.process.pid
            metrics = f"http://127.0.0.1:{port}/metrics/"
            with _pinned(Route("litellm", ("127.0.0.1", port), (pid, *descendants(pid)), metrics=metrics)) as route:
                yield route


KINDS: dict[str, Callable[[int], AbstractAsyncContextManager[Route]]] = {
    "direct": direct,
    "mitmdump": mitmdump,
    "sidecar": sidecar,
    "nginx": nginx,
    "envoy": plain_envoy,
    "litellm": litellm,
}


def version(kind: str) -> str:
    """What a kind's program calls itself; empty for those that are in everybody's `about`."""
    commands = {
        "nginx": ("nginx", "-v"),
        "envoy": (str(BIN / "envoy"), "--version"),
        "litellm": (
            *(str(LITELLM), "-c"),
            "import importlib.metadata as m; print('litellm-core', m.version('litellm-core'))",
        ),
    }
    if kind not in commands:
        return ""
    done = subprocess.run(commands[kind], capture_output=True, text=True, check=False)
    said = (done.stdout + done.stderr).strip().splitlines()[-1]
    found = re.search(r"\d+\.\d+\.\d+", said)  # what it says else has the paths of this machine in it
    return f"{kind} {found[0]}" if found else ""


@contextlib.contextmanager
def _pinned(route: Route) -> Iterator[Route]:
    """What is measured to its core, everything else to the others; this process gets its own back at the end."""
    before = os.sched_getaffinity(0)
    measured, others = cores()
    pin(route.pids, measured)
    pin((os.getpid(), *route.aside), others)
    try:
        yield route
    finally:
        pin((os.getpid(),), before)


def _found(name: str, advice: str) -> str:
    for folder in (*os.environ["PATH"].split(":"), "/usr/sbin"):
        if Path(folder, name).exists():
            return str(Path(folder, name))
    raise NotThere(f"{name} is missing: {advice}")


async def _answers(port: int, name: str, path: str = "/", seconds: float = 20.0) -> None:
    async with httpx.AsyncClient(trust_env=False) as client:
        for _ in range(int(seconds * 10)):
            with contextlib.suppress(httpx.TransportError):
                await client.get(f"http://127.0.0.1:{port}{path}", timeout=5)
                return
            await asyncio.sleep(0.1)
    raise TimeoutError(f"{name} did not answer within {seconds} s")
