// A client of `toolgate serve` for Node 22.18 and later, without packages: sends a message over the WebSocket, prints the answer,
// and answers every question with yes, once, or with no.
//
//     toolgate serve --model scripted/demo &
//     node client.ts http://127.0.0.1:8420 ~/.local/state/toolgate/keys/serve.token 'What is in this directory?' --yes

import { readFileSync } from "node:fs";
import process from "node:process";

type Frame = { seq: number | null; event: string; data: Record<string, unknown> };

const [url, tokenFile, text, option] = process.argv.slice(2);
if (url === undefined || tokenFile === undefined || text === undefined) {
  console.error("usage: node client.ts URL TOKEN_FILE MESSAGE [--yes]");
  process.exit(2);
}
const headers = {
  Authorization: `Bearer ${readFileSync(tokenFile, "utf8").trim()}`,
  "Content-Type": "application/json",
};

const created = await fetch(new URL("/api/v1/sessions", url), { method: "POST", headers, body: "{}" });
if (!created.ok) {
  const problem = (await created.json()) as { code: string; detail: string };
  console.error(`${problem.code}: ${problem.detail}`);
  process.exit(1);
}
const session = ((await created.json()) as { id: string }).id;

/** The last event that was handled: after a lost connection the server goes on from there. */
let seen = 0;
let isOver = false;

function connect(): void {
  const address = new URL(`/ws?session=${encodeURIComponent(session)}&after=${seen}`, url);
  address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
  // A WebSocket of Node may have headers; the browser's sends its cookie.
  const socket = new WebSocket(address, { headers } as unknown as string[]);
  const send = (event: string, data: object): void => socket.send(JSON.stringify({ event, data }));
  socket.addEventListener("open", () => {
    if (seen === 0) send("chat:send", { text });
  });
  socket.addEventListener("message", ({ data }) => {
    const frame = JSON.parse(String(data)) as Frame;
    seen = frame.seq ?? seen;
    handle(frame, send);
    if (isOver) socket.close();
  });
  socket.addEventListener("close", () => {
    if (!isOver) setTimeout(connect, 500);
  });
}

function handle({ event, data }: Frame, send: (event: string, data: object) => void): void {
  switch (event) {
    case "chat:text-delta":
      process.stdout.write(String(data.text));
      break;
    case "chat:tool-confirm": {
      const approved = option === "--yes";
      console.error(`${data.toolName}: ${(data.summary as string[]).join(" ")}: ${approved ? "yes" : "no"}`);
      send("chat:tool-approve", { toolId: data.toolId, approved, reason: approved ? undefined : "nobody is there" });
      break;
    }
    case "chat:tool-result":
      console.error(`[${data.toolName}: ${data.status}]`);
      break;
    case "chat:stream-end":
      process.stdout.write("\n");
      process.exitCode = data.reason === "done" ? 0 : 1;
      isOver = true;
      break;
  }
}

connect();
