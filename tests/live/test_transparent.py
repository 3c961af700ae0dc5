"""Transparent mode with the lines of docs/deploy/: clients that know nothing of a proxy, the kernel's redirect, TLS by the
mounted authority, an upstream in another namespace, and the way back."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.live.deploy_page import DEPLOY, load, redirect, undo
from tests.live.namespaces import APP, CONTAINER, NAME, NAME6, within
from tests.live.processes import program
from tests.live.redirected import SEEN, URLS, Place, application, place
from tests.live.scrape import wait_until
from tests.parts import require_program

TOOLS = pytest.mark.parametrize("tool", ["nft", "iptables"])


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Place]:
    async with place(tmp_path) as found:
        yield found


def curl_silently() -> tuple[str, ...]:
    """curl, which prints the answer and the status behind it."""
    return (
        require_program("curl", "apt-get install curl"),
        "--silent",
        "--max-time",
        "20",
        "--write-out",
        "%{http_code}",
    )


@TOOLS
async def test_clients_behind_a_host_that_routes(tool: str, here: Place) -> None:
    net = here.net
    assert here.quic(net.client) == "answered"
    async with here.sidecar(*here.start_line("prerouting")) as (_, authority):
        redirect(net, tool, "prerouting", here.folder)
        await here.ask(net.client, authority, *URLS)
        await here.wait_for(SEEN)
        assert here.quic(net.client) == "refused"
        undo(net, tool, "prerouting")
        await here.ask(net.client, here.certificate.path, *URLS)
        assert here.quic(net.client) == "answered"
        await here.wait_for(SEEN)


@TOOLS
async def test_applications_on_the_same_host(tool: str, here: Place) -> None:
    net = here.net
    async with here.sidecar(*here.start_line("output")) as (_, authority):
        redirect(net, tool, "output", here.folder)
        await here.ask(net.router, authority, *URLS, user=APP)
        await here.wait_for(SEEN)
        assert here.quic(net.router, APP) == "refused"
        await here.ask(net.router, here.certificate.path, *URLS)  # another user
        assert here.quic(net.router) == "answered"
        undo(net, tool, "output")
        await here.ask(net.router, here.certificate.path, *URLS, user=APP)
        await here.wait_for(SEEN)


async def test_nothing_passes_a_sidecar_that_is_down_nor_one_that_was_connected_to_directly(here: Place) -> None:
    net = here.net
    curl = curl_silently()
    async with here.sidecar(*here.start_line("output")) as (sidecar, authority):
        redirect(net, "nft", "output", here.folder)
        await here.ask(net.router, authority, URLS[0], user=APP)
        itself = ("--resolve", f"{NAME}:8888:127.0.0.1", f"http://{NAME}:8888/v1/models")
        async with program("curl", *within(net.router, *application(*curl, *itself))) as asking:
            await asking.finish(30)
            assert "404" not in asking.stdout
            assert asking.stdout[-3:] in ("000", "502"), asking.stdout
        assert await sidecar.stop() == 0
        async with program("curl", *within(net.router, *application(*curl, URLS[2]), user=APP)) as asking:
            assert await asking.finish(30) == 7, asking.stdout  # refused


async def test_an_upstream_that_the_sidecar_does_not_trust_fails_by_its_name_unless_it_is_passed_unread(
    here: Place,
) -> None:
    net = here.net
    curl = curl_silently()
    unread = ("--set", rf"ignore_hosts=^{re.escape(NAME6)}:443$")
    async with here.sidecar(*here.start_line("output"), *unread, trusts=False) as (_, authority):
        redirect(net, "nft", "output", here.folder)
        asks = application(*curl, "--cacert", str(authority), "--data", "{}", f"{URLS[0]}/v1/chat/completions")
        async with program("curl", *within(net.router, *asks, user=APP)) as asking:
            await asking.finish(30)
            assert asking.stdout.endswith("502")
            assert "certificate" in asking.stdout.lower()

        async def failed() -> bool:
            found = here.samples("llm_streams_total").by("llm_streams_total", "outcome", "server_address")
            return found == {("upstream_failed", NAME): 1.0}

        await wait_until(failed, 20, "one failure, under the server's name")
        await here.ask(net.router, here.certificate.path, URLS[1], user=APP)  # its own certificate, not the sidecar's
        assert await failed()


async def test_containers_that_share_a_network_with_the_sidecar(here: Place) -> None:
    net = here.net
    async with here.sidecar(*here.start_line("prerouting"), user=CONTAINER) as (_, authority):
        load(net, DEPLOY / "pod.nft")
        load(net, DEPLOY / "pod.nft")  # a container that is started again does it again
        await here.ask(net.router, authority, *URLS, user=APP)
        await here.ask(net.router, authority, URLS[0])  # whoever it is, also root
        await here.wait_for({**SEEN, (NAME, "443"): 2.0})
        undo(net, "nft", "output")
        await here.ask(net.router, here.certificate.path, *URLS, user=APP)
        await here.wait_for({**SEEN, (NAME, "443"): 2.0})
