"""mitmproxy as `sidecar run` runs it: only the addons that a streaming proxy needs, and ours."""

import asyncio
import logging
import re
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
from mitmproxy.proxy.mode_specs import ProxyMode
from mitmproxy.tls import ClientHelloData

from sidecar.addon import LlmSidecar
from sidecar.capture.redaction import without_quotes
from sidecar.config import ConfigError, Settings, host_port
from sidecar.passivity import HostInBrackets, ManyUpstreamConnections, mend
from sidecar.proxy_side import ProxySide
from sidecar.transport.supervisor import AnalyzerFailed

_BRACKETS = re.compile(r"@\[([^\[\]@]+)\]:(\d+)$")
"""An IPv6 address to listen on, as everybody writes it; mitmproxy takes it without brackets only."""


class StartError(RuntimeError):
    """The proxy cannot start; the text is one line that says why and what to do."""


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


def modes_of(settings: Settings) -> list[str]:
    """The mitmproxy modes that the settings ask for. Raises ConfigError."""
    modes = list(settings.mode)
    if settings.upstream is not None:
        if modes:
            raise ConfigError(
                "--upstream and --mode exclude each other; a reverse proxy is --mode reverse:URL@PORT, too"
            )
        if not settings.upstream.startswith(("http://", "https://")):
            raise ConfigError(f"--upstream is {settings.upstream!r}, not a URL like https://api.openai.com")
        host, port = host_port(settings.listen, "listen")
        modes = [f"reverse:{settings.upstream.rstrip('/')}@{host}:{port}"]
    if not modes:
        raise ConfigError("nothing to listen for: give --upstream URL or --mode MODE (see --help)")
    modes = [_BRACKETS.sub(r"@\1:\2", mode) for mode in modes]
    for mode in modes:
        try:
            ProxyMode.parse(mode)
        except ValueError as error:
            raise ConfigError(f"bad upstream or mode {mode!r}: {error}") from error
    return modes


async def run(
    settings: Settings, set_options: Sequence[str], ready: Callable[[Sequence[str], dict[str, str]], None]
) -> None:
    """Serve until SIGINT or SIGTERM. `ready` is told the proxy's addresses and the analyzer's.

    Raises StartError or ConfigError where it cannot.
    """
    modes = modes_of(settings)
    if settings.socket is not None and settings.record is not None:
        raise ConfigError("--record and --socket exclude each other: who records is the analyzer, give it --record")
    logging.getLogger().setLevel(settings.log_level.upper())
    side = ProxySide(settings)
    stopping = _Stopping()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_report)
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.stop)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    try:
        await side.start()
        master = stopping.master = _master(settings, modes, set_options, side)
        server = master.addons.get("proxyserver")

        def up() -> None:
            _log_to_stderr()
            ready(_addresses(server), side.addresses)

        master.addons.add(_Ready(up))
        await master.run()
    except AnalyzerFailed as error:
        raise StartError(str(error)) from error
    except asyncio.CancelledError:
        if not stopping.asked:
            raise
    finally:
        await side.stop()


class _Stopping:
    """What a signal does: it ends the proxy in order, or, before there is one, breaks off the start."""

    def __init__(self) -> None:
        self.master: Master | None = None
        self.asked = False
        self._task = asyncio.current_task()

    def stop(self) -> None:
        self.asked = True
        if self.master is not None:
            self.master.shutdown()
        elif self._task is not None:
            self._task.cancel()


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


def _master(settings: Settings, modes: Sequence[str], set_options: Sequence[str], side: ProxySide) -> Master:
    mend()
    opts = options.Options()
    master = Master(opts)
    master.addons.add(
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
        opts.set(*set_options)
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
