"""Fixtures of the live tests, and what the programs under test printed in the report of a failed test."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path

import pytest

from tests.live.player import Player
from tests.live.processes import STARTED
from tests.live.tls import Certificate
from tests.parts import require_module


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for program in STARTED:
            report.sections.append((f"{program.name} ({program.process.pid})", program.stdout + program.stderr))
    return report


@pytest.fixture
async def player() -> AsyncIterator[Player]:
    """An upstream that plays what it is given."""
    player = Player()
    async with player.serving():
        yield player


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A folder with a short name: the path of a unix socket may have 107 bytes only."""
    folder = Path(tempfile.mkdtemp(prefix="live-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """For upstreams that speak TLS, and for the proxies that have to trust them."""
    return Certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Base URL of a real llama.cpp server with a tiny model."""
    require_module("xllamacpp", "pip install --group test")
    require_module("gguf", "pip install --group test")
    folder = tmp_path_factory.mktemp("llama")
    model, here = folder / "tiny.gguf", Path(__file__).parent
    subprocess.run([sys.executable, here / "tiny_model.py", model], check=True, timeout=60)
    with (folder / "log").open("w") as log:
        command = [sys.executable, str(here / "llama_server.py"), str(model)]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    assert server.stdout is not None
    try:
        said = next((line for line in server.stdout if line.startswith("listening at ")), "")
        assert said, (folder / "log").read_text()
        yield said.split()[2]
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
