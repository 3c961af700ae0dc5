"""Quirks of the registry: framing."""

from sidecar.quirks.detect import framed_as, framing, mixed_line_endings, noted, only_ending
from sidecar.quirks.quirk import CHAT, Quirk, Severity

INFO, WARNING, BREAKS = Severity.INFO, Severity.WARNING, Severity.BREAKS_CLIENTS

FRAMING: tuple[Quirk, ...] = (
    Quirk(
        id="sse_no_space_after_colon",
        summary="A `data:` line carries a non-empty value with no space after the colon.",
        severity=INFO,
        breaks=(
            "Line scanners that look for the six characters `data: ` skip every event: the answer stays empty, "
            "or the client reports a stream without `[DONE]` and finish reason."
        ),
        guard="Match `data:` and then drop at most one space, as the specification says.",
        reference="https://github.com/djinnos/djinn/issues/756",
        on=lambda e: framed_as(e, "sse") and framing(e).no_space_after_colon > 0,
    ),
    Quirk(
        id="sse_comment",
        summary=(
            "The stream holds at least one comment line, a line that starts with `:`, whether or not it serves "
            "as a heartbeat."
        ),
        severity=INFO,
        breaks=(
            "Clients that parse every non-empty line as JSON fail on it; parsers that dispatch an event for a "
            "block of comments alone hand an empty payload to the JSON decoder."
        ),
        guard="Ignore lines that start with a colon and dispatch no event for a block that has no `data` line.",
        reference="https://api-docs.deepseek.com/quick_start/rate_limit",
        on=lambda e: framed_as(e, "sse") and framing(e).comments > 0,
    ),
    Quirk(
        id="sse_crlf_line_endings",
        summary="Every line of the stream ends in CRLF; Gemini and Vertex AI do so by habit.",
        severity=INFO,
        breaks=(
            "Clients that split on LF LF find no boundary until the body ends, so the whole answer appears at "
            "once or is parsed as one broken JSON text."
        ),
        guard="Split lines on CRLF, LF and CR alike, and end an event at an empty line.",
        reference="https://github.com/nyroway/nyro/pull/265",
        on=lambda e: only_ending(e, 1),
    ),
    Quirk(
        id="sse_cr_line_endings",
        summary="Every line of the stream ends in a lone CR.",
        severity=WARNING,
        breaks=(
            "The specification allows it, but clients that split on LF never see a line end: they buffer until "
            "the body ends and emit nothing."
        ),
        guard="Treat a CR as a line ending of its own, and swallow a LF that directly follows it.",
        reference="https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream",
        on=lambda e: only_ending(e, 2),
    ),
    Quirk(
        id="sse_mixed_line_endings",
        summary="One stream uses more than one style of line ending.",
        severity=WARNING,
        breaks=(
            "Clients that detect the separator once, or search for one fixed blank-line sequence, glue "
            "neighbouring events together; the joined payload is no JSON."
        ),
        guard="Decide line by line instead of once per stream.",
        reference="https://github.com/Effect-TS/effect/issues/7670",
        on=mixed_line_endings,
    ),
    Quirk(
        id="line_ending_split_across_reads",
        summary="The CR and the LF of one CRLF arrived in two reads.",
        severity=INFO,
        breaks=(
            "A parser that ends the line at the CR and takes the LF of the next read for an empty line "
            "dispatches half an event: its data is cut and JSON parsing fails."
        ),
        guard="Remember that the last byte was a CR and drop a LF at the start of the next read.",
        reference="https://github.com/rexxars/eventsource-parser/issues/17",
        on=lambda e: e.streamed and framing(e).split_line_endings > 0,
    ),
    Quirk(
        id="event_split_across_reads",
        summary="A read began while bytes of an unfinished event, line or frame were waiting.",
        severity=INFO,
        breaks=(
            "Clients that parse each read by itself meet half a JSON text: they throw, or lose that piece of "
            "the answer."
        ),
        guard="Buffer bytes until the event, line or frame is complete; a read is no unit of the protocol.",
        reference="https://github.com/gramener/gramex/issues/777",
    ),
    Quirk(
        id="multiple_events_per_read",
        summary="One read completed two or more data events, lines or frames.",
        severity=INFO,
        breaks=(
            "Clients that expect one event per read parse only the first, or fail on several joined JSON "
            "texts; clocks that stamp events see gaps of zero between them."
        ),
        guard="Loop until the buffer holds no complete event before reading again.",
        reference="https://github.com/alexrudall/ruby-openai/pull/332",
    ),
    Quirk(
        id="utf8_split_across_reads",
        summary="A read boundary cut a multi-byte UTF-8 character in two.",
        severity=INFO,
        breaks=(
            "Clients that decode each read on its own replace both halves, so U+FFFD shows in place of "
            "accents, CJK text or emoji, or the strict decoder raises."
        ),
        guard="Split events on bytes and decode whole events, or use an incremental decoder.",
        reference="https://github.com/farion1231/cc-switch/issues/1923",
    ),
    Quirk(
        id="sse_bom",
        summary="The stream starts with a UTF-8 byte order mark.",
        severity=WARNING,
        breaks=(
            "Parsers that do not strip it read a first field named U+FEFF `data` and drop the first event, "
            "usually the role or the message start."
        ),
        guard="Strip one leading byte order mark before parsing the first line.",
        reference="https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream",
        on=lambda e: framed_as(e, "sse") and framing(e).bom > 0,
    ),
    Quirk(
        id="sse_multiline_data",
        summary="The JSON of one event spans several `data:` lines that parse once they are joined with LF.",
        severity=WARNING,
        breaks=(
            "It is legal, but clients that decode every `data:` line by itself meet fragments of JSON and "
            "throw or drop the event."
        ),
        guard="Collect the `data` lines of a block, join them with LF and parse once at the empty line.",
        reference="https://github.com/SamSaffron/term-llm/issues/454",
    ),
    Quirk(
        id="sse_missing_blank_line",
        summary="Consecutive `data:` lines each hold a whole JSON value, with no blank line between them.",
        severity=BREAKS,
        breaks=(
            "Parsers that follow the specification join the lines into one event; its payload is several JSON "
            "values and the decoder fails with extra data, which ends the stream."
        ),
        guard="If the joined data does not parse but every line alone does, take each line as an event.",
        reference="https://github.com/rexxars/eventsource-parser/issues/31",
    ),
    Quirk(
        id="sse_missing_final_blank_line",
        summary=(
            "The body ended cleanly with an event pending whose blank line never came; the event was flushed and used."
        ),
        severity=WARNING,
        breaks=(
            "Parsers that follow the specification discard the pending event, so the client misses what came "
            "last: the finish reason, the usage or the sentinel."
        ),
        guard="At a clean end of body, try the pending event before giving it up.",
        reference="https://github.com/farion1231/cc-switch/pull/6541",
    ),
    Quirk(
        id="sse_control_only_event",
        summary="A block holds only `event:`, `id:` or `retry:` fields and no data.",
        severity=BREAKS,
        breaks=(
            "SDKs that decode every block call the JSON decoder on an empty string: openai-python raised "
            "JSONDecodeError and the otherwise healthy stream ended there."
        ),
        guard="Skip blocks without data before any JSON is parsed.",
        reference="https://github.com/openai/openai-python/issues/2722",
        on=lambda e: framed_as(e, "sse") and framing(e).control_only > 0,
    ),
    Quirk(
        id="sse_empty_data_event",
        summary="An event has a `data` field whose value is empty.",
        severity=BREAKS,
        breaks=(
            "SDKs that parse the data of every event fail on the empty string, with `Expecting value` in "
            "Python or `Unexpected end of JSON input` in JavaScript, and the rest of the answer is lost."
        ),
        guard="Skip events whose data is empty or white space.",
        reference="https://github.com/router-for-me/CLIProxyAPI/issues/2460",
        on=lambda e: framed_as(e, "sse") and framing(e).empty_data > 0,
    ),
    Quirk(
        id="sse_id_field",
        summary="The stream uses `id:` fields.",
        severity=INFO,
        breaks=(
            "Browser-style clients remember the last id and reconnect with `Last-Event-ID`; an LLM endpoint "
            "that does not resume then generates, and bills, a second time."
        ),
        guard="Ignore ids unless the provider documents how to resume, and do not reconnect on your own.",
        reference="https://html.spec.whatwg.org/multipage/server-sent-events.html#the-last-event-id-header",
        on=lambda e: framed_as(e, "sse") and framing(e).ids > 0,
    ),
    Quirk(
        id="sse_unknown_field",
        summary="A line uses a field name other than event, data, id and retry.",
        severity=WARNING,
        breaks=(
            "Parsers that follow the specification ignore the line in silence, so whatever the server put "
            "there, often an error, never reaches the application; strict ones raise."
        ),
        guard="Ignore unknown fields, but log their names.",
        reference="https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation",
    ),
    Quirk(
        id="sse_event_name_on_chat",
        summary="An OpenAI chat or completions stream names an event with `event:`.",
        severity=WARNING,
        breaks=(
            "Browser-style clients that listen for unnamed messages never see named events, and clients that "
            "read only `data` lines take a named error event for an ordinary chunk and fail on its missing "
            "choices."
        ),
        guard="Read the data whatever the name is, and treat the name `error` as an error.",
        reference="https://github.com/langchain4j/langchain4j/issues/2585",
        dialects=CHAT,
        on=lambda e: framed_as(e, "sse") and framing(e).named_events > 0,
    ),
    Quirk(
        id="sse_missing_event_name",
        summary="A dialect of named events (Anthropic, Responses, Cohere) sent data without an `event:` line.",
        severity=BREAKS,
        breaks=(
            "SDKs that dispatch by the event name drop every event without a word: the Anthropic SDK ends with "
            "`request ended without sending any chunks`, other clients show an empty answer."
        ),
        guard="Fall back to the `type` member of the data where the name is missing.",
        reference="https://github.com/earendil-works/pi/issues/1983",
        on=lambda e: framed_as(e, "sse") and noted("sse_missing_event_name", e),
    ),
    Quirk(
        id="comment_wrapped_in_data",
        summary="A comment such as `: OPENROUTER PROCESSING` arrives re-framed as the data of an event.",
        severity=BREAKS,
        breaks=(
            "Clients that parse the data of every event as JSON throw on the first keep-alive; the official "
            "OpenAI Node SDK aborts the stream with `Could not parse message into JSON`."
        ),
        guard="Skip data that starts with a colon, and fix the hop that rewraps comments.",
        reference="https://github.com/mnfst/llm-gateway/issues/2053",
    ),
    Quirk(
        id="non_json_data_event",
        summary="An event's data is neither JSON nor the sentinel.",
        severity=BREAKS,
        breaks=(
            "SDKs that decode the data of every event raise a JSON error and abort the stream with what came so far."
        ),
        guard="Catch the decoding error per event, log the event, and go on.",
        reference="https://github.com/openai/openai-python/pull/2960",
    ),
    Quirk(
        id="json_heartbeat_event",
        summary="A JSON event only keeps the connection alive: `keepalive`, a `ping` object or a bare in_progress.",
        severity=BREAKS,
        breaks=(
            "Typed SDKs reject the unknown variant: the Node, Java and PHP clients for OpenAI ended long "
            "Responses streams with an error at the first `keepalive`."
        ),
        guard="Ignore event types that you do not know; let them reset the timer of the connection, not the one for output.",
        reference="https://github.com/openai/openai-node/issues/1964",
    ),
    Quirk(
        id="named_ping_event",
        summary="An `event: ping` with data came, which is normal for Anthropic and counts as a heartbeat.",
        severity=INFO,
        breaks=(
            "Clients that expect a chunk in every event fail on its missing members when a gateway passes it "
            "through to another dialect; idle timers that it resets hide a silent model."
        ),
        guard="Skip events named `ping`, and time the output rather than the bytes.",
        reference="https://platform.claude.com/docs/en/build-with-claude/streaming",
    ),
    Quirk(
        id="bare_done_line",
        summary="`[DONE]` stands on a line of its own, without `data:` before it.",
        severity=WARNING,
        breaks=(
            "A parser that follows the specification takes the line for an unknown field, so the sentinel "
            "never comes; clients that wait for it report a truncated stream or wait until the connection "
            "closes."
        ),
        guard="Accept a line that is exactly `[DONE]`, and treat the end of body after a finish reason as the end.",
        reference="https://github.com/Portkey-AI/gateway/issues/55",
    ),
    Quirk(
        id="sentinel_padded",
        summary="The sentinel's payload is surrounded by extra white space.",
        severity=WARNING,
        breaks=(
            "Only one space after the colon is removed by the specification, so clients that compare for "
            "equality with `[DONE]` hand the padded sentinel to the JSON decoder and fail at the very end."
        ),
        guard="Trim the data before comparing it with the sentinel.",
        reference="https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation",
    ),
    Quirk(
        id="blank_line_padding",
        summary="Stray blank lines come before, between or after events.",
        severity=INFO,
        breaks=(
            "Clients that dispatch at every blank line without looking at the buffer hand empty strings to the "
            "JSON decoder."
        ),
        guard="Dispatch only if data was collected since the last blank line.",
        reference="https://github.com/router-for-me/CLIProxyAPI/issues/3367",
        on=lambda e: (framed_as(e, "sse") or framed_as(e, "ndjson")) and framing(e).blank_lines > 0,
    ),
    Quirk(
        id="concatenated_json_event",
        summary=(
            "One data line holds two or more JSON values, one directly after the other or with white space or "
            "a stray `data:` between."
        ),
        severity=BREAKS,
        breaks=(
            "JSON decoders stop with `Extra data` or `Unexpected non-whitespace character after JSON`; the "
            "client aborts or loses every value of that line."
        ),
        guard="Decode value by value from the buffer instead of demanding exactly one per event.",
        reference="https://github.com/openai/openai-python/issues/663",
    ),
    Quirk(
        id="malformed_json_event",
        summary="An event's data starts like JSON but is not valid even after recovery, so the event was skipped.",
        severity=BREAKS,
        breaks=(
            "SDKs let the syntax error escape and the whole turn fails although text had arrived; clients that "
            "swallow it lose tokens, and a tool call's arguments no longer parse."
        ),
        guard="Catch the error per event, count it, and treat the answer as incomplete.",
        reference="https://github.com/openclaw/openclaw/pull/29320",
    ),
    Quirk(
        id="truncated_json_event",
        summary="The connection ended inside an event.",
        severity=BREAKS,
        breaks=(
            "Clients that flush the buffer at the end of body parse half a JSON text and crash; clients that "
            "drop it report a short answer as a success."
        ),
        guard="Discard the rest, and report the stream as incomplete unless a finish reason or the terminator had come.",
        reference="https://github.com/sudoprivacy/sudocode/issues/576",
    ),
    Quirk(
        id="oversized_event",
        summary="A single event, line, element or frame is larger than the configured size, 1 MiB by default.",
        severity=BREAKS,
        breaks=(
            "Line readers with a fixed cap, such as Go's bufio.Scanner at 64 KiB, stop with `token too long` "
            "in mid-stream; parsers that rescan the buffer at every read grow quadratically slow."
        ),
        guard="Raise the line limit to several MiB, scan only new bytes, and resynchronise at the next blank line.",
        reference="https://github.com/nextlevelbuilder/goclaw/issues/1348",
        on=lambda e: e.streamed and e.body is not None and e.body.largest_unit > e.thresholds.oversized_event,
    ),
    Quirk(
        id="unicode_line_separator_in_data",
        summary="The data contains U+2028, U+2029 or U+0085 unescaped.",
        severity=BREAKS,
        breaks=(
            "Clients that split lines with Python's `str.splitlines` or httpx's `iter_lines` break the JSON at "
            "that character: the decoder raises, or the rest of the event is lost."
        ),
        guard="Split on CR and LF bytes only.",
        reference="https://github.com/florimondmanca/httpx-sse/issues/34",
    ),
    Quirk(
        id="invalid_utf8",
        summary="The body has bytes that are not UTF-8; they are read as U+FFFD.",
        severity=BREAKS,
        breaks=(
            "Strict decoders raise UnicodeDecodeError inside the SDK's line reader, which the application sees "
            "as a crashed stream."
        ),
        guard="Decode with replacement and count the events concerned.",
        reference="https://github.com/openai/openai-python/pull/2960",
    ),
    Quirk(
        id="nul_byte_in_stream",
        summary="The body contains a NUL byte.",
        severity=WARNING,
        breaks=(
            "A raw NUL in a JSON string is invalid, so strict decoders reject the event; C-based readers and "
            "databases such as PostgreSQL cut or refuse the text."
        ),
        guard="Reject the event rather than the stream, and strip NUL before text is stored.",
        reference="https://www.rfc-editor.org/rfc/rfc8259.html#section-7",
    ),
    Quirk(
        id="lone_surrogate",
        summary="A delta starts or ends with one half of a `\\u` surrogate pair.",
        severity=BREAKS,
        breaks=(
            "Python clients crash with `UnicodeEncodeError: surrogates not allowed` at the first print, log "
            "line or request that encodes the delta; JSON columns refuse it."
        ),
        guard="Hold back a trailing high surrogate and join it with the next delta, or replace it before encoding.",
        reference="https://github.com/Kohaku-Lab/KohakuTerrarium/pull/48",
        on=lambda e: "lone_surrogate" in e.stream.text.marks | e.stream.reasoning.marks | e.notes,
    ),
    Quirk(
        id="json_array_stream",
        summary="The body is one JSON array that is streamed element by element, as Gemini does without `alt=sse`.",
        severity=INFO,
        breaks=(
            "SSE parsers find no `data` line and show nothing; plain JSON parsers see the answer only when the "
            "closing bracket arrives."
        ),
        guard="Ask for `alt=sse`, or use an incremental parser that respects strings.",
        reference="https://github.com/symfony/ai/issues/1988",
        on=lambda e: framed_as(e, "json_array"),
    ),
    Quirk(
        id="ndjson_crlf",
        summary="The lines of an NDJSON body end in CRLF.",
        severity=INFO,
        breaks=(
            "Clients that compare lines byte by byte, or decode with a parser that rejects trailing white "
            "space, stumble over the CR."
        ),
        guard="Strip white space from the line before decoding.",
        reference="https://github.com/ndjson/ndjson-spec",
        on=lambda e: framed_as(e, "ndjson") and framing(e).crlf > 0,
    ),
    Quirk(
        id="ndjson_missing_final_newline",
        summary="The last NDJSON line has no newline.",
        severity=WARNING,
        breaks=(
            "Readers that emit a line only at its newline drop the last one, which in Ollama's dialect carries "
            "`done`, the finish reason and the counts."
        ),
        guard="At a clean end of body, decode what is left in the buffer as a line.",
        reference="https://github.com/ndjson/ndjson-spec",
    ),
    Quirk(
        id="frame_crc_mismatch",
        summary="An AWS event-stream frame has a wrong checksum, so its payload was not used.",
        severity=BREAKS,
        breaks=(
            "AWS SDKs check both checksums and raise, `ChecksumMismatch` in botocore and a parser exception in "
            "PHP, and the answer ends there."
        ),
        guard="Treat it as a broken connection and retry; look for a hop that rewrites the body.",
        reference="https://github.com/aws/aws-sdk-php/issues/3110",
        on=lambda e: framed_as(e, "eventstream") and framing(e).bad_checksums > 0,
    ),
    Quirk(
        id="truncated_frame",
        summary="The connection ended inside an AWS event-stream frame.",
        severity=BREAKS,
        breaks=(
            "Clients that stop at the last whole frame report a short answer, or a tool call with half its "
            "arguments, as a success."
        ),
        guard="Treat bytes left in the frame buffer at the end as an incomplete stream.",
        reference="https://github.com/BerriAI/litellm/issues/32159",
    ),
)
