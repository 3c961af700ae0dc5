"""Passivity: the same conversation, direct and through the proxy, and what both ends saw of it. docs/passivity.md."""

import asyncio
import contextlib
import socket

import pytest
import pytest_asyncio

from tests.live.conversations import CONVERSATIONS
from tests.live.differences import DIFFERENCES, rendered
from tests.live.messages import messages_of
from tests.live.processes import PROJECT, sidecar_run
from tests.live.tls import Certificate, trusting
from tests.live.wire import Conversation, Seen, Wire, differences

ROUTES = ("plain", "tls on both sides", "ipv6")
TALKS = [
    pytest.param(route, talk, id=f"{route}, {talk.name}")
    for route in ROUTES
    for talk in CONVERSATIONS
    if talk.over_tls or route != "tls on both sides"
]
KEYS = {each.name: each.keys for each in DIFFERENCES}


def _free_port(host: str) -> int:
    with socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET) as held:
        port: int = held.getsockname()[1]
        return port


type Played = dict[tuple[str, str], tuple[Seen, Seen]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def played(certificate: Certificate, tmp_path_factory: pytest.TempPathFactory) -> Played:
    """All conversations of all routes, direct and through one proxy; the routes at once, as most of it is waiting."""
    found: Played = {}
    private = tmp_path_factory.mktemp("mitmproxy")
    wires = {
        "plain": Wire(),
        "tls on both sides": Wire(tls=certificate.server()),
        "ipv6": Wire("::1"),
    }
    ports = {route: _free_port(wire.host) for route, wire in wires.items()}

    async def play(route: str) -> None:
        wire, tls = wires[route], wires[route].tls is not None
        theirs = trusting(certificate.path) if tls else None
        ours = trusting(private / "mitmproxy-ca-cert.pem") if tls else None
        for talk in CONVERSATIONS:
            if talk.over_tls or not tls:
                direct = await wire.play(talk, (wire.host, wire.port), theirs)
                through = await wire.play(talk, (wire.host, ports[route]), ours, like=direct)
                found[route, talk.name] = direct, through

    async with contextlib.AsyncExitStack() as running:
        options = ["--set", f"confdir={private}", "--set", f"ssl_verify_upstream_trusted_ca={certificate.path}"]
        for route, wire in wires.items():
            await running.enter_async_context(wire.serving())
            host = f"[{wire.host}]" if ":" in wire.host else wire.host
            options += ["--mode", f"reverse:{wire.url}@{host}:{ports[route]}"]
        await running.enter_async_context(sidecar_run(*options))
        async with asyncio.TaskGroup() as routes:
            for route in wires:
                routes.create_task(play(route))
    return found


@pytest.mark.parametrize(("route", "talk"), TALKS)
def test_both_ends_see_what_they_see_without_the_proxy(played: Played, route: str, talk: Conversation) -> None:
    direct, through = played[route, talk.name]
    found = list(differences(direct, through, talk.method))
    assert {key for key, *_ in found} == {key for name in talk.differs for key in KEYS[name]}, found


def test_every_difference_is_one_that_a_conversation_shows() -> None:
    assert {name for talk in CONVERSATIONS for name in talk.differs} == KEYS.keys()


def test_the_conversations_are_what_they_are_called(played: Played) -> None:
    """Without the proxy all of them work: a comparison of two failures would show nothing."""

    def responses(name: str) -> list[str]:
        talk = next(talk for talk in CONVERSATIONS if talk.name == name)
        return [each.start[9:12] for each in messages_of(bytes(played["plain", name][0].client.seen), talk.method)]

    usual = {talk.name: ["200"] for talk in CONVERSATIONS}
    unusual = {
        "204": ["204"],
        "304": ["304"],
        "103": ["103", "200"],
        "103 in pieces": ["103", "103", "200"],
        "100 unasked": ["100", "200"],
        "expect": ["100", "200"],
        "kept alive": ["200"] * 3,
        "pipelined": ["200"] * 3,
        "early response": ["413"],
        "another protocol": ["101"],
    }
    assert {name: responses(name) for name in usual} == usual | unusual
    trailers = messages_of(bytes(played["plain", "trailers"][1].client.seen), "POST")[0].trailers
    assert trailers == (("x-sum", "1"),)
    assert played["plain", "client leaves"][1].upstream[0].ending == "closed"


def test_the_page_lists_the_differences() -> None:
    assert rendered() in (PROJECT / "docs" / "passivity.md").read_text(encoding="utf-8")
