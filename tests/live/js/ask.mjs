// Asks once with the openai package and prints what it saw: node ask.mjs URL chat|responses MODEL TEXT [--tools]
import OpenAI from "openai";

const [url, api, model, text, tools] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0, timeout: 20_000 });
const weather = {
  name: "get_weather",
  description: "The weather of a city",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
};
const answer = { text: "", reasoning: "", calls: [], finish: null, usage: {} };

async function chat() {
  const stream = client.chat.completions.stream({
    model,
    messages: [{ role: "user", content: text }],
    max_tokens: 24,
    stream_options: { include_usage: true },
    ...(tools && { tools: [{ type: "function", function: weather }] }),
  });
  for await (const chunk of stream) answer.reasoning += chunk.choices[0]?.delta.reasoning_content ?? "";
  const { choices, usage } = await stream.finalChatCompletion();
  answer.text = choices[0].message.content ?? "";
  answer.calls = (choices[0].message.tool_calls ?? []).map(({ function: f }) => [f.name, JSON.parse(f.arguments)]);
  answer.finish = choices[0].finish_reason;
  answer.usage = { input: usage.prompt_tokens, output: usage.completion_tokens, total: usage.total_tokens };
}

async function responses() {
  const stream = await client.responses.create({
    model,
    input: text,
    stream: true,
    ...(tools && { tools: [{ type: "function", ...weather }] }),
  });
  for await (const event of stream) {
    if (event.type === "response.output_text.delta") answer.text += event.delta;
    if (/^response\.reasoning_(summary_)?text\.delta$/.test(event.type)) answer.reasoning += event.delta;
    if (event.type !== "response.completed") continue;
    const { output, status, usage } = event.response;
    const calls = output.filter((item) => item.type === "function_call");
    answer.calls = calls.map((call) => [call.name, JSON.parse(call.arguments)]);
    answer.finish = status;
    answer.usage = { input: usage.input_tokens, output: usage.output_tokens, total: usage.total_tokens };
  }
}

await { chat, responses }[api]();
console.log(JSON.stringify(answer));
