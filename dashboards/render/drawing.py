"""Runs draw.mjs, and reads its report."""

import asyncio
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HOME = Path(__file__).parent
BUILT = HOME / "dist" / "page.js"
HOW = "Node.js 20 or newer: npm ci --ignore-scripts && npm run build in dashboards/render; apt-get install chromium"
BOARDS = sorted((HOME.parent / "grafana").glob("*.json"))
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")


class CannotDraw(RuntimeError):
    """A part is missing or failed; the text says which."""


@dataclass(frozen=True)
class Picture:
    """One dashboard in one theme. `tops`: where its rows begin, in pixels, by their titles."""

    uid: str
    theme: str
    path: Path
    tops: dict[str, int]
    faults: list[str]


def browser() -> str | None:
    """The path of a Chromium."""
    return next((found for name in _BROWSERS if (found := shutil.which(name))), None)


async def draw(
    prometheus: str,
    folder: Path,
    *,
    themes: Sequence[str],
    seconds: float,
    scrape_seconds: float,
    boards: Sequence[Path] = BOARDS,
) -> list[Picture]:
    """Draw dashboards as they are now, over the last seconds, into a folder. Raises CannotDraw."""
    node, chromium = shutil.which("node"), browser()
    if node is None or chromium is None or not BUILT.exists():
        raise CannotDraw(f"drawing needs {HOW}")
    report = folder / "report.json"
    report.unlink(missing_ok=True)
    options = [f"--prometheus={prometheus}", f"--out={folder}", f"--seconds={seconds:g}", f"--chromium={chromium}"]
    options += [f"--scrape-seconds={scrape_seconds:g}", *(f"--theme={theme}" for theme in themes)]
    process = await asyncio.create_subprocess_exec(
        node,
        str(HOME / "draw.mjs"),
        *options,
        *map(str, boards),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        _, said = await process.communicate()
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
    if not report.exists():
        raise CannotDraw(said.decode().strip() or f"draw.mjs ended with {process.returncode}")
    return [_picture(each) for each in json.loads(report.read_text(encoding="utf-8"))]


def _picture(report: dict[str, Any]) -> Picture:
    faults = [
        *report["faults"],
        *(f"{panel['title']}: {fault}" for panel in report["panels"] for fault in panel["faults"]),
    ]
    tops = {panel["title"]: panel["top"] for panel in report["panels"] if panel["type"] == "row"}
    return Picture(report["uid"], report["theme"], Path(report["image"]), tops, faults)
