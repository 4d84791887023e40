// Asks once by each protocol, with as many retries as the SDKs make by themselves, and writes what came of it: a list of
// {name, status, code} of what the SDK raised, or null where it was answered.
//
//     node limits.mjs URL KEY

import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

const [url, key] = process.argv.slice(2);
const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 2 });
const anthropic = new Anthropic({ baseURL: url, apiKey: key, maxRetries: 2 });
const messages = [{ role: "user", content: "Say hello." }];

const asked = [
  () => openai.chat.completions.create({ model: "on-messages", messages }),
  () => openai.responses.create({ model: "on-chat", input: "Say hello." }),
  () => anthropic.messages.create({ model: "on-chat", max_tokens: 9, messages }),
];

const seen = [];
for (const ask of asked) {
  try {
    await ask();
    seen.push(null);
  } catch (error) {
    seen.push({ name: error.constructor.name, status: error.status ?? null, code: error.code ?? null });
  }
}
console.log(JSON.stringify(seen));
