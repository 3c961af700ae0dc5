"""Fills the tables of docs/field-notes.md: `python -m bench.field_notes [SERVER…]`.

bench/field_notes/servers.toml says which servers there are, how each is started and what it is asked. A real
`sidecar run` is put in front of each that answers, the requests go through it, and what it says of them becomes the table.
A server that does not answer keeps the table it has. Recorded answers are read as `sidecar inspect` reads them. Where a
gateway has the sidecar behind it, too (`behind`), the table says what the gateway did to each stream.
"""

import contextlib
import datetime
import importlib.metadata
import itertools
import os
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec

from sidecar.files.capture import CaptureError
from sidecar.files.inspect import inspect_file, report
from sidecar.quirks.quirk import Severity
from sidecar.quirks.registry import BY_ID
from sidecar.stream.summary import Summary
from sidecar.thresholds import QuirkThresholds

PROJECT = Path(__file__).parents[1]
PAGE = PROJECT / "docs" / "field-notes.md"
SERVERS = PROJECT / "bench" / "field_notes" / "servers.toml"
CAPTURES = PROJECT / "tests" / "fixtures" / "captures"

SEVERITIES = {Severity.BREAKS_CLIENTS: "breaks clients", Severity.WARNING: "warning", Severity.INFO: "info"}
HEAD = ("request", "dialect", "outcome", "terminator", "finish reason", "usage", "buffering", *SEVERITIES.values())
HOP_HEAD = (
    *("request", "joined by", "first token", "request", "end", "ratio of the gaps", "tokens' chunks", "bytes"),
    *("finish reason", "changes", "quirks added", "quirks removed"),
)

type Finding = dict[str, Any]
"""What the sidecar says of one exchange: a row of /api/streams, or of `inspect --json`."""


class Ask(msgspec.Struct, frozen=True):
    """A request: `{model}` in its path stands for the server's model, which also goes into the body."""

    path: str
    body: dict[str, Any]
    model: str | None = None


class Behind(msgspec.Struct, frozen=True):
    """A second tap: the gateway's upstream is at `port`, where the sidecar listens in front of `url`."""

    port: int
    url: str


class Server(msgspec.Struct, frozen=True):
    """A server under observation: one that runs (`url`, `asks`), or one that was recorded (`captures`)."""

    version: list[str]
    """Command that prints what it is; `python` is the interpreter that runs this."""
    url: str = ""
    asks: list[str] = []
    model: str = ""
    headers: dict[str, str] = {}
    captures: str = ""
    start: str = ""
    behind: Behind | None = None


class Notes(msgspec.Struct, frozen=True):
    """The whole file."""

    ask: dict[str, Ask]
    server: dict[str, Server]


def main(names: list[str]) -> None:
    notes = msgspec.convert(tomllib.loads(SERVERS.read_text(encoding="utf-8")), Notes)
    page = PAGE.read_text(encoding="utf-8")
    for name in names or notes.server:
        server = notes.server[name]
        try:
            rows = list(recorded(server) if server.captures else observed(server, notes.ask))
        except httpx.TransportError as error:
            print(f"{name}: not observed, {error}", file=sys.stderr)
            continue
        lines = table(HOP_HEAD, map(hop_cells, rows)) if server.behind else table(HEAD, map(cells, rows))
        page = replaced(page, name, [*introduction(server), "", *lines])
        print(f"{name}: {len(rows)} exchanges", file=sys.stderr)
    PAGE.write_text(page, encoding="utf-8")


def observed(server: Server, asks: dict[str, Ask]) -> Iterator[tuple[str, Finding]]:
    """Ask a running server through a sidecar, one request at a time."""
    httpx.get(server.url, trust_env=False)  # whatever it says: it is there
    with sidecar(server) as (proxy, live), httpx.Client(trust_env=False, timeout=60) as client:
        for number, name in enumerate(server.asks, 1):
            ask = asks[name]
            model = ask.model or server.model
            body = ask.body if "{model}" in ask.path else {"model": model, **ask.body}
            client.post(proxy + ask.path.format(model=model), json=body, headers=server.headers)
            yield name, ended(client, live, number, httpx.URL(server.url).port, joined=server.behind is not None)


def ended(client: httpx.Client, live: str, number: int, port: int | None, *, joined: bool) -> Finding:
    """The latest of so many exchanges with the server at that port, once the analyzer has seen its end; joined with what
    the other tap saw of it, if that comes to pass within two seconds."""
    recent: list[Finding] = []
    for attempt in range(200):
        recent = [row for row in client.get(live).json()["recent"] if row["server"].endswith(f":{port}")]
        if len(recent) == number and (not joined or "hop" in recent[0] or attempt > 40):
            return recent[0]
        time.sleep(0.05)
    raise TimeoutError(f"{live} shows {len(recent)} exchanges, not {number}")


