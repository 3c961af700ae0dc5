"""The upstreams of the tests of transparent mode in one process: TLS by IPv4 and IPv6, plain HTTP, an echo on UDP.

python redirected_upstreams.py CERTIFICATE ADDRESS ADDRESS6
"""

import asyncio
import ssl
import sys

from sidecar.demo.upstream import serve


class _Echo(asyncio.DatagramProtocol):
    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]  # as asyncio has it
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._transport.sendto(data, addr)


async def main(certificate: str, address: str, address6: str) -> None:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate)
    for host, port, context in ((address, 443, tls), (address6, 443, tls), (address, 8000, None)):
        serve(host, port, tls=context)
    await asyncio.get_running_loop().create_datagram_endpoint(_Echo, (address, 443))
    print("listening", flush=True)
    await asyncio.Event().wait()


asyncio.run(main(*sys.argv[1:]))
