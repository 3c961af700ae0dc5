"""`sidecar run` does not get slower by more than is tolerated, as a multiple of plain mitmdump's CPU in the same run."""

from pathlib import Path

from bench.guard import reference, too_slow
from bench.guard_proxy import REFERENCE, ratios

BUSY = """
import asyncio, time

async def burn():
    while True:
        until = time.thread_time() + 0.01
        while time.thread_time() < until:
            pass
        await asyncio.sleep(0.002)

def running():
    global burning
    burning = asyncio.create_task(burn())
"""


async def test_proxy_has_not_become_slow() -> None:
    found = await ratios()
    assert not too_slow(found, reference(REFERENCE)), (
        f"{found}, once {reference(REFERENCE)}: python -m bench.guard_proxy --update"
    )


async def test_proxy_that_burns_half_of_its_time_is_found_slow(tmp_path: Path) -> None:
    script = tmp_path / "busy.py"
    script.write_text(BUSY)
    found = await ratios("--set", f"scripts={script}", rounds=2)
    assert "chunk" in too_slow(found, reference(REFERENCE))
