"""Where transparent mode is tested: a host with the sidecar, clients behind it and on it, upstreams in front of it."""

import contextlib
import os
import shutil
import sys
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.live.deploy_page import block, run_lines, start_line
from tests.live.namespaces import NAME, NAME6, SERVER, SERVER6, SIDECAR, USERS, Network, network, run, within
from tests.live.processes import Program, program
from tests.live.scrape import Samples, wait_until
from tests.live.tls import Certificate

URLS = (f"https://{NAME}", f"https://{NAME6}", f"http://{NAME}:8000")
SEEN = {(NAME, "443"): 1.0, (NAME6, "443"): 1.0, (NAME, "8000"): 1.0}
"""What is counted when each of these was asked once."""

_ASK = Path(__file__).with_name("ask_openai.py")
_UPSTREAMS = Path(__file__).with_name("redirected_upstreams.py")
_UDP_ASK = """
import socket, sys
ask = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
ask.settimeout(10)
ask.connect((sys.argv[1], 443))
try:
    ask.send(b"quic")
    print("answered" if ask.recv(100) else "")
except (ConnectionRefusedError, PermissionError):  # by a router; by one's own host
    print("refused")
"""
_SURROUNDINGS = (
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "AWS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
    *("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"),
)
"""Variables with which whoever runs the tests could tell a client of authorities or proxies."""


def application(*command: str, **told: str) -> tuple[str, ...]:
    """A command line that knows of no proxy and no authority but those that it is told of."""
    unset = (option for name in _SURROUNDINGS for option in ("-u", name))
    return ("env", *unset, "HOME=/nonexistent", *(f"{name}={value}" for name, value in told.items()), *command)


@dataclass
class Place:
    """Three namespaces with upstreams in the last one: OpenAI's API over TLS and without, and an echo on UDP port 443."""

    net: Network
    certificate: Certificate
    folder: Path

    @contextlib.asynccontextmanager
    async def sidecar(
        self, *command: str, user: str = SIDECAR, trusts: bool = True
    ) -> AsyncIterator[tuple[Program, Path]]:
        """The sidecar in the router as a user of its own, and the authority to be trusted; it has to stop cleanly.

        `trusts`: it knows the authority of the upstream's certificate.
        """
        state = self.folder / "state"
        state.mkdir()
        os.chown(state, USERS[user], USERS[user])
        trust = ("--set", f"ssl_verify_upstream_trusted_ca={self.certificate.path}") if trusts else ()
        inside = within(self.net.router, *command, *trust, user=user)
        async with program("sidecar run", *inside, env={"HOME": str(state)}) as running:
            await running.says(r"metrics +(http://127\.0\.0\.1:9464/metrics)")
            # As an operator does it: the certificate, not the folder, whose key is for nobody else to read.
            authority = Path(
                shutil.copy(state / "mitmproxy" / "mitmproxy-ca-cert.pem", self.folder / "llm-sidecar.crt")
            )
            yield running, authority
            if running.running:
                assert self.samples("llm_sidecar_stage_failures_total").total("llm_sidecar_stage_failures_total") == 0
                assert await running.stop() == 0, running.stderr
            assert "Traceback" not in running.stderr, running.stderr

    def start_line(self, hook: str) -> tuple[str, ...]:
        """How the page starts the sidecar for this hook."""
        return start_line(hook, self.folder / "state")

    def samples(self, prefix: str) -> Samples:
        """What the sidecar publishes on its loopback."""
        get = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:9464/metrics').read().decode())"
        page = run(self.net.router, *application(sys.executable, "-c", get))
        text = "".join(line for line in page.splitlines(keepends=True) if line.startswith(prefix))
        families = text_string_to_metric_families(text)
        return Samples.of(sample for family in families for sample in family.samples)

    def counted(self) -> Counter[tuple[str, str]]:
        """Complete exchanges by server and port."""
        found = self.samples("llm_streams_total").only(outcome="complete", gen_ai_provider_name="openai")
        return Counter(found.by("llm_streams_total", "server_address", "server_port"))

    async def wait_for(self, expected: dict[tuple[str, str], float]) -> None:
        """Exactly these were counted."""

        async def as_expected() -> bool:
            return self.counted() == expected

        await wait_until(as_expected, 20, f"{expected} counted")
        assert self.samples("llm_streams_total").total("llm_streams_total") == sum(expected.values())

    async def ask(self, namespace: str, trusted: Path, *urls: str, user: str = "") -> None:
        """An application asks and is answered; it trusts one authority and no other."""
        asks = application(sys.executable, str(_ASK), *urls, SSL_CERT_FILE=str(trusted))
        async with program("application", *within(namespace, *asks, user=user)) as asking:
            assert await asking.finish(90) == 0, asking.stderr
            answers = asking.stdout.splitlines()
        assert [answer.split(" ", 1)[0] for answer in answers] == list(urls)
        assert all("recorder keeps every byte" in answer for answer in answers), answers

    def quic(self, namespace: str, user: str = "") -> str:
        """What becomes of a datagram to port 443 of the server: answered or refused."""
        return run(namespace, sys.executable, "-c", _UDP_ASK, SERVER, user=user).strip()


@contextlib.asynccontextmanager
async def place(folder: Path) -> AsyncIterator[Place]:
    """All of it up, except for the sidecar and the redirect."""
    certificate = Certificate(folder, NAME, NAME6)
    with network() as net:
        run_lines(net, block("sh routing"))
        command = (sys.executable, str(_UPSTREAMS), str(certificate.path), SERVER, SERVER6)
        async with program("upstreams", *within(net.server, *command)) as upstreams:
            await upstreams.says("(listening)")
            yield Place(net, certificate, folder)
