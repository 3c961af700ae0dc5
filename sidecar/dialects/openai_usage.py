"""Token counts as the chat family states them, wherever they stand in a chunk."""

from typing import TYPE_CHECKING, Any

from sidecar.dialects.signals import Annotation, Signal, Usage

if TYPE_CHECKING:
    from sidecar.dialects.openai_chat import Chunk

_MOST_TOKENS = 10**12


def count(value: Any) -> int | None:
    """A token count, or None for whatever is none: what is no number, not finite, or beyond all reason."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < _MOST_TOKENS:
        return None
    return int(value)


def parse_usage(usage: dict[str, Any], place: str = "event") -> Usage:
    """OpenAI's usage object in its chat, Responses and Realtime spellings, with DeepSeek's and Moonshot's extras."""
    input_details = _details(usage, "prompt_tokens_details", "input_tokens_details", "input_token_details")
    output_details = _details(usage, "completion_tokens_details", "output_tokens_details", "output_token_details")
    return Usage(
        input=_first(usage, "prompt_tokens", "input_tokens"),
        output=_first(usage, "completion_tokens", "output_tokens"),
        total=count(usage.get("total_tokens")),
        cache_read=_first(
            input_details, "cached_tokens", other=_first(usage, "cached_tokens", "prompt_cache_hit_tokens")
        ),
        cache_write=_first(
            input_details,
            "cache_write_tokens",
            "cache_creation_tokens",
            other=_first(usage, "cache_creation_input_tokens"),
        ),
        reasoning=_first(output_details, "reasoning_tokens", other=_first(usage, "reasoning_tokens")),
        place=place,  # type: ignore[arg-type]  # callers name one of the literal's values
        audio=_audio(input_details, output_details),
    )


def _details(usage: dict[str, Any], *names: str) -> dict[str, Any]:
    return next((found for name in names if isinstance(found := usage.get(name), dict) and found), {})


def _audio(given: dict[str, Any], produced: dict[str, Any]) -> dict[str, int] | None:
    """Audio tokens among the counts, as the Realtime API and chat with audio state them."""
    cached = _details(given, "cached_tokens_details")
    stated = {"input": given, "output": produced, "cache_read": cached}
    found = {name: tokens for name, of in stated.items() if (tokens := count(of.get("audio_tokens"))) is not None}
    return found or None


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
        signals += _stated(event.usage, "event", "")
    for choice in event.choices or ():
        if isinstance(choice.usage, dict):
            signals += _stated(choice.usage, "choice", "usage_in_choice")
    if isinstance(event.x_groq, dict) and isinstance(event.x_groq.get("usage"), dict):
        signals += _stated(event.x_groq["usage"], "vendor", "usage_in_vendor_field")
    if isinstance(event.timings, dict):
        signals += timings_of(event.timings)
    return signals


def _stated(usage: dict[str, Any], place: str, habit: str) -> list[Signal]:
    """One usage object with the habits of its place and its shape; one without any count states nothing."""
    parsed = parse_usage(usage, place)
    habits = ["usage_null_fields"] if None in usage.values() else []
    if habit and _has_counts(parsed):
        habits.append(habit)
    return [parsed, *(Annotation(name) for name in habits)]


def states_usage(usage: Any) -> bool:
    """Whether a usage member is an object with at least one count."""
    return isinstance(usage, dict) and _has_counts(parse_usage(usage))


def _has_counts(usage: Usage) -> bool:
    counts = (usage.input, usage.output, usage.total, usage.cache_read, usage.cache_write, usage.reasoning)
    return any(found is not None for found in counts)


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
