"""docker-compose.yml without Docker: the commands of its services as they stand there, in network namespaces in the place of
its networks, and folders in the place of its volumes."""

import asyncio
import contextlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.compose import Service, of_profile
from tests.live.namespaces import CLIENT, CONTAINER, SERVER, USERS, files_of, namespace, network, run, within
from tests.live.processes import Program, program
from tests.live.redirected import application
from tests.live.scrape import wait_until
from tests.parts import require_program

THEIRS = {"prometheus", "alertmanager", "grafana", "jaeger"}
_GET = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=10).read().decode())"


@contextlib.asynccontextmanager
async def started(place: str, service: Service, user: str = CONTAINER) -> AsyncIterator[Program]:
    """A service as its container would run it, healthy where it says when it is."""
    command = application(*service.command(), **service.environment(), HOME=str(service.volumes / "home"))
    async with program(service.name, *within(place, *command, user=user), env={"TMPDIR": "/tmp"}) as running:
        if "healthcheck" in service.said:
            await wait_until(lambda: healthy(place, service, running), 40, f"{service.name} is healthy")
        yield running
        assert running.running, running.stderr
        assert "Traceback" not in running.stderr, running.stderr


async def healthy(place: str, service: Service, running: Program) -> bool:
    """Whether the service's own health check says so."""
    assert running.running, running.stderr
    async with program("health check", *within(place, *application(*service.health()), user=CONTAINER)) as check:
        return await check.finish() == 0


def get(place: str, url: str) -> str:
    return run(place, *application(sys.executable, "-c", _GET, url))


@pytest.fixture
def volumes() -> Iterator[Path]:
    """The named volumes, which belong to the image's user, and its home."""
    with tempfile.TemporaryDirectory(prefix="compose-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        for volume in ("alertmanager", "authority", "certificate", "confdir", "state", "prometheus"):
            (folder / volume).mkdir()
            os.chown(folder / volume, USERS[CONTAINER], USERS[CONTAINER])
        (folder / "home").mkdir()
        (folder / "home" / ".mitmproxy").symlink_to(folder / "confdir")
        yield folder


async def test_reverse(volumes: Path) -> None:
    ours = ("demo-upstream", "gateway", "sidecar", "clients")
    assert set(ours) | THEIRS == of_profile("reverse")
    with namespace("box", dict.fromkeys(of_profile("reverse"), "127.0.0.1")) as box:
        async with contextlib.AsyncExitStack() as stack:
            for name in ours:
                await stack.enter_async_context(started(box, Service(name, volumes)))
            await stack.enter_async_context(prometheus(box, Service("prometheus", volumes)))
            await stack.enter_async_context(alertmanager(box, Service("alertmanager", volumes)))

            async def counted(expression: str) -> bool:
                query = urlencode({"query": expression})
                return bool(json.loads(get(box, f"http://prometheus:9090/api/v1/query?{query}"))["data"]["result"])

            for expression in (
                'up{job="llm-sidecar"} == 1',
                'llm_streams_total{outcome="complete", server_address="demo-upstream"}',
                'llm_streams_total{outcome="complete", server_address="gateway"}',
                'llm_hop_added_first_token_seconds_count{outer_server_address="gateway"}',
                'llm_websocket_sessions_total{close_code="1000"}',
                "llm_sidecar_recordings_total > 0",
            ):
                await wait_until(lambda: counted(expression), 90, expression)  # noqa: B023  # awaited before the next one
            assert list((volumes / "state" / "recordings").glob("*.jsonl"))
            rules = json.loads(get(box, "http://prometheus:9090/api/v1/rules"))["data"]["groups"]
            assert any(rule["name"] == "LLMSidecarDown" for group in rules for rule in group["rules"])
            known = json.loads(get(box, "http://prometheus:9090/api/v1/alertmanagers"))["data"]["activeAlertmanagers"]
            assert [each["url"] for each in known] == ["http://alertmanager:9093/api/v2/alerts"]
            status = json.loads(get(box, "http://alertmanager:9093/api/v2/status"))
            assert "LLM" in status["config"]["original"]


@contextlib.asynccontextmanager
async def prometheus(place: str, service: Service) -> AsyncIterator[None]:
    """Debian's Prometheus with the service's command; its configuration lies in /etc, as in the container."""
    path = require_program("prometheus", "apt-get install prometheus")
    assert Path("/etc/prometheus").is_dir()
    laid = files_of(place) / "prometheus"
    for target, source in service.mounts().items():
        if target.startswith("/etc/prometheus/"):
            copied = laid / Path(target).relative_to("/etc/prometheus")
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(source, copied) if source.is_dir() else shutil.copy(source, copied)
    storage = (service.here(["prometheus", argument])[1] for argument in service.said["command"])
    command = [a if a.startswith("--storage") else b for a, b in zip(storage, service.said["command"], strict=True)]
    async with program("prometheus", *within(place, path, *command, user=CONTAINER)) as running:
        await running.says("(Server is ready to receive web requests)")
        yield


@contextlib.asynccontextmanager
async def alertmanager(place: str, service: Service) -> AsyncIterator[None]:
    """Debian's Alertmanager with the service's command."""
    path = shutil.which("alertmanager") or require_program(
        "prometheus-alertmanager", "apt-get install prometheus-alertmanager"
    )
    command = service.here([path, *service.said["command"]])
    async with program("alertmanager", *within(place, *command, user=CONTAINER)) as running:
        await running.says('(msg="Listening on")')
        yield


async def test_transparent(volumes: Path) -> None:
    ours = {"demo-upstream", "tls-upstream", "authority", "sidecar-transparent", "redirect", "application"}
    assert ours | THEIRS == of_profile("transparent")
    with network({"tls-upstream": CLIENT, "demo-upstream": SERVER}) as net:
        service = {name: Service(name, volumes) for name in ours}
        assert all(
            service[name].said["network_mode"] == "service:sidecar-transparent" for name in ("redirect", "application")
        )
        run(net.router, *service["authority"].command(), user=CONTAINER)
        async with (
            started(net.client, service["tls-upstream"]),
            started(net.server, service["demo-upstream"]),
            started(net.router, service["sidecar-transparent"]),
        ):
            require_program("nft", "apt-get install nftables")
            run(net.router, *service["redirect"].command())
            user = service["application"].said["user"].partition(":")[0]
            async with started(net.router, service["application"], user):

                async def both_seen() -> bool:
                    page = await asyncio.to_thread(get, net.router, "http://127.0.0.1:9464/metrics")
                    complete = [line for line in page.splitlines() if 'outcome="complete"' in line]
                    return all(
                        any(f'server_address="{name}",server_port="8000"' in line for line in complete)
                        for name in ("tls-upstream", "demo-upstream")
                    )

                await wait_until(both_seen, 60, "streams of both upstreams by their names")
