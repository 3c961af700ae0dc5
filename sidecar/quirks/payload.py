"""Quirks of the registry: payload."""

from sidecar.quirks.detect import finish_reason_missing, mismatch_tool_calls, prompt_echoed
from sidecar.quirks.quirk import CHAT, Quirk, Severity

INFO, WARNING, BREAKS = Severity.INFO, Severity.WARNING, Severity.BREAKS_CLIENTS

PAYLOAD: tuple[Quirk, ...] = (
    Quirk(
        id="empty_choices_chunk",
        summary="A chat chunk has `choices: []` and no usage.",
        severity=INFO,
        breaks=(
            "Clients that read `choices[0]` of every chunk raise IndexError, or TypeError in JavaScript; on "
            "Azure that happens at the first chunk, whose empty choices only accompany the prompt's filter "
            "results."
        ),
        guard="Skip chunks whose choices are empty once their other members are read.",
        reference="https://github.com/microsoft/semantic-kernel/issues/3650",
        dialects=CHAT,
    ),
    Quirk(
        id="empty_choices_usage_chunk",
        summary="A chat chunk has `choices: []` and carries the usage, as `include_usage` asks for.",
        severity=INFO,
        breaks=(
            "Clients that skip chunks without a choice, or stop at the finish reason, report zero tokens; "
            "those that index `choices[0]` crash on the last chunk."
        ),
        guard="Read the usage before looking at the choices, and go on to the terminator.",
        reference="https://github.com/0xPlaygrounds/rig/issues/1212",
        dialects=CHAT,
    ),
    Quirk(
        id="azure_prompt_filter_chunk",
        summary="The leading chunk carries Azure's `prompt_filter_results` or `prompt_annotations`.",
        severity=INFO,
        breaks=(
            "Clients that expect a role or text in the first chunk fail on its empty choices, and clocks that "
            "start at the first event measure the filter instead of the model."
        ),
        guard="Skip it as an annotation, and start no clock with it.",
        reference="https://github.com/langfuse/langfuse/issues/2833",
        dialects=CHAT,
    ),
    Quirk(
        id="azure_async_filter_chunk",
        summary="A chunk carries the `content_filter_offsets` of Azure's asynchronous filter.",
        severity=INFO,
        breaks=(
            "Such chunks bring no text, may lack a delta and may follow the finish reason; clients that read "
            "`delta.content` without a check raise."
        ),
        guard="Treat chunks with filter offsets as annotations, and keep reading after the finish reason.",
        reference="https://learn.microsoft.com/azure/foundry/openai/concepts/content-streaming",
        dialects=CHAT,
    ),
    Quirk(
        id="missing_delta",
        summary="A choice of a chat chunk has no `delta` key.",
        severity=BREAKS,
        breaks=(
            "Clients that read `choice.delta.content` raise AttributeError or TypeError and lose the rest of "
            "the stream, as with Azure's asynchronous filter."
        ),
        guard="Treat a missing delta as an empty one.",
        reference="https://github.com/openai/openai-python/issues/1677",
        dialects=CHAT,
    ),
    Quirk(
        id="null_delta",
        summary="A choice of a chat chunk has `delta: null`.",
        severity=BREAKS,
        breaks=(
            "Clients that dereference the delta crash, often on the finish chunk: `'NoneType' object has no "
            "attribute 'content'`."
        ),
        guard="Treat a null delta as an empty one.",
        reference="https://github.com/microsoft/agent-framework/pull/5734",
        dialects=CHAT,
    ),
    Quirk(
        id="null_choices",
        summary="A chat chunk has `choices: null` or no choices at all.",
        severity=BREAKS,
        breaks=(
            "Clients that index or iterate the choices raise TypeError; typed decoders reject the chunk and "
            "end the stream."
        ),
        guard="Treat missing or null choices as an empty list.",
        reference="https://github.com/BerriAI/litellm/issues/3811",
        dialects=CHAT,
    ),
    Quirk(
        id="null_content_delta",
        summary="A delta has `content: null`.",
        severity=INFO,
        breaks="Clients that append it to a string raise TypeError in Python, or print the word `null` in JavaScript.",
        guard="Append only if the content is a non-empty string.",
        reference="https://github.com/ggml-org/llama.cpp/issues/14268",
        dialects=CHAT,
    ),
    Quirk(
        id="empty_content_delta",
        summary='A delta has `content: ""` and nothing else, and is neither the role prelude nor the finish.',
        severity=INFO,
        breaks=(
            "Clocks that take any content for the first token read too low, and counters that take chunks for "
            "tokens read too high."
        ),
        guard="Count a chunk as output only if its content is non-empty.",
        reference="https://github.com/vllm-project/vllm/issues/5708",
        dialects=CHAT,
    ),
    Quirk(
        id="empty_content_with_reasoning",
        summary='A delta has `content: ""` beside non-empty reasoning.',
        severity=INFO,
        breaks=(
            "Clients that branch on the presence of `content` take the reasoning phase for an empty answer; "
            "one translator turned such chunks into finished ones and lost the reply."
        ),
        guard="Look at the reasoning field even where a content key is present.",
        reference="https://github.com/router-for-me/CLIProxyAPI/issues/5651",
        dialects=CHAT,
    ),
    Quirk(
        id="content_not_string",
        summary="Content is a list of parts or a number instead of a string.",
        severity=BREAKS,
        breaks=(
            "Clients that concatenate raise TypeError in Python and PHP, and in JavaScript the text becomes "
            "`[object Object]`."
        ),
        guard="Flatten lists of parts by their type, and turn other scalars into text.",
        reference="https://github.com/symfony/ai/issues/2422",
    ),
    Quirk(
        id="role_prelude_chunk",
        summary="A chunk announces only the role, before any output.",
        severity=INFO,
        breaks=(
            "Benchmarks and gateways that stop the clock at the first chunk report a time to first token of a "
            "few milliseconds, because the server sends this chunk before the model has produced anything."
        ),
        guard="Stop the clock at the first non-empty output.",
        reference="https://github.com/sgl-project/sglang/pull/29251",
        dialects=CHAT,
    ),
    Quirk(
        id="role_repeated",
        summary="The role stands in two or more chunks of one choice.",
        severity=INFO,
        breaks=(
            "Clients that merge deltas by adding strings build `assistantassistant`, and clients that open a "
            "message at every role show one bubble per token."
        ),
        guard="Take the first role of a choice and ignore the rest.",
        reference="https://github.com/ollama/ollama/issues/4357",
        dialects=CHAT,
    ),
    Quirk(
        id="role_empty_string",
        summary='A delta has `role: ""`.',
        severity=WARNING,
        breaks=(
            "Typed clients whose role is an enumeration reject the chunk; others overwrite the role that they "
            "already had."
        ),
        guard="Treat an empty role as absent.",
        reference="https://github.com/MiniMax-AI/MiniMax-M2.5/issues/2",
        dialects=CHAT,
    ),
    Quirk(
        id="finish_reason_empty_string",
        summary='A choice has `finish_reason: ""` where null is meant.',
        severity=BREAKS,
        breaks=(
            "Clients that test for null take the first chunk for the last and cut the answer or the tool call; "
            "typed clients fail to decode the unknown value."
        ),
        guard="Treat an empty finish reason as null.",
        reference="https://github.com/sgl-project/sglang/issues/3912",
        dialects=CHAT,
    ),
    Quirk(
        id="finish_reason_string_null",
        summary=(
            'A choice has `finish_reason: "null"`, the word as a string; DashScope\'s own dialect does so by design.'
        ),
        severity=INFO,
        breaks="Clients that test for a non-empty reason stop at the first chunk, and typed clients reject the value.",
        guard="Treat the string `null` as no reason.",
        reference="https://github.com/PowerShell/AIShell/issues/350",
        dialects=CHAT | {"dashscope.native"},
    ),
    Quirk(
        id="finish_reason_key_absent",
        summary="Choices of intermediate chunks have no `finish_reason` key.",
        severity=WARNING,
        breaks=(
            "Clients that index the key raise KeyError, and schemas that require it reject every chunk but the last."
        ),
        guard="Treat an absent reason as null.",
        reference="https://github.com/danny-avila/LibreChat/issues/5563",
        dialects=CHAT,
    ),
    Quirk(
        id="finish_reason_on_content_chunk",
        summary="The finish reason rides on a chunk that also carries output.",
        severity=INFO,
        breaks=(
            "Clients that look at the finish reason first and break lose the last piece of the text or the "
            "whole tool call."
        ),
        guard="Use the output of a chunk before you look at its finish reason.",
        reference="https://github.com/vllm-project/vllm/pull/36944",
    ),
    Quirk(
        id="finish_reason_repeated",
        summary="Two or more chunks of one choice carry a finish reason.",
        severity=WARNING,
        breaks=(
            "Clients that close the message at a finish reason close it twice: callbacks fire again, tool "
            "calls run twice, or a state machine raises."
        ),
        guard="Act on the end of the stream, not on each finish reason, and keep the last one.",
        reference="https://github.com/ENTERPILOT/GoModel/issues/1068",
    ),
    Quirk(
        id="finish_reason_on_every_chunk",
        summary="Every chunk carries a finish reason, as older Gemini endpoints did.",
        severity=BREAKS,
        breaks=(
            "Clients that stop at the first finish reason keep one chunk of the answer, or nothing where the "
            "first chunk is empty."
        ),
        guard="Read to the end of the stream and take the last reason.",
        reference="https://github.com/router-for-me/CLIProxyAPI/issues/5651",
        on=lambda e: e.stream.finished_on_every_chunk,
    ),
    Quirk(
        id="finish_reason_before_content",
        summary="A finish reason comes before the first output.",
        severity=BREAKS,
        breaks="Clients that close the stream at the finish reason show an empty answer although all of it follows.",
        guard="Read to the terminator or the end of the body, whatever the finish reason says.",
        reference="https://github.com/open-webui/open-webui/pull/23929",
    ),
    Quirk(
        id="finish_reason_nonstandard",
        summary="A chat finish reason is none of stop, length, tool_calls, content_filter and function_call.",
        severity=WARNING,
        breaks=(
            "Typed clients with an enumeration reject the last chunk after the whole answer has come; others "
            "map it to `stop` and hide a cut or a failure."
        ),
        guard="Keep unknown reasons as text, and treat them as neither success nor failure.",
        reference="https://github.com/mozilla-ai/any-llm/issues/1200",
        dialects=CHAT,
    ),
    Quirk(
        id="finish_reason_error",
        summary=(
            "The finish reason itself means failure: error, network_error, MALFORMED_FUNCTION_CALL, ERROR and "
            "their like."
        ),
        severity=BREAKS,
        breaks=(
            "No error object comes, so clients that map unknown reasons to `stop` present a broken or empty "
            "answer as complete."
        ),
        guard="Map the failing reasons of each provider to an error, and retry.",
        reference="https://github.com/BerriAI/litellm/issues/24373",
    ),
    Quirk(
        id="finish_reason_missing",
        summary=(
            "The stream ended, cleanly or by a reset, with no error and without the finish reason that its dialect has."
        ),
        severity=BREAKS,
        breaks=(
            "Clients that take the end of the body for success store a truncated answer, or run a tool with "
            "half its arguments; strict ones raise."
        ),
        guard="Treat an answer without a finish reason as incomplete.",
        reference="https://github.com/vaadin/flow-components/issues/9195",
        on=finish_reason_missing,
    ),
    Quirk(
        id="finish_reason_mismatch_tool_calls",
        summary="A chat answer has tool calls, but its finish reason is `stop`.",
        severity=WARNING,
        breaks=(
            "Agents that run tools only at `tool_calls` end the turn without running any, and the user sees an "
            "empty answer."
        ),
        guard="Decide by the presence of tool calls, not by the finish reason.",
        reference="https://github.com/ollama/ollama/issues/7963",
        dialects=CHAT,
        on=mismatch_tool_calls,
    ),
    Quirk(
        id="chunk_after_finish",
        summary="A chunk brings a choice that already has its finish reason.",
        severity=WARNING,
        breaks=(
            "Clients that stop at the finish reason miss what follows, often the usage, and may leave a "
            "connection that cannot be reused; strict state machines raise."
        ),
        guard="Read to the terminator, and ignore empty deltas after the finish reason.",
        reference="https://github.com/agentjido/req_llm/issues/781",
    ),
    Quirk(
        id="chunk_id_changes",
        summary="The chunks of one stream carry more than one non-empty id.",
        severity=WARNING,
        breaks=(
            "Accumulators that check the id, such as the one of openai-go, refuse the chunks; clients that "
            "group by id see one message per chunk."
        ),
        guard="Group by connection and choice index, and take the first id.",
        reference="https://github.com/microsoft/foundry-local/issues/144",
        dialects=CHAT,
    ),
    Quirk(
        id="chunk_id_empty",
        summary='A chunk has `id: ""`.',
        severity=INFO,
        breaks=(
            "Clients that key their state or their logs by the id mix requests up, and those that open a "
            "message for a new id start one at the empty id."
        ),
        guard="Treat an empty id as absent and keep the last non-empty one.",
        reference="https://github.com/huggingface/text-generation-inference/issues/1782",
        dialects=CHAT,
    ),
    Quirk(
        id="choice_index_unstable",
        summary="The choice index changes from chunk to chunk though one completion was asked for.",
        severity=BREAKS,
        breaks=(
            "Accumulators keep one choice per index: the text is scattered over many choices, choice 0 holds a "
            "single token, and clients that use the index as a list position raise IndexError."
        ),
        guard="Where one completion was asked for, read every choice as the first.",
        reference="https://github.com/microsoft/foundry-local/issues/263",
        dialects=CHAT,
    ),
    Quirk(
        id="multiple_choices",
        summary="The stream carries more than one choice index.",
        severity=INFO,
        breaks=(
            "Clients that read `choices[0]` of each chunk by position interleave the texts of several answers into one."
        ),
        guard="Keep one buffer per choice index.",
        reference="https://github.com/langchain-ai/langchain/issues/26719",
        dialects=CHAT,
    ),
    Quirk(
        id="message_beside_delta",
        summary="A chunk has a `message` next to its `delta`.",
        severity=WARNING,
        breaks=(
            "Clients that prefer `message` where there is one append the text so far at every chunk, and the "
            "answer grows by repetition."
        ),
        guard="In a stream read the delta only.",
        reference="https://github.com/perplexityai/api-discussion/issues/175",
        dialects=CHAT,
    ),
    Quirk(
        id="full_message_repeated",
        summary="A late chat event without a delta of its own repeats the whole text.",
        severity=WARNING,
        breaks=(
            "Clients that append every text they find show the answer twice; those that need a delta crash at the end."
        ),
        guard="Take the usage and the reason from such an event, and its text only if none came before.",
        reference="https://github.com/ENTERPILOT/GoModel/issues/1068",
        dialects=CHAT,
    ),
    Quirk(
        id="cumulative_content",
        summary=(
            "Each event carries all of the text so far instead of a delta, as DashScope does without "
            "`incremental_output`."
        ),
        severity=WARNING,
        breaks=(
            "Clients that append deltas show `AABABC` for `ABC`, and counters of characters or tokens grow "
            "quadratically."
        ),
        guard="Ask for increments, or replace the text when an event starts with all of it.",
        reference="https://github.com/moona3k/macparakeet/issues/1087",
        on=lambda e: e.stream.text.cumulative,
    ),
    Quirk(
        id="reasoning_content_field",
        summary="Reasoning comes in `delta.reasoning_content`.",
        severity=INFO,
        breaks=(
            "Clients that know only `content` show nothing for as long as the model thinks and may time out; "
            "their time to first token contains the whole reasoning."
        ),
        guard="Read the field as reasoning, apart from the visible text.",
        reference="https://api-docs.deepseek.com/guides/reasoning_model",
        dialects=CHAT,
    ),
    Quirk(
        id="reasoning_field",
        summary="Reasoning comes in `delta.reasoning`.",
        severity=INFO,
        breaks=(
            "Clients that know only `reasoning_content` lose the reasoning, and see a silent stream for as "
            "long as the model thinks."
        ),
        guard="Accept both names for reasoning.",
        reference="https://github.com/vllm-project/vllm/issues/50624",
        dialects=CHAT,
    ),
    Quirk(
        id="thinking_field",
        summary="Reasoning comes in Ollama's `thinking` field (`message.thinking` in chat).",
        severity=INFO,
        breaks=(
            "Clients that read only `message.content` or `response` take every thinking line for empty and may "
            "end the turn with no text."
        ),
        guard="Read `thinking` as reasoning, or switch it off in the request.",
        reference="https://github.com/run-llama/llama_index/issues/21234",
        dialects=frozenset({"ollama.chat", "ollama.generate"}),
    ),
    Quirk(
        id="reasoning_duplicated",
        summary="One chunk carries the same reasoning in two fields.",
        severity=WARNING,
        breaks=(
            "Clients that read both fields show and store every thought twice, and send it back twice in the next turn."
        ),
        guard="Take the reasoning of one field per chunk.",
        reference="https://openrouter.ai/docs/use-cases/reasoning-tokens",
        dialects=CHAT,
    ),
    Quirk(
        id="inline_think_tags",
        summary="The visible content contains a `<think>` and a `</think>` tag.",
        severity=WARNING,
        breaks=(
            "The reasoning is shown to the user as answer text, breaks parsers of structured output, and "
            "returns in the history of the next turn."
        ),
        guard="Split the tags off across deltas, or have the server parse reasoning.",
        reference="https://github.com/danny-avila/LibreChat/pull/13405",
        dialects=CHAT,
        on=lambda e: {"<think>", "</think>"} <= e.stream.text.marks,
    ),
    Quirk(
        id="think_close_tag_only",
        summary="The visible content contains `</think>` but no `<think>`.",
        severity=WARNING,
        breaks=(
            "Parsers that wait for the opening tag never start, so the whole reasoning and the stray tag are "
            "shown as the answer."
        ),
        guard="Treat everything before a lone closing tag as reasoning.",
        reference="https://github.com/sgl-project/sglang/pull/36285",
        dialects=CHAT,
        on=lambda e: "</think>" in e.stream.text.marks and "<think>" not in e.stream.text.marks,
    ),
    Quirk(
        id="refusal_delta",
        summary="Text comes in the refusal channel.",
        severity=INFO,
        breaks="Clients that read only the content show an empty answer, and structured-output parsers fail on it.",
        guard="Show the refusal, and count it as output.",
        reference="https://platform.openai.com/docs/api-reference/responses-streaming",
    ),
    Quirk(
        id="audio_delta",
        summary="Deltas carry audio data or its transcript.",
        severity=INFO,
        breaks="Text clients see a stream without content; their first token never comes although the model speaks.",
        guard="Read the transcript as text, and append the audio by bytes.",
        reference="https://platform.openai.com/docs/guides/audio",
        dialects=CHAT,
    ),
    Quirk(
        id="progress_chunk",
        summary="A chunk reports the progress of prompt processing (llama.cpp).",
        severity=INFO,
        breaks=(
            "Clocks that count it as output put the first token into the prefill, and strict clients fail on "
            "its empty delta."
        ),
        guard="Show it as progress, and never count it as output.",
        reference="https://github.com/ggml-org/llama.cpp/issues/15827",
        dialects=CHAT | {"llamacpp.completion"},
    ),
    Quirk(
        id="prompt_echoed",
        summary="The first text is the prompt itself, because `echo` was asked for.",
        severity=INFO,
        breaks=(
            "The first token seems to come before the model has produced one, and the prompt is stored as part "
            "of the answer."
        ),
        guard="Cut the prompt off the front before timing and storing.",
        reference="https://github.com/vllm-project/vllm/issues/15119",
        dialects=CHAT,
        on=prompt_echoed,
    ),
    Quirk(
        id="prompt_blocked",
        summary="Gemini blocked the prompt and says so in `promptFeedback.blockReason`.",
        severity=WARNING,
        breaks=(
            "No candidate comes with it: clients that read `candidates[0]` crash, and others show an empty "
            "answer without a reason."
        ),
        guard="Check `promptFeedback` before the candidates, and show the reason.",
        reference="https://github.com/vercel/ai/issues/4236",
        dialects=frozenset({"gemini.generate"}),
    ),
    Quirk(
        id="unknown_event_type",
        summary="A named event is of a type that the dialect does not have.",
        severity=WARNING,
        breaks=(
            "Clients with a closed list of types raise, or end the stream as if it were complete, as "
            "openai-dotnet did at the first event it did not model."
        ),
        guard="Skip types that you do not know; providers add some without a new version.",
        reference="https://github.com/openai/openai-dotnet/pull/1273",
    ),
    Quirk(
        id="block_start_has_text",
        summary="Anthropic's `content_block_start` carries non-empty text.",
        severity=WARNING,
        breaks=(
            "Clients that start each block with an empty string lose that text, usually the first words of the answer."
        ),
        guard="Start the block with the text of its start event.",
        reference="https://github.com/earendil-works/pi/issues/7283",
        dialects=frozenset({"anthropic.messages", "bedrock.invoke"}),
    ),
    Quirk(
        id="block_not_closed",
        summary="`message_stop` came while a content block was still open.",
        severity=WARNING,
        breaks=(
            "Clients that finish a block at `content_block_stop` drop the last one: the text is missing, or "
            "the tool call never runs."
        ),
        guard="Close open blocks at `message_stop` and at the next block start, and check that tool arguments parse.",
        reference="https://github.com/xemantic/anthropic-sdk-kotlin/pull/147",
        dialects=frozenset({"anthropic.messages", "bedrock.invoke"}),
    ),
    Quirk(
        id="text_only_in_done_events",
        summary="A Responses stream has its text only in `*.done` events, without deltas.",
        severity=BREAKS,
        breaks=(
            "Clients that render deltas discard the whole output and show an empty reply although the status is 200."
        ),
        guard="Where an item brought no delta, take its text from the done event.",
        reference="https://github.com/Sophomoresty/gemini-web2api/pull/57",
        dialects=frozenset({"openai.responses", "openai.responses.ws", "openai.realtime"}),
    ),
)
