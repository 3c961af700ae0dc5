"""What a request said to the model, in the JSON form of OpenTelemetry's GenAI conventions, for captured content only.

Read by the shape of the body and not by the dialect: gateways take one dialect's body under another one's path. The
forms are `gen_ai.input.messages`, `gen_ai.system_instructions` and `gen_ai.tool.definitions` of
https://github.com/open-telemetry/semantic-conventions-genai (model/gen-ai). Images, audio and files are named by their
type and left out.
"""

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import msgspec

MESSAGES_KEPT = 128
TOOLS_KEPT = 128
TEXTS_KEPT = 32
"""Of the texts, as many characters in all as so many of the longest ones that are kept."""

_PROMPTS = ("prompt", "inputs", "inputText", "message", "query")
"""Members that hold a bare prompt: completions and Ollama, TGI, Titan, Cohere."""
_ROLES = {"model": "assistant", "function": "tool"}

type _Part = dict[str, Any]


class RequestContent(msgspec.Struct, frozen=True):
    """JSON texts (ASCII), each empty where the request has none. All of it is content."""

    messages: str = ""
    system: str = ""
    tools: str = ""
    truncated: bool = False
    """Whether something was cut or left out for its size. The latest messages are kept."""


def read_content(body: bytes, text_chars: int) -> RequestContent | None:
    """Messages and tools of a request body, decoded of its content coding; None where it is no JSON object.

    A text keeps at most `text_chars` characters, all of them together `TEXTS_KEPT` times that. Never raises.
    """
    try:
        values = json.loads(body.decode("utf-8", "replace"))
        if not isinstance(values, dict):
            return None
        if isinstance(values.get("input"), dict):
            values = values | values["input"]  # DashScope's own form
        reader = _Reader(text_chars)
        system = list(reader.parts(_system(values)))
        tools = [_known(tool) for tool in reader.limited(reader.tools(_tools(values)), TOOLS_KEPT)]
        messages = reader.messages(_messages(values))
        return RequestContent(_dump(messages), _dump(system), _dump(tools), reader.truncated)
    except (ValueError, RecursionError):
        return None


def _dump(found: list[Any]) -> str:
    return json.dumps(found, separators=(",", ":")) if found else ""


def _messages(values: dict[str, Any]) -> list[Any]:
    for name in ("messages", "contents", "input"):
        found = values.get(name)
        if isinstance(found, list) and found:
            return found
        if isinstance(found, str):
            return [found]
    prompt: Any = next((values[name] for name in _PROMPTS if values.get(name)), [])
    return prompt if isinstance(prompt, list) else [prompt]


def _system(values: dict[str, Any]) -> Any:
    for name in ("system", "instructions", "systemInstruction", "system_instruction"):
        found = values.get(name)
        if found:
            return found.get("parts") if isinstance(found, dict) else found
    return None


def _tools(values: dict[str, Any]) -> Iterator[dict[str, Any]]:
    config = values.get("toolConfig")
    found = config.get("tools") if isinstance(config, dict) else values.get("tools")
    for tool in found if isinstance(found, list) else ():
        if not isinstance(tool, dict):
            continue
        declared = tool.get("functionDeclarations") or tool.get("function_declarations")
        if isinstance(declared, list):
            yield from (one for one in declared if isinstance(one, dict))
        else:
            inner = tool.get("function") or tool.get("toolSpec")
            yield inner if isinstance(inner, dict) else tool


def _known(tool: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in tool.items() if value is not None}


