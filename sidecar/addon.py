"""The addon that mitmproxy loads: hooks and options only. Bytes pass through untouched; nothing is parsed here."""

import logging
from typing import TYPE_CHECKING

from mitmproxy import ctx, exceptions, http
from mitmproxy.addonmanager import Loader
from mitmproxy.proxy.server_hooks import ServerConnectionHookData

from sidecar.capture.flows import History
from sidecar.config import OPTIONS, ConfigError, from_proxy_options
from sidecar.proxy_side import ProxySide
from sidecar.transport.supervisor import ChildFailed

if TYPE_CHECKING:
    from sidecar.flow_verdicts import FlowVerdicts

logger = logging.getLogger(__name__)

_MITMPROXY_IDLE = 600  # its default, in seconds; a model may think for longer


class LlmSidecar:
    """Tees LLM traffic to the analyzer.

    `side` comes from `sidecar run`, started. Under a plain mitmproxy it is made from the `sidecar_…` options and
    started with the proxy.
    """

    def __init__(self, side: ProxySide | None = None) -> None:
        self._own = side is None
        self._side = side
        self._verdicts: FlowVerdicts | None = None

    def side(self) -> ProxySide:
        """A method, because mitmproxy reads all attributes of an addon before it has set the addon's options."""
        if self._side is None:
            self._side = ProxySide(from_proxy_options(ctx.options))
        return self._side

    def load(self, loader: Loader) -> None:
        if self._own:
            for option in OPTIONS:
                loader.add_option(option.name, option.type, option.default, option.help)

    def configure(self, updated: set[str]) -> None:
        if not self._own:
            return
        try:
            from_proxy_options(ctx.options)
        except ConfigError as error:
            raise exceptions.OptionsError(str(error)) from None  # mitmproxy prints the whole chain
        if self._side is not None:
            self._side.taps.history = self._history()

    def _history(self) -> History:
        """Which messages of WebSockets mitmproxy goes on keeping: all where somebody can look at them."""
        chosen = self.side().settings.websocket_history
        if chosen != "auto":
            return "all" if chosen == "keep" else "none"
        if not self._own:
            return "none"  # `sidecar run` shows no flows
        options = (getattr(ctx.options, name, None) for name in ("save_stream_file", "hardump"))
        looked_at = ctx.master.addons.get("view") is not None or any(options)  # mitmweb, mitmproxy; mitmdump -w
        return "all" if looked_at else "not copied"

    async def running(self) -> None:
        self.side().taps.history = self._history()
        if self._own:
            if ctx.options.tcp_timeout == _MITMPROXY_IDLE:
                ctx.options.update(tcp_timeout=self.side().settings.idle_timeout)
            try:
                await self.side().start()
            except ChildFailed as error:
                logger.error("sidecar: %s", error)  # which ends a mitmproxy that is starting
                return
            self._look_for_a_user()

    def _look_for_a_user(self) -> None:
        """mitmweb and mitmproxy's console show flows, to which the analyzer has a word to say."""
        page = self.side().addresses.get("page", "")
        if ctx.master.addons.get("view") is not None and page.startswith("http://"):
            from mitmproxy import contentviews

            from sidecar.flow_verdicts import FlowVerdicts, LlmStreamContentview  # only where somebody looks

            contentviews.add(LlmStreamContentview)
            self._verdicts = FlowVerdicts(f"{page}api/streams", self.side().settings.metrics_token_file)

    def server_connected(self, data: ServerConnectionHookData) -> None:
        self.side().taps.upstreams.connected(data)

    def server_disconnected(self, data: ServerConnectionHookData) -> None:
        self.side().taps.upstreams.disconnected(data)

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        self.side().taps.request_head(flow)

    def request(self, flow: http.HTTPFlow) -> None:
        self.side().taps.request_done(flow)

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        self.side().taps.response_head(flow)

    def response(self, flow: http.HTTPFlow) -> None:
        self._say(flow)
        self.side().taps.response_done(flow)

    def websocket_message(self, flow: http.HTTPFlow) -> None:
        self.side().taps.message(flow)

    def websocket_end(self, flow: http.HTTPFlow) -> None:
        self.side().taps.socket_closed(flow)

    def error(self, flow: http.HTTPFlow) -> None:
        self._say(flow)
        self.side().taps.failed(flow)

    def _say(self, flow: http.HTTPFlow) -> None:
        """Where somebody looks at flows: the verdict on this one, once there is one."""
        if self._verdicts is not None and self.side().taps.copies(flow):
            self._verdicts.over(flow)

    async def done(self) -> None:
        if self._side is not None:
            await self._side.stop()


addons = [LlmSidecar()]
