"""The programs under test as processes: started, their addresses read from what they print, stopped, looked after."""

import asyncio
import contextlib
import os
import re
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tests.live.scrape import assert_sound

PROJECT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
ADDON = PROJECT / "addons" / "llm_sidecar.py"

_START_SECONDS = 30.0
_STOP_SECONDS = 20.0
_ADDRESS = r"((?:127\.0\.0\.1|localhost|\[::1\]):\d+)"

STARTED: list["Program"] = []
"""All programs of this test run, for the report of a failed test."""


@dataclass
class Program:
    """A running program. What it prints goes to files."""

    name: str
    process: asyncio.subprocess.Process
    out: Path
    err: Path

    @property
    def stdout(self) -> str:
        return self.out.read_text(errors="replace")

    @property
    def stderr(self) -> str:
        return self.err.read_text(errors="replace")

    @property
    def running(self) -> bool:
        return self.process.returncode is None

    @property
    def children(self) -> list[int]:
        """Process ids of its children."""
        pid = self.process.pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    async def says(self, pattern: str) -> str:
        """Wait until it prints something that matches; the first group of the match."""
        deadline = asyncio.get_running_loop().time() + _START_SECONDS
        while not (found := re.search(pattern, self.stdout) or re.search(pattern, self.stderr)):
            waiting = self.running and asyncio.get_running_loop().time() < deadline
            assert waiting, f"{self.name} never said {pattern!r}\n{self.stdout}\n{self.stderr}"
            await asyncio.sleep(0.02)
        return found.group(1)

    async def finish(self, seconds: float = _STOP_SECONDS) -> int:
        """Wait for its end; the exit code."""
        try:
            return await asyncio.wait_for(self.process.wait(), seconds)
        except TimeoutError:
            raise AssertionError(f"{self.name} did not end within {seconds} s\n{self.stderr}") from None

    def signal_group(self, number: signal.Signals) -> None:
        """Signal it and all processes of its group, as a terminal does. It must have a group of its own."""
        os.killpg(self.process.pid, number)

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Tell it to end, and wait; the exit code."""
        if self.running:
            self.process.send_signal(number)
        return await self.finish()


@contextlib.asynccontextmanager
async def program(
    name: str, *command: str, env: Mapping[str, str] | None = None, own_group: bool = False
) -> AsyncIterator[Program]:
    """A process that is gone at the end, in whatever way. None of our settings leak in from the surroundings."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("SIDECAR_", "OTEL_"))}
    with tempfile.TemporaryDirectory(prefix="live-") as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                env=clean | dict(env or {}),
                process_group=0 if own_group else None,
            )
        running = Program(name, process, out, err)
        STARTED.append(running)
        try:
            yield running
        except BaseException as error:
            error.add_note(f"--- {name} printed:\n{running.stdout}{running.stderr}")
            raise
        finally:
            STARTED.remove(running)
            if running.running:
                process.kill()
            await process.wait()


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


@dataclass
class Sidecar:
    """A proxy with its analyzer. `metrics` is the URL of its /metrics; empty where it feeds a separate analyzer."""

    program: Program
    proxy: tuple[str, int]
    metrics: str = ""

    @property
    def url(self) -> str:
        """Base URL of the proxy, for clients."""
        return f"http://{self.proxy[0]}:{self.proxy[1]}"

    def endpoint(self, path: str) -> str:
        """URL of another endpoint of the analyzer."""
        return urlsplit(self.metrics)._replace(path=path).geturl()


@contextlib.asynccontextmanager
async def sidecar_run(
    *arguments: str, env: Mapping[str, str] | None = None, choose_ports: bool = True, own_group: bool = False
) -> AsyncIterator[Sidecar]:
    """`sidecar run`, on ports of its own choosing unless the settings say.

    At the end it has to stop cleanly, without an exception caught anywhere in it.
    """
    separate = "--socket" in arguments
    ports = ("--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0") if choose_ports else ()
    command = (str(BIN / "sidecar"), "run", *ports, *arguments)
    async with program("sidecar run", *command, env=env, own_group=own_group) as running:
        proxy = _address(await running.says(rf"proxy +{_ADDRESS}"))
        url = "" if separate else await running.says(r"metrics +(http://\S+)")
        yield Sidecar(running, proxy, url)
        if running.running:
            if url:
                await assert_sound(url)
            assert await running.stop() == 0, running.stderr
        assert "Traceback" not in running.stderr, running.stderr


@contextlib.asynccontextmanager
async def sidecar_analyzer(socket: Path, *arguments: str) -> AsyncIterator[tuple[Program, str]]:
    """`sidecar analyzer`; the program and the URL of its metrics. It has to stop cleanly."""
    command = (str(BIN / "sidecar"), "analyzer", "--socket", str(socket), "--metrics-listen", "127.0.0.1:0", *arguments)
    async with program("sidecar analyzer", *command) as running:
        url = await running.says(r"metrics +(http://\S+)")
        yield running, url
        if running.running:
            await assert_sound(url)
            assert await running.stop() == 0, running.stderr
        assert "Traceback" not in running.stderr, running.stderr


@contextlib.asynccontextmanager
async def plain_mitmproxy(tool: str, upstream: str, *arguments: str) -> AsyncIterator[Sidecar]:
    """`mitmdump` or `mitmweb` with the addon, as a reverse proxy; mitmproxy's own configuration stays untouched."""
    with tempfile.TemporaryDirectory(prefix="live-") as folder:
        options = ("--set", f"confdir={folder}", "--set", "sidecar_metrics_listen=127.0.0.1:0")
        mode = ("--mode", f"reverse:{upstream}@127.0.0.1:0")
        async with program(tool, str(BIN / tool), "-s", str(ADDON), *options, *mode, *arguments) as running:
            proxy = _address(await running.says(rf"listening at \S*?{_ADDRESS}"))
            separate = any(argument.startswith("sidecar_socket=") for argument in arguments)
            url = "" if separate else await running.says(r"metrics at (http://\S+)")
            yield Sidecar(running, proxy, url)
            if running.running:
                if url:
                    await assert_sound(url)
                assert await running.stop() == 0
            assert "Traceback" not in running.stdout + running.stderr
