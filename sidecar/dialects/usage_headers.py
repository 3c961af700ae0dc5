"""Token counts that stand in the response head and nowhere in the body, as with Bedrock's InvokeModel."""

from typing import Final

from sidecar.dialects.signals import Usage

_COUNTS: Final = {
    "x-amzn-bedrock-input-token-count": "input",
    "x-amzn-bedrock-output-token-count": "output",
    "x-amzn-bedrock-cache-read-input-token-count": "cache_read",
    "x-amzn-bedrock-cache-write-input-token-count": "cache_write",
}


def usage_of_headers(headers: dict[str, str]) -> Usage | None:
    """The counts of a response head (names in lower case); None where it has none."""
    counts = {
        field: int(value)
        for name, field in _COUNTS.items()
        if (value := headers.get(name, "")).isascii() and value.isdigit() and len(value) < 16
    }
    if not counts:
        return None
    usage = Usage(place="headers")
    for field, count in counts.items():
        setattr(usage, field, count)
    return usage
