"""Well-formed streams of Anthropic, Gemini, Bedrock, Ollama and Cohere."""

import base64
import json
from typing import Any

from hypothesis import strategies as st

from tests.wellformed.answers import Answer, Counts, answers, dumps
from tests.wellformed.wire import AWS, JSON, NDJSON, SSE, Written, aws_frames, json_array, ndjson, sse

type Object = dict[str, Any]


def _block(index: int, start: Object, deltas: list[Object]) -> list[Object]:
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def _anthropic_events(answer: Answer) -> list[Object]:
    counts = answer.counts
    given = {"input_tokens": counts.input, "cache_read_input_tokens": counts.cached, "cache_creation_input_tokens": 0}
    message: Object = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
    }
    events: list[Object] = [{"type": "message_start", "message": {**message, "usage": {**given, "output_tokens": 1}}}]
    blocks: list[tuple[Object, list[Object]]] = []
    if answer.reasoning:
        thinking: list[Object] = [{"type": "thinking_delta", "thinking": piece} for piece in answer.reasoning]
        signed = {"type": "signature_delta", "signature": "c2ln"}
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, [*thinking, signed]))
    if answer.text:
        blocks.append(({"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in answer.text]))
    for call in answer.calls:
        pieces = ["", *call.pieces]
        start = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
        blocks.append((start, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]))
    for index, (start, deltas) in enumerate(blocks):
        events += _block(index, start, deltas)
    reason = "tool_use" if answer.calls else "end_turn"
    ended = {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}}
    return [*events, {**ended, "usage": {"output_tokens": counts.output}}, {"type": "message_stop"}]


def _anthropic_usage(counts: Counts) -> dict[str, int]:
    return {
        "input_tokens": counts.input,
        "output_tokens": counts.output,
        "cache_read_tokens": counts.cached,
        "cache_write_tokens": 0,
    }


def _written(
    target: str, request: Object, kind: str, units: list[bytes], terminator: str | None, answer: Answer
) -> Written:
    text, reasoning = "".join(answer.text), "".join(answer.reasoning)
    return Written(target, request, kind, units, terminator, text, reasoning, answer.said)


@st.composite
def anthropic(draw: st.DrawFn) -> Written:
    answer = draw(answers())
    events = _anthropic_events(answer)
    events.insert(draw(st.integers(1, len(events) - 1)), {"type": "ping"})
    units = draw(sse(events, named=True))
    written = _written("/v1/messages", {"model": "m", "stream": True}, SSE, units, "message_stop", answer)
    return written._replace(usage=_anthropic_usage(answer.counts), finish="tool_use" if answer.calls else "end_turn")


@st.composite
def _gemini_elements(draw: st.DrawFn, answer: Answer) -> list[Object]:
    parts: list[Object] = [{"text": piece, "thought": True} for piece in answer.reasoning]
    parts += [{"text": piece} for piece in answer.text]
    parts += [{"functionCall": {"name": call.name, "args": json.loads(call.arguments)}} for call in answer.calls]
    counts = answer.counts
    final = {
        "promptTokenCount": counts.input,
        "candidatesTokenCount": counts.output,
        "totalTokenCount": counts.input + counts.output + counts.reasoning,
        "thoughtsTokenCount": counts.reasoning,
        "cachedContentTokenCount": counts.cached,
    }
    elements: list[Object] = []
    for number, part in enumerate(parts, 1):
        candidate: Object = {"index": 0, "content": {"role": "model", "parts": [part]}}
        element: Object = {"candidates": [candidate], "modelVersion": "m", "responseId": "r"}
        if number == len(parts):
            candidate["finishReason"] = "STOP"
            element["usageMetadata"] = final
        elements.append(element)
    if draw(st.booleans()):  # the finish reason alone
        alone: Object = {
            "candidates": [{"index": 0, "content": {"role": "model", "parts": [{"text": ""}]}, "finishReason": "STOP"}]
        }
        elements.append({**alone, "usageMetadata": elements[-1].pop("usageMetadata")})
        elements[-2]["candidates"][0].pop("finishReason")
    return elements


@st.composite
def gemini(draw: st.DrawFn) -> Written:
    answer = draw(answers())
    elements = draw(_gemini_elements(answer))
    path = "/v1beta/models/m:streamGenerateContent"
    if draw(st.booleans()):
        written = _written(f"{path}?alt=sse", {"contents": []}, SSE, draw(sse(elements)), None, answer)
    else:
        written = _written(path, {"contents": []}, JSON, draw(json_array(elements)), "array_close", answer)
    counts = answer.counts
    usage = _anthropic_usage(counts) | {"total_tokens": counts.input + counts.output + counts.reasoning}
    del usage["cache_write_tokens"]
    compact = [(name, dumps(json.loads(arguments), ascii_only=False)) for name, arguments in answer.said]
    return written._replace(calls=compact, usage={**usage, "reasoning_tokens": counts.reasoning}, finish="STOP")


@st.composite
def converse(draw: st.DrawFn) -> Written:
    answer = draw(answers())
    events: list[tuple[str, Any]] = [("messageStart", {"role": "assistant"})]
    lanes: list[tuple[Object | None, list[Object]]] = []
    if answer.reasoning:
        signature: Object = {"reasoningContent": {"signature": "c2ln"}}
        lanes.append((None, [*({"reasoningContent": {"text": piece}} for piece in answer.reasoning), signature]))
    if answer.text:
        lanes.append((None, [{"text": piece} for piece in answer.text]))
    for call in answer.calls:
        begun: Object = {"toolUse": {"toolUseId": call.id, "name": call.name}}
        lanes.append((begun, [{"toolUse": {"input": piece}} for piece in call.pieces]))
    for index, (start, deltas) in enumerate(lanes):
        if start is not None:
            events.append(("contentBlockStart", {"contentBlockIndex": index, "start": start}))
        events += [("contentBlockDelta", {"contentBlockIndex": index, "delta": delta, "p": "abcd"}) for delta in deltas]
        events.append(("contentBlockStop", {"contentBlockIndex": index}))
    reason = "tool_use" if answer.calls else "end_turn"
    counts = answer.counts
    usage = {"inputTokens": counts.input, "outputTokens": counts.output, "totalTokens": counts.input + counts.output}
    events += [("messageStop", {"stopReason": reason}), ("metadata", {"usage": usage, "metrics": {"latencyMs": 9}})]
    written = _written("/model/m/converse-stream", {"messages": []}, AWS, aws_frames(events), "metadata", answer)
    said = {f"{name.removesuffix('Tokens')}_tokens": count for name, count in usage.items()}
    return written._replace(usage=said, finish=reason)


def _chunks(bodies: list[Object]) -> list[bytes]:
    wrapped = [{"bytes": base64.b64encode(json.dumps(body).encode()).decode(), "p": "abc"} for body in bodies]
    return aws_frames([("chunk", part) for part in wrapped])


@st.composite
def invoke(draw: st.DrawFn) -> Written:
    target = "/model/m/invoke-with-response-stream"
    if draw(st.booleans()):
        answer = draw(answers())
        metrics = {"inputTokenCount": answer.counts.input, "outputTokenCount": answer.counts.output}
        events = _anthropic_events(answer)
        events[-1] = {**events[-1], "amazon-bedrock-invocationMetrics": metrics}
        written = _written(target, {"anthropic_version": "x"}, AWS, _chunks(events), "message_stop", answer)
        return written._replace(
            usage=_anthropic_usage(answer.counts), finish="tool_use" if answer.calls else "end_turn"
        )
    answer = draw(answers(reasons=False, calls=False))
    counts = answer.counts
    bodies: list[Object] = [
        {
            "generation": piece,
            "prompt_token_count": counts.input if number == 0 else None,
            "generation_token_count": number + 1,
            "stop_reason": None,
        }
        for number, piece in enumerate(answer.text)
    ]
    bodies.append(
        {"generation": "", "prompt_token_count": None, "generation_token_count": counts.output, "stop_reason": "stop"}
    )
    written = _written(target, {"prompt": "x"}, AWS, _chunks(bodies), None, answer)
    return written._replace(usage={"input_tokens": counts.input, "output_tokens": counts.output}, finish="stop")


@st.composite
def ollama(draw: st.DrawFn) -> Written:
    base = {"model": "m", "created_at": "2026-01-01T00:00:00Z"}
    chats = draw(st.booleans())
    answer = draw(answers(calls=chats))
    lines: list[Object] = []
    if chats:
        said: list[Object] = [{"content": "", "thinking": piece} for piece in answer.reasoning]
        said += [{"content": piece} for piece in answer.text]
        for call in answer.calls:
            function = {"name": call.name, "arguments": json.loads(call.arguments)}
            said.append({"content": "", "tool_calls": [{"function": function}]})
        lines = [{**base, "message": {"role": "assistant", **message}, "done": False} for message in said]
        last: Object = {"message": {"role": "assistant", "content": ""}}
    else:
        lines = [{**base, "response": "", "thinking": piece, "done": False} for piece in answer.reasoning]
        lines += [{**base, "response": piece, "done": False} for piece in answer.text]
        last = {"response": ""}
    counts = answer.counts
    ended = {"done": True, "done_reason": "stop", "prompt_eval_count": counts.input, "eval_count": counts.output}
    units = draw(ndjson([*lines, {**base, **last, **ended}]))
    path, request = ("/api/chat", {"model": "m"}) if chats else ("/api/generate", {"model": "m", "prompt": "x"})
    written = _written(path, request, NDJSON, units, "done_true", answer)
    compact = [(name, dumps(json.loads(arguments), ascii_only=False)) for name, arguments in answer.said]
    return written._replace(
        calls=compact, usage={"input_tokens": counts.input, "output_tokens": counts.output}, finish="stop"
    )


@st.composite
def cohere(draw: st.DrawFn) -> Written:
    answer = draw(answers())
    events: list[Object] = [
        {"id": "m1", "type": "message-start", "delta": {"message": {"role": "assistant", "content": []}}}
    ]
    events += [{"type": "tool-plan-delta", "delta": {"message": {"tool_plan": piece}}} for piece in answer.reasoning]
    for index, call in enumerate(answer.calls):
        function = {"name": call.name, "arguments": ""}
        head = {"id": call.id, "type": "function", "function": function}
        events.append({"type": "tool-call-start", "index": index, "delta": {"message": {"tool_calls": head}}})
        for piece in call.pieces:
            delta = {"message": {"tool_calls": {"function": {"arguments": piece}}}}
            events.append({"type": "tool-call-delta", "index": index, "delta": delta})
        events.append({"type": "tool-call-end", "index": index})
    if answer.text:
        events.append(
            {"type": "content-start", "index": 0, "delta": {"message": {"content": {"type": "text", "text": ""}}}}
        )
        events += [
            {"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": piece}}}}
            for piece in answer.text
        ]
        events.append({"type": "content-end", "index": 0})
    counts = answer.counts
    tokens = {"input_tokens": counts.input, "output_tokens": counts.output}
    reason = "TOOL_CALL" if answer.calls else "COMPLETE"
    usage = {"billed_units": tokens, "tokens": {"input_tokens": counts.input + 60, "output_tokens": counts.output + 2}}
    events.append({"type": "message-end", "delta": {"finish_reason": reason, "usage": usage}})
    units = draw(sse(events, named=True))
    written = _written("/v2/chat", {"model": "m", "stream": True}, SSE, units, "message-end", answer)
    return written._replace(usage=tokens, finish=reason)
