"""Well-formed streams of OpenAI's chat, completions and Responses, and of the many that speak chat."""

from typing import Any

from hypothesis import strategies as st

from tests.wellformed.answers import Answer, Counts, answers, texts
from tests.wellformed.wire import SSE, Written, sse

type Object = dict[str, Any]


def chat_usage(counts: Counts) -> Object:
    return {
        "prompt_tokens": counts.input,
        "completion_tokens": counts.output,
        "total_tokens": counts.input + counts.output,
        "prompt_tokens_details": {"cached_tokens": counts.cached},
        "completion_tokens_details": {"reasoning_tokens": counts.reasoning},
    }


def stated(counts: Counts) -> dict[str, int]:
    """The usage that the sidecar shall report of it."""
    return {
        "input_tokens": counts.input,
        "output_tokens": counts.output,
        "total_tokens": counts.input + counts.output,
        "cache_read_tokens": counts.cached,
        "reasoning_tokens": counts.reasoning,
    }


@st.composite
def _deltas(draw: st.DrawFn, answer: Answer) -> list[Object]:
    """The deltas of one choice, the role first or with the first piece."""
    field = draw(st.sampled_from(["reasoning_content", "reasoning"]))
    deltas: list[Object] = [{field: piece} for piece in answer.reasoning]
    deltas += [{"content": piece} for piece in answer.text]
    together = draw(st.booleans())  # id, name and the first arguments in one delta
    for index, call in enumerate(answer.calls):
        head: Object = {
            "index": index,
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": ""},
        }
        pieces = list(call.pieces)
        if together:
            head["function"]["arguments"] = pieces.pop(0)
        deltas.append({"tool_calls": [head]})
        deltas += [{"tool_calls": [{"index": index, "function": {"arguments": piece}}]} for piece in pieces]
    role = {"role": "assistant"}
    if draw(st.booleans()):
        return [{**role, "content": draw(st.sampled_from(["", None]))}, *deltas]
    return [{**role, **deltas[0]}, *deltas[1:]]


@st.composite
def chat(draw: st.DrawFn) -> Written:
    n = draw(st.sampled_from([1, 1, 1, 2, 3]))
    said = [draw(answers(calls=n == 1)) for _ in range(n)]
    lanes = [draw(_deltas(answer)) for answer in said]
    finish = "tool_calls" if said[0].calls else draw(st.sampled_from(["stop", "length", "content_filter"]))
    usage = draw(st.sampled_from(["none", "finish", "trailing"])) if n == 1 else "none"
    base: Object = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    nulls = {"usage": None} if usage == "trailing" and draw(st.booleans()) else {}

    def chunk(index: int, delta: Object, reason: str | None, **more: Any) -> Object:
        return {**base, "choices": [{"index": index, "delta": delta, "finish_reason": reason}], **nulls, **more}

    events: list[Any] = []
    longest = max(map(len, lanes))
    for step in range(longest):  # the choices of one step side by side
        events += [chunk(index, lane[step], None) for index, lane in enumerate(lanes) if step < len(lane)]
    counts = said[0].counts
    for index in range(n):
        events.append(chunk(index, {}, finish, **({"usage": chat_usage(counts)} if usage == "finish" else {})))
    if usage == "trailing":
        events.append({**base, "choices": [], "usage": chat_usage(counts)})
    request: Object = {"model": "m", "stream": True, "messages": []}
    request |= {"n": n} if n > 1 else {}
    request |= {"stream_options": {"include_usage": True}} if usage == "trailing" else {}
    return Written(
        draw(st.sampled_from(["/v1/chat/completions", "/openai/deployments/d/chat/completions?api-version=1"])),
        request,
        SSE,
        draw(sse([*events, "[DONE]"])),
        "done_sentinel",
        "".join(said[0].text),
        "".join(said[0].reasoning),
        said[0].said,
        None if usage == "none" else stated(counts),
        finish,
    )


@st.composite
def completions(draw: st.DrawFn) -> Written:
    n = draw(st.sampled_from([1, 2]))
    said = [draw(texts(1)) for _ in range(n)]
    base: Object = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "m"}
    events: list[Any] = []
    for index, pieces in enumerate(said):
        for piece, reason in [*((piece, None) for piece in pieces), ("", "stop")]:
            events.append(
                {**base, "choices": [{"text": piece, "index": index, "logprobs": None, "finish_reason": reason}]}
            )
    usage = None
    if draw(st.booleans()):
        usage = draw(answers()).counts
        events.append({**base, "choices": [], "usage": chat_usage(usage)})
    return Written(
        "/v1/completions",
        {"model": "m", "stream": True, "n": n, "prompt": "x"},
        SSE,
        draw(sse([*events, "[DONE]"])),
        "done_sentinel",
        "".join(said[0]),
        usage=stated(usage) if usage else None,
        finish="stop",
    )


