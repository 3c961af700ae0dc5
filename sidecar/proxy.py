"""mitmproxy as `sidecar run` runs it: only the addons that a streaming proxy needs, and ours."""

import asyncio
import logging
import signal
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mitmproxy import exceptions, options
from mitmproxy.addons import (
    block,
    core,
    disable_h2c,
    dns_resolver,
    next_layer,
    proxyauth,
    proxyserver,
    script,
    tlsconfig,
    upstream_auth,
)
from mitmproxy.master import Master
from mitmproxy.tls import ClientHelloData

from sidecar.addon import LlmSidecar
from sidecar.addon_chain import AddonChain
from sidecar.capture.redaction import without_quotes
from sidecar.config import ConfigError, Settings
from sidecar.modes import modes_of
from sidecar.passivity import HostInBrackets, ManyUpstreamConnections, mend
from sidecar.proxy_side import ProxySide
from sidecar.short_way import shorten
from sidecar.start_error import StartError
from sidecar.stopping import Stopping
from sidecar.transport.own_analyzer import OwnAnalyzer
from sidecar.transport.supervisor import ChildFailed


class _ErrorCheck:
    """Under the name by which mitmproxy's master looks for it: turns what is logged during start-up into StartError."""

    name = "errorcheck"

    def __init__(self) -> None:
        self._errors: list[str] = []
        self._handler = logging.Handler(logging.ERROR)
        self._handler.emit = lambda record: self._errors.append(record.getMessage())  # type: ignore[method-assign]
        logging.getLogger().addHandler(self._handler)

    async def shutdown_if_errored(self) -> None:
        await asyncio.sleep(0)
        if self._errors:
            raise StartError(" ".join(self._errors[0].split()))

    def finish(self) -> None:
        logging.getLogger().removeHandler(self._handler)


async def run(
    settings: Settings,
    ready: Callable[[Sequence[str], dict[str, str]], None],
    until: "asyncio.Future[None] | None" = None,
    analyzer: OwnAnalyzer | None = None,
    stopping: Stopping | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM, or `until` is done. `ready` is told the proxy's addresses and the analyzer's.

    `analyzer` is one that has begun to start already, `stopping` what signals already do.

    Raises StartError or ConfigError where it cannot.
    """
    modes = modes_of(settings)
    if settings.socket is not None and settings.record is not None:
        raise ConfigError("--record and --socket exclude each other: who records is the analyzer, give it --record")
    logging.getLogger().setLevel(settings.log_level.upper())
    side = ProxySide(settings, analyzer)
    stopping = stopping or Stopping()
    if until is not None:
        until.add_done_callback(lambda _: stopping.stop())
    asyncio.get_running_loop().set_exception_handler(_report)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    try:
        await side.start()
        master = _master(settings, modes, side)
        stopping.end = master.shutdown
        server = master.addons.get("proxyserver")

        def up() -> None:
            _log_to_stderr()
            ready(_addresses(server), side.addresses)

        master.addons.add(_Ready(up))
        await master.run()
    except ChildFailed as error:
        raise StartError(str(error)) from error
    except asyncio.CancelledError:
        if not stopping.asked:
            raise
    finally:
        await side.stop()


def _report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Connections open at the end are cancelled, which asyncio before Python 3.12.2 mistakes for an error."""
    if not isinstance(context.get("exception"), asyncio.CancelledError):
        loop.default_exception_handler(context)


def _log_to_stderr() -> None:
    """From now on; what goes wrong before is the one line of a StartError."""
    handler = logging.StreamHandler()
    handler.setFormatter(_WithoutQuotes("%(levelname)s %(name)s %(message)s"))
    logging.getLogger().addHandler(handler)


class _WithoutQuotes(logging.Formatter):
    """mitmproxy quotes what it cannot read, with credentials and all."""

    def format(self, record: logging.LogRecord) -> str:
        return without_quotes(super().format(record))


class _Ready:
    """Tells when the proxy has come up."""

    name = "ready"

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then

    def running(self) -> None:
        self._then()


def _addresses(server: proxyserver.Proxyserver) -> list[str]:
    found: dict[str, None] = {}  # in order; TCP and UDP (HTTP/3) of one port are one address
    for instance in server.servers:
        for address in instance.listen_addrs:
            host, port = address[0], address[1]
            found[f"{f'[{host}]' if ':' in host else host}:{port} ({instance.mode.full_spec})"] = None
    return list(found)


def _strategy(modes: Sequence[str]) -> str:
    """When mitmproxy connects to the upstream. A reverse proxy does it for a request, so that an upstream that cannot
    be reached is an answer (502) and an outcome, rather than a connection that closes before anything was asked."""
    return "lazy" if all(mode.startswith("reverse:") for mode in modes) else "eager"


class _UpstreamTlsFirst:
    """A client that speaks TLS is offered the protocols that its upstream speaks, whatever the strategy."""

    name = "upstream_tls_first"

    def tls_clienthello(self, data: ClientHelloData) -> None:
        data.establish_server_tls_first = data.context.server.tls


def _master(settings: Settings, modes: Sequence[str], side: ProxySide) -> Master:
    mend()
    shorten()
    opts = options.Options()
    master = Master(opts)
    master.addons = AddonChain(master)
    master.addons.add(  # type: ignore[no-untyped-call]  # mitmproxy has no types here
        core.Core(),
        block.Block(),
        disable_h2c.DisableH2C(),
        proxyauth.ProxyAuth(),
        proxyserver.Proxyserver(),
        script.ScriptLoader(),
        dns_resolver.DnsResolver(),
        next_layer.NextLayer(),
        tlsconfig.TlsConfig(),
        _UpstreamTlsFirst(),
        ManyUpstreamConnections(),
        HostInBrackets(),
        upstream_auth.UpstreamAuth(),
        _ErrorCheck(),
        LlmSidecar(side),
    )
    try:
        opts.update(mode=list(modes), tcp_timeout=settings.idle_timeout, connection_strategy=_strategy(modes))
        opts.set(*settings.set)
    except (exceptions.OptionsError, KeyError, ValueError) as error:
        raise ConfigError(f"mitmproxy does not take this: {error}") from error
    _check_confdir(Path(opts.confdir).expanduser())
    return master


def _check_confdir(folder: Path) -> None:
    """mitmproxy makes an authority there, also where nobody will need it. Raises ConfigError where it could not."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        authority = folder / f"{options.CONF_BASENAME}-ca.pem"
        if authority.exists():
            authority.read_bytes()
        else:
            tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        reason = error.strerror or error
        raise ConfigError(
            f"mitmproxy's folder {folder} cannot be used: {reason}; name another with --set confdir=DIR"
        ) from error
