// The official TypeScript client of the older era: makes calls after it has seen the tools, as most programs do, and tells what became of each.
//
// node calls.mjs PACKAGES COMMAND ARGUMENTS CALLS, the last two as JSON.

import { pathToFileURL } from "node:url";

const [packages, command, args, calls] = process.argv.slice(2);
const from = (name) => import(pathToFileURL(`${packages}/node_modules/@modelcontextprotocol/sdk/dist/esm/${name}`));
const { Client } = await from("client/index.js");
const { StdioClientTransport } = await from("client/stdio.js");

const client = new Client({ name: "calls", version: "1" }, { capabilities: {} });
await client.connect(new StdioClientTransport({ command, args: JSON.parse(args) }));
// From here on it holds every structured answer to the schema that its tool declares.
await client.listTools();
const outcomes = [];
for (const [name, given] of JSON.parse(calls)) {
  try {
    outcomes.push({ result: await client.callTool({ name, arguments: given }) });
  } catch (error) {
    outcomes.push({ thrown: String(error) });
  }
}
await client.close();
console.log(JSON.stringify(outcomes));
