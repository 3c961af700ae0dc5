"""What the live tests run under Node.js: programs of tests/live/js and of the packages there."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from tests.live.processes import program
from tests.parts import require_path, require_program

JS = Path(__file__).with_name("js")
_NPM = "install Node.js 20.15 or newer and run `npm ci --ignore-scripts` in tests/live/js"


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
