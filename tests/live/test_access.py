"""Who may read metrics and page: over real sockets, with a token, with TLS, and from a page that a browser was lured to."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.live.processes import BIN, program, sidecar_analyzer
from tests.live.tls import Certificate, trusting

TOKEN = "0123456789abcdef-token"
PATHS = ("/", "/metrics", "/api/streams")
HEALTH = ("/healthz", "/readyz")


@pytest.fixture
async def guarded(short_path: Path, certificate: Certificate) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an analyzer with a token and TLS, without the token."""
    file = short_path / "token"
    file.write_text(f"{TOKEN}\n")
    options = ("--metrics-token-file", str(file), "--metrics-certificate", str(certificate.path))
    command = (str(BIN / "sidecar"), "analyzer", "--socket", str(short_path / "s"), "--metrics-listen", "127.0.0.1:0")
    async with program("sidecar analyzer", *command, *options) as running:
        base = (await running.says(r"metrics +(https://\S+)")).removesuffix("/metrics")
        async with httpx.AsyncClient(base_url=base, verify=trusting(certificate.path), trust_env=False) as client:
            yield client


def basic(password: str) -> str:
    return "Basic " + b64encode(f"prometheus:{password}".encode()).decode()


async def test_a_token_is_asked_for_and_health_checks_need_none(guarded: httpx.AsyncClient) -> None:
    for path in HEALTH:
        assert (await guarded.get(path)).status_code == 200
    for path in (*PATHS, "/nowhere"):
        answer = await guarded.get(path)
        assert (answer.status_code, answer.headers["www-authenticate"][:5]) == (401, "Basic")
        assert "llm_" not in answer.text
    for shown in (f"Bearer {TOKEN}x", "Bearer", "Basic ???", basic(""), basic(TOKEN[:-1]), "Digest x", "\xff"):
        answer = await guarded.get("/metrics", headers={b"authorization": shown.encode("latin-1")})
        assert answer.status_code == 401, shown
    for shown in (f"Bearer {TOKEN}", f"bearer  {TOKEN}", basic(TOKEN)):
        for path in PATHS:
            answer = await guarded.get(path, headers={"authorization": shown})
            assert answer.status_code == 200, (shown, path)
        assert "llm_sidecar_build_info" in (await guarded.get("/metrics", headers={"authorization": shown})).text


async def test_a_foreign_name_is_not_answered_on_loopback(short_path: Path) -> None:
    """A browser sends it when a page that it was lured to had its name point to this host (DNS rebinding)."""
    async with (
        sidecar_analyzer(short_path / "s") as (_, metrics),
        httpx.AsyncClient(trust_env=False) as client,
    ):
        for host in (
            "attacker.example",
            "attacker.example:9464",
            "127.0.0.1.attacker.example",
            "10.0.0.1",
            "[2001::1]",
        ):
            answer = await client.get(metrics, headers={"host": host})
            assert answer.status_code == 403, host
            assert "llm_" not in answer.text
        for host in ("localhost", "localhost:9464", "127.0.0.1:1", "[::1]:9464", "x.localhost"):
            assert (await client.get(metrics, headers={"host": host})).status_code == 200, host


async def test_clients_that_never_read_or_never_ask_are_bounded(short_path: Path) -> None:
    async with sidecar_analyzer(short_path / "s") as (_, metrics):
        url = urlsplit(metrics)
        connections = [await asyncio.open_connection(url.hostname, url.port) for _ in range(200)]
        refused = 0
        for number, (reader, writer) in enumerate(connections):
            writer.write(b"GET /metrics HTTP/1.1\r\n" if number % 2 else b"")
            try:
                await asyncio.wait_for(reader.read(1), 0.05)
                refused += 1
            except TimeoutError:
                continue
            except ConnectionError:
                refused += 1
        assert 50 <= refused < 100
        for _, writer in connections:
            writer.close()
        async with httpx.AsyncClient(trust_env=False) as client:

            async def answered() -> bool:
                try:
                    return (await client.get(metrics)).status_code == 200
                except httpx.TransportError:
                    return False

            async with asyncio.timeout(10):
                while not await answered():
                    await asyncio.sleep(0.05)
