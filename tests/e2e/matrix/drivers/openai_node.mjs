// The OpenAI SDK for Node: Chat Completions and Responses.

import { PARAMETERS, ROUNDS, SCHEMA, addPiece, drive, weather } from "./driver.mjs";
import OpenAI from "openai";

async function chat(task) {
  const sdk = new OpenAI();
  const content = [{ type: "text", text: task.prompt }];
  if (task.kind === "image") {
    content.push({ type: "image_url", image_url: { url: `data:image/png;base64,${task.image}` } });
  }
  const messages = [{ role: "developer", content: "Be brief." }, { role: "user", content }];
  const asked = { model: task.model, messages };
  if (task.kind === "stream" || task.kind === "cancel") {
    const seen = {};
    const stream = await sdk.chat.completions.create({ ...asked, stream: true, stream_options: { include_usage: true } });
    for await (const chunk of stream) {
      addPiece(seen, chunk.choices[0]?.delta.content);
      if (task.kind === "cancel" && seen.pieces) return { left: true };
    }
    return seen;
  }
  if (task.kind === "structured") {
    const format = { type: "json_schema", json_schema: { name: "weather", strict: true, schema: SCHEMA } };
    const answer = await sdk.chat.completions.create({ ...asked, response_format: format });
    return { value: JSON.parse(answer.choices[0].message.content) };
  }
  if (task.kind === "tools") {
    const tool = { name: "get_weather", description: "Weather", parameters: PARAMETERS, strict: true };
    asked.tools = [{ type: "function", function: tool }];
  }
  for (let round = 0; round < ROUNDS; round++) {
    const { message } = (await sdk.chat.completions.create(asked)).choices[0];
    if (!message.tool_calls?.length) return { text: message.content };
    messages.push(message);
    for (const { id, function: call } of message.tool_calls) {
      messages.push({ role: "tool", tool_call_id: id, content: weather(JSON.parse(call.arguments)) });
    }
  }
}

async function responses(task) {
  const sdk = new OpenAI();
  const content = [{ type: "input_text", text: task.prompt }];
  if (task.kind === "image") {
    content.push({ type: "input_image", image_url: `data:image/png;base64,${task.image}`, detail: "auto" });
  }
  const input = [{ role: "user", content }];
  const include = ["reasoning.encrypted_content"];
  const asked = { model: task.model, instructions: "Be brief.", input, store: false, include };
  if (task.kind === "stream" || task.kind === "cancel") {
    const seen = {};
    for await (const event of await sdk.responses.create({ ...asked, stream: true })) {
      if (event.type === "response.output_text.delta") addPiece(seen, event.delta);
      if (event.type === "error") return { error: `error: ${event.message}` };
      if (event.type === "response.failed") return { error: `response.failed: ${event.response.error.message}` };
      if (task.kind === "cancel" && seen.pieces) return { left: true };
    }
    return seen;
  }
  if (task.kind === "structured") {
    const format = { type: "json_schema", name: "weather", strict: true, schema: SCHEMA };
    return { value: JSON.parse((await sdk.responses.create({ ...asked, text: { format } })).output_text) };
  }
  if (task.kind === "tools") {
    const tool = { name: "get_weather", description: "Weather", parameters: PARAMETERS, strict: true };
    asked.tools = [{ type: "function", ...tool }];
  }
  for (let round = 0; round < ROUNDS; round++) {
    const answer = await sdk.responses.create(asked);
    const calls = answer.output.filter(({ type }) => type === "function_call");
    if (!calls.length) return { text: answer.output_text };
    input.push(...answer.output);
    for (const call of calls) {
      const output = weather(JSON.parse(call.arguments));
      input.push({ type: "function_call_output", call_id: call.call_id, output });
    }
  }
}

/** Everything else that the proxy serves of what the SDK has. */
async function resources(task) {
  const sdk = new OpenAI();
  const { model, prompt } = task;
  const models = (await sdk.models.list()).data;
  const found = {
    "models.list": models.length > 0,
    "models.retrieve": (await sdk.models.retrieve(models[0].id)).id === models[0].id,
  };
  if (task.protocol === "chat") {
    const legacy = await sdk.completions.create({ model, prompt });
    found.completions = legacy.choices[0].text.includes("Count this");
    const messages = [{ role: "user", content: prompt }];
    const completion = await sdk.chat.completions.stream({ model, messages }).finalChatCompletion();
    found["chat.completions.stream"] = completion.choices[0].message.content.includes("Count this");
  } else {
    const counted = await sdk.responses.inputTokens.count({ model, input: prompt });
    found["responses.inputTokens"] = counted.input_tokens > 0;
    const response = await sdk.responses.stream({ model, input: prompt, store: false }).finalResponse();
    found["responses.stream"] = response.output_text.includes("Count this");
  }
  return { resources: found };
}

/** The second request names the first, and says nothing of it. */
async function stored({ model, prompt }) {
  const sdk = new OpenAI();
  const { id } = await sdk.responses.create({ model, input: prompt });
  return { text: (await sdk.responses.create({ model, input: "What was it?", previous_response_id: id })).output_text };
}

async function embeddings(task) {
  const made = await new OpenAI().embeddings.create({ model: task.model, input: task.prompt, encoding_format: "float" });
  return { resources: { embeddings: made.data[0].embedding.length > 0 } };
}

const byProtocol = { chat, responses }[process.argv[2]];
await drive((task) => ({ resources, embeddings, stored })[task.kind]?.(task) ?? byProtocol(task));