@contextlib.contextmanager
def sidecar(server: Server) -> Iterator[tuple[str, str]]:
    """A sidecar in front of a server, and behind it where it asks for that: the proxy's URL, and that of what it saw."""
    command = [sys.executable, "-m", "sidecar", "run", "--metrics-listen", "127.0.0.1:0"]
    if server.behind is None:
        command += ["--upstream", server.url, "--listen", "127.0.0.1:0"]
    else:
        command += ["--mode", f"reverse:{server.url}@127.0.0.1:0"]
        command += ["--mode", f"reverse:{server.behind.url}@127.0.0.1:{server.behind.port}"]
    environment = os.environ | {"SIDECAR_LOG_LEVEL": "error"}  # new quirks are what the tables are about
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        lines = itertools.takewhile(lambda line: not line.startswith("page"), process.stdout)
        said = {name: value for name, value, *_ in reversed([line.split() for line in lines])}  # of proxies the first
        try:
            yield f"http://{said['proxy']}", said["metrics"].removesuffix("/metrics") + "/api/streams"
        finally:
            process.terminate()


def recorded(server: Server) -> Iterator[tuple[str, Finding]]:
    """What `sidecar inspect` says of recorded answers."""
    for path in sorted(CAPTURES.glob(f"{server.captures}-*.http")):
        for found in inspect_file(path, QuirkThresholds()):
            if isinstance(found, CaptureError):
                raise found
            assert isinstance(found, Summary)
            row = report(found, show_content=False)
            calls = [call.verdict for call in found.tool_calls]
            yield path.stem.partition("-")[2], row | {"usage": found.usage, "tool_calls": calls, "buffering": "–"}


def introduction(server: Server) -> list[str]:
    """What was observed, how, with what, and when."""
    command = [sys.executable if word == "python" else word for word in server.version]
    version = subprocess.run(command, capture_output=True, text=True, check=True, cwd=PROJECT).stdout.strip()
    versions = {name: importlib.metadata.version(name) for name in ("llm-sidecar", "mitmproxy")}
    with_what = f"llm-sidecar {versions['llm-sidecar']} on {datetime.datetime.now(datetime.UTC):%Y-%m-%d}"
    if server.captures:
        files = f"tests/fixtures/captures/{server.captures}-*.http"
        return [f"{version}; recorded answers (`{files}`) as read by {with_what}. They carry no times."]
    return [
        f"{version}; through `sidecar run` of {with_what} (mitmproxy {versions['mitmproxy']}). Started with:",
        "",
        "```sh",
        *server.start.strip().splitlines(),
        "```",
    ]


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """The lines of a table in Markdown."""
    head = tuple(head)
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def cells(row: tuple[str, Finding]) -> Iterable[str]:
    """What one exchange looked like."""
    name, found = row
    finish = f"`{found['finish_reason']}`" if found["finish_reason"] else "none"
    calls = ", ".join(sorted(set(found["tool_calls"])))
    return (
        name,
        found["dialect"],
        found["outcome"] + (f" (`{found['error_type']}`)" if found["error_type"] else ""),
        found["terminator"] or "none",
        finish + (f", {len(found['tool_calls'])} tool call(s) {calls}" if calls else ""),
        ", ".join(f"{kind} {count}" for kind, count in (found["usage"] or {}).items()) or "none",
        found["buffering"],
        *(quirks(found["quirks"], severity) for severity in SEVERITIES),
    )


def hop_cells(row: tuple[str, Finding]) -> Iterable[str]:
    """What the gateway did to one exchange: times it added in milliseconds, and inner > outer where they may differ."""
    name, found = row
    hop = found.get("hop")
    if hop is None:
        return (name, "not joined", *[""] * (len(HOP_HEAD) - 2))
    inner, outer = hop["inner"], hop["outer"]

    def both(key: str) -> str:
        return str(outer[key]) if inner[key] == outer[key] else f"{inner[key]} > {outer[key]}"

    return (
        name,
        hop["joined_by"],
        *(
            "" if hop[key] is None else f"{hop[key]:+.0f} ms"
            for key in ("added_first_token_ms", "request_delay_ms", "added_end_ms")
        ),
        "" if hop["gap_ratio"] is None else f"{hop['gap_ratio']:.2f}",
        both("output_chunks"),
        both("response_bytes"),
        both("finish_reason"),
        *(", ".join(f"`{one}`" for one in hop[key]) for key in ("changes", "quirks_added", "quirks_removed")),
    )


def quirks(ids: Iterable[str], severity: Severity) -> str:
    """The quirks of a severity."""
    return ", ".join(f"`{quirk}`" for quirk in ids if BY_ID[quirk].severity is severity)


def replaced(page: str, name: str, lines: list[str]) -> str:
    """The page with what stands between the marks of a server replaced. Raises ValueError where there are none."""
    begin, end = f"<!-- observed: {name} -->\n", "<!-- end -->"
    before, found, rest = page.partition(begin)
    if not found:
        raise ValueError(f"{PAGE} has no mark {begin}")
    return before + begin + "\n".join(lines) + "\n" + rest[rest.index(end) :]


if __name__ == "__main__":
    main(sys.argv[1:])
