"""Quirks of the registry: transport."""

from sidecar.quirks.detect import (
    buffered_delivery,
    compressed,
    content_type_unexpected,
    sse_without_request,
    stream_not_honored,
)
from sidecar.quirks.quirk import Quirk, Severity

INFO, WARNING, BREAKS = Severity.INFO, Severity.WARNING, Severity.BREAKS_CLIENTS

TRANSPORT: tuple[Quirk, ...] = (
    Quirk(
        id="stream_not_honored",
        summary="A stream was asked for, and one whole JSON body came.",
        severity=BREAKS,
        breaks=(
            "SSE parsers find no `data` line and end with an empty answer, and the user waits for the whole generation."
        ),
        guard="Check the content type, and accept a whole body as an answer.",
        reference="https://github.com/mistralai/mistral-vibe/issues/619",
        on=stream_not_honored,
    ),
    Quirk(
        id="sse_without_stream_request",
        summary="Server-sent events came though the request did not ask for a stream.",
        severity=BREAKS,
        breaks=(
            "Clients that parse the body as JSON fail at its first byte: `Unexpected token 'd'`, or `Expecting value`."
        ),
        guard="Send `stream: false` explicitly, and check the content type before parsing.",
        reference="https://github.com/kaito-project/kaito/issues/1880",
        on=sse_without_request,
    ),
    Quirk(
        id="mixed_json_and_sse_body",
        summary="The body is a JSON document followed by server-sent events.",
        severity=BREAKS,
        breaks=(
            "JSON parsers fail with extra data although the answer is whole, and SSE parsers ignore the answer "
            "and see only what follows."
        ),
        guard="Read the first JSON value, and report the rest as a fault of the gateway.",
        reference="https://github.com/gumieri/nenya/issues/17",
    ),
    Quirk(
        id="content_type_missing",
        summary="The response has a body but no content-type header.",
        severity=WARNING,
        breaks=(
            "Clients that choose the parser by content type treat the body as text or bytes, and event-source "
            "clients refuse the connection."
        ),
        guard="Where the header is missing, decide by what was asked for and by the first bytes.",
        reference="https://www.rfc-editor.org/rfc/rfc9110.html#section-8.3",
        on=lambda e: (
            e.status is not None and "content-type" not in e.response_headers and e.body is not None and e.body.size > 0
        ),
    ),
    Quirk(
        id="content_type_unexpected",
        summary="The content type does not fit the body.",
        severity=WARNING,
        breaks=(
            "Event-source clients refuse the response, and HTTP clients that decode by content type buffer the "
            "stream and fail to parse it as JSON."
        ),
        guard="Compare media types without case and parameters, and look at the first bytes where they do not fit.",
        reference="https://github.com/agentscope-ai/QwenPaw/issues/468",
        on=content_type_unexpected,
    ),
    Quirk(
        id="content_length_on_stream",
        summary="A stream came with a Content-Length, so some hop had all of it before it passed anything on.",
        severity=WARNING,
        breaks=(
            "The answer appears at once after the whole generation time; a hop that changes the body "
            "afterwards makes clients cut it, or wait for bytes that never come."
        ),
        guard="Switch response buffering off at the hop that adds the header.",
        reference="https://www.rfc-editor.org/rfc/rfc9110.html#section-8.6",
        on=lambda e: e.streamed and "content-length" in e.response_headers,
    ),
    Quirk(
        id="compressed_stream",
        summary=(
            "The body of a stream, or what came in its place, is compressed with gzip, deflate, br or zstd, as its "
            "Content-Encoding says."
        ),
        severity=INFO,
        breaks=(
            "Clients that read raw bytes see garbage, and a compressor that does not flush per event holds tokens back."
        ),
        guard="Send `Accept-Encoding: identity` for streams, or decompress incrementally.",
        reference="https://github.com/phymbert/xk6-sse/issues/21",
        on=compressed,
    ),
    Quirk(
        id="decompression_ratio_high",
        summary="One read expanded beyond the bound, 1 MiB or 200 times its size by default.",
        severity=WARNING,
        breaks=(
            "Clients and proxies that decompress a read in one go allocate without limit, and stall or run out "
            "of memory."
        ),
        guard="Decompress with a length limit, and drop over-long lines without keeping them.",
        reference="https://github.com/vm0-ai/vm0/issues/15790",
        on=lambda e: e.body is not None and e.body.coding is not None and e.body.coding.ratio_high,
    ),
    Quirk(
        id="content_encoding_mismatch",
        summary="The Content-Encoding header names a compression, but the bytes are plain.",
        severity=BREAKS,
        breaks=(
            "HTTP clients fail before the first event: `incorrect header check` in Python and Node, "
            "`ERR_CONTENT_DECODING_FAILED` in browsers."
        ),
        guard="At the hop that decompresses, strip Content-Encoding and Content-Length as well.",
        reference="https://github.com/open-webui/open-webui/pull/23876",
        on=lambda e: e.body is not None and e.body.coding is not None and e.body.coding.mismatched,
    ),
    Quirk(
        id="buffered_delivery",
        summary=(
            "Two or more outputs came, with no more than a few milliseconds (5 by default) from the first "
            "output to the last event."
        ),
        severity=WARNING,
        breaks=(
            "If a hop held the answer back, nothing is shown for the whole generation time, idle timeouts fire, and "
            "token rates read as absurdly high. A cached or very short answer looks the same: the verdict on buffering "
            "tells them apart where it can."
        ),
        guard=(
            "At the hop, switch response buffering off (`X-Accel-Buffering: no`, `proxy_buffering off`); where the "
            "stream is compressed, flush the compressor after each event or leave event streams uncompressed."
        ),
        reference="https://github.com/mostlygeek/llama-swap/issues/236",
        on=buffered_delivery,
    ),
    Quirk(
        id="burst_delivery",
        summary="At least two reads completed five or more events each, so the stream arrives in clumps.",
        severity=INFO,
        breaks=(
            "Text appears in jerks, and the mean gap between tokens falls while the first token comes later, "
            "which looks like a faster model."
        ),
        guard="Judge by events per read, and look for a hop with a fixed buffer or a flush timer.",
        reference="https://github.com/confidential-dot-ai/c8s/issues/140",
    ),
    Quirk(
        id="connection_reset",
        summary="The connection was reset, the HTTP/2 stream was, or the chunked body ended early.",
        severity=WARNING,
        breaks=(
            "Clients raise a transport error in mid-answer, or hang where a translating hop swallows it; the "
            "tokens so far were billed."
        ),
        guard="Keep what came, report it as incomplete, and retry only if nothing was acted on.",
        reference="https://github.com/MadAppGang/claudish/pull/143",
        on=lambda e: e.ending.end == "upstream_reset",
    ),
    Quirk(
        id="client_disconnect",
        summary="The client closed the connection first.",
        severity=INFO,
        breaks=(
            "Accounting that waits for the usage at the end records nothing for a cancelled answer, and some "
            "servers go on generating."
        ),
        guard="Record the usage known so far, and have the server cancel when the connection closes.",
        reference="https://github.com/openai/openai-openapi/issues/539",
        on=lambda e: e.ending.end == "client_disconnect",
    ),
    Quirk(
        id="upstream_hang",
        summary="The stream never ended within the time that it was watched.",
        severity=BREAKS,
        breaks="Clients without a read timeout wait for ever, and hold a connection and a slot meanwhile.",
        guard="Set a timeout on silence between outputs, apart from the limit on the whole request.",
        reference="https://github.com/etherfunlab/eros-engine/issues/181",
        on=lambda e: e.ending.end == "open",
    ),
)
