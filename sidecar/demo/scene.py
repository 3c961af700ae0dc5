"""The parts of the demo as processes of their own, for containers and for a Prometheus that watches them.

    python -m sidecar.demo.scene upstream 127.0.0.1:8000 [FILE.pem NAME]
    python -m sidecar.demo.scene gateway 127.0.0.1:8001 http://127.0.0.1:8082
    python -m sidecar.demo.scene collector 127.0.0.1:4318
    python -m sidecar.demo.scene clients http://127.0.0.1:8080 http://127.0.0.1:8081

The upstream speaks TLS where it is given a file for its certificate, which it makes for this name and without an authority;
who has to trust it trusts this file. The clients ask for every fault there is at the first address, and talk to it over
WebSockets; at the second, which is that of the gateway, they ask for what a gateway spoils. The collector takes spans over
OTLP/HTTP and counts them.
"""

import asyncio
import ssl
import sys
from pathlib import Path

from sidecar.config import host_port
from sidecar.demo import collector, gateway, upstream
from sidecar.demo.certificate import self_signed
from sidecar.demo.clients import BORED, IMPATIENT, PATIENT, all_clients
from sidecar.demo.faults import ALL_LATE_HEADS, ALL_PLAYS, ONE_AT_A_TIME
from sidecar.demo.talkers import all_talkers
from sidecar.stopping import stop_on_signals

DIRECT = (*(ALL_PLAYS.keys() - {"deep-thinker"}), "queued", "queued", IMPATIENT, PATIENT, PATIENT, PATIENT)
THROUGH_GATEWAY = ("healthy", "cached-prompt", BORED, PATIENT, PATIENT)


async def main(part: str, *arguments: str) -> None:
    """Play one part until SIGINT or SIGTERM."""
    until: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    stop_on_signals(until)
    if part == "clients":
        direct, through_gateway = arguments
        clients = all_clients(direct, DIRECT) + all_talkers(direct) + all_clients(through_gateway, THROUGH_GATEWAY)
        await until
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)
        return
    host, port = host_port(arguments[0], part)
    if part == "upstream":
        server, port = upstream.serve(host, port, ALL_PLAYS, ALL_LATE_HEADS, _tls(*arguments[1:]), ONE_AT_A_TIME)
    elif part == "collector":
        server, port = collector.serve(host, port)
    else:
        server, port = gateway.serve(host, port, arguments[1].rstrip("/"))
    print(f"{part:<9} http://{host}:{port}", flush=True)
    await until
    server.stop()
    await server.close_all_connections()


def _tls(file: str = "", name: str = "") -> ssl.SSLContext | None:
    if not file:
        return None
    self_signed(Path(file), (name,))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(file)
    return context


if __name__ == "__main__":
    known = {"upstream": (3, 5), "gateway": (4,), "collector": (3,), "clients": (4,)}
    if len(sys.argv) not in known.get(" ".join(sys.argv[1:2]), ()):
        sys.exit(__doc__)
    asyncio.run(main(*sys.argv[1:]))
