"""`sidecar demo`: upstream, sidecar and clients on the loopback, and a live table of what the sidecar publishes."""

import asyncio
import contextlib
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import httpx
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text
from tornado.httpserver import HTTPServer

from sidecar.config import Settings
from sidecar.demo import collector
from sidecar.demo.clients import all_clients
from sidecar.demo.realtime import MODELS
from sidecar.demo.talkers import all_talkers
from sidecar.demo.upstream import PLAYS, serve
from sidecar.quirks.registry import BY_ID

_REFRESH = 0.5
_START_SECONDS = 30.0
_WIDTH_OF_FILES = 140
_RECORDINGS_MIB = "16"
_STALL_SECONDS = "5"  # the default of 15 s is long in a demo of a minute


class DemoError(RuntimeError):
    """The demo cannot start; the text is one line that says why."""


async def play(settings: Settings, seconds: float) -> None:
    """Run the demo for so long, or until interrupted. Raises DemoError."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDTH_OF_FILES)
    async with contextlib.AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(_serving(serve("127.0.0.1", 0)))
        spans = await stack.enter_async_context(_serving(collector.serve("127.0.0.1", 0)))
        recordings = stack.enter_context(tempfile.TemporaryDirectory(prefix="sidecar-demo-"))
        flags = ["--upstream", upstream, "--metrics-listen", settings.metrics_listen, "--otel-endpoint", spans]
        flags += ["--record", recordings, "--record-total-mib", _RECORDINGS_MIB]
        async with _sidecar(*flags) as (proxy, metrics):
            console.print(f"real clients → sidecar at {proxy} → a local upstream with typical faults")
            console.print(f"a stream counts as stalled after {_STALL_SECONDS} s in the middle of it")
            console.print(f"metrics: {metrics}   live page: {metrics.removesuffix('metrics')}", highlight=False)
            clients = all_clients(f"http://{proxy}") + all_talkers(f"http://{proxy}")
            try:
                await _watch(console, metrics, seconds)
            finally:
                for client in clients:
                    client.cancel()
                await asyncio.gather(*clients, return_exceptions=True)


@contextlib.asynccontextmanager
async def _serving(started: tuple[HTTPServer, int]) -> AsyncIterator[str]:
    """Its URL, until it is stopped."""
    server, port = started
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.stop()
        await server.close_all_connections()


@contextlib.asynccontextmanager
async def _sidecar(*flags: str) -> AsyncIterator[tuple[str, str]]:
    """`sidecar run` as a user would start it; the addresses it prints."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "sidecar",
        "run",
        "--listen",
        "127.0.0.1:0",
        *flags,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | {"SIDECAR_STALLS_MID_STREAM": _STALL_SECONDS},
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        said: dict[str, str] = {}
        try:
            async with asyncio.timeout(_START_SECONDS):
                while not {"proxy", "metrics"} <= said.keys():
                    line = (await process.stdout.readline()).decode()
                    if not line:
                        raise DemoError((await process.stderr.read()).decode().strip().removeprefix("sidecar: "))
                    name, _, value = line.partition(" ")
                    said[name] = value.split()[0]
        except TimeoutError as error:
            raise DemoError(f"the sidecar did not come up within {_START_SECONDS:.0f} s") from error
        yield said["proxy"], said["metrics"]
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()


async def _watch(console: Console, metrics: str, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    async with httpx.AsyncClient() as client:
        with Live(console=console, refresh_per_second=4, transient=False) as live:
            while loop.time() < end:
                await asyncio.sleep(min(_REFRESH, max(end - loop.time(), 0.01)))
                try:
                    answer = await client.get(metrics)
                except httpx.HTTPError as error:
                    raise DemoError(f"the sidecar stopped answering at {metrics}: {error}") from error
                live.update(table(answer.text, seconds_left=end - loop.time()))
    if not console.is_terminal:  # in a terminal the table ends its last line itself
        console.line()


type Samples = dict[str, list[tuple[dict[str, str], float]]]


def table(exposition: str, *, seconds_left: float) -> Table:
    """The table that is shown, from the text of `/metrics` and nothing else."""
    samples: Samples = {}
    for family in text_string_to_metric_families(exposition):
        for sample in family.samples:
            samples.setdefault(sample.name, []).append((sample.labels, sample.value))
    title = f"LLM streams, {datetime.now(UTC):%H:%M:%S} UTC, {max(seconds_left, 0):.0f} s to go"
    kept = f"{_total(samples, 'llm_sidecar_recordings_total')} exchanges recorded"
    told = f"{_total(samples, 'llm_sidecar_spans_exported_total')} spans exported"
    shown = Table(title=title, title_justify="left", caption=f"{kept}, {told}", caption_justify="left", expand=False)
    for column in ("model", "in flight", "ended", "first token", "visible", "buffering", "quirks beyond the usual"):
        shown.add_column(column, overflow="fold")
    for model in (*PLAYS, *MODELS):
        shown.add_row(
            model,
            _in_flight(samples, model),
            _counts(samples, "llm_streams_total", "outcome", model),
            _mean(samples, model, "first_token"),
            _mean(samples, model, "first_visible_token"),
            _counts(samples, "llm_stream_buffering_total", "verdict", model),
            _quirks(samples, model),
        )
    return shown


def _total(samples: Samples, name: str) -> str:
    return f"{sum(value for _, value in samples.get(name, [])):.0f}"


def _of(samples: Samples, name: str, model: str) -> list[tuple[dict[str, str], float]]:
    return [(labels, value) for labels, value in samples.get(name, []) if labels.get("gen_ai_request_model") == model]


def _in_flight(samples: Samples, model: str) -> Text:
    found = Text()
    stalled = {labels["phase"] for labels, value in _of(samples, "llm_streams_stalled", model) if value}
    silence = {labels["phase"]: value for labels, value in _of(samples, "llm_stream_oldest_silence_seconds", model)}
    for labels, value in _of(samples, "llm_streams_in_flight", model):
        phase = labels["phase"]
        if value:
            hung = phase in stalled
            text = f"{phase} {silence.get(phase, 0):.0f} s" + (" STALLED" if hung else "")
            found.append(text + "\n", style="bold red" if hung else "")
    found.rstrip()
    return found


def _counts(samples: Samples, name: str, label: str, model: str) -> str:
    rows = [(labels[label], value) for labels, value in _of(samples, name, model) if value]
    return "\n".join(f"{value:.0f} {key}" for key, value in sorted(rows, key=lambda row: -row[1]))


def _mean(samples: Samples, model: str, milestone: str) -> str:
    total = count = 0.0
    for labels, value in _of(samples, "llm_stream_milestone_seconds_sum", model):
        total += value if labels["milestone"] == milestone else 0
    for labels, value in _of(samples, "llm_stream_milestone_seconds_count", model):
        count += value if labels["milestone"] == milestone else 0
    return f"{total / count:.2f} s" if count else ""


def _quirks(samples: Samples, model: str) -> str:
    found = {labels["quirk"] for labels, value in _of(samples, "llm_stream_quirks_total", model) if value}
    return ", ".join(sorted(quirk for quirk in found if BY_ID[quirk].severity != "info"))
