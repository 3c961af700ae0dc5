"""Quirks of the registry: timing."""

from sidecar.quirks.detect import long_gap, long_prefill_silence
from sidecar.quirks.quirk import Quirk, Severity

INFO, WARNING, BREAKS = Severity.INFO, Severity.WARNING, Severity.BREAKS_CLIENTS

TIMING: tuple[Quirk, ...] = (
    Quirk(
        id="long_gap",
        summary=(
            "A long time, 30 s or more by default, lies between two outputs or from the last output to a reset "
            "or error; heartbeats do not close it."
        ),
        severity=WARNING,
        breaks=(
            "Idle timeouts of clients and hops, often 30 or 60 s, close the stream in mid-answer; where "
            "heartbeats keep it open, the user sees a frozen text."
        ),
        guard="Let the timeout look at output, set it above the model's thinking time, and ask for heartbeats.",
        reference="https://github.com/robhunter/agentdeals/issues/1098",
        on=long_gap,
    ),
    Quirk(
        id="long_prefill_silence",
        summary=(
            "The first output came after a long time, 30 s or more by default, or none had come by then when "
            "the connection broke."
        ),
        severity=WARNING,
        breaks=(
            "Read timeouts of proxies, 60 s in nginx, end the request while the model still reads the prompt, "
            "and the retry starts the same work again."
        ),
        guard="Raise read timeouts for long prompts, and have the server send heartbeats from the start.",
        reference="https://github.com/looplj/axonhub/issues/2146",
        on=long_prefill_silence,
    ),
)
