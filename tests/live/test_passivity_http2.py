"""Passivity over HTTP/2: the same conversation, direct and through the proxy, as events at both ends. docs/passivity.md."""

import asyncio
from pathlib import Path

import pytest
import pytest_asyncio
from h2.errors import ErrorCodes

from tests.live.h2_conversations import ASK, BODY, EVENTS, HEAD, TALKS
from tests.live.h2_differences import ALWAYS, DIFFERENCES, rendered
from tests.live.h2_wire import End, H2Wire, Seen, Talk, differences
from tests.live.processes import PROJECT, sidecar_run
from tests.live.scrape import counted
from tests.live.tls import Certificate, trusting

KEYS = {each.name: each.keys for each in DIFFERENCES}

type Played = dict[str, tuple[Seen, Seen]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def played(certificate: Certificate, tmp_path_factory: pytest.TempPathFactory) -> Played:
    """All conversations, direct and through one proxy."""
    found: Played = {}
    private = tmp_path_factory.mktemp("mitmproxy")
    wire = H2Wire(certificate.server())
    async with wire.serving():
        url = f"https://localhost:{wire.port}"
        options = ("--set", f"confdir={private}", "--set", f"ssl_verify_upstream_trusted_ca={certificate.path}")
        async with sidecar_run("--upstream", url, *options) as sidecar:
            for talk in TALKS:
                direct = await wire.play(talk, wire.port, trusting(certificate.path))
                ours = trusting(private / "mitmproxy-ca-cert.pem")
                found[talk.name] = direct, await wire.play(talk, sidecar.proxy[1], ours)
    return found


@pytest.mark.parametrize("talk", TALKS, ids=lambda talk: talk.name)
def test_both_ends_see_what_they_see_without_the_proxy(played: Played, talk: Talk) -> None:
    direct, through = played[talk.name]
    found = list(differences(direct, through))
    asked = bool(through.upstream and through.upstream[0].streams)
    expected = {*talk.differs, *({ALWAYS} if asked else ())}
    assert {key for key, *_ in found} == {key for name in expected for key in KEYS[name]}, found


def test_every_difference_is_one_that_a_conversation_shows() -> None:
    assert {name for talk in TALKS for name in talk.differs} | {ALWAYS} == KEYS.keys()


def test_the_conversations_are_what_they_are_called(played: Played) -> None:
    """Without the proxy all of them work: a comparison of two failures would show nothing."""
    unusual = {"204": b"204", "error": b"429", "early response": b"413"}
    for name, (direct, _) in played.items():
        for stream in direct.client.streams.values():
            if not name.startswith("no answer but"):
                assert dict(stream.headers)[b":status"] == unusual.get(name, b"200"), name
    code = "REFUSED_STREAM"
    assert played[f"reset with {code}"][0].client.streams[1].reset == code
    assert played[f"no answer but {code}"][1].client.streams[1].reset == code
    (upstream,) = played["client resets with CANCEL"][1].upstream
    assert next(iter(upstream.streams.values())).reset == "CANCEL"
    whole = b"".join(EVENTS)
    for name in ("headers", "goaway", "goaway of the client"):
        assert [seen.client.streams[1].data for seen in played[name]] == [whole, whole]
    assert played["trailers"][1].client.streams[1].trailers == [(b"x-sum", b"1"), (b"x-sum", b"2")]


async def test_a_connection_that_ends_in_order_gets_no_new_streams(certificate: Certificate, tmp_path: Path) -> None:
    """What was begun goes on there, what was not is refused, what comes then goes over another connection."""
    wire = H2Wire(certificate.server())
    ends: list[End] = []
    gone, finish = asyncio.Event(), asyncio.Event()

    async def upstream(end: End) -> None:
        ends.append(end)
        stream = await end.request(1)
        await end.answer(stream, *HEAD)
        await end.say(stream, EVENTS[0])
        if len(ends) == 1:
            await end.request(2)
            await end.leave(ErrorCodes.NO_ERROR, stream)
            gone.set()
            await finish.wait()
        await end.say(stream, EVENTS[1], end=True)

    async def client(end: End) -> None:
        first, refused = [await end.ask(*ASK, body=BODY) for _ in range(2)]
        await gone.wait()
        await end.over(refused)
        assert end.streams[refused].reset == "REFUSED_STREAM"
        after = await end.ask(*ASK, body=BODY)
        await end.over(after)
        finish.set()
        await end.over(first)
        assert [end.streams[stream].data for stream in (first, after)] == [b"".join(EVENTS)] * 2

    options = ("--set", f"confdir={tmp_path}", "--set", f"ssl_verify_upstream_trusted_ca={certificate.path}")
    async with wire.serving(), sidecar_run("--upstream", f"https://localhost:{wire.port}", *options) as sidecar:
        await wire.play(
            Talk("in order", client, upstream), sidecar.proxy[1], trusting(tmp_path / "mitmproxy-ca-cert.pem")
        )
        samples = await counted(sidecar.metrics, 3)
    assert [len(end.streams) for end in ends] == [2, 1]
    assert samples.by("llm_streams_total", "outcome") == {"complete": 2, "upstream_failed": 1}


def test_the_page_lists_the_differences() -> None:
    assert rendered() in (PROJECT / "docs" / "passivity.md").read_text(encoding="utf-8")
