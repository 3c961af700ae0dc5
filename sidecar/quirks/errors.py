"""Quirks of the registry: errors."""

from sidecar.quirks.detect import empty_stream, stream_not_honored
from sidecar.quirks.quirk import Quirk, Severity

INFO, WARNING, BREAKS = Severity.INFO, Severity.WARNING, Severity.BREAKS_CLIENTS

ERRORS: tuple[Quirk, ...] = (
    Quirk(
        id="error_event_in_200_stream",
        summary="An error came inside a stream whose status is 2xx, in whatever shape.",
        severity=BREAKS,
        breaks=(
            "Retry and alert rules that look at the status see a success; clients that expect a chunk crash on "
            "the missing choices, or end with a cut answer."
        ),
        guard="Check every event for an error before reading it, and retry by its type.",
        reference="https://github.com/anthropics/anthropic-sdk-python/issues/1258",
    ),
    Quirk(
        id="error_then_done",
        summary="The sentinel followed an error, so it marks no success.",
        severity=WARNING,
        breaks="Clients that take `[DONE]` for success hide the error, and store an empty or cut answer.",
        guard="Once an error came, ignore the sentinel.",
        reference="https://github.com/sgl-project/sglang/issues/21900",
    ),
    Quirk(
        id="error_sse_field",
        summary="`error:` is used as an SSE field name, as llama.cpp did until 2025.",
        severity=BREAKS,
        breaks=(
            "Parsers that follow the specification ignore unknown fields, so the error vanishes: the stream "
            "looks empty but successful."
        ),
        guard="Look for lines that start with `error:`, and raise their value.",
        reference="https://github.com/ggml-org/llama.cpp/issues/16109",
    ),
    Quirk(
        id="error_is_string",
        summary="`error` is a string instead of an object.",
        severity=WARNING,
        breaks="Clients that read `error.message` crash, or show `undefined`, and the real cause is lost.",
        guard="Accept a string as the message.",
        reference="https://docs.ollama.com/api/errors",
    ),
    Quirk(
        id="error_null_field",
        summary='`"error": null` is present, which is no error.',
        severity=WARNING,
        breaks="Clients that test for the key raise an error without a message at the first chunk.",
        guard="Treat a null error as absent.",
        reference="https://github.com/microsoft/foundry-local/issues/221",
    ),
    Quirk(
        id="error_with_choices",
        summary="An error object stands next to `choices` in one chunk, as with OpenRouter.",
        severity=WARNING,
        breaks=(
            "Clients that look for an error only where choices are missing take it for an ordinary or a usage "
            "chunk, and end with a cut answer."
        ),
        guard="Look for `error` first, whatever else the chunk holds.",
        reference="https://github.com/diegosouzapw/OmniRoute/issues/8210",
    ),
    Quirk(
        id="error_in_choice",
        summary="An error object stands inside a choice.",
        severity=BREAKS,
        breaks=(
            "SDKs that look for `error` at the top level of the chunk miss it, and the cut answer passes for complete."
        ),
        guard="Look for `error` in each choice, too.",
        reference="https://github.com/genkit-ai/genkit/issues/6079",
    ),
    Quirk(
        id="error_in_200_json_body",
        summary="A stream request was answered with status 200 and a JSON error body.",
        severity=BREAKS,
        breaks=(
            "SSE parsers find no event in it and end with an empty answer; retry rules that look at the status "
            "never fire."
        ),
        guard="Check the content type before parsing, and read a JSON body for `error`.",
        reference="https://github.com/youssefvdel/qwengate/issues/68",
        on=lambda e: stream_not_honored(e) and e.stream.error is not None,
    ),
    Quirk(
        id="error_vendor_envelope",
        summary="The failure is told in a vendor's envelope, such as `base_resp` or `success: false`.",
        severity=BREAKS,
        breaks=(
            "Clients that know only `error` read a chunk without choices: they crash on null, or show an empty answer."
        ),
        guard="Read the envelope of the provider; a status code of 0 in `base_resp` means success.",
        reference="https://github.com/adrianlyjak/obsidian-aloud-tts/issues/114",
    ),
    Quirk(
        id="error_html_body",
        summary="HTML came instead of the API's answer.",
        severity=BREAKS,
        breaks=(
            "A login page, challenge or proxy error: JSON parsers fail with `Unexpected token '<'`, and SSE "
            "parsers find no event and show an empty answer."
        ),
        guard="Check the content type before parsing, and report the hop that answered.",
        reference="https://github.com/TypNull/Tubifarry/issues/200",
        on=lambda e: "error_html_body" in e.notes,
    ),
    Quirk(
        id="http_error_status",
        summary="The response has a status of 400 or above.",
        severity=INFO,
        breaks=(
            "Clients that start to parse events before they check the status show an empty answer and lose the "
            "message of the body."
        ),
        guard="Check the status first, read the body whole, and honour `Retry-After`.",
        reference="https://www.rfc-editor.org/rfc/rfc9110.html#section-15",
        on=lambda e: e.status is not None and e.status >= 400,
    ),
    Quirk(
        id="stream_exception_frame",
        summary="An AWS event-stream frame has the `:message-type` exception or error.",
        severity=WARNING,
        breaks=(
            "Clients that read only the payload and its event type skip the frame, and take the cut answer for "
            "complete."
        ),
        guard="Check `:message-type` of every frame, and raise by `:exception-type`.",
        reference="https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStreamOutput.html",
    ),
    Quirk(
        id="empty_stream",
        summary="A stream of status 200 ended without any event but perhaps the sentinel.",
        severity=BREAKS,
        breaks=(
            "Clients that assume one chunk crash on the empty list; others store an empty answer as a success "
            "and never retry."
        ),
        guard="Treat a stream without any event as an error, and retry.",
        reference="https://github.com/ollama/ollama/issues/16045",
        on=empty_stream,
    ),
)
