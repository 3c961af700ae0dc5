"""The page in a real Chromium, while streams run through a real `sidecar run`."""

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import pytest_asyncio

from tests.live.browser import Looked, chromium, looking_at
from tests.live.exchanges import Exchange, chat, chat_events
from tests.live.flood import flood
from tests.live.player import Player
from tests.live.processes import Sidecar, sidecar_analyzer, sidecar_run
from tests.live.raw_client import ask

pytestmark = pytest.mark.asyncio(loop_scope="module")

HOSTILE = (
    "<script>alert('model')</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg/onload=alert(2)>',
    "javascript:alert(3)//${alert(4)}",
)
WORDS: list[dict[str, Any]] = [{"role": "assistant", "content": ""}, *({"content": f"word{n} "} for n in range(6))]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Any]:
    async with chromium() as browser:
        yield browser


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def player() -> AsyncIterator[Player]:
    player = Player()
    async with player.serving():
        yield player


@pytest_asyncio.fixture(loop_scope="module")
async def looked(player: Player, browser: Any) -> AsyncIterator[tuple[Sidecar, Looked]]:
    """The page of a sidecar that has seen nothing yet. Whatever a test does, the page stays harmless."""
    stalls = {"SIDECAR_STALLS_MID_STREAM": "2"}
    running = sidecar_run("--upstream", player.url, env=stalls)
    async with running as sidecar, looking_at(browser, sidecar.endpoint("/")) as looked:
        yield sidecar, looked
        looked.assert_harmless(urlsplit(sidecar.metrics).netloc)


def stepped(player: Player, case: Exchange) -> asyncio.Semaphore:
    """Each piece of it goes out when the test says so, and its end waits for the event."""
    player.add([case])
    player.steps[case.id] = asyncio.Semaphore(0)
    player.holds[case.id] = asyncio.Event()
    return player.steps[case.id]


async def test_a_stream_from_its_first_moment_to_its_end(player: Player, looked: tuple[Sidecar, Looked]) -> None:
    sidecar, tab = looked
    page = tab.page
    await page.wait_for_selector("#live-empty:has-text('Nothing is in flight')")
    await page.wait_for_selector("#recent-empty:has-text('Nothing has ended')")
    events = chat_events(*WORDS, model="paced")
    case = chat("paced", events, model="paced", every=0.0)
    steps = stepped(player, case)
    asking = asyncio.create_task(ask(sidecar.proxy, case))
    row = page.locator("#live tbody tr", has_text="paced")
    await row.get_by_text("waiting_headers").wait_for()
    steps.release()
    await row.get_by_text("before_first_token").wait_for()
    for _ in range(4):
        steps.release()
    await row.get_by_text("mid_stream", exact=True).wait_for()
    assert await row.locator("svg.strip path").get_attribute("d"), "the strip shows arrivals"
    assert not await row.get_attribute("class")
    await page.wait_for_selector("#live tr.stalled:has-text('paced')")
    red = "getComputedStyle(document.querySelector('#live tr.stalled td')).color.match(/\\d+/g).map(Number)"
    r, g, b = await page.evaluate(red)
    assert r > 2 * max(g, b), "red while it hangs"
    assert "1 stalled" in await page.title()
    for _ in events:
        steps.release()
    await row.get_by_text("after_finish").wait_for()
    await page.wait_for_function("!document.querySelector('#live tr.stalled')")
    player.holds["paced"].set()
    assert (await asking).ending == "eof"
    await page.locator("#recent tbody tr", has_text="paced").get_by_text("complete").wait_for()
    assert await page.locator("#live tbody tr").count() == 0
    await page.locator("#upstreams tbody tr", has_text="paced").get_by_text("1 complete").wait_for()


async def test_a_timeline_opens_by_click_and_by_keyboard(player: Player, looked: tuple[Sidecar, Looked]) -> None:
    sidecar, tab = looked
    page = tab.page
    endings = chat("no-done", chat_events(*WORDS, model="no-done")[:-1], model="no-done")
    fine = chat("fine", chat_events(*WORDS, model="fine"), model="fine")
    hung = chat("hung", chat_events(*WORDS, model="hung")[:4], model="hung", end="hang")
    player.add([endings, fine, hung])
    for case in (endings, fine):
        await ask(sidecar.proxy, case)
    hanging = asyncio.create_task(ask(sidecar.proxy, hung, linger=30))
    await page.locator("#recent tbody tr", has_text="no-done").click()
    dialog = page.locator("dialog[open]")
    await dialog.locator("#timeline-body[data-state=ended]").wait_for()
    said = await dialog.inner_text()
    assert "no_terminator" in said
    assert "terminator_missing (breaks_clients)" in said
    assert "Guard:" in said
    assert "first visible token" in said
    assert await dialog.locator("svg.timeline path.arrival").get_attribute("d")
    assert not any(f"word{n}" in said for n in range(6)), "no content"
    await page.keyboard.press("Escape")
    await dialog.wait_for(state="hidden")
    # By keyboard: Tab leads into each table once, arrows from row to row, Enter opens, Escape leads back.
    await page.locator("#live tbody tr", has_text="hung").wait_for()
    await page.locator("h1").click()
    await page.keyboard.press("Tab")
    assert "hung" in await focused(page)
    await page.keyboard.press("Tab")
    first = await focused(page)
    await page.keyboard.press("ArrowDown" if "fine" in first else "ArrowUp")
    second = await focused(page)
    assert {"fine" in first, "fine" in second} == {True, False}
    await page.keyboard.press("Enter")
    await dialog.locator("#timeline-body[data-state=ended]").wait_for()
    await page.keyboard.press("Escape")
    await dialog.wait_for(state="hidden")
    assert await focused(page) == second, "focus is back where it was"
    # One in flight goes on in the dialog: it stalls there, and ends there.
    await page.locator("#live tbody tr", has_text="hung").press("Enter")
    await dialog.locator("#timeline-body[data-state=in_flight]").wait_for()
    await dialog.get_by_text("it still hangs").wait_for()
    hanging.cancel()
    await dialog.locator("#timeline-body[data-state=ended]").wait_for()
    assert "client_disconnect" in await dialog.inner_text()


