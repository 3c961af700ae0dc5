"""Servers of models that the live tests put behind the proxy, as processes."""

import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from tests.live.processes import PROJECT, program
from tests.parts import require_file, require_module, require_program

JS = Path(__file__).with_name("js")
"""Node.js programs of the tests, with their packages where `npm ci` was run."""

_NPM = "install Node.js 20.15 or newer and run `npm ci --ignore-scripts` in tests/live/js"


@contextlib.asynccontextmanager
async def llamacpp() -> AsyncIterator[str]:
    """The llama.cpp server with the tiny model of known sayings; its URL."""
    for module in ("xllamacpp", "gguf"):
        require_module(module, "pip install --group test")
    command = (sys.executable, "-m", "tests.live.llamacpp")
    async with program("llama.cpp", *command, env={"PYTHONPATH": str(PROJECT)}) as running:
        yield await running.says(r"listening on (http://\S+)")


@contextlib.asynccontextmanager
async def aimock(fixtures: Path, *arguments: str) -> AsyncIterator[str]:
    """CopilotKit's mock of many providers, answering from these fixtures; its URL."""
    command = (node(), str(node_package("@copilotkit/aimock") / "dist" / "cli.js"), "-p", "0", "-f", str(fixtures))
    async with program("aimock", *command, *arguments) as running:
        yield await running.says(r"listening on (http://\S+)")


def node() -> str:
    """The path of Node.js."""
    return require_program("node", _NPM)


def node_package(name: str) -> Path:
    """Where a package of tests/live/js is."""
    return require_file(JS / "node_modules" / name / "package.json", _NPM).parent
