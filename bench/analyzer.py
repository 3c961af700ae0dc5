"""What the analyzer costs per event, as ratios to a bare decode of the same payloads in the same run.

`python -m bench.analyzer [--json]`. Each dialect's stream is fed as records, one event a read (or ten, where it says so),
through the whole path from records to metrics; "no quirks" is the same without detection at the end. Best of several
rounds, because machines are shared.
"""

import argparse
import json
from collections.abc import Callable
from typing import Any
from unittest import mock

import orjson

from bench.machine import about
from bench.machine import best as best_of
from bench.results import save, table
from sidecar import summarise as summarise_module
from sidecar.analyzer import Analyzer
from sidecar.capture.records import AnyRecord, Chunk, Ended, Opened, RequestBody, RequestSent, ResponseHead
from sidecar.config import Settings

EVENTS = 2000
ROUNDS = 15
SSE = "text/event-stream"


def chat(number: int) -> tuple[str, dict[str, Any]]:
    choice = {"index": 0, "delta": {"content": f" word{number}"}, "logprobs": None, "finish_reason": None}
    return "", {
        "id": "chatcmpl-AbCdEfGhIjKlMnOpQrStUvWx",
        "object": "chat.completion.chunk",
        "created": 1767225600,
        "model": "gpt-x-2026-01-01",
        "service_tier": "default",
        "system_fingerprint": "fp_0123456789",
        "choices": [choice],
        "obfuscation": "AbCdEf",
    }


def reasoning(number: int) -> tuple[str, dict[str, Any]]:
    delta = {"content": None, "reasoning_content": f" word{number}"}
    return "", chat(number)[1] | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


def messages(number: int) -> tuple[str, dict[str, Any]]:
    delta = {"type": "text_delta", "text": f" word{number}"}
    return "content_block_delta", {"type": "content_block_delta", "index": 0, "delta": delta}


def responses(number: int) -> tuple[str, dict[str, Any]]:
    return "response.output_text.delta", {
        "type": "response.output_text.delta",
        "sequence_number": number,
        "item_id": "msg_0123456789",
        "output_index": 0,
        "content_index": 0,
        "delta": f" word{number}",
        "logprobs": [],
        "obfuscation": "AbCdEf",
    }


def gemini(number: int) -> tuple[str, dict[str, Any]]:
    part = {"parts": [{"text": f" word{number}"}], "role": "model"}
    return "", {
        "candidates": [{"content": part, "index": 0}],
        "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": number, "totalTokenCount": 9 + number},
        "modelVersion": "gem-x",
        "responseId": "r1",
    }


CASES: dict[str, tuple[str, Callable[[int], tuple[str, dict[str, Any]]]]] = {
    "openai.chat": ("/v1/chat/completions", chat),
    "anthropic.messages": ("/v1/messages", messages),
    "openai.responses": ("/v1/responses", responses),
    "gemini.generate": ("/v1beta/models/gem:streamGenerateContent?alt=sse", gemini),
}
TEN_A_READ = " (10 a read)"
MORE = {
    "openai.chat reasoning": ("/v1/chat/completions", reasoning),
    **{name + TEN_A_READ: case for name, case in CASES.items()},
}


def records(
    path: str, make: Callable[[int], tuple[str, dict[str, Any]]], together: int = 1
) -> tuple[list[AnyRecord], list[bytes]]:
    """Records of a stream with so many events in each read, and the payloads."""
    payloads, reads = [], []
    for number in range(EVENTS):
        name, event = make(number)
        payload = json.dumps(event, separators=(",", ":")).encode()
        payloads.append(payload)
        reads.append((f"event: {name}\n".encode() if name else b"") + b"data: " + payload + b"\n\n")
    head: list[AnyRecord] = [
        Opened(1, 1, "id", 1, "POST", "https", "host", 443, path, "HTTP/1.1", []),
        RequestBody(1, 1, b'{"model":"m","stream":true}'),
        RequestSent(1, 1),
        ResponseHead(1, 2, 200, "HTTP/1.1", [("content-type", SSE)]),
    ]
    chunks = [
        Chunk(1, 3 + number * 20_000_000, b"".join(reads[number : number + together]))
        for number in range(0, EVENTS, together)
    ]
    return [*head, *chunks, Ended(1, 3 + EVENTS * 20_000_000, "eof")], payloads


def best(*works: Callable[[], None]) -> list[float]:
    """Microseconds per event of the best round of each."""
    return [seconds / EVENTS * 1e6 for seconds in best_of(ROUNDS, *works)]


def measure(path: str, make: Callable[[int], tuple[str, dict[str, Any]]], together: int = 1) -> dict[str, float]:
    stream, payloads = records(path, make, together)
    batches = [stream[begin : begin + 50] for begin in range(0, len(stream), 50)]

    def decode() -> None:
        for payload in payloads:
            orjson.loads(payload)

    def analyze() -> None:
        analyzer = Analyzer(Settings())
        for batch in batches:
            analyzer.receive(1, batch)
        assert analyzer.recent[0].output_chunks == EVENTS

    def analyze_without_quirks() -> None:
        with mock.patch.object(summarise_module, "detect", return_value=()):
            analyze()

    bare, full, without = best(decode, analyze, analyze_without_quirks)
    return {
        "decode_us": round(bare, 3),
        "event_us": round(full, 3),
        "ratio": round(full / bare, 3),
        "quirks_add": round(full / without - 1, 4),
        "events_per_second": round(1e6 / full),
    }


def tables(found: dict[str, Any]) -> str:
    """A line for each dialect."""
    rows = (
        (name, row["decode_us"], row["event_us"], row["ratio"], f"{row['quirks_add']:.1%}", row["events_per_second"])
        for name, row in found.items()
    )
    head = ("dialect", "bare decode µs", "whole path µs", "ratio", "quirks add", "events/s per core")
    return table(head, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    found = {
        name: measure(*case, together=10 if name.endswith(TEN_A_READ) else 1) for name, case in (CASES | MORE).items()
    }
    save("analyzer", found, "python -m bench.analyzer")
    print(json.dumps({"about": about(), "results": found}, indent=1) if asked.json else tables(found))


if __name__ == "__main__":
    main()
