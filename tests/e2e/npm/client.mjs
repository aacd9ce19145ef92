// What the openai npm SDK makes of a gateway: `node client.mjs BASE_URL` prints one JSON object, a key for each call.

import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.argv[2], apiKey: "sk-any", maxRetries: 2 });
const messages = [{ role: "user", content: "Say hedge." }];
const parameters = { type: "object", properties: { city: { type: "string" } } };
const scripted = (name, fields) => ({ headers: { [name]: JSON.stringify(fields) } });
const stalls = scripted("x-lab-script-primary", { fault: "stall" });

const marks = (response) => ({
  target: response.headers.get("x-hedgerow-target"),
  attempts: response.headers.get("x-hedgerow-attempts"),
});

async function failure(promise) {
  try {
    await promise;
  } catch (error) {
    return { kind: error.constructor.name, status: error.status ?? null, code: error.code ?? null };
  }
  return null;
}

async function textOf(stream) {
  let text = "";
  for await (const chunk of stream) text += chunk.choices[0]?.delta?.content ?? "";
  return text;
}

const calls = {
  async models() {
    return (await client.models.list()).data.map((model) => model.id);
  },
  async chat() {
    const answer = await client.chat.completions.create({ model: "fast", messages, max_tokens: 3 });
    return answer.choices[0].message.content;
  },
  async stream() {
    const request = { model: "fast", messages, stream: true, stream_options: { include_usage: true } };
    const { data, response } = await client.chat.completions.create(request, stalls).withResponse();
    return { text: await textOf(data), ...marks(response) };
  },
  async tools() {
    const tools = [{ type: "function", function: { name: "weather", parameters } }];
    const runner = client.chat.completions.stream({ model: "fast", messages, tools, tool_choice: "required" }, stalls);
    const { message, finish_reason: reason } = (await runner.finalChatCompletion()).choices[0];
    const called = message.tool_calls[0].function;
    return { reason, name: called.name, arguments: JSON.parse(called.arguments) };
  },
  async response() {
    const answer = await client.responses.create({ model: "fast", input: "hi", store: false, max_output_tokens: 3 });
    return { text: answer.output_text, status: answer.status };
  },
  async responseStream() {
    const request = { model: "fast", input: "hi", store: false, stream: true };
    const { data, response } = await client.responses.create(request, stalls).withResponse();
    let text = "";
    let last;
    for await (const event of data) {
      if (event.type === "response.output_text.delta") text += event.delta;
      last = event.type;
    }
    return { text, last, ...marks(response) };
  },
  async embeddings() {
    const { data } = await client.embeddings.create({ model: "fast", input: ["a", "b"], dimensions: 4 });
    return data.map((one) => one.embedding.length);
  },
  async brokenStream() {
    const request = { model: "fast", messages, stream: true };
    const cut = scripted("x-lab-script", { fault: "cut", at: 2 });
    return failure(client.chat.completions.create(request, cut).then(textOf));
  },
  async badRequest() {
    const refused = scripted("x-lab-script", { status: 400, code: "string_too_long" });
    return failure(client.chat.completions.create({ model: "fast", messages }, refused));
  },
  async everywhereDown() {
    const down = scripted("x-lab-script", { status: 500 });
    return failure(client.chat.completions.create({ model: "fast", messages, user: "down" }, down));
  },
};

const results = {};
for (const [name, call] of Object.entries(calls)) results[name] = await call();
console.log(JSON.stringify(results));
