"""The proxy compares what came with what went: nothing to find in honest traffic, everything that a script changes."""

import asyncio
import gzip
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from tests.live.exchanges import CASE, Exchange, Piece, words
from tests.live.player import Player
from tests.live.processes import Sidecar, plain_mitmproxy, sidecar_run
from tests.live.raw_client import ask
from tests.live.scrape import Samples, counted, scrape, wait_until
from tests.live.tls import Certificate, trusting
from tests.parts import require_module


async def checked(metrics: str, number: int) -> Samples:
    """Wait until so many exchanges were compared: the proxy tells once a second."""

    async def enough() -> Samples | None:
        samples = await scrape(metrics, "llm_sidecar_passivity")
        return samples if samples.total("llm_sidecar_passivity_checks_total") >= number else None

    samples = await wait_until(enough, what=f"{number} checks")
    assert samples.total("llm_sidecar_passivity_checks_total") == number
    return samples


def cases() -> list[Exchange]:
    whole = words("whole")
    packed = gzip.compress(whole.body)
    return [
        whole,
        replace(
            words("compressed"),
            headers=(*whole.headers, ("content-encoding", "gzip")),
            pieces=tuple(Piece(0.01 * at, packed[at * 40 : at * 40 + 40]) for at in range(len(packed) // 40 + 1)),
        ),
        replace(words("counted"), framing="length"),
        replace(words("closed"), framing="close"),
        replace(words("reset"), end="reset"),
        replace(words("cut short"), end="cut", framing="length"),
        replace(words("left"), end="client_leaves"),
        replace(words("left at once"), pieces=words("left at once").pieces[:1], end="client_leaves"),
        replace(words("empty"), pieces=()),
        replace(words("error"), status=429, headers=(("content-type", "application/json"),)),
    ]


async def test_honest_traffic_is_the_same_however_it_ends(player: Player) -> None:
    played = cases()
    player.add(played)
    async with sidecar_run("--upstream", player.url) as sidecar:
        answers = await asyncio.gather(*(ask(sidecar.proxy, case) for case in played))
        for case, answer in zip(played, answers, strict=True):
            assert answer.body == case.body, case.id
        await counted(sidecar.metrics, len(played))
        with_body = len(played)  # an empty chunked body has an end, which is compared
        samples = await checked(sidecar.metrics, with_body)
        assert samples.total("llm_sidecar_passivity_violations_total") == 0


async def test_a_client_that_leaves_while_bytes_are_on_their_way(player: Player) -> None:
    """Many pieces, none of them waited for."""
    flood = [replace(words(f"flood {n}", 2000, every=0), end="client_leaves", end_at=0) for n in range(8)]
    player.add(flood)
    async with sidecar_run("--upstream", player.url) as sidecar:

        async def leave_early(case: Exchange) -> None:
            await ask(sidecar.proxy, replace(case, pieces=case.pieces[:1]))

        await asyncio.gather(*(leave_early(case) for case in flood))
        await counted(sidecar.metrics, len(flood))
        samples = await checked(sidecar.metrics, len(flood))
        assert samples.total("llm_sidecar_passivity_violations_total") == 0


async def test_honest_traffic_over_http2(certificate: Certificate, tmp_path: Path) -> None:
    require_module("hypercorn", "pip install --group test")
    require_module("h2", "pip install --group test")
    from tests.live.h2_upstream import H2Upstream

    upstream, played = H2Upstream(), [words(f"m-{number}", 20) for number in range(6)]
    upstream.exchanges |= {case.id: case for case in played}
    options = ("--set", f"confdir={tmp_path}", "--set", f"ssl_verify_upstream_trusted_ca={certificate.path}")
    async with upstream.serving(certificate), sidecar_run("--upstream", upstream.url, *options) as sidecar:
        base, trusted = f"https://localhost:{sidecar.proxy[1]}", trusting(tmp_path / "mitmproxy-ca-cert.pem")
        async with httpx.AsyncClient(base_url=base, http2=True, http1=False, verify=trusted, trust_env=False) as client:
            headers = [dict(case.request_headers) | {CASE: case.id} for case in played]
            answers = await asyncio.gather(
                *(
                    client.post(case.target, content=case.request_body, headers=fields)
                    for case, fields in zip(played, headers, strict=True)
                )
            )
        assert [answer.content for answer in answers] == [case.body for case in played]
        samples = await checked(sidecar.metrics, len(played))
        assert samples.total("llm_sidecar_passivity_violations_total") == 0


LATE = """
from mitmproxy import ctx

class Late:
    def responseheaders(self, flow):
        copy = flow.response.stream
        def stream(data):
            copy(data)
            {change}
        {how}

    def response(self, flow):
        {response}

class Tampers:
    def running(self):
        ctx.master.addons.add(Late())  # behind the sidecar, wherever the script was loaded

addons = [Tampers()]
"""
SCRIPTS = {
    "changes": {"change": "return data.replace(b'content', b'c0ntent')"},
    "adds at the end": {"change": "return data or b'data: more'"},
    "drops": {"change": "return b'' if b'3 ' in data else data"},
    "repeats": {"change": "return [data, data]"},
    "swaps": {"change": "return data[::-1]"},
    "buffers and changes": {
        "how": "flow.response.stream = False",
        "response": "flow.response.content = flow.response.content.replace(b'content', b'c0ntent')",
    },
    "buffers": {"how": "flow.response.stream = False"},
    "cuts otherwise": {"change": "return [data[:5], data[5:]]"},
}
"""What scripts do to the pieces of a body; the last two leave its bytes as they are."""
HONEST = ("buffers", "cuts otherwise")


def script(folder: Path, name: str) -> str:
    parts = {"change": "return data", "how": "flow.response.stream = stream", "response": "pass"}
    path = folder / "tampers.py"
    path.write_text(LATE.format(**(parts | SCRIPTS[name])))
    return str(path)


type Proxy = Callable[[str, str], AbstractAsyncContextManager[Sidecar]]
PROXIES: dict[str, Proxy] = {
    "sidecar run": lambda upstream, script: sidecar_run("--upstream", upstream, "--set", f"scripts={script}"),
    "mitmdump": lambda upstream, script: plain_mitmproxy("mitmdump", upstream, "-s", script),
}


@pytest.mark.parametrize("proxy", PROXIES)
@pytest.mark.parametrize("name", SCRIPTS)
async def test_a_script_that_changes_bytes_is_found(player: Player, tmp_path: Path, proxy: str, name: str) -> None:
    case = words("changed")
    player.add([case])
    async with PROXIES[proxy](player.url, script(tmp_path, name)) as sidecar:
        answer = await ask(sidecar.proxy, case)
        assert (answer.body == case.body) == (name in HONEST), "the script does not do what it is called"
        samples = await checked(sidecar.metrics, 1)
        assert samples.total("llm_sidecar_passivity_violations_total") == (0 if name in HONEST else 1)
        assert ("is not what came from the upstream" in sidecar.program.stderr + sidecar.program.stdout) == (
            name not in HONEST
        )
        await sidecar.program.stop()


EARLY = """
def responseheaders(flow):
    flow.response.stream = lambda data: data.replace(b'content', b'c0ntent')

def requestheaders(flow):
    flow.request.stream = lambda data: data
"""


async def test_a_script_that_came_first_keeps_its_hold_on_bodies(player: Player, tmp_path: Path) -> None:
    """It goes on doing what it does, and the analyzer is told what came from the upstream."""
    case, ignored = words("copied"), replace(words("ignored"), target="/v1/files")
    player.add([case, ignored])
    (tmp_path / "early.py").write_text(EARLY)
    early = f"scripts={tmp_path / 'early.py'}"
    async with sidecar_run("--upstream", player.url, "--set", early, env={"SIDECAR_EXCLUDE": "/v1/files"}) as sidecar:
        for each in (case, ignored):
            assert (await ask(sidecar.proxy, each)).body == each.body.replace(b"content", b"c0ntent")
        samples = await checked(sidecar.metrics, 1)
        assert samples.total("llm_sidecar_passivity_violations_total") == 1
        samples = await counted(sidecar.metrics, 1)
        assert samples.by("llm_streams_total", "outcome") == {"complete": 1}
        await sidecar.program.stop()
