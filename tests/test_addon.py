"""The addon under a plain mitmproxy: whose messages of WebSockets are let go of."""

import asyncio
from typing import Any

import pytest
from mitmproxy.addons.save import Save
from mitmproxy.addons.savehar import SaveHar
from mitmproxy.addons.view import View
from mitmproxy.test import taddons

from sidecar.addon import LlmSidecar
from sidecar.config import Settings
from sidecar.proxy_side import ProxySide


@pytest.mark.parametrize(
    ("others", "options", "history"),
    [
        ([], {}, "not copied"),
        ([Save, SaveHar], {}, "not copied"),
        ([Save], {"save_stream_file": "/dev/null"}, "all"),
        ([SaveHar], {"hardump": "/dev/null"}, "all"),
        ([View], {}, "all"),
        ([View], {"sidecar_websocket_history": "drop"}, "none"),
        ([], {"sidecar_websocket_history": "keep"}, "all"),
    ],
)
async def test_messages_are_kept_where_somebody_can_look_at_them(
    others: list[Any], options: dict[str, Any], history: str
) -> None:
    addon = LlmSidecar()
    with taddons.context(*(other() for other in others), addon) as context:
        context.options.update(**options)
        assert addon._history() == history
        side = addon.side()
        context.configure(addon, **options)
        assert side.taps.history == history
    await asyncio.sleep(0)


@pytest.mark.parametrize(("chosen", "history"), [("auto", "none"), ("keep", "all"), ("drop", "none")])
async def test_our_own_proxy_keeps_none_unless_told_to(chosen: str, history: str) -> None:
    addon = LlmSidecar(ProxySide(Settings(websocket_history=chosen)))
    with taddons.context(addon):
        await addon.running()
        assert addon.side().taps.history == history
