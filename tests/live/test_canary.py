"""Unique strings in everything that is private, through a real sidecar at log level debug: then all that it says and
writes is searched for them."""

import asyncio
import json
import os
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from tests.collector import Collector
from tests.live.exchanges import Exchange, Piece, chat_events
from tests.live.player import Player
from tests.live.processes import Sidecar, sidecar_run
from tests.live.raw_client import ask
from tests.live.scrape import counted, scrape, wait_until
from tests.live.socket_player import SocketPlayer

SECRET, CONTENT = "c4nary5ecret", "c4naryc0ntent"
"""In every credential, and in all that people and models wrote."""
KEY = f"sk-{SECRET}{SECRET}"
MODEL = "m-canary-run"
CREDENTIALS = (
    ("authorization", f"Bearer {KEY}"),
    ("proxy-authorization", f"Basic {SECRET}"),
    ("api-key", KEY),
    ("x-api-key", KEY),
    ("x-goog-api-key", KEY),
    ("cf-aig-authorization", KEY),
    ("x-amz-security-token", KEY),
    ("openai-organization", SECRET),
    ("cookie", f"session={SECRET}"),
    ("referer", f"https://joe:{SECRET}@host/?key={SECRET}"),
    ("x-of-nobody", SECRET),
)
QUERY = f"?api_key={SECRET}&key={SECRET}&access_token={SECRET}&sig={SECRET}&X-Amz-Signature={SECRET}&other={CONTENT}"


def exchange(
    case: str, status: int = 200, pieces: tuple[bytes, ...] = (), path: str = "/v1/chat/completions"
) -> Exchange:
    asked = {
        "model": MODEL,
        "stream": True,
        "prompt": f"say {CONTENT}",
        "messages": [{"role": "system", "content": f"be {CONTENT}"}, {"role": "user", "content": CONTENT}],
        "tools": [
            {"type": "function", "function": {"name": "f", "description": CONTENT, "parameters": {"title": CONTENT}}},
            {"type": "mcp", "server_url": f"https://joe:{SECRET}@mcp/", "authorization": SECRET},
        ],
    }
    return Exchange(
        case,
        target=path + QUERY,
        request_headers=(("content-type", "application/json"), *CREDENTIALS),
        request_body=json.dumps(asked).encode(),
        status=status,
        headers=(
            ("content-type", "text/event-stream" if status == 200 else "application/json"),
            ("set-cookie", f"session={SECRET}"),
            ("location", f"https://joe:{SECRET}@host/"),
        ),
        pieces=tuple(Piece(0.0, piece) for piece in pieces),
    )


CALL = {"tool_calls": [{"index": 0, "id": "t", "function": {"name": "f", "arguments": json.dumps({"a": CONTENT})}}]}
EVENTS = tuple(
    chat_events({"content": CONTENT}, {"reasoning_content": CONTENT}, CALL, finish="tool_calls", model=MODEL)
)
ERROR = json.dumps({"error": {"message": f"no: {CONTENT}", "type": "invalid_request_error"}}).encode()
EXCHANGES = (
    exchange("answer", pieces=EVENTS),
    exchange("cut", pieces=(*EVENTS[:3], EVENTS[3][:40])),
    exchange("malformed", pieces=(b'data: {"choices": [' + CONTENT.encode() + b"\n\n", CONTENT.encode() + b"\n\n")),
    exchange("in stream", pieces=(EVENTS[0], b"data: " + ERROR + b"\n\n")),
    exchange("refused", 400, (ERROR,)),
    exchange("page", 502, (f"<html>{CONTENT}</html>".encode(),)),
    exchange(
        "failing stage",
        path="/v1/completions",
        pieces=(b'data: {"choices":[{"text":"' + CONTENT.encode() + b'"}]}\n\n',),
    ),
)
BROKEN = """
from sidecar.dialects.openai_completions import OpenAICompletions
def fail(self, event, frame):
    raise RuntimeError(f"{event} {frame.data} of {self.request}")

OpenAICompletions.read = fail
"""
"""A bug whose exception quotes what it choked on, put into the processes as Python starts."""


@dataclass
class Said:
    """All that came out."""

    places: dict[str, str] = field(default_factory=dict)

    def having(self, canary: str) -> list[str]:
        """Where one is found: as it is, in base64, in capital letters."""
        spellings = {canary, b64encode(canary.encode()).decode().rstrip("="), canary.encode().hex()}
        return sorted(
            place
            for place, text in self.places.items()
            if any(spelling.lower() in text.lower() for spelling in spellings)
        )


@pytest.fixture
async def player() -> AsyncIterator[Player]:
    player = Player(speed=50)
    player.add(EXCHANGES)
    async with player.serving():
        yield player


async def published(sidecar: Sidecar, said: Said, name: str) -> None:
    """What the endpoints answer, the errors of those that there are not, too."""
    async with httpx.AsyncClient(trust_env=False) as client:
        for path in ("/metrics", "/", "/api/streams", "/healthz", "/readyz", f"/nowhere?key={SECRET}"):
            for accept in ("*/*", "application/openmetrics-text; version=1.0.0"):
                answer = await client.get(sidecar.endpoint("/").rstrip("/") + path, headers={"accept": accept})
                said.places[f"{name} {path.partition('?')[0]} {accept}"] = answer.text + str(answer.headers)


