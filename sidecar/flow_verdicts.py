"""The analyzer's word in mitmproxy's own user interfaces: the verdict as a flow's comment, its timeline as a contentview.

Both are asked of the analyzer's API once a flow is over: nothing of the traffic is parsed here, and nothing waits for it.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

from mitmproxy import contentviews, ctx, http
from mitmproxy.hooks import UpdateHook
from tornado.httpclient import AsyncHTTPClient

SAID = "llm_stream"
"""Under which name the timeline is kept in a flow's metadata."""

_PAUSES = (0.1, 0.3, 0.6, 2.0, 5.0)  # seconds; the analyzer hears of the end a little later
_LIMIT = 256 * 1024


class FlowVerdicts:
    """Comments flows. `streams` is the URL of the analyzer's /api/streams, `token_file` holds the token that it asks for."""

    def __init__(self, streams: str, token_file: str | None) -> None:
        self._streams = streams
        self._headers = {}
        if token_file is not None:
            self._headers["Authorization"] = f"Bearer {Path(token_file).read_text(encoding='ascii').strip()}"
        self._asking: set[asyncio.Task[None]] = set()

    def over(self, flow: http.HTTPFlow) -> None:
        """A flow that was copied is over."""
        task = asyncio.create_task(self._comment(flow))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _comment(self, flow: http.HTTPFlow) -> None:
        for pause in _PAUSES:
            await asyncio.sleep(pause)
            said = await self._ask(flow.id)
            if said is not None and said["state"] == "ended":
                flow.comment = comment(said)
                flow.metadata[SAID] = text(said)
                ctx.master.addons.trigger(UpdateHook([flow]))
                return

    async def _ask(self, ident: str) -> dict[str, Any] | None:
        client = AsyncHTTPClient(force_instance=True, max_body_size=_LIMIT)
        try:
            answer = await client.fetch(f"{self._streams}/{ident}", headers=self._headers, raise_error=False)
            found: dict[str, Any] | None = json.loads(answer.body) if answer.code == 200 else None
        except (OSError, ValueError):
            return None
        finally:
            client.close()
        return found


def comment(said: dict[str, Any]) -> str:
    """The verdict in one line, with the quirks that are more than information."""
    odd = [quirk["id"] for quirk in said["quirks"] if quirk["severity"] != "info"]
    return " ".join(f"{_verdict(said)}{' (' + ', '.join(odd) + ')' if odd else ''}".split())


def _verdict(said: dict[str, Any]) -> str:
    exchange = said["exchange"]
    cause = f" ({exchange['error_type']})" if exchange["error_type"] else ""
    return f"{exchange['outcome']}{cause}: {said['words']}"


def text(said: dict[str, Any]) -> str:
    """The timeline of an exchange as lines."""
    lines = [
        _verdict(said),
        *([said["advice"]] if said["advice"] else []),
        "",
        "Times from the last byte of the request",
    ]
    lines += [f"  {name.replace('_', ' '):<20} {_time(at)}" for name, at in said["ladder_ms"].items()]
    gaps = {name: _time(gap) for name, gap in said["gaps_ms"].items() if gap is not None}
    lines += ["", f"{said['events']} events in {said['reads']} reads"]
    if gaps:
        lines.append("Gaps between outputs: " + ", ".join(f"{name} {gap}" for name, gap in gaps.items()))
    lines += [f"  silent for {_time(each['gap_ms'])} after {_time(each['at_ms'])}" for each in said["longest_gaps"]]
    lines += [f"  stalled ({each['phase']}) at {_time(each['since_ms'])}" for each in said["stalls"]]
    lines.append(f"Buffering: {said['buffering']['verdict']} {said['buffering']['why']}".rstrip())
    for quirk in said["quirks"]:
        lines += ["", f"{quirk['id']} ({quirk['severity']}): {quirk['summary']}"]
        lines += [f"  {name.capitalize()}: {quirk[name]}" for name in ("breaks", "guard") if quirk[name]]
    return "\n".join(lines)


def _time(milliseconds: float) -> str:
    return f"{milliseconds:.0f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"


class LlmStreamContentview(contentviews.Contentview):
    """The timeline of a stream, beside mitmproxy's other views of a response. mitmproxy shows views only of bodies that
    it keeps: `--set store_streamed_bodies=true`."""

    name = "LLM stream"

    def prettify(self, data: bytes, metadata: contentviews.Metadata) -> str:
        said = metadata.flow.metadata.get(SAID) if metadata.flow is not None else None
        if said is None:
            raise ValueError("nothing was said of it: it is in flight, or was not copied")
        return str(said)

    def render_priority(self, data: bytes, metadata: contentviews.Metadata) -> float:
        flow = metadata.flow
        if not isinstance(flow, http.HTTPFlow) or metadata.http_message is not flow.response:
            return -1
        return 0.5 if SAID in flow.metadata else -1
