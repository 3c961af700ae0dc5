"""Record, replay, record again: the second recording says what the first one did."""

import dataclasses
from pathlib import Path
from typing import Any

from sidecar.files.capture import Capture
from sidecar.files.fixtures import line_of
from sidecar.files.inspect import inspect_capture, report
from sidecar.files.replay import Recordings, Server
from sidecar.files.replay.recordings import BY_ID
from sidecar.files.sources import captures_of
from sidecar.stream.summary import Summary
from sidecar.thresholds import QuirkThresholds
from tests.corpus import captures
from tests.live.exchanges import Exchange, corpus
from tests.live.processes import sidecar_run
from tests.live.raw_client import ask_all
from tests.live.scrape import scrape, wait_until
from tests.live.test_replay_verdicts import AT_ONCE, TIMES

TRACES = {exchange.id: f"00-{number:032x}-{1:016x}-01" for number, exchange in enumerate(corpus(), 1)}


async def recorded(folder: Path, served: dict[str, Capture], exchanges: list[Exchange]) -> dict[str, Capture]:
    """The exchanges, served by these recordings and recorded once more; by case."""
    asked = [
        dataclasses.replace(
            each,
            request_headers=(*each.request_headers, (BY_ID, served[each.id].id), ("traceparent", TRACES[each.id])),
        )
        for each in exchanges
    ]
    async with (
        Server(Recordings(served.values()), speed=0).listening() as server,
        sidecar_run("--upstream", server.url, "--record", str(folder)) as sidecar,
    ):
        await ask_all(sidecar.proxy, asked)

        async def enough() -> bool:
            samples = await scrape(sidecar.metrics, "llm_sidecar_recording")
            return samples.total("llm_sidecar_recordings_total") >= len(asked)

        await wait_until(enough, what="all recordings")
    cases = {trace: case for case, trace in TRACES.items()}
    return {cases[dict(each.request.headers)["traceparent"]]: each for each in captures_of([folder])}


def said_of(capture: Capture) -> dict[str, Any]:
    found = inspect_capture(capture, QuirkThresholds())
    assert isinstance(found, Summary)
    said = report(found, show_content=True)
    return {name: value for name, value in said.items() if name not in TIMES} | {
        "quirks": sorted(set(found.quirks) - AT_ONCE)
    }


async def test_a_recording_of_a_replay_says_what_the_recording_did(tmp_path: Path) -> None:
    exchanges = list(corpus())
    first = await recorded(tmp_path / "first", {each.id: captures()[each.id] for each in exchanges}, exchanges)
    second = await recorded(tmp_path / "second", first, exchanges)
    assert first.keys() == second.keys() == TRACES.keys()
    different = {}
    for case in first:
        one, two = said_of(first[case]), said_of(second[case])
        if one != two:
            different[case] = {name: (one[name], two[name]) for name in one if one[name] != two[name]}
        if first[case].recorded == second[case].recorded:
            assert b"".join(c.data() for c in first[case].chunks) == b"".join(c.data() for c in second[case].chunks)
        assert line_of(first[case])
    assert different == {}
