"""The addon that mitmproxy loads: hooks and options only. Bytes pass through untouched; nothing is parsed here."""

from mitmproxy import ctx, exceptions, http
from mitmproxy.addonmanager import Loader

from sidecar.config import OPTIONS, ConfigError, from_proxy_options
from sidecar.proxy_side import ProxySide

_MITMPROXY_IDLE = 600  # its default, in seconds; a model may think for longer


class LlmSidecar:
    """Tees LLM traffic to the analyzer.

    `side` comes from `sidecar run`, started. Under a plain mitmproxy it is made from the `sidecar_…` options and
    started with the proxy.
    """

    def __init__(self, side: ProxySide | None = None) -> None:
        self._own = side is None
        self._side = side

    @property
    def side(self) -> ProxySide:
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
            raise exceptions.OptionsError(str(error)) from error

    async def running(self) -> None:
        if self._own:
            if ctx.options.tcp_timeout == _MITMPROXY_IDLE:
                ctx.options.update(tcp_timeout=self.side.settings.idle_timeout)
            await self.side.start()

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        self.side.taps.request_head(flow)

    def request(self, flow: http.HTTPFlow) -> None:
        self.side.taps.request_done(flow)

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        self.side.taps.response_head(flow)

    def response(self, flow: http.HTTPFlow) -> None:
        self.side.taps.response_done(flow)

    def error(self, flow: http.HTTPFlow) -> None:
        self.side.taps.failed(flow)

    async def done(self) -> None:
        if self._side is not None:
            await self._side.stop()


addons = [LlmSidecar()]
