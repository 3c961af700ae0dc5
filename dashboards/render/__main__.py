"""`make screenshots`: the demo with all its faults, a Prometheus with the rules, and pictures of all dashboards after it.

    python -m dashboards.render [MINUTES]

A picture with a fault (a panel without data, a text cut off, ...) is written all the same, and the command fails.
"""

import asyncio
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from PIL import Image

from dashboards.generator.thresholds import THRESHOLDS
from dashboards.render.drawing import CannotDraw, Picture, draw
from sidecar.stream.phases import PHASES
from tests.live.stage import stage

IMAGES = Path(__file__).parents[2] / "docs" / "images"
MINUTES = 6.0
_SCRAPE_SECONDS = 5
_RULES = replace(
    THRESHOLDS,
    every=f"{_SCRAPE_SECONDS}s",
    hung_for=dict.fromkeys(PHASES, "5s"),
    window="5m",
    window_for="10s",
    at_least=5,
    no_terminators=5,
)
"""The committed rules with waits for a demo of minutes, so that alerts are seen firing."""
FIRST_SCREENS = {"llm-overview": "First token", "llm-live": "Phases"}
"""Dashboards of which there is a picture of the top, too, and the row at which that ends."""
_MOST_BYTES = 250_000
_COLOURS = (256, 128, 64)


def shrink(image: Image.Image, path: Path) -> None:
    """Write with as many colours as fit into the size that a page should load."""
    for colours in _COLOURS:
        # An octree keeps the colours of small things, as of legends; a median cut makes them grey.
        small = image.quantize(colours, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
        small.save(path, optimize=True)
        if path.stat().st_size <= _MOST_BYTES:
            return


def _publish(picture: Picture) -> None:
    with Image.open(picture.path) as opened:
        image = opened.convert("RGB")
    shrink(image, IMAGES / picture.path.name)
    if picture.uid in FIRST_SCREENS:
        bottom = picture.tops[FIRST_SCREENS[picture.uid]]
        shrink(image.crop((0, 0, image.width, bottom)), IMAGES / f"{picture.path.stem}-top.png")


async def main(minutes: float) -> int:
    """Play, draw, write; the exit code."""
    with tempfile.TemporaryDirectory(prefix="screenshots-") as name:
        folder = Path(name)
        async with stage(folder, _RULES, every=f"{_SCRAPE_SECONDS}s") as running:
            print(f"traffic for {minutes:g} minutes, watched by {running.prometheus.url}", flush=True)
            await asyncio.sleep(60 * minutes)
            pictures = await draw(
                running.prometheus.url,
                folder,
                themes=("dark", "light"),
                seconds=60 * minutes,
                scrape_seconds=_SCRAPE_SECONDS,
            )
        IMAGES.mkdir(exist_ok=True)
        for picture in pictures:
            _publish(picture)
            print(f"{picture.uid} {picture.theme}", *picture.faults, sep="\n  ")
    return 1 if any(picture.faults for picture in pictures) else 0


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main(float(sys.argv[1]) if sys.argv[1:] else MINUTES)))
    except CannotDraw as error:
        sys.exit(str(error))
