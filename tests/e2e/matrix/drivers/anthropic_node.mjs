// The Anthropic SDK for Node.

import { PARAMETERS, ROUNDS, SCHEMA, addPiece, drive, weather } from "./driver.mjs";
import Anthropic from "@anthropic-ai/sdk";

const textOf = ({ content }) => content.filter(({ type }) => type === "text").map(({ text }) => text).join("");

async function run(task) {
  const sdk = new Anthropic();
  if (task.kind === "resources") return resources(sdk, task);
  const content = [{ type: "text", text: task.prompt }];
  if (task.kind === "image") {
    content.unshift({ type: "image", source: { type: "base64", media_type: "image/png", data: task.image } });
  }
  const messages = [{ role: "user", content }];
  const asked = { model: task.model, max_tokens: 1000, system: "Be brief.", messages };
  if (task.kind === "stream") {
    const seen = {};
    const stream = sdk.messages.stream(asked).on("text", (text) => addPiece(seen, text));
    await stream.finalMessage();
    return seen;
  }
  if (task.kind === "cancel") {
    const stream = await sdk.messages.create({ ...asked, stream: true });
    for await (const event of stream) {
      if (event.type === "content_block_delta") break; // leaves the stream, which aborts it
    }
    return { left: true };
  }
  if (task.kind === "structured") {
    asked.output_config = { format: { type: "json_schema", schema: SCHEMA } };
    return { value: JSON.parse(textOf(await sdk.messages.create(asked))) };
  }
  if (task.kind === "tools") {
    asked.tools = [{ name: "get_weather", description: "Weather", input_schema: PARAMETERS }];
  }
  for (let round = 0; round < ROUNDS; round++) {
    const message = await sdk.messages.create(asked);
    const calls = message.content.filter(({ type }) => type === "tool_use");
    if (!calls.length) return { text: textOf(message) };
    messages.push({ role: "assistant", content: message.content });
    const results = calls.map(({ id, input }) => ({ type: "tool_result", tool_use_id: id, content: weather(input) }));
    messages.push({ role: "user", content: results });
  }
}

async function resources(sdk, { model, prompt }) {
  const models = (await sdk.models.list({ limit: 1000 })).data;
  const counted = await sdk.messages.countTokens({ model, messages: [{ role: "user", content: prompt }] });
  return {
    resources: {
      "models.list": models.length > 0,
      "models.retrieve": (await sdk.models.retrieve(models[0].id)).id === models[0].id,
      "messages.countTokens": counted.input_tokens > 0,
    },
  };
}

await drive(run);