def _responses_usage(counts: Counts) -> Object:
    return {
        "input_tokens": counts.input,
        "input_tokens_details": {"cached_tokens": counts.cached},
        "output_tokens": counts.output,
        "output_tokens_details": {"reasoning_tokens": counts.reasoning},
        "total_tokens": counts.input + counts.output,
    }


def _reasoning_item(answer: Answer, at: int) -> list[Object]:
    place: Object = {"item_id": f"rs_{at}", "output_index": at, "summary_index": 0}
    text = "".join(answer.reasoning)
    part = {"type": "summary_text", "text": text}
    item = {"type": "reasoning", "id": f"rs_{at}"}
    return [
        {"type": "response.output_item.added", "output_index": at, "item": {**item, "summary": []}},
        {"type": "response.reasoning_summary_part.added", **place, "part": {**part, "text": ""}},
        *({"type": "response.reasoning_summary_text.delta", **place, "delta": piece} for piece in answer.reasoning),
        {"type": "response.reasoning_summary_text.done", **place, "text": text},
        {"type": "response.reasoning_summary_part.done", **place, "part": part},
        {"type": "response.output_item.done", "output_index": at, "item": {**item, "summary": [part]}},
    ]


def _message_item(answer: Answer, at: int) -> list[Object]:
    place: Object = {"item_id": f"msg_{at}", "output_index": at, "content_index": 0}
    text = "".join(answer.text)
    part = {"type": "output_text", "annotations": [], "text": text}
    item = {"type": "message", "id": f"msg_{at}", "role": "assistant"}
    return [
        {
            "type": "response.output_item.added",
            "output_index": at,
            "item": {**item, "status": "in_progress", "content": []},
        },
        {"type": "response.content_part.added", **place, "part": {**part, "text": ""}},
        *({"type": "response.output_text.delta", **place, "delta": piece} for piece in answer.text),
        {"type": "response.output_text.done", **place, "text": text},
        {"type": "response.content_part.done", **place, "part": part},
        {
            "type": "response.output_item.done",
            "output_index": at,
            "item": {**item, "status": "completed", "content": [part]},
        },
    ]


def _call_items(answer: Answer, begin: int) -> list[Object]:
    events: list[Object] = []
    for at, call in enumerate(answer.calls, begin):
        item = {"type": "function_call", "id": f"fc_{at}", "call_id": call.id, "name": call.name}
        place = {"item_id": f"fc_{at}", "output_index": at}
        events += [
            {
                "type": "response.output_item.added",
                "output_index": at,
                "item": {**item, "arguments": "", "status": "in_progress"},
            },
            *({"type": "response.function_call_arguments.delta", **place, "delta": piece} for piece in call.pieces),
            {"type": "response.function_call_arguments.done", **place, "arguments": call.arguments},
            {
                "type": "response.output_item.done",
                "output_index": at,
                "item": {**item, "arguments": call.arguments, "status": "completed"},
            },
        ]
    return events


@st.composite
def responses(draw: st.DrawFn) -> Written:
    answer = draw(answers())
    response: Object = {
        "id": "resp_1",
        "object": "response",
        "model": "m",
        "status": "in_progress",
        "output": [],
        "usage": None,
    }
    events = [{"type": f"response.{state}", "response": response} for state in ("created", "in_progress")]
    at = 0
    if answer.reasoning:
        events += _reasoning_item(answer, at)
        at += 1
    if answer.text:
        events += _message_item(answer, at)
        at += 1
    events += _call_items(answer, at)
    items = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    kind = draw(st.sampled_from(["completed", "incomplete"]))
    details = {"reason": "max_output_tokens"} if kind == "incomplete" else None
    ended = {
        **response,
        "status": kind,
        "output": items,
        "usage": _responses_usage(answer.counts),
        "incomplete_details": details,
    }
    events.append({"type": f"response.{kind}", "response": {**ended, "error": None}})
    numbered = [{**event, "sequence_number": number} for number, event in enumerate(events)]
    return Written(
        "/v1/responses",
        {"model": "m", "stream": True, "input": "hi"},
        SSE,
        draw(sse(numbered, named=True)),
        f"response.{kind}",
        "".join(answer.text),
        "".join(answer.reasoning),
        answer.said,
        stated(answer.counts),
        "max_output_tokens" if details else "completed",
    )
