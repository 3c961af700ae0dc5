"""Which of mitmproxy's modes the settings ask for."""

import re

from mitmproxy.proxy.mode_specs import ProxyMode

from sidecar.config import ConfigError, Settings, host_port

_BRACKETS = re.compile(r"@\[([^\[\]@]+)\]:(\d+)$")
"""An IPv6 address to listen on, as everybody writes it; mitmproxy takes it without brackets only."""


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
