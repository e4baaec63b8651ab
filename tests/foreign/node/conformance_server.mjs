// A server with everything that the conformance suite calls by name, written with the official TypeScript SDK, which speaks both protocols. The suite
// runs against it directly, and against a gate in front of it. It prints one line, `{"url": …}`, and exits at the end of its input. With the argument
// `session` it speaks the session protocol alone.

import { randomBytes, randomUUID } from "node:crypto";
import { createServer } from "node:http";

import {
  createMcpHandler, createRequestStateCodec, isLegacyRequest, ProtocolError, Server, WebStandardStreamableHTTPServerTransport,
} from "@modelcontextprotocol/server";

// One red pixel, and a WAV file without samples.
const IMAGE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
const AUDIO = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

const states = createRequestStateCodec({ key: randomBytes(32) });

const text = (words) => ({ content: [{ type: "text", text: words }] });
const embedded = (uri, mimeType, words) => ({ type: "resource", resource: { uri, mimeType, text: words } });

const form = (message, properties, required = []) => ({
  message, requestedSchema: { type: "object", properties, required },
});
const elicitation = (message, properties, required) => ({
  method: "elicitation/create", params: { mode: "form", ...form(message, properties, required) },
});
const sampling = (words) => ({
  method: "sampling/createMessage",
  params: { messages: [{ role: "user", content: { type: "text", text: words } }], maxTokens: 100 },
});
const roots = { method: "roots/list", params: {} };

const inputRequired = (inputRequests, requestState) => ({
  resultType: "input_required", inputRequests, ...(requestState && { requestState }),
});

/** The accepted content of an answer; nothing if there is none, or it is not what was asked for. */
function accepted(context, key, field, type = "string") {
  const answer = context.mcpReq.inputResponses?.[key];
  const content = answer?.action === "accept" ? answer.content : undefined;
  return typeof content?.[field] === type ? content : undefined;
}

