"""What a client saw of one answer, what the sidecar saw of it, and that both saw the same."""

import asyncio
import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sidecar.analyzer import Analyzer
from sidecar.config import Settings
from sidecar.export.prometheus import SeriesCollector
from sidecar.stream.summary import Summary
from sidecar.thresholds import Limits
from sidecar.transport.receiver import Receiver
from tests.live.scrape import Samples


@dataclass
class Answer:
    """What a client saw. `usage` by the sidecar's names (input, output, …), as far as the client shows it."""

    text: str = ""
    reasoning: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    """Name and parsed arguments of each tool call."""
    finish: str | None = None
    usage: dict[str, int] = field(default_factory=dict)


class Observer:
    """The analyzer in this process, which lets a test read what no exporter may show: texts and arguments."""

    def __init__(self, socket: Path) -> None:
        settings = Settings(socket=str(socket), limits=Limits(text_chars=1 << 20))
        self.analyzer = Analyzer(settings)
        self.receiver = Receiver(socket, self.analyzer.receive, self.analyzer.closed)
        self._metrics = SeriesCollector(self.analyzer.series, self.analyzer.refresh)
        self._ended: asyncio.Queue[Summary] = asyncio.Queue()
        self.analyzer.listeners.append(self._ended.put_nowait)

    def scrape(self) -> Samples:
        """The samples of /metrics, now."""
        return Samples.of(sample for family in self._metrics.collect() for sample in family.samples)

    async def watch(self, ask: Callable[[], Answer]) -> "Seen":
        """Let a client ask, in a thread, and wait for what the sidecar says of it."""
        before = self.scrape()
        try:
            answer = await asyncio.to_thread(ask)
        except BaseException:
            with contextlib.suppress(TimeoutError):  # no later question shall find this one's summary
                await asyncio.wait_for(self._ended.get(), 2)
            raise
        summary = await asyncio.wait_for(self._ended.get(), 15)
        assert self._ended.empty(), "one question, several exchanges"
        return Seen(answer, summary, self.scrape() - before)


@dataclass
class Seen:
    """One answer as the client and as the sidecar saw it."""

    client: Answer
    summary: Summary
    samples: Samples
    """What it added to the metrics."""

    def agrees(self, dialect: str, terminator: str | None, *, model: str, hidden_usage: bool = False) -> None:
        """Assert that both saw the same, and that the stream ended as it should.

        `hidden_usage`: the sidecar finds usage in a place that the client does not look at.
        """
        client, summary = self.client, self.summary
        assert (summary.dialect, summary.outcome, summary.terminator) == (dialect, "complete", terminator)
        assert summary.finish_reason == client.finish
        assert (summary.text, summary.reasoning_text) == (joined(client.text), joined(client.reasoning))
        assert summary.text_chars == len(summary.text)
        assert [(call.name, json.loads(call.arguments)) for call in summary.tool_calls] == client.calls
        assert {call.verdict for call in summary.tool_calls} <= {"valid"}
        self._agrees_on_usage(hidden_usage)
        self._counted(dialect, model, cached_apart=hidden_usage or dialect in _CACHED_APART)

    def _agrees_on_usage(self, hidden: bool) -> None:
        told, found = self.client.usage, self.summary.usage or {}
        if hidden:
            assert not told
            assert "usage_in_vendor_field" in self.summary.quirks
        elif told and not any(told.values()):  # no counts at all, whatever the number says
            assert not found
            assert "usage_all_zero" in self.summary.quirks
        else:
            assert {name: found.get(name) for name in told} == told
            assert bool(found) == bool(told)

    def _counted(self, dialect: str, model: str, *, cached_apart: bool) -> None:
        """The metrics say the same, counting as the conventions do: input includes what was cached."""
        samples, usage = self.samples, self.summary.usage or {}
        stream = {"dialect": dialect, "gen_ai_request_model": model}
        assert samples.total("llm_streams_total") == 1
        assert samples.total("llm_streams_total", outcome="complete", streaming="true", **stream) == 1
        verdicts = {"valid": len(self.client.calls)} if self.client.calls else {}
        assert samples.by("llm_stream_tool_calls_total", "state") == verdicts
        assert samples.by("llm_stream_usage_total", "state") == {"reported" if usage else "not_requested": 1}
        cached = usage.get("cache_read", 0)
        given = usage.get("input", 0) + (cached if cached_apart else 0)
        expected = {"input": given, "output": usage.get("output", 0), "cache_read": cached}
        found = samples.by("llm_stream_tokens_total", "type", source="reported", **stream)
        assert {kind: found.get(kind, 0) for kind in expected} == expected
        assert samples.by("llm_sidecar_stage_failures_total", "stage") == {}


_CACHED_APART = frozenset({"anthropic.messages", "bedrock.converse", "bedrock.invoke"})
"""Dialects whose input tokens do not include cached ones."""


def joined(text: str) -> str:
    """A text whose surrogate pairs came in two pieces (a JavaScript server's idea of characters)."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16")
