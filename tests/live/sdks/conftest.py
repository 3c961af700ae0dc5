"""The way of an SDK's request: client, `sidecar run`, upstream; and the analyzer that the proxy feeds, in this process."""

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from tests.live.exchanges import corpus
from tests.live.nodejs import JS, aimock
from tests.live.player import Player
from tests.live.processes import sidecar_run
from tests.live.sdks.answers import Answer, Observer, Seen


@dataclass
class Route:
    """A proxy in front of an upstream. Clients take `url` for the endpoint's."""

    url: str
    observer: Observer

    async def ask(self, client: Callable[[str], Answer]) -> Seen:
        """Let a client ask at this URL."""
        return await self.observer.watch(lambda: client(self.url))


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def observer(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Observer]:
    observer = Observer(tmp_path_factory.mktemp("o") / "s")
    await observer.receiver.start()
    yield observer
    await observer.receiver.stop()


@contextlib.asynccontextmanager
async def _route(upstream: str, observer: Observer, confdir: Path) -> AsyncIterator[Route]:
    arguments = ("--socket", observer.analyzer.settings.socket or "", "--set", f"confdir={confdir}")
    async with sidecar_run("--upstream", upstream, *arguments) as sidecar:
        yield Route(sidecar.url, observer)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def llamacpp(llama: str, observer: Observer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Route]:
    """In front of a llama.cpp server."""
    async with _route(llama, observer, tmp_path_factory.mktemp("llamacpp")) as route:
        yield route


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def aimocked(observer: Observer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Route]:
    """In front of aimock, which speaks many providers' APIs; tests/live/js/fixtures.json has its answers."""
    async with (
        aimock(JS / "fixtures.json", "-l", "2", "-c", "7") as upstream,
        _route(upstream, observer, tmp_path_factory.mktemp("mock")) as route,
    ):
        yield route


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def played(observer: Observer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Route]:
    """In front of an upstream that plays the corpus; the header x-case selects the capture."""
    player = Player(speed=50, longest=0.2)
    player.add(corpus())
    async with player.serving(), _route(player.url, observer, tmp_path_factory.mktemp("played")) as route:
        yield route
