"""Passivity: the same conversation, direct and through the proxy, and what both ends saw of it. docs/passivity.md."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.live.conversations import CONVERSATIONS
from tests.live.differences import DIFFERENCES, rendered
from tests.live.messages import messages_of
from tests.live.processes import PROJECT, Sidecar, sidecar_run
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


@contextlib.asynccontextmanager
async def set_up(route: str, certificate: Certificate, private: Path) -> AsyncIterator[tuple[Wire, Sidecar]]:
    """The upstream and the proxy of one route."""
    tls = route == "tls on both sides"
    host = "::1" if route == "ipv6" else "127.0.0.1"
    options = ["--set", f"confdir={private}", "--set", f"ssl_verify_upstream_trusted_ca={certificate.path}"]
    if host == "::1":
        options += ["--listen", "[::1]:0"]
    wire = Wire(host, certificate.server() if tls else None)
    async with wire.serving(), sidecar_run("--upstream", wire.url, *options) as sidecar:
        yield wire, sidecar


type Played = dict[tuple[str, str], tuple[Seen, Seen]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def played(certificate: Certificate, tmp_path_factory: pytest.TempPathFactory) -> Played:
    """All conversations of all routes, direct and through the proxy; the routes at once, because most of it is waiting."""
    found: Played = {}

    async def play(route: str) -> None:
        private = tmp_path_factory.mktemp("mitmproxy")
        async with set_up(route, certificate, private) as (wire, sidecar):
            tls = route == "tls on both sides"
            for talk in CONVERSATIONS:
                if tls and not talk.over_tls:
                    continue
                direct = await wire.play(talk, (wire.host, wire.port), trusting(certificate.path) if tls else None)
                ours = trusting(private / "mitmproxy-ca-cert.pem") if tls else None
                found[route, talk.name] = direct, await wire.play(talk, sidecar.proxy, ours, like=direct)

    async with asyncio.TaskGroup() as routes:
        for route in ROUTES:
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
