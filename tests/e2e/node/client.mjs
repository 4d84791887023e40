// The user program of sdk_clients.py once more, written with the vendors' Node SDKs.
//
// Reads a JSON list of tasks {prompt, tools, stream, key} from its input and writes the list of what was seen:
// {text, pieces, calls, reasoning, usage}, or {error} with what the SDK raised.
//
//     node client.mjs chat|responses|messages URL < tasks.json

import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

const MODEL = "demo-model";
const TOOL = "get_weather";
const PARAMETERS = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
};
const MAX_ROUNDS = 3;
// What the helpers add to a message for their user and no API takes back.
const PARSED_FIELDS = new Set(["parsed", "parsed_arguments"]);

const weather = ({ city }) => `${city} has 21 degrees`;

function asReceived(node) {
  return JSON.parse(JSON.stringify(node, (name, value) => (PARSED_FIELDS.has(name) ? undefined : value)));
}

async function chat(url, { prompt, tools, stream, key }, run) {
  const sdk = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 });
  const messages = [
    { role: "system", content: "Be brief." },
    { role: "user", content: prompt },
  ];
  const request = { model: MODEL, messages };
  if (tools) {
    request.tools = [
      { type: "function", function: { name: TOOL, description: "Weather", parameters: PARAMETERS } },
    ];
  }
  for (let round = 0; round < MAX_ROUNDS; round++) {
    let completion;
    if (stream) {
      const runner = sdk.chat.completions.stream({ ...request, stream_options: { include_usage: true } });
      runner.on("content", (delta) => delta && run.pieces.push(delta)); // the first chunk opens with an empty one
      completion = await runner.finalChatCompletion();
    } else {
      completion = await sdk.chat.completions.create(request);
    }
    const { message, finish_reason } = completion.choices[0];
    run.text = message.content ?? "";
    run.reasoning += message.reasoning_content ?? "";
    run.usage = [completion.usage.prompt_tokens, completion.usage.completion_tokens];
    run.stop = finish_reason;
    if (!message.tool_calls?.length) return;
    messages.push(asReceived(message));
    for (const call of message.tool_calls) {
      run.calls.push(JSON.parse(call.function.arguments));
      messages.push({ role: "tool", tool_call_id: call.id, content: weather(run.calls.at(-1)) });
    }
  }
}

async function responses(url, { prompt, tools, stream, key }, run) {
  const sdk = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 });
  const input = [{ role: "user", content: prompt }];
  const request = {
    model: MODEL,
    instructions: "Be brief.",
    input,
    store: false,
    include: ["reasoning.encrypted_content"],
  };
  if (tools) {
    request.tools = [
      { type: "function", name: TOOL, description: "Weather", parameters: PARAMETERS, strict: true },
    ];
  }
  for (let round = 0; round < MAX_ROUNDS; round++) {
    let response;
    if (stream) {
      const runner = sdk.responses.stream(request);
      runner.on("response.output_text.delta", ({ delta }) => run.pieces.push(delta));
      response = await runner.finalResponse();
    } else {
      response = await sdk.responses.create(request);
    }
    run.text = response.output_text;
    run.usage = [response.usage.input_tokens, response.usage.output_tokens];
    run.stop = response.status;
    let called = false;
    for (const item of response.output) {
      input.push(asReceived(item));
      if (item.type !== "reasoning") continue;
      run.reasoning += [...item.summary, ...(item.content ?? [])].map(({ text }) => text).join("");
    }
    for (const item of response.output.filter(({ type }) => type === "function_call")) {
      called = true;
      run.calls.push(JSON.parse(item.arguments));
      input.push({ type: "function_call_output", call_id: item.call_id, output: weather(run.calls.at(-1)) });
    }
    if (!called) return;
  }
}

async function messages(url, { prompt, tools, stream, key }, run) {
  const sdk = new Anthropic({ baseURL: url, apiKey: key, maxRetries: 0 });
  const turns = [{ role: "user", content: prompt }];
  const request = { model: MODEL, max_tokens: 1000, system: "Be brief.", messages: turns };
  if (tools) request.tools = [{ name: TOOL, description: "Weather", input_schema: PARAMETERS }];
  for (let round = 0; round < MAX_ROUNDS; round++) {
    let message;
    if (stream) {
      const runner = sdk.messages.stream(request);
      runner.on("text", (delta) => run.pieces.push(delta));
      message = await runner.finalMessage();
    } else {
      message = await sdk.messages.create(request);
    }
    const ofType = (wanted) => message.content.filter(({ type }) => type === wanted);
    run.text = ofType("text").map(({ text }) => text).join("");
    run.reasoning += ofType("thinking").map(({ thinking }) => thinking).join("");
    run.usage = [message.usage.input_tokens, message.usage.output_tokens];
    run.stop = message.stop_reason;
    const called = ofType("tool_use");
    if (!called.length) return;
    turns.push({ role: "assistant", content: message.content });
    const results = called.map(({ id, input }) => {
      run.calls.push(input);
      return { type: "tool_result", tool_use_id: id, content: weather(input) };
    });
    turns.push({ role: "user", content: results });
  }
}

function seen(error) {
  const { status = null, code = null, message } = error;
  const headers = error.headers ? Object.fromEntries(error.headers) : {};
  return {
    name: error.constructor.name,
    of_api: error instanceof OpenAI.APIError || error instanceof Anthropic.APIError,
    status,
    code,
    message,
    retry_after: headers["retry-after"] ?? null,
  };
}

const [protocol, url] = process.argv.slice(2);
const program = { chat, responses, messages }[protocol];
let input = "";
for await (const piece of process.stdin) input += piece;

const runs = [];
for (const task of JSON.parse(input)) {
  const run = { text: "", pieces: [], calls: [], reasoning: "", usage: [0, 0], stop: null };
  try {
    await program(url, task, run);
    runs.push(run);
  } catch (error) {
    runs.push({ error: seen(error) });
  }
}
console.log(JSON.stringify(runs));
