"""OpenAI's legacy completions: chat's envelope with `text` in the choices."""

from typing import ClassVar

from msgspec import UNSET

from sidecar.dialects import openai_plain
from sidecar.dialects.openai_chat import Choice, Chunk, OpenAIChat
from sidecar.dialects.plain import Plain
from sidecar.dialects.signals import Annotation, Signal
from sidecar.framing.frame import Frame


class OpenAICompletions(OpenAIChat):
    """`POST …/completions`."""

    name: ClassVar[str] = "openai.completions"
    plains: ClassVar[tuple[Plain, ...]] = openai_plain.COMPLETIONS

    def _choice(self, event: Chunk, choice: Choice, frame: Frame, signals: list[Signal]) -> None:
        index = choice.index if isinstance(choice.index, int) else 0
        begin = len(signals)
        self._content(choice.text, index, signals)
        has_output = len(signals) > begin
        for annotation in self.habits.of_choice(event, choice, index, frame, has_output=has_output):
            if annotation.name not in ("missing_delta", "null_delta", "message_beside_delta"):
                signals.append(annotation)
        if choice.text is not UNSET and choice.text is not None and not isinstance(choice.text, str):
            signals.append(Annotation("content_not_string"))
        self._choice_error(choice, signals)
        self._finish(choice.finish_reason, index, signals)

    def read_whole(self, event: Chunk, frame: Frame) -> list[Signal]:
        signals = super().read_whole(event, frame)
        for choice in event.choices or ():
            self._content(choice.text, choice.index if isinstance(choice.index, int) else 0, signals)
        return signals
