"""Output tokens of streams that reported none: counted from the text seen, always marked as estimated.

Needs the `tokens` extra, a tokenizer whose tables come in its wheel; nothing is downloaded. The encoding is OpenAI's
o200k_base whatever the model is: how far that is off is measured in docs/usage.md.
"""

import importlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from sidecar.stream.summary import Summary

TEXT_CHARS = 64 * 1024
"""Characters kept per stream for the estimate; what goes beyond is scaled by its length."""

_WAITING = 256


class TokenizerMissing(RuntimeError):
    """The `tokens` extra is not installed; the text says how to install it."""


class TokenEstimator:
    """Counts tokens in a thread of its own. `deliver` gets the summary and the estimate, in that thread.

    At most a few hundred texts wait; beyond, a stream goes without an estimate (`dropped`). Raises TokenizerMissing.
    """

    def __init__(self, deliver: Callable[[Summary, int], None]) -> None:
        try:
            module = importlib.import_module("bpe_openai")
        except ImportError as error:
            raise TokenizerMissing(
                "estimates need a tokenizer: pip install 'llm-sidecar[tokens]', or switch estimate_tokens off"
            ) from error
        self._encoding = module.get_encoding("o200k_base")
        self._deliver = deliver
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="token-estimates")
        self._waiting = 0
        self.dropped = 0

    def offer(self, summary: Summary) -> None:
        """Estimate the output of a stream that reported no usage; others are left alone."""
        if summary.usage is not None or not (summary.text or summary.reasoning_text or summary.tool_calls):
            return
        if self._waiting >= _WAITING:
            self.dropped += 1
            return
        self._waiting += 1
        self._thread.submit(self._estimate, summary)

    def _estimate(self, summary: Summary) -> None:
        try:
            self._deliver(summary, self.count(summary))
        finally:
            self._waiting -= 1

    def count(self, summary: Summary) -> int:
        """Tokens of all output seen: text, reasoning, names and arguments of tool calls."""
        pieces = [(summary.text, summary.text_chars), (summary.reasoning_text, len(summary.reasoning_text))]
        pieces += [(call.name + call.arguments, len(call.name) + call.arguments_chars) for call in summary.tool_calls]
        return round(sum(self._tokens(text) * (chars / len(text)) for text, chars in pieces if text))

    def _tokens(self, text: str) -> int:
        return len(self._encoding.encode(text.encode("utf-8", "replace").decode("utf-8")))

    def close(self) -> None:
        """Wait for what has been offered."""
        self._thread.shutdown(wait=True)