async function progress(context) {
  const progressToken = context.mcpReq._meta?.progressToken;
  for (const done of [0, 50, 100]) {
    if (progressToken !== undefined) {
      await context.mcpReq.notify({ method: "notifications/progress", params: { progressToken, progress: done, total: 100, message: `step ${done} of 100` } });
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return text("done");
}

async function logging(context) {
  for (const words of ["Tool execution started", "Tool processing data", "Tool execution completed"]) {
    await context.mcpReq.notify({ method: "notifications/message", params: { level: "info", logger: "fixture", data: words } });
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return text("logged");
}

async function elicited(context, params) {
  const answer = await context.mcpReq.elicitInput({ mode: "form", ...params });
  return text(`Elicitation completed: action=${answer.action}, content=${JSON.stringify(answer.content ?? {})}`);
}

const DEFAULTS = {
  name: { type: "string", description: "Name", default: "John Doe" },
  age: { type: "integer", description: "Age", default: 30 },
  score: { type: "number", description: "Score", default: 95.5 },
  status: { type: "string", description: "Status", enum: ["active", "inactive", "pending"], default: "active" },
  verified: { type: "boolean", description: "Verified", default: true },
};
const titled = (...names) => names.map((name) => ({ const: name, title: `Title of ${name}` }));
const ENUMS = {
  untitledSingle: { type: "string", description: "One", enum: ["option1", "option2", "option3"] },
  titledSingle: { type: "string", description: "One with titles", oneOf: titled("value1", "value2", "value3") },
  legacyEnum: { type: "string", description: "Legacy", enum: ["opt1", "opt2", "opt3"], enumNames: ["Option One", "Option Two", "Option Three"] },
  untitledMulti: { type: "array", description: "Several", minItems: 1, maxItems: 3, items: { type: "string", enum: ["option1", "option2", "option3"] } },
  titledMulti: { type: "array", description: "Several with titles", minItems: 1, maxItems: 3, items: { anyOf: titled("value1", "value2", "value3") } },
};

const NAME = { user_name: elicitation("What is your name?", { name: { type: "string" } }, ["name"]) };

/** Asks for a name until one comes. */
function askName(context, answer = (name) => text(`Hello, ${name}!`)) {
  const content = accepted(context, "user_name", "name");
  return content ? answer(content.name) : inputRequired(NAME);
}

async function multipleInputs(context) {
  const answers = context.mcpReq.inputResponses ?? {};
  const wanted = {
    user_name: NAME.user_name, greeting: sampling("Generate a greeting"), client_roots: roots,
  };
  if (Object.keys(wanted).every((key) => key in answers)) return text("all answers arrived");
  return inputRequired(wanted, await states.mint({ step: 1 }));
}

async function multiRound(context) {
  const step = context.mcpReq.requestState()?.step;
  if (step === 1 && accepted(context, "step1", "name")) {
    return inputRequired({ step2: elicitation("What is your favourite colour?", { color: { type: "string" } }, ["color"]) }, await states.mint({ step: 2 }));
  }
  if (step === 2 && accepted(context, "step2", "color")) return text("both rounds are complete");
  return inputRequired({ step1: elicitation("What is your name?", { name: { type: "string" } }, ["name"]) }, await states.mint({ step: 1 }));
}

async function sealed(context) {
  if (context.mcpReq.requestState()?.sealed && accepted(context, "confirm", "ok", "boolean")) return text("state-ok");
  return inputRequired({ confirm: elicitation("Please confirm", { ok: { type: "boolean" } }, ["ok"]) }, await states.mint({ sealed: true }));
}

function capabilities(context) {
  const can = context.mcpReq.envelope?.["io.modelcontextprotocol/clientCapabilities"] ?? {};
  return inputRequired({
    ...(can.elicitation && { user_name: NAME.user_name }),
    ...(can.sampling && { greeting: sampling("Generate a greeting") }),
  });
}

const anything = { type: "object", properties: {} };
const JSON_SCHEMA = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  type: "object",
  $defs: { address: { $anchor: "addressDef", type: "object", properties: { street: { type: "string" }, city: { type: "string" } } } },
  properties: {
    name: { type: "string" }, address: { $ref: "#/$defs/address" }, contactMethod: { type: "string", enum: ["phone", "email"] },
    phone: { type: "string" }, email: { type: "string" },
  },
  allOf: [{ anyOf: [{ required: ["phone"] }, { required: ["email"] }] }],
  if: { properties: { contactMethod: { const: "phone" } }, required: ["contactMethod"] },
  then: { required: ["phone"] },
  else: { required: ["email"] },
  additionalProperties: false,
};

/** Tools by name: what they say about themselves, and what they do. */
const TOOLS = {
  test_simple_text: ["Answers with text", anything, () => text("This is a simple text response for testing.")],
  test_image_content: ["Answers with an image", anything, () => ({ content: [{ type: "image", data: IMAGE, mimeType: "image/png" }] })],
  test_audio_content: ["Answers with audio", anything, () => ({ content: [{ type: "audio", data: AUDIO, mimeType: "audio/wav" }] })],
  test_embedded_resource: ["Answers with a resource", anything, () => ({ content: [embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")] })],
  test_multiple_content_types: ["Answers with content of several types", anything, () => ({
    content: [
      { type: "text", text: "Multiple content types test:" }, { type: "image", data: IMAGE, mimeType: "image/png" },
      embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ],
  })],
  test_tool_with_logging: ["Logs while it runs", anything, logging],
  test_tool_with_progress: ["Reports progress", anything, progress],
  test_error_handling: ["Fails", anything, () => ({ isError: true, ...text("This tool intentionally returns an error for testing") })],
  test_sampling: ["Asks the client's model", { type: "object", properties: { prompt: { type: "string" } }, required: ["prompt"] }, async (context, { prompt }) => {
    const answer = await context.mcpReq.requestSampling(sampling(prompt).params);
    return text(`LLM response: ${answer.content.text}`);
  }],
  test_elicitation: ["Asks the person", { type: "object", properties: { message: { type: "string" } }, required: ["message"] }, (context, { message }) =>
    elicited(context, form(message, { username: { type: "string", description: "The name" }, email: { type: "string", description: "The address" } }, ["username"]))],
  test_elicitation_sep1034_defaults: ["Asks with defaults", anything, (context) => elicited(context, form("Please review the form", DEFAULTS))],
  test_elicitation_sep1330_enums: ["Asks with choices", anything, (context) => elicited(context, form("Please select", ENUMS))],
  json_schema_2020_12_tool: ["Has a schema with everything", JSON_SCHEMA, (_, given) => text(JSON.stringify(given))],
  test_input_required_result_elicitation: ["Asks for a name", anything, (context) => askName(context)],
  test_input_required_result_sampling: ["Asks the client's model", anything, (context) => {
    const answer = context.mcpReq.inputResponses?.capital_question;
    return answer ? text(`The model said: ${JSON.stringify(answer.content)}`) : inputRequired({ capital_question: sampling("What is the capital of France?") });
  }],
  test_input_required_result_list_roots: ["Asks for roots", anything, (context) => {
    const answer = context.mcpReq.inputResponses?.client_roots;
    return answer ? text(`Roots: ${answer.roots?.map((root) => root.uri).join(", ")}`) : inputRequired({ client_roots: roots });
  }],
  test_input_required_result_request_state: ["Asks with a state", anything, sealed],
  test_input_required_result_multiple_inputs: ["Asks for several inputs", anything, multipleInputs],
  test_input_required_result_multi_round: ["Asks twice", anything, multiRound],
  test_input_required_result_tampered_state: ["Asks with a sealed state", anything, sealed],
  test_input_required_result_capabilities: ["Asks for what the client can", anything, capabilities],
  test_missing_capability: ["Needs the client's model", anything, (context) => {
    const can = context.mcpReq.envelope?.["io.modelcontextprotocol/clientCapabilities"] ?? {};
    if (!can.sampling) throw new ProtocolError(-32021, "Missing required client capability", { requiredCapabilities: { sampling: {} } });
    return text("it can");
  }],
  test_streaming_elicitation: ["Asks while it streams", anything, (context) => askName(context)],
  test_trigger_tool_change: ["Changes the list of tools", anything, () => {
    modern.notify.toolsChanged();
    return text("changed");
  }],
  test_trigger_prompt_change: ["Changes the list of prompts", anything, () => {
    modern.notify.promptsChanged();
    return text("changed");
  }],
  test_logging_tool: ["Logs if the request wants it", anything, async (context) => {
    if (context.mcpReq.envelope?.["io.modelcontextprotocol/logLevel"]) {
      await context.mcpReq.notify({ method: "notifications/message", params: { level: "info", data: "logged" } });
    }
    return text("done");
  }],
};

const user = (content) => ({ role: "user", content });
const PROMPTS = {
  test_simple_prompt: ["A prompt", [], () => ({ messages: [user({ type: "text", text: "This is a simple prompt for testing." })] })],
  test_prompt_with_arguments: ["A prompt with arguments", ["arg1", "arg2"], (_, { arg1, arg2 }) => ({
    messages: [user({ type: "text", text: `Prompt with arguments: arg1='${arg1}', arg2='${arg2}'` })],
  })],
  test_prompt_with_embedded_resource: ["A prompt with a resource", ["resourceUri"], (_, { resourceUri }) => ({
    messages: [user(embedded(resourceUri, "text/plain", "Embedded resource content for testing.")), user({ type: "text", text: "Please process the embedded resource above." })],
  })],
  test_prompt_with_image: ["A prompt with an image", [], () => ({
    messages: [user({ type: "image", data: IMAGE, mimeType: "image/png" }), user({ type: "text", text: "Please analyze the image above." })],
  })],
  test_input_required_result_prompt: ["A prompt that asks", [], (context) => {
    const content = accepted(context, "user_context", "context");
    const asked = { user_context: elicitation("What context should the prompt use?", { context: { type: "string" } }, ["context"]) };
    return content ? { messages: [user({ type: "text", text: `With context: ${content.context}` })] } : inputRequired(asked);
  }],
};

const RESOURCES = {
  "test://static-text": ["static-text", { mimeType: "text/plain", text: "This is the content of the static text resource." }],
  "test://static-binary": ["static-binary", { mimeType: "image/png", blob: IMAGE }],
  "test://watched-resource": ["watched-resource", { mimeType: "text/plain", text: "Watched resource content" }],
};
const TEMPLATE = /^test:\/\/template\/([^/]+)\/data$/;

function read(uri) {
  const id = TEMPLATE.exec(uri)?.[1];
  if (id !== undefined) {
    return { contents: [{ uri, mimeType: "application/json", text: JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` }) }] };
  }
  if (!(uri in RESOURCES)) throw new ProtocolError(-32602, "Resource not found", { uri });
  return { contents: [{ uri, ...RESOURCES[uri][1] }] };
}

/** What completes a value; prompts and the template have the same. */
const complete = (value) => ({ completion: { values: ["paris", "park", "party"].filter((one) => one.startsWith(value)), total: 3, hasMore: false } });

function found(table, name, kind) {
  if (!Object.hasOwn(table, name)) throw new ProtocolError(-32602, `Unknown ${kind}: ${name}`);
  return table[name];
}

function makeServer() {
  const server = new Server({ name: "conformance-fixture", version: "1" }, {
    capabilities: {
      tools: { listChanged: true }, prompts: { listChanged: true }, resources: { subscribe: true, listChanged: true }, logging: {}, completions: {},
    },
    cacheHints: Object.fromEntries(["tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read", "server/discover"].map((operation) => [operation, { ttlMs: 0, cacheScope: "private" }])),
    requestState: { verify: states.verify },
  });
  const handle = (method, answer) => server.setRequestHandler(method, answer);
  handle("tools/list", () => ({
    tools: Object.entries(TOOLS).map(([name, [description, inputSchema]]) => ({ name, description, inputSchema })),
  }));
  handle("tools/call", (request, context) => {
    const { name, arguments: given = {} } = request.params;
    return found(TOOLS, name, "tool")[2](context, given);
  });
  handle("prompts/list", () => ({
    prompts: Object.entries(PROMPTS).map(([name, [description, names]]) => ({
      name, description, arguments: names.map((one) => ({ name: one, description: `The ${one}`, required: true })),
    })),
  }));
  handle("prompts/get", (request, context) => {
    const { name, arguments: given = {} } = request.params;
    return found(PROMPTS, name, "prompt")[2](context, given);
  });
  handle("resources/list", () => ({
    resources: Object.entries(RESOURCES).map(([uri, [name, { mimeType }]]) => ({ uri, name, mimeType, description: `The ${name}` })),
  }));
  handle("resources/templates/list", () => ({
    resourceTemplates: [{ uriTemplate: "test://template/{id}/data", name: "template", description: "Data by id", mimeType: "application/json" }],
  }));
  handle("resources/read", (request) => read(request.params.uri));
  handle("resources/subscribe", () => ({}));
  handle("resources/unsubscribe", () => ({}));
  handle("logging/setLevel", () => ({}));
  handle("completion/complete", (request) => complete(request.params.argument.value));
  return server;
}

const onlySessions = process.argv[2] === "session";
const modern = createMcpHandler(makeServer, { legacy: "reject" });
const sessions = new Map();

/** Session protocol: a server for each session. */
async function legacy(request) {
  const known = sessions.get(request.headers.get("mcp-session-id"));
  if (known) return known.handleRequest(request);
  if (request.headers.has("mcp-session-id")) return new Response("there is no such session", { status: 404 });
  const transport = new WebStandardStreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: (id) => sessions.set(id, transport),
    onsessionclosed: (id) => sessions.delete(id),
  });
  await makeServer().connect(transport);
  return transport.handleRequest(request);
}

function isLocal(host) {
  return host !== undefined && ["127.0.0.1", "localhost", "[::1]"].includes(host.replace(/:\d+$/, ""));
}

async function answer(incoming, outgoing) {
  const { origin } = incoming.headers;
  if (!isLocal(incoming.headers.host) || (origin && !isLocal(new URL(origin).host))) {
    outgoing.writeHead(403).end();
    return;
  }
  const chunks = [];
  for await (const chunk of incoming) chunks.push(chunk);
  const hasBody = !["GET", "HEAD", "DELETE"].includes(incoming.method);
  const abandoned = new AbortController();
  outgoing.on("close", () => abandoned.abort());
  const request = new Request(`http://${incoming.headers.host}${incoming.url}`, {
    method: incoming.method, headers: incoming.headers, body: hasBody ? Buffer.concat(chunks) : undefined, signal: abandoned.signal,
  });
  const response = onlySessions || (await isLegacyRequest(request.clone())) ? await legacy(request) : await modern.fetch(request);
  outgoing.writeHead(response.status, Object.fromEntries(response.headers));
  outgoing.flushHeaders();
  for await (const chunk of response.body ?? []) outgoing.write(chunk);
  outgoing.end();
}

const http = createServer((incoming, outgoing) => {
  answer(incoming, outgoing).catch((error) => {
    // A client that is gone needs no answer.
    if (error.name !== "AbortError") console.error(error);
    outgoing.destroy();
  });
});
http.listen(0, "127.0.0.1", () => console.log(JSON.stringify({ url: `http://127.0.0.1:${http.address().port}/mcp` })));
process.stdin.on("end", () => process.exit(0)).resume();
