"""The demo upstream's WebSocket: answers by voice, as OpenAI Realtime does; one of its models breaks off."""

import asyncio
import base64
import contextlib
import json
import secrets
from typing import Any

from tornado.websocket import WebSocketClosedError, WebSocketHandler

WELL = "realtime"
BREAKS = "realtime-breaks"
"""The second answer of each conversation ends in the middle, and with it the connection."""
MODELS = (WELL, BREAKS)

_WORDS = ["Well,", "let", "me", "say", "it", "in", "the", "voice", "of", "a", "machine."]
_WORD_SECONDS = 0.08
_AUDIO_BYTES = 960


class Realtime(WebSocketHandler):
    """One session. Each `response.create` is answered; what else the client says is taken note of in silence."""

    _answers = 0
    _answering: "asyncio.Task[None] | None" = None

    async def open(self, *_: str, **__: str) -> None:
        self._model = self.get_query_argument("model", "")
        if self._model in MODELS:
            await self._send("session.created", session={"id": f"sess_{secrets.token_hex(8)}", "model": self._model})
        else:
            self.close(4004, f"models here: {', '.join(MODELS)}")

    async def on_message(self, message: str | bytes) -> None:
        """A JSON event of the client."""
        try:
            kind = json.loads(message)["type"]
        except (ValueError, KeyError, TypeError):
            wrong = {"type": "invalid_request_error", "message": "an event is an object with a type"}
            await self._send("error", error=wrong)
            return
        if kind == "response.create" and (self._answering is None or self._answering.done()):
            self._answers += 1
            self._answering = asyncio.create_task(self._answer())

    def on_close(self) -> None:
        """The client left, or the connection broke."""
        if self._answering is not None:
            self._answering.cancel()

    async def _answer(self) -> None:
        response = {"id": f"resp_{secrets.token_hex(8)}", "object": "realtime.response"}
        item = {"id": f"item_{secrets.token_hex(8)}", "type": "message", "role": "assistant"}
        place = {"response_id": response["id"], "item_id": item["id"], "output_index": 0, "content_index": 0}
        await self._send("response.created", response=response | {"status": "in_progress", "output": []})
        await self._send("response.output_item.added", response_id=response["id"], output_index=0, item=item)
        await asyncio.sleep(0.3)
        for number, word in enumerate(_WORDS):
            if self._model == BREAKS and self._answers == 2 and number == len(_WORDS) // 2:
                self._break_off()
                return
            await self._send("response.output_audio_transcript.delta", **place, delta=f"{word} ")
            audio = base64.b64encode(secrets.token_bytes(_AUDIO_BYTES)).decode()
            await self._send("response.output_audio.delta", **place, delta=audio)
            await asyncio.sleep(_WORD_SECONDS)
        said = [{"type": "output_audio", "transcript": " ".join(_WORDS) + " "}]
        await self._send("response.output_audio_transcript.done", **place, transcript=said[0]["transcript"])
        await self._send("response.output_audio.done", **place)
        usage = {"input_tokens": 12, "output_tokens": 40, "total_tokens": 52}
        over = response | {"status": "completed", "output": [item | {"content": said}], "usage": usage}
        await self._send("response.done", response=over)

    async def _send(self, kind: str, **members: Any) -> None:
        with contextlib.suppress(WebSocketClosedError):  # the client left, and `on_close` is told
            await self.write_message(json.dumps({"type": kind, "event_id": f"event_{secrets.token_hex(8)}"} | members))

    def _break_off(self) -> None:
        assert self.ws_connection is not None
        assert self.ws_connection.stream is not None
        self.ws_connection.stream.close()