class _Reader:
    """Turns the members of a request into parts, within a budget of characters."""

    def __init__(self, text_chars: int) -> None:
        self._longest = text_chars
        self._room = text_chars * TEXTS_KEPT
        self.truncated = False

    def text(self, value: str) -> str:
        kept = value[: min(self._longest, self._room)]
        self._room -= len(kept)
        self.truncated = self.truncated or len(kept) < len(value)
        return kept

    def value(self, value: Any) -> Any:
        """Arguments or an answer: as they are, or the beginning of their JSON text where they are long."""
        if isinstance(value, str):
            return self.text(value)
        encoded = json.dumps(value)
        if len(encoded) > min(self._longest, self._room):
            return self.text(encoded)
        self._room -= len(encoded)
        return value

    def limited[T](self, found: Iterator[T], most: int) -> Iterator[T]:
        kept = 0
        while kept < most and self._room > 0:
            one = next(found, None)
            if one is None:
                return
            kept += 1
            yield one
        self.truncated = self.truncated or next(found, None) is not None

    def messages(self, found: list[Any]) -> list[dict[str, Any]]:
        """The latest ones, in their order."""
        kept = list(self.limited(filter(None, map(self._message, reversed(found))), MESSAGES_KEPT))
        return kept[::-1]

    def _message(self, item: Any) -> dict[str, Any] | None:
        if isinstance(item, str):
            return {"role": "user", "parts": [self._text_part(item)]}
        if not isinstance(item, dict):
            return None
        kind = item.get("type")
        if kind in ("function_call", "custom_tool_call"):
            arguments = item.get("arguments", item.get("input"))
            return {"role": "assistant", "parts": [self._call(item.get("call_id"), item.get("name"), arguments)]}
        if kind in ("function_call_output", "custom_tool_call_output"):
            return {"role": "tool", "parts": [self._answer(item.get("call_id"), item.get("output"))]}
        if kind == "reasoning":
            return {"role": "assistant", "parts": [self._reasoning(part) for part in _texts(item.get("summary"))]}
        role = item.get("role")
        role = _ROLES.get(role, role[:32]) if isinstance(role, str) else "user"
        if role == "tool" and "tool_call_id" in item:
            return {"role": role, "parts": [self._answer(item["tool_call_id"], item.get("content"))]}
        return {"role": role, "parts": list(self._message_parts(item))}

    def _message_parts(self, item: dict[str, Any]) -> Iterator[_Part]:
        thought = item.get("reasoning_content") or item.get("thinking")
        if isinstance(thought, str):
            yield self._reasoning(thought)
        yield from self.parts(item.get("content", item.get("parts", item.get("text"))))
        calls = item.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            function = call.get("function") if isinstance(call, dict) else None
            if isinstance(function, dict):
                yield self._call(call.get("id"), function.get("name"), function.get("arguments"))

    def parts(self, content: Any) -> Iterator[_Part]:
        """The parts of a message's content, in whatever form it has."""
        if isinstance(content, list):
            for part in content:
                yield from self.parts(part)
        elif isinstance(content, str):
            yield self._text_part(content)
        elif isinstance(content, dict):
            yield self._part(content)

    def _part(self, part: dict[str, Any]) -> _Part:
        kind = part.get("type")
        if isinstance(part.get("text"), str):
            return self._reasoning(part["text"]) if part.get("thought") is True else self._text_part(part["text"])
        if isinstance(part.get("thinking"), str):
            return self._reasoning(part["thinking"])
        if kind == "tool_use":
            return self._call(part.get("id"), part.get("name"), part.get("input"))
        if kind == "tool_result":
            return self._answer(part.get("tool_use_id"), part.get("content"))
        for name, inner in part.items():
            if not isinstance(inner, dict):
                continue
            if name in ("toolUse", "functionCall", "function_call"):
                arguments = inner.get("input", inner.get("args"))
                return self._call(inner.get("toolUseId", inner.get("id")), inner.get("name"), arguments)
            if name in ("toolResult", "functionResponse", "function_response"):
                return self._answer(
                    inner.get("toolUseId", inner.get("id")), inner.get("content", inner.get("response"))
                )
        return {"type": str(kind if isinstance(kind, str) else next(iter(part), "unknown"))[:64]}

    def tools(self, found: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        for tool in found:
            name, kind = tool.get("name"), tool.get("type")
            schema = tool.get("parameters") or tool.get("input_schema") or tool.get("inputSchema")
            if isinstance(schema, dict) and isinstance(schema.get("json"), dict):
                schema = schema["json"]
            described = tool.get("description")
            parameters = self.value(schema) if isinstance(schema, dict) else None
            kind = kind if isinstance(kind, str) and schema is None and described is None else "function"
            yield {
                "type": kind[:64],
                "name": name[:128] if isinstance(name, str) else kind[:64],
                "description": self.text(described) if isinstance(described, str) else None,
                "parameters": parameters if isinstance(parameters, dict) else None,
            }

    def _text_part(self, text: str) -> _Part:
        return {"type": "text", "content": self.text(text)}

    def _reasoning(self, text: str) -> _Part:
        return {"type": "reasoning", "content": self.text(text)}

    def _call(self, call_id: Any, name: Any, arguments: Any) -> _Part:
        if isinstance(arguments, str) and len(arguments) <= self._longest:
            with contextlib.suppress(ValueError):  # as it is: what a model wrote need not be JSON
                arguments = json.loads(arguments)
        part: _Part = {"type": "tool_call", "name": name[:128] if isinstance(name, str) else ""}
        if isinstance(call_id, str):
            part["id"] = call_id[:128]
        if arguments is not None:
            part["arguments"] = self.value(arguments)
        return part

    def _answer(self, call_id: Any, response: Any) -> _Part:
        part: _Part = {"type": "tool_call_response", "response": self.value(response)}
        if isinstance(call_id, str):
            part["id"] = call_id[:128]
        return part


def _texts(found: Any) -> Iterator[str]:
    for part in found if isinstance(found, list) else ():
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            yield part["text"]