async def through_everything(player: Player, folder: Path, *options: str) -> Said:
    """All exchanges and a WebSocket, with metrics and spans sent to a collector."""
    said = Said()
    site = folder / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(BROKEN)
    env = {
        "PYTHONPATH": os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH")))),
        "OTEL_BSP_SCHEDULE_DELAY": "50",
        "OTEL_METRIC_EXPORT_INTERVAL": "300",
        "SIDECAR_STATE_DIR": str(folder / "state"),
        "SIDECAR_LOG_LEVEL": "debug",
    }
    with Collector().over_http() as collector:
        common = (
            "--otel-endpoint",
            collector.url,
            "--otel-metrics",
            "--record",
            str(folder / "r"),
        )
        async with sidecar_run("--upstream", player.url, *common, *options, env=env) as sidecar:
            for case in EXCHANGES:
                assert (await ask(sidecar.proxy, case)).body == case.body
            samples = await counted(sidecar.metrics, len(EXCHANGES))
            assert samples.total("llm_sidecar_stage_failures_total", stage="dialects") == 1, "the bug was not met"
            await recorded(sidecar, len(EXCHANGES))
            await published(sidecar, said, "http")
            assert await sidecar.program.stop() == 0
            said.places["http log"] = sidecar.program.stdout + sidecar.program.stderr
            assert "stage dialects failed with RuntimeError" in said.places["http log"]
        async with (
            SocketPlayer().serving() as sockets,
            sidecar_run("--upstream", sockets.url, *common, *options, env=env) as sidecar,
        ):
            await talk(sockets, sidecar)
            await counted(sidecar.metrics, 1)
            await recorded(sidecar, 1)
            await published(sidecar, said, "websocket")
            assert await sidecar.program.stop() == 0
            said.places["websocket log"] = sidecar.program.stdout + sidecar.program.stderr
        assert len(collector.spans) == len(EXCHANGES) + 1
        said.places["spans"] = "\n".join(map(str, collector.spans))
        said.places["metrics sent"] = "\n".join(map(str, collector.metrics))
        said.places["resources"] = str(collector.resources)
    for place in ("r", "state"):
        files = [file for file in (folder / place).rglob("*") if file.is_file()]
        said.places[place] = "\n".join(
            f"{file.name}\n{opened(file.read_text()) if file.suffix == '.jsonl' else file.read_text()}"
            for file in files
        )
    assert said.places["r"].count('"request"') >= len(EXCHANGES)
    return said


async def recorded(sidecar: Sidecar, number: int) -> None:
    async def enough() -> bool:
        samples = await scrape(sidecar.metrics, "llm_sidecar_recording")
        return samples.total("llm_sidecar_recordings_total") >= number

    await wait_until(enough, what=f"{number} recordings")


def opened(text: str) -> str:
    """A capture file with what is in base64 laid open beside it."""
    found = [text]
    for line in text.splitlines():
        capture = json.loads(line)
        for part in (*capture.get("chunks", ()), *capture.get("messages", ()), capture["request"].get("body") or {}):
            if "b64" in part:
                found.append(b64decode(part["b64"]).decode("utf-8", "replace"))
    return "\n".join(found)


async def talk(sockets: SocketPlayer, sidecar: Sidecar) -> None:
    """A realtime session of a browser, which puts its key among the subprotocols."""
    protocols = ["realtime", f"openai-insecure-api-key.{KEY}", f"openai-organization.{SECRET}"]
    target = f"/v1/realtime{QUERY}&model={MODEL}"
    async with sockets.meet(sidecar.proxy, target, "talk", headers=dict(CREDENTIALS), subprotocols=protocols) as (
        client,
        upstream,
    ):
        await client.send(
            json.dumps({"type": "session.update", "session": {"instructions": CONTENT, "api_key": SECRET}})
        )
        await client.send(json.dumps({"type": "response.create", "response": {"instructions": CONTENT}}))
        for _ in range(2):
            await upstream.recv()
        response = {"id": "r1", "object": "realtime.response", "status": "in_progress", "output": []}
        part = {"response_id": "r1", "item_id": "i1", "output_index": 0, "content_index": 0}
        for event in (
            {"type": "response.created", "response": response},
            {"type": "response.output_text.delta", **part, "delta": CONTENT},
            {"type": "response.done", "response": {**response, "status": "completed"}},
        ):
            await upstream.send(json.dumps(event))
            await client.recv()
        await client.close(1000, CONTENT[:100])
        await asyncio.wait_for(upstream.wait_closed(), 10)


async def test_by_default_and_scrubbed_nothing_private_is_anywhere(player: Player, tmp_path: Path) -> None:
    said = await through_everything(player, tmp_path, "--record-scrub")
    assert said.having(SECRET) == []
    assert said.having(CONTENT) == []


async def test_content_is_where_it_was_asked_for_and_a_credential_nowhere(player: Player, tmp_path: Path) -> None:
    said = await through_everything(player, tmp_path, "--capture-content")
    assert said.having(CONTENT) == ["r", "spans"], "the canary sings where it may, or this test could not fail"
    assert said.having(SECRET) == []
