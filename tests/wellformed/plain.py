"""Well-formed streams of the plainer dialects: text, counts and an end."""

from typing import Any

from hypothesis import strategies as st

from tests.wellformed.answers import answers, dumps, texts
from tests.wellformed.openai import chat_usage, stated
from tests.wellformed.wire import SSE, Written, sse

type Object = dict[str, Any]


@st.composite
def dashscope(draw: st.DrawFn) -> Written:
    answer = draw(answers(calls=False))
    counts = answer.counts
    said: list[Object] = [
        {"role": "assistant", "content": "", "reasoning_content": piece} for piece in answer.reasoning
    ]
    said += [{"role": "assistant", "content": piece} for piece in answer.text]
    events: list[Object] = []
    for number, message in enumerate(said, 1):
        choice = {"message": message, "finish_reason": "stop" if number == len(said) else "null"}
        usage = {"input_tokens": counts.input, "output_tokens": number, "total_tokens": counts.input + number}
        events.append({"output": {"choices": [choice]}, "usage": usage, "request_id": "r"})
    heads = [f"id:{number}\nevent:result\n:HTTP_STATUS/200\n" for number in range(1, len(events) + 1)]
    if draw(st.booleans()):
        units = [head.encode() + block for head, block in zip(heads, _blocks(events), strict=True)]
    else:
        units = draw(sse(events))
    return Written(
        "/api/v1/services/aigc/text-generation/generation",
        {"model": "m", "input": {}, "parameters": {"incremental_output": True}},
        SSE,
        units,
        None,
        "".join(answer.text),
        "".join(answer.reasoning),
        usage={"input_tokens": counts.input, "output_tokens": len(said), "total_tokens": counts.input + len(said)},
        finish="stop",
        request_headers=[("x-dashscope-sse", "enable")],
    )


@st.composite
def workers_ai(draw: st.DrawFn) -> Written:
    pieces = draw(texts(1))
    counts = draw(answers()).counts
    events: list[Any] = [{"response": piece, "p": "abc"} for piece in pieces]
    usage = {
        "prompt_tokens": counts.input,
        "completion_tokens": counts.output,
        "total_tokens": counts.input + counts.output,
    }
    events += [{"response": "", "usage": usage, "p": "ab"}, "[DONE]"]
    told = {
        name: count
        for name, count in stated(counts).items()
        if name in ("input_tokens", "output_tokens", "total_tokens")
    }
    target = "/client/v4/accounts/a/ai/run/@cf/meta/m"
    return Written(target, {"stream": True}, SSE, draw(sse(events)), "done_sentinel", "".join(pieces), usage=told)


@st.composite
def tgi(draw: st.DrawFn) -> Written:
    pieces = draw(texts(1))
    events: list[Object] = []
    for number, piece in enumerate(pieces, 1):
        last = number == len(pieces)
        details = {"finish_reason": "length", "generated_tokens": number, "input_length": 7} if last else None
        token = {"id": number, "text": piece, "logprob": -0.5, "special": False}
        events.append(
            {"index": number, "token": token, "generated_text": "".join(pieces) if last else None, "details": details}
        )
    return Written(
        "/generate_stream",
        {"inputs": "x", "parameters": {"details": True}},
        SSE,
        draw(sse(events)),
        None,
        "".join(pieces),
        usage={"input_tokens": 7, "output_tokens": len(pieces)},
        finish="length",
    )


@st.composite
def llamacpp(draw: st.DrawFn) -> Written:
    pieces = draw(texts(1))
    events: list[Object] = [{"index": 0, "content": piece, "tokens": [1], "stop": False} for piece in pieces]
    ended = {"stop": True, "stop_type": "eos", "model": "m", "tokens_predicted": len(pieces), "tokens_evaluated": 5}
    events.append({"index": 0, "content": "", **ended})
    return Written(
        "/completion",
        {"prompt": "x", "stream": True},
        SSE,
        draw(sse(events)),
        "stop_true",
        "".join(pieces),
        usage={"input_tokens": 5, "output_tokens": len(pieces)},
        finish="eos",
    )


@st.composite
def assistants(draw: st.DrawFn) -> Written:
    pieces = draw(texts(1))
    counts = draw(answers()).counts
    run = {"id": "run_1", "object": "thread.run", "model": "m", "last_error": None}
    message = {"id": "msg_1", "object": "thread.message.delta"}
    named: list[tuple[str, Object]] = [
        (f"thread.run.{status}", {**run, "status": status, "usage": None})
        for status in ("created", "queued", "in_progress")
    ]
    for piece in pieces:
        part = {"index": 0, "type": "text", "text": {"value": piece, "annotations": []}}
        named.append(("thread.message.delta", {**message, "delta": {"content": [part]}}))
    named.append(("thread.run.completed", {**run, "status": "completed", "usage": chat_usage(counts)}))
    blocks = _blocks([event for _, event in named])
    units = [f"event: {name}\n".encode() + block for (name, _), block in zip(named, blocks, strict=True)]
    return Written(
        "/v1/threads/t/runs",
        {"assistant_id": "a", "stream": True},
        SSE,
        [*units, b"event: done\ndata: [DONE]\n\n"],
        "done_sentinel",
        "".join(pieces),
        usage=stated(counts),
        finish="completed",
    )


def _blocks(events: list[Object]) -> list[bytes]:
    return [f"data: {dumps(event, ascii_only=True)}\n\n".encode() for event in events]


@st.composite
def media(draw: st.DrawFn) -> Written:
    """Speech, transcriptions and images."""
    usage = {"input_tokens": 3, "output_tokens": 5, "total_tokens": 8}
    kind = draw(st.sampled_from(["speech", "transcript", "image"]))
    events: list[Object] = []
    if kind == "speech":
        events = [
            {"type": "speech.audio.delta", "audio": "AAAA" * size}
            for size in draw(st.lists(st.integers(1, 9), min_size=1))
        ]
        events.append({"type": "speech.audio.done", "usage": usage})
        path, text = "/v1/audio/speech", ""
        request: dict[str, object] = {"model": "m", "stream_format": "sse"}
    elif kind == "transcript":
        pieces = draw(texts(1))
        text = "".join(pieces)
        events = [{"type": "transcript.text.delta", "delta": piece} for piece in pieces]
        events.append({"type": "transcript.text.done", "text": text, "usage": {"type": "tokens", **usage}})
        request, path = {"model": "m", "stream": True}, "/v1/audio/transcriptions"
    else:
        frames = range(draw(st.integers(0, 3)))
        events = [
            {"type": "image_generation.partial_image", "partial_image_index": i, "b64_json": "AAAA"} for i in frames
        ]
        events.append({"type": "image_generation.completed", "b64_json": "AAAAAAAA", "usage": usage})
        request, path, text = {"model": "m", "stream": True}, "/v1/images/generations", ""
    return Written(path, request, SSE, draw(sse(events, named=True)), events[-1]["type"], text, usage=usage)
