// The AI SDK of Vercel, with its providers for OpenAI, Anthropic, and whatever is compatible with OpenAI.

import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { Output, generateText, isStepCount, streamText, tool } from "ai";
import { z } from "zod";
import { ROUNDS, addPiece, drive, weather } from "./driver.mjs";

const [, , protocol, provider] = process.argv;

function modelOf({ model }) {
  const { OPENAI_BASE_URL: baseURL, OPENAI_API_KEY: apiKey } = process.env;
  if (provider === "compatible") {
    const more = { includeUsage: true, supportsStructuredOutputs: true };
    return createOpenAICompatible({ name: "dragoman", baseURL, apiKey, ...more })(model);
  }
  if (protocol === "messages") return createAnthropic({ baseURL: process.env.ANTHROPIC_BASE_URL })(model);
  return createOpenAI()[protocol](model);
}

const providerOptions = {
  responses: { openai: { store: false, include: ["reasoning.encrypted_content"] } },
  messages: { anthropic: { thinking: { type: "adaptive" } } },
}[protocol];

async function run(task) {
  const asked = { model: modelOf(task), providerOptions };
  const content = [{ type: "text", text: task.prompt }];
  if (task.kind === "image") {
    content.push({ type: "file", mediaType: "image/png", data: Buffer.from(task.image, "base64") });
  }
  asked.messages = [{ role: "user", content }];
  if (task.kind === "stream" || task.kind === "cancel") {
    const seen = {};
    const abort = new AbortController();
    const { fullStream } = streamText({ ...asked, abortSignal: abort.signal, onError() {} });
    for await (const part of fullStream) {
      if (part.type === "text-delta") addPiece(seen, part.text);
      if (part.type === "error") return { error: `${part.error.name}: ${part.error.message}` };
      if (task.kind === "cancel" && seen.pieces) {
        abort.abort();
        return { left: true };
      }
      if (part.type === "finish" && part.finishReason === "error") return { error: "finishReason: error" };
    }
    return seen;
  }
  if (task.kind === "structured") {
    asked.output = Output.object({ schema: z.object({ city: z.string(), degrees: z.number().int() }) });
    return { value: (await generateText(asked)).output };
  }
  if (task.kind === "tools") {
    const inputSchema = z.object({ city: z.string() });
    asked.tools = { get_weather: tool({ description: "Weather", inputSchema, execute: weather }) };
    asked.stopWhen = isStepCount(ROUNDS);
  }
  return { text: (await generateText(asked)).text };
}

await drive(run);
