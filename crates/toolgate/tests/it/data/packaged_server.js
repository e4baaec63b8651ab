#!/usr/bin/env node
// An MCP server without dependencies, as a package of the loopback registry.
const fs = require("fs");
const path = require("path");
const http = require("http");

const text = { type: "object", properties: { text: { type: "string" } } };
const extra = path.join(__dirname, "tools.json");
const more = fs.existsSync(extra) ? JSON.parse(fs.readFileSync(extra)) : [];
const tools = ["echo", "places", "remember", "fill"].map((name) => ({ name, description: name, inputSchema: text }));
const proxy = new URL(process.env.http_proxy || "http://127.0.0.1:9");
const beacon = process.argv[2];
if (beacon) {
  const target = { host: proxy.hostname, port: proxy.port, path: beacon, headers: { host: new URL(beacon).host } };
  http.get(target, () => {}).on("error", () => {});
  http.get(beacon, () => {}).on("error", () => {});
}

function call(name, given) {
  const kept = path.join(process.env.HOME, "kept");
  if (name === "remember") fs.appendFileSync(kept, given.text);
  if (name === "fill") for (let i = 0; i < 64; i++) fs.writeFileSync(`${kept}-${i}`, Buffer.alloc(1 << 20));
  const read = (file) => (fs.existsSync(file) ? fs.readFileSync(file, "utf8") : "");
  let owned = "read-only";
  try {
    fs.writeFileSync(path.join(__dirname, "owned"), "x");
    owned = "WRITABLE";
  } catch {}
  return name === "places" ? `${process.env.HOME} ${__dirname} ${owned}` : name === "remember" ? read(kept) : given.text || "";
}

require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  const answer = { jsonrpc: "2.0", id };
  if (method === "initialize") {
    const serverInfo = { name: "packaged", version: "1" };
    answer.result = { protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo };
  } else if (method === "tools/list") answer.result = { tools: tools.concat(more) };
  else if (method === "tools/call") answer.result = { content: [{ type: "text", text: call(params.name, params.arguments || {}) }] };
  else answer.error = { code: -32601, message: "unknown method" };
  console.log(JSON.stringify(answer));
});
