"""Quirks of the registry: tool calls."""

from sidecar.quirks.detect import promised_but_absent, tools_in_other_choice
from sidecar.quirks.quirk import CHAT, Quirk, Severity

INFO, WARNING, BREAKS = Severity.INFO, Severity.WARNING, Severity.BREAKS_CLIENTS

TOOL_CALLS: tuple[Quirk, ...] = (
    Quirk(
        id="empty_tool_calls_array",
        summary="An event carries `tool_calls: []`.",
        severity=INFO,
        breaks=(
            "Clients that test for the key instead of a call switch to tool mode, skip the text of that chunk "
            "or read `tool_calls[0]` and crash."
        ),
        guard="Test for a non-empty list.",
        reference="https://docs.cohere.com/docs/tool-use-streaming",
    ),
    Quirk(
        id="tool_index_missing",
        summary="A tool-call delta with output has no index, or a null one.",
        severity=BREAKS,
        breaks=(
            "The stream helper of openai-python fails with `list indices must be integers or slices, not "
            "NoneType`; clients that default to 0 merge parallel calls into one."
        ),
        guard="Without an index, let a new id open a call and anything else continue the last one.",
        reference="https://github.com/openai/openai-python/pull/3246",
        dialects=CHAT,
    ),
    Quirk(
        id="tool_index_all_zero",
        summary="Several calls all carry index 0 and differ only in id and name.",
        severity=BREAKS,
        breaks=(
            "Accumulators keyed by the index merge them: the arguments become `{…}{…}`, which is no JSON, and "
            "the tool is called with garbage or not at all."
        ),
        guard="Open a new call where a new id and a name come at a used index.",
        reference="https://github.com/huggingface/smolagents/pull/1958",
        dialects=CHAT,
    ),
    Quirk(
        id="tool_index_not_zero_based",
        summary="The first tool-call index of an answer is not 0.",
        severity=WARNING,
        breaks=(
            "Clients that use the index as a list position raise IndexError, or leave a hole at 0 and crash "
            "when they read it."
        ),
        guard="Key calls by index in a map and keep the order of arrival.",
        reference="https://github.com/glowingjade/obsidian-smart-composer/issues/372",
        dialects=CHAT,
    ),
    Quirk(
        id="tool_id_empty_string",
        summary='A continuation delta has `id: ""`.',
        severity=WARNING,
        breaks=(
            "Clients that copy the id of each delta erase the real one, so the tool result cannot be matched; "
            "clients that open a call at each id split the arguments."
        ),
        guard="Treat an empty id as absent.",
        reference="https://github.com/spring-projects/spring-ai/issues/4790",
        dialects=CHAT,
    ),
    Quirk(
        id="tool_id_changes",
        summary="The deltas of one call carry different non-empty ids.",
        severity=WARNING,
        breaks="Clients that key calls by id see one call per delta, with fragments of arguments that do not parse.",
        guard="Key calls by index, and open a new one only where a name comes with the new id.",
        reference="https://github.com/poolsideai/pool/issues/9",
        dialects=CHAT,
    ),
    Quirk(
        id="tool_id_name_repeated",
        summary="Continuation deltas repeat the call's id or name.",
        severity=WARNING,
        breaks=(
            "Clients that append strings call `get_weatherget_weather`, and clients that open a call at each "
            "id break one call into many."
        ),
        guard="Set id and name once; a repeated id continues the call.",
        reference="https://github.com/JetBrains/koog/pull/2052",
        dialects=CHAT,
    ),
    Quirk(
        id="tool_name_fragmented",
        summary="A tool's name arrives in pieces.",
        severity=WARNING,
        breaks=(
            "Clients that take the name of the first delta look for a tool named `get_`, and those that "
            "overwrite keep the last piece."
        ),
        guard="Append name pieces until arguments come, unless a piece equals the name so far.",
        reference="https://github.com/openai/openai-agents-python/issues/326",
        dialects=CHAT,
    ),
    Quirk(
        id="tool_name_late",
        summary="The first delta of a call has an id and an empty name; the name follows later.",
        severity=WARNING,
        breaks=(
            "Clients that announce or look up the tool at the first delta fail with an unknown tool named by "
            "the empty string."
        ),
        guard="Announce a call only once its name is non-empty.",
        reference="https://github.com/jjang-ai/vmlx/issues/244",
        dialects=CHAT,
    ),
    Quirk(
        id="tool_arguments_object",
        summary="In a chat stream a call's `arguments` are an object instead of a string of JSON.",
        severity=BREAKS,
        breaks=(
            "Clients that append get TypeError in Python and `[object Object]` in JavaScript; clients that "
            "parse the string reject the object."
        ),
        guard="Serialise non-string arguments before appending them.",
        reference="https://github.com/huggingface/text-generation-inference/issues/2136",
        dialects=CHAT,
    ),
    Quirk(
        id="tool_arguments_null",
        summary="A tool-call delta has `arguments: null`.",
        severity=WARNING,
        breaks=(
            "Clients that append it raise TypeError, or put the word `null` in front of the arguments, which "
            "then do not parse."
        ),
        guard="Treat null arguments as the empty string.",
        reference="https://github.com/ogx-ai/ogx/issues/5462",
        dialects=CHAT,
    ),
    Quirk(
        id="tool_arguments_empty",
        summary="The final arguments of a call are the empty string, which means `{}`.",
        severity=INFO,
        breaks="Clients that pass them to a JSON parser crash on every tool without parameters.",
        guard="Read empty arguments as an empty object.",
        reference="https://github.com/langchain-ai/langchainjs/issues/8581",
    ),
    Quirk(
        id="tool_arguments_invalid_json",
        summary="The final arguments of a call are not JSON.",
        severity=BREAKS,
        breaks=(
            "Agents that parse without a guard crash, or run the tool with `{}`; an answer that was cut by the "
            "length limit looks like this, too."
        ),
        guard="Catch the error, return it to the model as the tool's result, and check whether the finish reason is that of the length limit.",
        reference="https://github.com/anthropics/anthropic-sdk-python/issues/794",
    ),
    Quirk(
        id="tool_arguments_cumulative",
        summary="Each fragment of a call repeats all of its arguments so far.",
        severity=BREAKS,
        breaks=(
            "Clients that append fragments get `{…}{…}{…}`, which does not parse: the call is dropped, or runs "
            "with empty arguments."
        ),
        guard="Replace instead of append where a fragment starts with everything so far.",
        reference="https://github.com/NousResearch/hermes-agent/pull/35718",
        dialects=CHAT,
    ),
    Quirk(
        id="tool_call_single_chunk",
        summary="In a chat stream a whole call comes in one delta.",
        severity=INFO,
        breaks=(
            "Clients that take only the name from the first delta and wait for more lose the arguments, and a "
            "long call looks like a stall."
        ),
        guard="Read id, name and arguments of every delta, the first included.",
        reference="https://github.com/deepset-ai/haystack/issues/9046",
        dialects=CHAT,
    ),
    Quirk(
        id="tool_call_fragment_empty",
        summary="A tool-call delta has neither id, name nor arguments.",
        severity=WARNING,
        breaks=(
            "Clients that read `function.name` of each delta crash where `function` is null, and clients that "
            "open a call per delta add a phantom call without a name."
        ),
        guard="Skip tool-call deltas that bring nothing.",
        reference="https://github.com/deepset-ai/haystack/issues/9581",
        dialects=CHAT,
    ),
    Quirk(
        id="tool_call_fragment_nameless",
        summary="A Gemini `functionCall` part has arguments but no name.",
        severity=WARNING,
        breaks=(
            "Clients that take each part for a call run a tool without a name, and the call it belongs to "
            "lacks its arguments."
        ),
        guard="Add a nameless part to the call before it.",
        reference="https://github.com/smallmain/vscode-unify-chat-provider/issues/48",
        dialects=frozenset({"gemini.generate"}),
    ),
    Quirk(
        id="tool_calls_in_other_choice",
        summary="The tool calls come in another choice than the text.",
        severity=BREAKS,
        breaks=(
            "Agents that read only `choices[0]` show the introductory text and never run the tool: the turn "
            "ends, or loops with `no tool calls found`."
        ),
        guard="Where one completion was asked for, collect tool calls from all choices.",
        reference="https://github.com/SWE-agent/mini-swe-agent/issues/804",
        dialects=CHAT,
        on=tools_in_other_choice,
    ),
    Quirk(
        id="tool_call_as_text",
        summary="The markup of a tool call leaked into the content.",
        severity=WARNING,
        breaks="No tool runs; the user sees `<tool_call>` or raw JSON, and an agent takes the turn for finished.",
        guard="Give the server the tool parser of the model, and alert on known markup in text.",
        reference="https://github.com/vllm-project/vllm/issues/17109",
        dialects=CHAT,
        on=lambda e: "tool_markup" in e.stream.text.marks,
    ),
    Quirk(
        id="tool_calls_promised_but_absent",
        summary="The finish reason is `tool_calls`, but no call came.",
        severity=WARNING,
        breaks=(
            "Agents that iterate the calls fail on null or send an empty list of results, and some ask again in a loop."
        ),
        guard="Check that there is a call before acting on the finish reason.",
        reference="https://github.com/vllm-project/vllm/issues/54701",
        dialects=CHAT,
        on=promised_but_absent,
    ),
    Quirk(
        id="legacy_function_call",
        summary="A delta uses the deprecated `function_call`.",
        severity=INFO,
        breaks=(
            "Clients that know only `tool_calls` see neither text nor a call, and end the turn with an empty answer."
        ),
        guard="Read `function_call` as a single tool call, or move the request to `tools`.",
        reference="https://platform.openai.com/docs/api-reference/chat-streaming/streaming",
        dialects=CHAT,
    ),
)
