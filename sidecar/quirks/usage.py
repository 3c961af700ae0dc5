"""Quirks of the registry: usage."""

from sidecar.quirks.detect import noted, usage_requested_but_absent
from sidecar.quirks.quirk import CHAT, Quirk, Severity

INFO, WARNING, BREAKS = Severity.INFO, Severity.WARNING, Severity.BREAKS_CLIENTS

USAGE: tuple[Quirk, ...] = (
    Quirk(
        id="usage_mid_stream",
        summary="A usage object comes before the finish reason; its counts are cumulative, so the last one holds.",
        severity=INFO,
        breaks=(
            "Clients that add up every usage multiply the bill, and those that overwrite it with the nothing "
            "of a later chunk report zero."
        ),
        guard="Keep the last value of each field, and never add.",
        reference="https://github.com/openai/openai-agents-js/pull/1474",
    ),
    Quirk(
        id="usage_on_finish_chunk",
        summary="In a chat stream the usage stands on the chunk with the finish reason.",
        severity=INFO,
        breaks=(
            "Clients that look for usage only in a chunk with empty choices, or stop reading a chunk at its "
            "finish reason, report no tokens."
        ),
        guard="Read the usage of every chunk that has one.",
        reference="https://github.com/odysseus-dev/odysseus/pull/1703",
        dialects=CHAT,
    ),
    Quirk(
        id="usage_null_every_chunk",
        summary="Two or more chunks carry `usage: null`.",
        severity=INFO,
        breaks=(
            "Clients that take the presence of the key for a report record zero tokens at the first chunk, and "
            "ignore the real usage at the end."
        ),
        guard="Test for an object, not for the key.",
        reference="https://github.com/router-for-me/CLIProxyAPI/pull/3221",
        dialects=CHAT,
    ),
    Quirk(
        id="usage_repeated",
        summary="Two or more events at the end state the same totals.",
        severity=WARNING,
        breaks="Clients that add up reports bill the request twice.",
        guard="Keep the last report, and never add.",
        reference="https://github.com/router-for-me/CLIProxyAPI/issues/796",
    ),
    Quirk(
        id="usage_in_choice",
        summary="The usage stands inside a choice, as with Moonshot.",
        severity=WARNING,
        breaks="Clients that look at the top level of the chunk find no usage and record zero tokens.",
        guard="Look for usage in the choice where the top level has none.",
        reference="https://github.com/earendil-works/pi/issues/2017",
        dialects=CHAT,
    ),
    Quirk(
        id="usage_in_vendor_field",
        summary="Counts come in a vendor's field: `x_groq`, `timings` or `amazon-bedrock-invocationMetrics`.",
        severity=INFO,
        breaks="Clients that know only `usage` record zero tokens; those that read both places may count twice.",
        guard="Use the vendor's field only where no usage object came.",
        reference="https://github.com/Portkey-AI/gateway/issues/1338",
    ),
    Quirk(
        id="usage_in_headers",
        summary="Token counts come in response headers, such as `x-amzn-bedrock-input-token-count`.",
        severity=INFO,
        breaks="Clients and SDKs that look only at the body record no tokens.",
        guard="Read the headers where the body reports nothing.",
        reference="https://github.com/aws/aws-sdk-js-v3/issues/8172",
    ),
    Quirk(
        id="usage_all_zero",
        summary="Only zeros were reported, which is treated as unknown.",
        severity=WARNING,
        breaks="Cost and quota accounting takes the request for free, and a context manager never compacts.",
        guard="Treat an all-zero report as missing, and estimate instead.",
        reference="https://github.com/NadirRouter/NadirClaw/pull/33",
    ),
    Quirk(
        id="usage_null_fields",
        summary="A usage object has members that are null, as vLLM's `prompt_tokens_details`.",
        severity=INFO,
        breaks=(
            "Where a count is null, typed clients fail validation with `Input should be a valid integer` and "
            "sums with None raise, after the whole answer has come; null details break clients that look "
            "inside them."
        ),
        guard="Treat a null member as absent.",
        reference="https://github.com/openai/openai-agents-python/issues/1179",
        dialects=CHAT,
    ),
    Quirk(
        id="usage_partial_fields",
        summary="The usage, merged at the end, lacks the input or the output count.",
        severity=INFO,
        breaks=(
            "Clients that index the missing key crash at the end of the stream; others record zero for what is unknown."
        ),
        guard="Treat an absent count as unknown, never as zero.",
        reference="https://github.com/ollama/ollama/issues/3427",
        # Vectors and scores have no output tokens.
        on=lambda e: noted("usage_partial_fields", e) and e.dialect.stream_verdict,
    ),
    Quirk(
        id="usage_dual_counts",
        summary="Two pairs of counts are reported, as Cohere's `billed_units` and `tokens`.",
        severity=INFO,
        breaks=(
            "Two tools that each pick another pair disagree on cost and context size, and one that adds them "
            "counts twice."
        ),
        guard="Take the billed units for cost and the tokens for context, and say which is shown.",
        reference="https://github.com/open-telemetry/semantic-conventions-genai/issues/211",
        dialects=frozenset({"cohere.v2"}),
    ),
    Quirk(
        id="usage_input_zero_at_start",
        summary="Anthropic's `message_start` says 0 input tokens, and the real count comes in `message_delta`.",
        severity=WARNING,
        breaks="Clients that read the input from `message_start` only, as the dialect suggests, record free prompts.",
        guard="Let a later, larger input count replace the first.",
        reference="https://github.com/langchain-ai/langchainjs/issues/11195",
        dialects=frozenset({"anthropic.messages", "bedrock.invoke"}),
    ),
    Quirk(
        id="usage_regressed",
        summary="A later usage is smaller than an earlier one.",
        severity=WARNING,
        breaks=(
            "Clients that keep the last report undercount, those that keep the largest overcount, and "
            "difference counters go negative."
        ),
        guard="Keep the last report, note the regression, and check it against the provider's bill.",
        reference="https://platform.openai.com/docs/api-reference/chat-streaming/streaming",
        dialects=CHAT,
    ),
    Quirk(
        id="usage_requested_but_absent",
        summary="`include_usage` was asked for and the stream is complete, but no usage came.",
        severity=WARNING,
        breaks="Cost tracking, quotas and context meters stay at zero without any error.",
        guard="Count the missing reports, and fall back to an estimate that is labelled as one.",
        reference="https://github.com/BerriAI/litellm/issues/4407",
        dialects=CHAT,
        on=usage_requested_but_absent,
    ),
    Quirk(
        id="usage_absent_in_terminal",
        summary="The terminal event of a Responses stream has no usage.",
        severity=WARNING,
        breaks=(
            "Clients that read `response.usage.input_tokens` at the end crash after the whole answer has come, "
            "or record zero."
        ),
        guard="Treat the usage of the terminal event as optional.",
        reference="https://github.com/decolua/9router/issues/705",
        dialects=frozenset({"openai.responses", "openai.responses.ws", "openai.realtime"}),
    ),
    Quirk(
        id="reasoning_tokens_excluded_from_output",
        summary=(
            "The reported total is input plus output plus reasoning, so output leaves the reasoning out (xAI, Gemini)."
        ),
        severity=INFO,
        breaks=(
            "Cost computed from input and output misses the reasoning tokens, which are billed and often "
            "outnumber the rest."
        ),
        guard="Where the total says so, add the reasoning tokens to the output.",
        reference="https://github.com/UKGovernmentBEIS/inspect_ai/issues/5528",
        dialects=CHAT | {"gemini.generate", "gemini.live"},
        on=lambda e: e.stream.usage.excludes_reasoning(),
    ),
)
