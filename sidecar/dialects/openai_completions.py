"""OpenAI's legacy completions: chat's envelope with `text` in the choices."""

from typing import ClassVar

from sidecar.dialects.openai_chat import Choice, Chunk, OpenAIChat
from sidecar.dialects.signals import Annotation, Content, Signal
from sidecar.framing.frame import Frame


class OpenAICompletions(OpenAIChat):
    """`POST …/completions`."""

    name: ClassVar[str] = "openai.completions"

    def _choice(self, event: Chunk, choice: Choice, signals: list[Signal]) -> None:
        index = choice.index if isinstance(choice.index, int) else 0
        has_output = isinstance(choice.text, str) and bool(choice.text)
        self._text(choice, index, signals)
        for annotation in self._habits.of_choice(event, choice, index, has_output=has_output):
            if annotation.name not in ("missing_delta", "message_beside_delta"):
                signals.append(annotation)
        if isinstance(choice.text, (list, int, float)):
            signals.append(Annotation("content_not_string"))
        self._finish(choice.finish_reason, index, signals)

    def _text(self, choice: Choice, index: int, signals: list[Signal]) -> None:
        if isinstance(choice.text, str) and choice.text:
            signals.append(Content("text", choice.text, index, len(choice.text)))

    def read_whole(self, event: Chunk, frame: Frame) -> list[Signal]:
        signals = super().read_whole(event, frame)
        for choice in event.choices or ():
            self._text(choice, choice.index if isinstance(choice.index, int) else 0, signals)
        return signals
