"""Token counts as the chat family states them, wherever they stand in a chunk."""

from typing import TYPE_CHECKING, Any

from sidecar.dialects.signals import Annotation, Signal, Usage

if TYPE_CHECKING:
    from sidecar.dialects.openai_chat import Chunk


def count(value: Any) -> int | None:
    """A token count, or None for whatever is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
        return None
    return int(value)


def parse_usage(usage: dict[str, Any], place: str = "event") -> Usage:
    """OpenAI's usage object in its chat and its Responses spelling, with DeepSeek's and Moonshot's extras."""
    input_details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details") or {}
    output_details = usage.get("completion_tokens_details") or usage.get("output_tokens_details") or {}
    input_details = input_details if isinstance(input_details, dict) else {}
    output_details = output_details if isinstance(output_details, dict) else {}
    return Usage(
        input=_first(usage, "prompt_tokens", "input_tokens"),
        output=_first(usage, "completion_tokens", "output_tokens"),
        total=count(usage.get("total_tokens")),
        cache_read=_first(input_details, "cached_tokens", other=_first(usage, "cached_tokens", "prompt_cache_hit_tokens")),
        cache_write=_first(
            input_details, "cache_write_tokens", "cache_creation_tokens", other=_first(usage, "cache_creation_input_tokens")
        ),
        reasoning=_first(output_details, "reasoning_tokens", other=_first(usage, "reasoning_tokens")),
        place=place,  # type: ignore[arg-type]  # callers name one of the literal's values
    )


def _first(values: dict[str, Any], *names: str, other: int | None = None) -> int | None:
    for name in names:
        found = count(values.get(name))
        if found is not None:
            return found
    return other


def usage_of(event: "Chunk") -> list[Signal]:
    """Every usage that a chunk states, each with the habit of its place."""
    signals: list[Signal] = []
    if event.usage is None:
        signals.append(Annotation("null_usage"))
    elif isinstance(event.usage, dict):
        signals.append(parse_usage(event.usage))
        if any(value is None for value in event.usage.values()):
            signals.append(Annotation("usage_null_fields"))
    for choice in event.choices or ():
        if isinstance(choice.usage, dict) and choice.usage:
            signals += [parse_usage(choice.usage, "choice"), Annotation("usage_in_choice")]
    if isinstance(event.x_groq, dict) and isinstance(event.x_groq.get("usage"), dict):
        signals += [parse_usage(event.x_groq["usage"], "vendor"), Annotation("usage_in_vendor_field")]
    if isinstance(event.timings, dict):
        signals += timings_of(event.timings)
    return signals


def timings_of(timings: dict[str, Any]) -> list[Signal]:
    """llama.cpp's own accounting: `prompt_n` are the tokens processed, `cache_n` those taken from its cache."""
    usage = Usage(
        input=count(timings.get("prompt_n")),
        output=count(timings.get("predicted_n")),
        cache_read=count(timings.get("cache_n")),
        place="vendor",
        fallback=True,
    )
    if usage.input is None and usage.output is None:
        return []
    return [usage, Annotation("usage_in_vendor_field")]
