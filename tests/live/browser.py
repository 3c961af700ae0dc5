"""A real Chromium that looks at the page, and keeps a record of all that it asked for and complained of."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from tests.parts import require_module, require_program


@dataclass
class Looked:
    """What a page did."""

    page: Any
    requested: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    """Errors and warnings of the console, exceptions in scripts, dialogs that a script opened."""

    def assert_harmless(self, host: str) -> None:
        """Nothing was asked of any other host, and nothing was complained of."""
        assert {urlsplit(url).netloc for url in self.requested} == {host}
        assert self.complaints == []


@contextlib.asynccontextmanager
async def chromium() -> AsyncIterator[Any]:
    """The browser (playwright.async_api.Browser)."""
    api = require_module("playwright.async_api", "pip install --group test")
    path = require_program("chromium", "apt-get install chromium")
    async with api.async_playwright() as playwright:
        # Without its sandbox, which needs a user other than root; it sees nothing but our page.
        browser = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            await browser.close()


@contextlib.asynccontextmanager
async def looking_at(browser: Any, url: str, **options: Any) -> AsyncIterator[Looked]:
    """A tab of its own at this address; `options` are those of playwright's `new_context`."""
    context = await browser.new_context(**options)
    page = await context.new_page()
    looked = Looked(page)

    def said(message: Any) -> None:
        if message.type in ("error", "warning"):
            looked.complaints.append(message.text)

    async def asked(dialog: Any) -> None:
        looked.complaints.append(f"dialog: {dialog.message}")
        await dialog.dismiss()

    page.on("console", said)
    page.on("pageerror", lambda error: looked.complaints.append(str(error)))
    page.on("dialog", asked)
    page.on("request", lambda request: looked.requested.append(request.url))
    page.set_default_timeout(20_000)
    await page.goto(url)
    try:
        yield looked
    finally:
        await context.close()
