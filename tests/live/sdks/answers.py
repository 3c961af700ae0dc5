"""What a client saw of one answer, what the sidecar saw of it, and that both saw the same."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from sidecar.analyzer import Analyzer
from sidecar.config import Settings
from sidecar.export.prometheus import Exposition
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
        self._exposition = Exposition(self.analyzer.series, self.analyzer.refresh)
        self._ended: asyncio.Queue[Summary] = asyncio.Queue()
        self.analyzer.listeners.append(self._ended.put_nowait)

    def scrape(self) -> Samples:
        """What /metrics says now."""
        text, _ = self._exposition.render("text/plain")
        families = text_string_to_metric_families(text.decode())
        return Samples.of(sample for family in families for sample in family.samples)

    async def watch(self, ask: Callable[[], Answer]) -> "Seen":
        """Let a client ask, in a thread, and wait for what the sidecar says of it."""
        before = self.scrape()
        try:
            answer = await asyncio.to_thread(ask)
        finally:
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

    def agrees(self, dialect: str, terminator: str | None, *, finish: str | None = None, model: str) -> None:
        """Assert that both saw the same, and that the stream ended as it should. `finish`: where clients hide it."""
        client, summary = self.client, self.summary
        assert (summary.dialect, summary.outcome, summary.terminator) == (dialect, "complete", terminator)
        assert summary.finish_reason == (client.finish if finish is None else finish)
        assert (summary.text, summary.reasoning_text) == (joined(client.text), joined(client.reasoning))
        assert summary.text_chars == len(summary.text)
        assert [(call.name, json.loads(call.arguments)) for call in summary.tool_calls] == client.calls
        assert {call.verdict for call in summary.tool_calls} <= {"valid"}
        assert client.usage
        assert summary.usage is not None
        assert {name: summary.usage.get(name) for name in client.usage} == client.usage
        self._counted(dialect, model)

    def _counted(self, dialect: str, model: str) -> None:
        """The metrics say the same."""
        samples, usage = self.samples, self.client.usage
        stream = {"dialect": dialect, "gen_ai_request_model": model}
        assert samples.total("llm_streams_total") == 1
        assert samples.value("llm_streams_total", outcome="complete", streaming="true", **stream) == 1
        assert samples.by("llm_stream_tool_calls_total", "state") == Counter("valid" for _ in self.client.calls)
        assert samples.by("llm_stream_usage_total", "state") == {"reported": 1}
        cached = usage.get("cache_read", 0)
        apart = cached if dialect in ("anthropic.messages", "bedrock.converse", "bedrock.invoke") else 0
        expected = {"input": usage["input"] + apart, "output": usage["output"], "cache_read": cached}
        found = samples.by("llm_stream_tokens_total", "type", source="reported", **stream)
        assert {kind: found.get(kind, 0) for kind in expected} == expected
        assert samples.by("llm_sidecar_stage_failures_total", "stage") == {}


def joined(text: str) -> str:
    """A text whose surrogate pairs came in two pieces (a JavaScript server's idea of characters)."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16")
