"""The JSON Schema of a line of a capture file, from the types that read it. `make docs` writes docs/capture.schema.json."""

import ast
import inspect
import json
from typing import Any

import msgspec

from sidecar.files import capture

ID = "https://json-schema.org/draft/2020-12/schema"


def schema() -> dict[str, Any]:
    """The schema as JSON values. Unknown members are allowed: a later sidecar may add some within a version."""
    found: dict[str, Any] = msgspec.json.schema(capture.Capture)
    parts: dict[str, Any] = found["$defs"]
    for part, members in _documented().items():
        for name, text in members.items():
            described = parts.get(part, {}).get("properties", {}).get(name)
            if described is not None:
                described["description"] = text
    parts["Capture"]["properties"]["v"] = {"const": capture.VERSION, "description": "Version of the format."}
    for name in ("Payload", "ChunkPart", "MessagePart"):
        described = parts[name]["properties"]
        described["text"] = {"type": "string", "description": "The bytes, where they are valid UTF-8."}
        described["b64"] = {"type": "string", "contentEncoding": "base64", "description": "The bytes, else."}
        parts[name]["not"] = {"required": ["text", "b64"]}
    return {"$schema": ID, "title": "A line of a capture file of llm-sidecar", **found}


def _documented() -> dict[str, dict[str, str]]:
    """The strings that stand below the members of the types, by type and member."""
    found: dict[str, dict[str, str]] = {}
    for kind in ast.parse(inspect.getsource(capture)).body:
        if not isinstance(kind, ast.ClassDef):
            continue
        members = found.setdefault(kind.name, {})
        for member, below in zip(kind.body, kind.body[1:], strict=False):
            match member, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    members[name] = inspect.cleandoc(text)
    return found


if __name__ == "__main__":
    print(json.dumps(schema(), indent=2))
