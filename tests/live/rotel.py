"""rotel, a real OTLP collector, and what it says it received (its debug log, read back)."""

import contextlib
import re
import socket
import sysconfig
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.live.processes import Program, program
from tests.parts import require_module, require_path

_VALUE = re.compile(r"-> (?P<key>\S+): (?P<kind>Str|Int|Double|Bool|Slice)\((?P<text>.*)\)$")
_FIELD = re.compile(r"^ *(?:-> )?(Trace ID|Parent ID|ID|Name|Kind|Start time|End time|Timestamp|Status code) *: ?(.*)$")
_TYPES = {"Str": "string", "Int": "int", "Double": "double", "Bool": "boolean", "Slice": "string[]"}


@dataclass
class Received:
    """A span, or an event of one, as rotel prints it. `kinds` are the types of the attributes by our table's names."""

    fields: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    events: list["Received"] = field(default_factory=list)

    def take(self, line: str) -> None:
        """One attribute."""
        if match := _VALUE.search(line):
            text = match["text"]
            parsed: dict[str, Any] = {
                "Str": text,
                "Int": int(text) if match["kind"] == "Int" else 0,
                "Double": float(text) if match["kind"] == "Double" else 0.0,
                "Bool": text == "true",
                "Slice": re.findall(r"Str\((.*?)\)", text),
            }
            self.attributes[match["key"]] = parsed[match["kind"]]
            self.kinds[match["key"]] = _TYPES[match["kind"]]


@dataclass
class Rotel:
    """A running collector."""

    running: Program
    http: str
    grpc: str

    def spans(self) -> list[Received]:
        """All spans received so far."""
        found: list[Received] = []
        now: Received | None = None
        for line in self.running.stdout.splitlines():
            if line.startswith("Span #"):
                now = Received()
                found.append(now)
            elif line.startswith("SpanEvent #"):
                now = Received()
                found[-1].events.append(now)
            elif line.startswith(("ResourceSpans", "ResourceMetrics")):
                now = None
            elif now is not None:
                now.take(line)
                if match := _FIELD.match(line):
                    now.fields[match[1]] = match[2].strip()
        return found

    def log(self) -> str:
        """All it printed."""
        return self.running.stdout


@contextlib.asynccontextmanager
async def rotel() -> AsyncIterator[Rotel]:
    """Start it; it listens on the loopback only and keeps nothing."""
    package = require_module("rotel", "pip install rotel")
    assert package.__file__ is not None
    agent = Path(package.__file__).parent / "rotel-agent"
    folder = Path(sysconfig.get_config_var("LIBDIR"))
    library = folder / sysconfig.get_config_var("INSTSONAME")
    require_path(library, "libpython", "rotel needs a Python that was built with --enable-shared")
    http, grpc = (f"127.0.0.1:{port}" for port in _free_ports(2))
    command = [
        str(agent),
        "start",
        "--otlp-http-endpoint",
        http,
        "--otlp-grpc-endpoint",
        grpc,
        "--exporter",
        "blackhole",
    ]
    command += ["--debug-log", "traces", "--debug-log", "metrics", "--debug-log-verbosity", "detailed"]
    async with program("rotel", *command, env={"LD_LIBRARY_PATH": str(folder)}) as running:
        await running.says(r"(Starting Rotel)")
        yield Rotel(running, f"http://{http}", f"http://{grpc}")


def _free_ports(number: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
