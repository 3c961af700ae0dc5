"""The vendors' clients for WebSockets, through the real proxy, against an upstream that plays the corpus: OpenAI's for
Realtime and for Responses, Google's for Gemini Live."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from sidecar.stream.summary import Summary
from tests.live.exchanges import CASE
from tests.live.processes import sidecar_run
from tests.live.scrape import wait_until
from tests.live.sdks.answers import Observer
from tests.live.socket_player import SocketPlayer
from tests.live.tls import trusting
from tests.parts import require_module
from tests.sockets import captures, expectations

openai = require_module("openai", "pip install --group test")
genai = require_module("google.genai", "pip install --group test")
pytestmark = pytest.mark.asyncio(loop_scope="session")


@dataclass
class Heard:
    """What a client was told of one response."""

    text: str = ""
    transcript: str = ""
    audio: int = 0
    id: str | None = None


@dataclass
class Way:
    """A proxy in front of the player, and what the analyzer in this process said."""

    url: str
    authority: Path
    """Of the certificate that the proxy shows."""
    summaries: list[Summary] = field(default_factory=list)

    async def of(self, case: str) -> list[Summary]:
        """The responses of a case, once all have been judged."""
        number = len(expectations()[case]["streams"])

        async def judged() -> bool:
            return len(self.summaries) >= number

        await wait_until(judged, what=f"{number} responses of {case}")
        found, self.summaries[:] = list(self.summaries), []
        return found


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def way(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Way]:
    observer = Observer(tmp_path_factory.mktemp("o") / "s")
    await observer.receiver.start()
    player = SocketPlayer(scripts=captures())
    private = tmp_path_factory.mktemp("mitmproxy")
    arguments = ("--socket", observer.analyzer.settings.socket or "", "--set", f"confdir={private}")
    async with player.serving(), sidecar_run("--upstream", player.url, *arguments) as sidecar:
        way = Way(sidecar.url.replace("127.0.0.1", "localhost"), private / "mitmproxy-ca-cert.pem")
        observer.analyzer.listeners.append(way.summaries.append)
        yield way
    await observer.receiver.stop()


def agrees(case: str, heard: list[Heard], summaries: list[Summary]) -> None:
    """Client, sidecar and corpus say the same."""
    expected = expectations()[case]["streams"]
    assert [one.text for one in heard] == [stream["text"] for stream in expected]
    assert [one.transcript for one in heard] == [stream["transcript"] for stream in expected]
    for want, one, summary in zip(expected, heard, summaries, strict=True):
        assert (summary.text, summary.transcript, summary.response_id) == (one.text, one.transcript, one.id)
        assert (summary.outcome, summary.finish_reason) == (want["outcome"], want["finish_reason"])
        assert summary.t0_source == want["t0_source"]
        assert ("first_token" in summary.milestones) == ("ttft_ms" in want)
        assert ("first_audio" in summary.milestones) == bool(one.audio) == ("ttft_audio_ms" in want)


def openai_client(url: str) -> Any:
    return openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)


async def response_of(connection: Any) -> Heard:
    """Events up to the end of a response."""
    heard = Heard()
    async for event in connection:
        kind = event.type
        if kind == "response.output_text.delta":
            heard.text += event.delta
        elif kind == "response.output_audio_transcript.delta":
            heard.transcript += event.delta
        elif kind == "response.output_audio.delta":
            heard.audio += len(event.delta)
        elif kind in ("response.done", "response.completed"):
            heard.id = event.response.id
            break
    return heard


async def test_realtime_of_openai(way: Way) -> None:
    case = "rt01-two-in-sequence-ga"
    heard: list[Heard] = []
    async with openai_client(way.url).realtime.connect(model="rt-model", extra_headers={CASE: case}) as connection:
        await connection.session.update(session={"type": "realtime", "output_modalities": ["text"]})
        for text in ("one", "two"):
            content = [{"type": "input_text", "text": text}]
            await connection.conversation.item.create(item={"type": "message", "role": "user", "content": content})
            await connection.response.create()
            heard.append(await response_of(connection))
    agrees(case, heard, await way.of(case))


async def test_realtime_of_openai_where_the_voice_detector_decides(way: Way) -> None:
    case = "rt33-idle-timeout-response"
    async with openai_client(way.url).realtime.connect(model="rt-model", extra_headers={CASE: case}) as connection:
        heard = [await response_of(connection)]
    agrees(case, heard, await way.of(case))


async def test_responses_of_openai_in_a_socket(way: Way) -> None:
    case = "rs01-two-turns-chained"
    heard: list[Heard] = []
    async with openai_client(way.url).responses.connect(extra_headers={CASE: case}) as connection:
        for text in ("hi", "more"):
            await connection.response.create(model="m-test", input=text)
            heard.append(await response_of(connection))
    agrees(case, heard, await way.of(case))


async def turn_of(session: Any) -> Heard:
    """Messages up to the end of a turn."""
    heard = Heard()
    async for message in session.receive():
        content = message.server_content
        if content is None:
            continue
        if content.output_transcription is not None:
            heard.transcript += content.output_transcription.text or ""
        for part in (content.model_turn and content.model_turn.parts) or ():
            heard.text += part.text or ""
            heard.audio += len(part.inline_data.data) if part.inline_data is not None else 0
    return heard


def live(way: Way, case: str, modality: str) -> Any:
    """A session of Google's client, which speaks TLS whatever the URL says."""
    options = {
        "base_url": way.url,
        "api_version": "v1beta",
        "headers": {CASE: case},
        "async_client_args": {"ssl": trusting(way.authority)},
    }
    client = genai.Client(api_key="a-key-in-the-query", http_options=options)
    return client.aio.live.connect(model="models/live-test", config={"response_modalities": [modality]})


@pytest.mark.parametrize(
    ("case", "texts"), [("gl01-text-turn-binary-json", ["hi"]), ("gl02-text-frames-two-turns", ["one", "two"])]
)
async def test_gemini_live_with_text(way: Way, case: str, texts: list[str]) -> None:
    heard: list[Heard] = []
    async with live(way, case, "TEXT") as session:
        for text in texts:
            await session.send_client_content(turns={"role": "user", "parts": [{"text": text}]}, turn_complete=True)
            heard.append(await turn_of(session))
    agrees(case, heard, await way.of(case))


async def test_gemini_live_with_audio(way: Way) -> None:
    case = "gl04-manual-activity"
    types = genai.types
    async with live(way, case, "AUDIO") as session:
        await session.send_realtime_input(activity_start=types.ActivityStart())
        await session.send_realtime_input(audio=types.Blob(data=b"\0" * 64, mime_type="audio/pcm;rate=16000"))
        await session.send_realtime_input(activity_end=types.ActivityEnd())
        heard = [await turn_of(session)]
    agrees(case, heard, await way.of(case))
