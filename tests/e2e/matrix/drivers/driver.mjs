// What drivers in Node have in common; as driver.py is for Python.

import { createInterface } from "node:readline";

export const SCHEMA = {
  type: "object",
  properties: { city: { type: "string" }, degrees: { type: "integer" } },
  required: ["city", "degrees"],
  additionalProperties: false,
};
export const PARAMETERS = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
};
export const ROUNDS = 4;

export const weather = ({ city }) => `${city} has 21 degrees`;

/** Text as it comes, in `text` and `pieces` of what is seen. */
export function addPiece(seen, text) {
  if (!text) return;
  seen.text = (seen.text ?? "") + text;
  seen.pieces = (seen.pieces ?? 0) + 1;
}

/** `run` makes the client do a task and gives what was seen; what it throws is what the user saw. */
export async function drive(run) {
  for await (const line of createInterface({ input: process.stdin })) {
    const task = JSON.parse(line);
    Object.assign(process.env, task.environment);
    let seen;
    try {
      seen = await run(task);
    } catch (error) {
      seen = { error: `${error.constructor.name}: ${error.message}` };
    }
    console.log(JSON.stringify(seen));
  }
}
