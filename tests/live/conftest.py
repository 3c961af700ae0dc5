"""Fixtures of the live tests, and what the programs under test printed in the report of a failed test."""

import shutil
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.live.processes import STARTED
from tests.live.tls import Certificate


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
def short_path() -> Iterator[Path]:
    """A folder with a short name: the path of a unix socket may have 107 bytes only."""
    folder = Path(tempfile.mkdtemp(prefix="live-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """For upstreams that speak TLS, and for the proxies that have to trust them."""
    return Certificate(tmp_path_factory.mktemp("tls"))
