"""Several proxies on one port, each a process of its own, and one analyzer for all of them.

Linux gives each new connection to one of the processes that listen on a port with SO_REUSEPORT, by a hash of its
addresses and ports: connections spread evenly where there are many, and one stays where it is for as long as it lives,
with all requests on it. This process only starts the others, starts again what dies, and keeps the port.
"""

import asyncio
import contextlib
import errno
import socket
from collections.abc import Callable, Iterator, Sequence

import msgspec
from mitmproxy.proxy import mode_specs

from sidecar.config import ConfigError, Settings
from sidecar.modes import modes_of
from sidecar.start_error import StartError
from sidecar.stopping import stop_on_signals
from sidecar.transport.own_analyzer import OwnAnalyzer
from sidecar.transport.supervisor import WORKER, ChildFailed, Supervisor

_DEFAULT_PORT = 8080  # mitmproxy's
_STOP_SECONDS = 10.0
_SHARED = (
    mode_specs.RegularMode,
    mode_specs.ReverseMode,
    mode_specs.Socks5Mode,
    mode_specs.TransparentMode,
    mode_specs.UpstreamMode,
)


async def run(settings: Settings, ready: Callable[[Sequence[str], dict[str, str]], None]) -> None:
    """Serve until SIGINT or SIGTERM. `ready` is told the proxies' addresses and the analyzer's.

    Raises StartError or ConfigError where it cannot.
    """
    until: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    stop_on_signals(until)
    with _kept_ports(modes_of(settings)) as modes:
        each = msgspec.structs.replace(settings, upstream=None, mode=tuple(modes))
        own: OwnAnalyzer | None = None
        workers: list[Supervisor] = []
        try:
            path = settings.socket
            if path is None:
                own = OwnAnalyzer(settings)
                own.begin()
                path = own.socket
                each = msgspec.structs.replace(each, record=None)  # which is the analyzer's
            workers = [Supervisor(path, each, WORKER) for _ in range(settings.workers)]
            # The first makes mitmproxy's authority, where there is none yet; all others find it.
            listening = await workers[0].start()
            addresses = {} if own is None else await own.start()
            await asyncio.gather(*(worker.start() for worker in workers[1:]))
            ready(list(listening.values()), addresses)
            await until
        except ChildFailed as error:
            raise StartError(str(error)) from error
        finally:
            await asyncio.gather(*(worker.stop(_STOP_SECONDS) for worker in workers))
            if own is not None:
                await own.stop()


@contextlib.contextmanager
def _kept_ports(modes: Sequence[str]) -> Iterator[list[str]]:
    """The modes with the ports that they will have. They stay ours, whichever of the proxies live."""
    with contextlib.ExitStack() as kept:
        yield [_kept_port(mode, kept) for mode in modes]


def _kept_port(spec: str, kept: contextlib.ExitStack) -> str:
    mode = mode_specs.ProxyMode.parse(spec)
    if not isinstance(mode, _SHARED) or mode.transport_protocol == "udp":
        raise ConfigError(f"several workers cannot share {spec!r}: only TCP ports are shared; leave --workers out")
    if not hasattr(socket, "SO_REUSEPORT"):
        raise ConfigError("this system shares no ports between processes; leave --workers out")
    host, port = mode.listen_host(""), mode.listen_port(_DEFAULT_PORT) or 0
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        if port:  # with SO_REUSEPORT a port can be had beside others of the same user, who then get half of our traffic
            with socket.socket(family) as alone:
                alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                alone.bind((host, port))
        own = kept.enter_context(socket.socket(family))
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        own.bind((host, port))  # without listening, it gets no connections
    except OSError as error:
        reason = "somebody listens there" if error.errno == errno.EADDRINUSE else error.strerror or str(error)
        raise StartError(f"cannot listen on {host or '*'}:{port}: {reason}") from error
    what = spec.rpartition("@")[0] if mode.custom_listen_port is not None else spec
    return f"{what}@{f'{host}:' if host else ''}{own.getsockname()[1]}"
