"""Makes the pictures of the page that the README shows, dark and light, under the demo's traffic:

python -m tests.live.page_pictures docs/images
"""

import asyncio
import sys
from pathlib import Path

from sidecar.demo import upstream
from sidecar.demo.clients import IMPATIENT, all_clients
from sidecar.demo.faults import ALL_LATE_HEADS, ALL_PLAYS
from tests.live.browser import chromium, looking_at
from tests.live.processes import sidecar_run

_SHOWN = ("healthy", "slow-thinker", "no-terminator", "buffered", "hung", "error-midway", "tool-calls", IMPATIENT)
_SECONDS = 24.0  # until a hung stream is red and everything else was seen a few times
_SIZE = {"width": 1360, "height": 900}


async def main(folder: Path) -> None:
    """Write page-dark.png, page-light.png and timeline-light.png."""
    server, port = upstream.serve("127.0.0.1", 0, ALL_PLAYS, ALL_LATE_HEADS)
    async with sidecar_run("--upstream", f"http://127.0.0.1:{port}", env={"SIDECAR_STALLS_MID_STREAM": "5"}) as sidecar:
        clients = all_clients(sidecar.url, _SHOWN)
        await asyncio.sleep(_SECONDS)
        async with chromium() as browser:
            for scheme in ("dark", "light"):
                async with looking_at(browser, sidecar.endpoint("/"), viewport=_SIZE, color_scheme=scheme) as looked:
                    page = looked.page
                    await page.wait_for_selector("tr.stalled")
                    await page.wait_for_selector("#recent tbody tr")
                    await page.screenshot(path=folder / f"page-{scheme}.png")
                    if scheme == "light":
                        await page.locator("#recent tbody tr", has_text="slow-thinker").first.click()
                        await page.wait_for_selector("#timeline svg.timeline")
                        await page.screenshot(path=folder / "timeline-light.png")
                    assert not looked.complaints, looked.complaints
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)
    server.stop()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
