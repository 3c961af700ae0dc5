"""Servers of models that the live tests put behind the proxy, as processes."""

import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from tests.live.processes import program
from tests.parts import require_path, require_module, require_program

LIVE = Path(__file__).parent
JS = LIVE / "js"
"""Node.js programs of the tests, with their packages where `npm ci` was run."""

_NPM = "install Node.js 20.15 or newer and run `npm ci --ignore-scripts` in tests/live/js"


@contextlib.asynccontextmanager
async def llamacpp(folder: Path) -> AsyncIterator[str]:
    """The llama.cpp server with a tiny model, written to this folder; its URL."""
    for module in ("xllamacpp", "gguf"):
        require_module(module, "pip install --group test")
    from tests.live import tiny_model

    model = folder / "tiny.gguf"
    tiny_model.write(model)
    async with program("llama.cpp", sys.executable, str(LIVE / "llama_server.py"), str(model)) as running:
        yield await running.says(r"listening at (http://\S+)")


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
    return require_path(JS / "node_modules" / name, name, _NPM)
