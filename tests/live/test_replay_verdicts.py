"""Recordings served again with `sidecar run` in front: its verdicts are those on the recordings."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from sidecar.files.capture import Capture
from sidecar.files.inspect import inspect_capture, report
from sidecar.files.replay import Recordings, Server
from sidecar.stream.summary import Summary
from sidecar.thresholds import QuirkThresholds
from tests.corpus import captures
from tests.live.exchanges import Exchange, corpus
from tests.live.processes import sidecar_run
from tests.live.raw_client import ask_all
from tests.live.replayed import named, truth, with_end
from tests.live.scrape import wait_until
from tests.live.sdks.answers import Observer
from tests.test_corpus import READ_DEPENDENT

AT_ONCE = READ_DEPENDENT | {"long_gap", "long_prefill_silence", "heartbeat_gap_long", "eof_delayed_after_terminator"}
"""What only the recorded times show; a replay at once has others."""
in_module_loop = pytest.mark.asyncio(loop_scope="module")


@dataclasses.dataclass
class Verdicts:
    """What the sidecar said of each capture."""

    summaries: dict[str, Summary]

    def of(self, case: str) -> dict[str, Any]:
        said: dict[str, Any] = json.loads(msgspec.json.encode(report(self.summaries[case], show_content=True)))
        return said


async def through_the_sidecar(folder: Path, speed: float, exchanges: list[Exchange]) -> Verdicts:
    """Replay these with `sidecar run` in front; told apart by a trace id that each request has."""
    observer = Observer(folder / "s")
    summaries: list[Summary] = []
    observer.analyzer.listeners.append(summaries.append)
    await observer.receiver.start()
    traced = {f"00-{number:032x}-{1:016x}-01": exchange.id for number, exchange in enumerate(exchanges, 1)}
    asked = [
        dataclasses.replace(named(each), request_headers=(*named(each).request_headers, ("traceparent", trace)))
        for trace, each in zip(traced, exchanges, strict=True)
    ]
    recordings = Recordings(captures()[each.id] for each in exchanges)
    async with Server(recordings, speed=speed).listening() as server:
        to = ("--upstream", server.url, "--socket", observer.analyzer.settings.socket or "")
        async with sidecar_run(*to) as sidecar:
            await ask_all(sidecar.proxy, asked)
            await wait_until(lambda: truth(len(summaries) >= len(asked)), what="all verdicts")
    await observer.receiver.stop()
    return Verdicts({traced[summary.traceparent or ""]: summary for summary in summaries})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def verdicts(tmp_path_factory: pytest.TempPathFactory) -> Verdicts:
    return await through_the_sidecar(tmp_path_factory.mktemp("v"), 0, list(corpus()))


def of_the_file(capture: Capture) -> dict[str, Any]:
    found = inspect_capture(capture, QuirkThresholds())
    assert isinstance(found, Summary)
    said: dict[str, Any] = json.loads(msgspec.json.encode(report(found, show_content=True)))
    return said


TIMES = {"id", "milestones_ms", "gaps_ms", "buffering"}


@pytest.mark.parametrize("case", sorted(captures()))
@in_module_loop
async def test_the_verdict_on_a_replay_is_that_on_the_recording(verdicts: Verdicts, case: str) -> None:
    capture = captures()[case]
    if capture.end.kind == "open":  # the client of the test leaves in the end
        capture = with_end(capture, kind="client_disconnect")
    live, file = verdicts.of(case), of_the_file(capture)
    different = {
        name: (file[name], live[name]) for name in file.keys() - TIMES - {"quirks"} if live[name] != file[name]
    }
    assert different == {}
    assert set(live["quirks"]) ^ set(file["quirks"]) <= AT_ONCE


PACED = [
    "n14-clumped-delivery",
    "n15-fixed-4k-buffer",
    "n2-an-brotli-unflushed",
    "n2-bc-all-frames-in-one-read",
    "n2-long-bedrock-converse-tcp-segments",
    "n2-re-zstd-unflushed",
    "n23-content-length-sse",
]


@in_module_loop
async def test_in_time_the_verdict_on_buffering_is_the_same_too(tmp_path: Path) -> None:
    played = await through_the_sidecar(tmp_path, 1.0, [each for each in corpus() if each.id in PACED])
    for case in PACED:
        live, file = played.of(case), of_the_file(captures()[case])
        assert (case, live["buffering"]["verdict"]) == (case, file["buffering"]["verdict"])
        assert set(live["quirks"]) >= set(file["quirks"]) & {"buffered_delivery", "burst_delivery"}
        for name in ("first_token", "last_token", "end"):
            assert live["milestones_ms"][name] >= file["milestones_ms"][name] - 1, (case, name)