async def focused(page: Any) -> str:
    """The text of the row that has the focus."""
    text: str = await page.evaluate("document.activeElement.closest('tr')?.innerText ?? ''")
    return text


async def test_hostile_names_stay_text(player: Player, looked: tuple[Sidecar, Looked]) -> None:
    sidecar, tab = looked
    page = tab.page
    for number, name in enumerate(HOSTILE):
        case = chat(f"hostile-{number}", chat_events({"content": name}, finish=name, model=name), model=name)
        held = chat(f"held-{number}", chat_events({"content": name}, model=name)[:1], model=name, end="hang")
        player.add([case, held])
        await ask(sidecar.proxy, case)
    hanging = [
        asyncio.create_task(ask(sidecar.proxy, player.exchanges[f"held-{n}"], linger=30)) for n in range(len(HOSTILE))
    ]
    for name in HOSTILE:
        for table in ("live", "recent", "upstreams"):
            cell = page.locator(f"#{table} td.name", has_text=name).first
            await cell.wait_for()
            assert await cell.inner_text() == name
            assert await cell.locator("*").count() == 0
        await page.locator("#recent tbody tr", has_text=name).first.click()
        await page.locator("#timeline-body[data-state=ended]").wait_for()
        assert name in await page.locator("#timeline-title").inner_text()
        assert await page.locator("#timeline :is(script, img, iframe, [onload], [onerror])").count() == 0
        await page.keyboard.press("Escape")
    for task in hanging:
        task.cancel()


async def test_the_page_says_when_the_analyzer_is_gone_or_behind(
    browser: Any, player: Player, short_path: Path
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    file = short_path / "sidecar.toml"
    file.write_text("ready_lag = 4.5")
    listen = ("--metrics-listen", f"127.0.0.1:{port}", "--config", str(file))
    case = chat("ticking", chat_events(*WORDS * 100, model="ticking"), model="ticking", every=0.05, end="hang")
    player.add([case])
    path = short_path / "s"
    async with (
        sidecar_analyzer(path, *listen) as (analyzer, metrics),
        sidecar_run("--upstream", player.url, "--socket", str(path)) as sidecar,
        looking_at(browser, metrics.removesuffix("metrics")) as tab,
    ):
        page, notice = tab.page, tab.page.locator("#notice")
        asking = asyncio.create_task(ask(sidecar.proxy, case))
        await page.locator("#live tbody tr", has_text="ticking").wait_for()
        assert await notice.is_hidden()
        os.kill(analyzer.process.pid, signal.SIGSTOP)
        await notice.get_by_text("does not answer").wait_for()
        os.kill(analyzer.process.pid, signal.SIGCONT)
        await notice.get_by_text("behind the traffic").wait_for()
        assert tab.complaints == []
        asking.cancel()
        analyzer.process.kill()
        await analyzer.process.wait()
        await notice.get_by_text("does not answer").wait_for()
        assert await page.locator("#main").get_attribute("class") == "old"
        async with sidecar_analyzer(path, *listen):
            await notice.wait_for(state="hidden")
            await page.get_by_text("Nothing is in flight").wait_for()
            assert await sidecar.program.stop() == 0


async def test_thousands_in_flight_stay_usable(browser: Any, short_path: Path) -> None:
    path = short_path / "s"
    async with (
        sidecar_analyzer(path) as (_, metrics),
        flood(path, 2000),
        looking_at(browser, metrics.removesuffix("metrics")) as tab,
    ):
        page = tab.page
        await page.locator("#state", has_text="2,000 in flight").wait_for()
        assert await page.locator("#live tbody tr").count() == 100
        await page.get_by_text("and 1,900 more").wait_for()
        await page.locator("#live tbody tr").nth(50).click()
        await page.locator("#timeline-body[data-state=in_flight]").wait_for()
        await page.keyboard.press("Escape")
        await page.locator("dialog[open]").wait_for(state="hidden")
        lag = "new Promise((done) => { const t = performance.now(); setTimeout(() => done(performance.now() - t)); })"
        assert await page.evaluate(lag) < 1000
        async with (
            httpx.AsyncClient(trust_env=False) as client,
            client.stream("GET", f"{metrics[:-8]}/api/events") as said,
        ):
            size = len(await anext(said.aiter_raw()))
        assert size < 100_000
        tab.assert_harmless(urlsplit(metrics).netloc)
