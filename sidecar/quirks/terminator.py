"""Quirks of the registry: terminator."""

from sidecar.quirks.detect import delayed_close, terminator_missing
from sidecar.quirks.quirk import Quirk, Severity

INFO, WARNING, BREAKS = Severity.INFO, Severity.WARNING, Severity.BREAKS_CLIENTS

TERMINATOR: tuple[Quirk, ...] = (
    Quirk(
        id="terminator_missing",
        summary="The stream ended without its dialect's terminator, and no error was reported.",
        severity=BREAKS,
        breaks=(
            "Clients that end the turn at the terminator wait on, or raise that the stream closed early "
            "even where the answer was whole; translating gateways never emit their own stop event."
        ),
        guard="Take a clean end of body after a finish reason as the end, and anything less as incomplete.",
        reference="https://github.com/Dstack-TEE/private-ai-gateway/pull/114",
        on=terminator_missing,
    ),
    Quirk(
        id="terminator_truncated",
        summary="The connection ended inside the terminator event.",
        severity=BREAKS,
        breaks=(
            "Clients that flush their buffer parse half an event and crash; strict ones throw away an answer "
            "that was whole but for its last bytes."
        ),
        guard="Discard the fragment, and judge the answer by its finish reason.",
        reference="https://github.com/sudoprivacy/sudocode/issues/576",
    ),
    Quirk(
        id="duplicate_terminator",
        summary="The terminator came twice or more.",
        severity=WARNING,
        breaks=(
            "Clients that finish at the terminator run their completion handler twice, or let an emptier "
            "second one erase the usage."
        ),
        guard="Finish once, and let later terminators add but not erase.",
        reference="https://github.com/anomalyco/opencode/issues/38712",
    ),
    Quirk(
        id="data_after_terminator",
        summary="Data events came after the terminator.",
        severity=WARNING,
        breaks=(
            "Clients that stop at the terminator lose them, text or usage, and leave unread bytes on a "
            "connection that they want to reuse."
        ),
        guard="Read to the end of the body for a short while after the terminator.",
        reference="https://github.com/avalan-ai/avalan/issues/652",
    ),
    Quirk(
        id="foreign_terminator",
        summary="`[DONE]` came in a dialect that does not use it.",
        severity=WARNING,
        breaks=(
            "Clients of Anthropic's, Gemini's and similar dialects parse every data line as JSON and fail with "
            "`Unexpected token 'D'` after the whole answer has come."
        ),
        guard="Skip `[DONE]` in every dialect.",
        reference="https://github.com/Ellinav/ais2api/issues/1",
    ),
    Quirk(
        id="terminator_alias",
        summary="The terminal event has a name that the dialect does not use for it, such as `response.done`.",
        severity=BREAKS,
        breaks=(
            "Clients that wait for `response.completed` report that the stream closed early, and may discard "
            "the answer and retry."
        ),
        guard="Accept `response.done` as terminal, and read the response's status.",
        reference="https://github.com/can1357/oh-my-pi/pull/4692",
    ),
    Quirk(
        id="eof_delayed_after_terminator",
        summary="The connection stayed open for a long time after the terminator, 5 s or more by default.",
        severity=BREAKS,
        breaks=(
            "Clients that read to the end of the body hang with the complete answer in hand; one agent started "
            "its tools 76 s late."
        ),
        guard="End the turn at the terminator, and close the connection yourself.",
        reference="https://github.com/earendil-works/pi/issues/5592",
        on=delayed_close,
    ),
)
