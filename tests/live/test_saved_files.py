"""Flow files and HARs as mitmproxy itself writes them, of recordings played through it: the verdicts are those of the
recordings, but for what only timing shows."""

import json
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from click.testing import CliRunner

from sidecar.cli import cli
from sidecar.files.inspect import inspect_capture, report
from sidecar.files.replay import Recordings, Server
from sidecar.stream.summary import Summary
from sidecar.thresholds import QuirkThresholds
from tests import sockets as socket_corpus
from tests.corpus import captures
from tests.live.exchanges import corpus
from tests.live.processes import BIN, program
from tests.live.raw_client import ask
from tests.live.replayed import SOCKETS, converse, named

PLAYED = [exchange for exchange in corpus() if exchange.end == "eof"][::5]
WITHOUT = [exchange for exchange in corpus() if exchange.id in ("e19-empty-200", "n2-co-reset")]
"""One that was empty, and one that broke."""
CONVERSATIONS = ["rt01-two-in-sequence-ga", "gl01-text-turn-binary-json", "rs01-two-turns-chained"]
SHOWN = ("dialect", "outcome", "terminator", "finish_reason", "usage", "text", "tool_calls", "error_type", "status")
in_module_loop = pytest.mark.asyncio(loop_scope="module")


@dataclass
class Saved:
    flows: Path
    har: Path


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def saved(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Saved]:
    """What mitmdump saves; requests carry the case in their query, for HAR keeps no id."""
    folder = tmp_path_factory.mktemp("saved")
    files = Saved(folder / "flows", folder / "all.har")
    recordings = Recordings(
        [*(captures()[each.id] for each in [*PLAYED, *WITHOUT]), *(SOCKETS[case] for case in CONVERSATIONS)]
    )
    with tempfile.TemporaryDirectory(prefix="live-") as private:
        async with Server(recordings, speed=0).listening() as server:
            arguments = ("--set", f"confdir={private}", "--set", f"hardump={files.har}", "-w", str(files.flows))
            mode = ("--mode", f"reverse:{server.url}@127.0.0.1:0")
            async with program("mitmdump", str(BIN / "mitmdump"), *mode, *arguments) as running:
                host, port = (await running.says(r"listening at \S*?(127\.0\.0\.1:\d+)")).split(":")
                for exchange in [*PLAYED, *WITHOUT]:
                    await ask((host, int(port)), replace(named(exchange), target=f"{exchange.target}{_mark(exchange)}"))
                for case in CONVERSATIONS:
                    await converse((host, int(port)), SOCKETS[case])
                assert await running.stop() == 0
    yield files


def _mark(exchange: Any) -> str:
    return f"{'&' if '?' in exchange.target else '?'}case={exchange.id}"


def inspect(file: Path) -> tuple[list[dict[str, Any]], str]:
    """What is printed of a file, and the errors."""
    result = CliRunner().invoke(cli, ["inspect", "--json", "--show-content", str(file)], standalone_mode=False)
    return [json.loads(line) for line in result.stdout.splitlines()], result.stderr


@in_module_loop
@pytest.mark.parametrize("kind", ["flows", "har"])
async def test_what_mitmproxy_saved_gets_the_verdicts_of_the_recordings(saved: Saved, kind: str) -> None:
    said, _ = inspect(getattr(saved, kind))
    said = [each for each in said if "socket" not in each and each["outcome"] != "empty"]
    assert len(said) == len(PLAYED)
    for got, exchange in zip(said, PLAYED, strict=True):
        found = inspect_capture(captures()[exchange.id], QuirkThresholds())
        assert isinstance(found, Summary)
        want: dict[str, Any] = json.loads(msgspec.json.encode(report(found, show_content=True)))
        assert {name: got[name] for name in SHOWN} == {name: want[name] for name in SHOWN}, exchange.id
        assert got["milestones_ms"] == {}
        assert got["buffering"]["evidence"]["why"] in ("recorded without times", "no stream: a whole body or none")


@in_module_loop
async def test_a_body_that_was_not_stored_is_no_empty_one(saved: Saved) -> None:
    said, errors = inspect(saved.flows)
    assert [each["outcome"] for each in said].count("empty") == 1
    assert "mitmproxy did not store its body, for it broke before it was complete" in errors
    said, errors = inspect(saved.har)  # which keeps the two no more apart
    assert "empty" not in [each["outcome"] for each in said]
    assert errors.count("it has no body; export the HAR with content, and after the stream is over") == 2


@in_module_loop
@pytest.mark.parametrize("kind", ["flows", "har"])
async def test_messages_of_sockets_keep_their_times(saved: Saved, kind: str) -> None:
    said, _ = inspect(getattr(saved, kind))
    said = [each for each in said if "socket" in each]
    want = [stream for case in CONVERSATIONS for stream in socket_corpus.expectations()[case]["streams"]]
    assert [each["response_id"] for each in said] == [each["response_id"] for each in want]
    assert [each["text"] for each in said] == [each["text"] for each in want]
    assert all(each["milestones_ms"]["end"] > 0 for each in said)
