/** A real `toolgate serve` with a scripted model, in a directory of its own. */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { createInterface } from 'node:readline';

const BINARY = process.env['TOOLGATE_BINARY'] ?? resolve(import.meta.dirname, '../../../target/debug/toolgate');

export interface Setup {
  /** The script of the model, as YAML; without one, the built-in demonstration. */
  script?: string | undefined;
  /** More lines of `toolgate.yaml`. */
  config?: string | undefined;
  /** Callers with tokens of their own, by name with their permissions, in place of the token of the one person. */
  callers?: Record<string, string[]> | undefined;
  /** Files of the workspace. */
  files?: Record<string, string> | undefined;
}

export class Gate {
  readonly directory: string;
  private process: ChildProcess;
  private address = '';
  private token = '';
  private log = '';

  /** The tokens of the callers. */
  readonly tokens: Record<string, string> = {};
  private readonly auth: string[];

  private constructor({ script, config, callers, files }: Setup) {
    this.directory = mkdtempSync(join(tmpdir(), 'toolgate-page-'));
    const model = script === undefined ? 'scripted/demo' : 'scripted/script.yaml';
    this.write('toolgate.yaml', `workspace: ./project\nstate_dir: ./state\naudit: {directory: ./audit}\nmodel: ${model}\n${config ?? ''}`);
    if (script !== undefined) this.write('script.yaml', script);
    this.write('project/README.md', '# Demo\n');
    for (const [path, text] of Object.entries(files ?? {})) this.write(`project/${path}`, text);
    mkdirSync(join(this.directory, 'home'));
    // The secret that tokens are signed with has to exist before they are asked for.
    for (const [name, permissions] of Object.entries(callers ?? {})) this.tokens[name] = this.mint(name, permissions);
    this.auth = callers ? ['--auth', 'jwt'] : [];
    this.process = this.spawn('127.0.0.1:0');
  }

  private mint(subject: string, permissions: string[]): string {
    const args = ['-q', '--config', 'toolgate.yaml', 'token', 'mint', '--subject', subject, ...permissions.flatMap((name) => ['--permission', name])];
    const { status, stdout, stderr } = spawnSync(BINARY, args, { ...this.options, encoding: 'utf8' });
    if (status !== 0) throw new Error(stderr);
    return stdout.trim();
  }

  private get options() {
    return { cwd: this.directory, env: { PATH: process.env['PATH'], HOME: join(this.directory, 'home'), LANG: 'C.UTF-8' } };
  }

  private spawn(listen: string): ChildProcess {
    const started = spawn(BINARY, ['--json', '--config', 'toolgate.yaml', 'serve', '--listen', listen, ...this.auth], { ...this.options, stdio: ['ignore', 'pipe', 'pipe'] });
    started.stderr?.on('data', (text: Buffer) => (this.log += text.toString()));
    return started;
  }

  static async start(setup: Setup): Promise<Gate> {
    const gate = new Gate(setup);
    await gate.ready();
    return gate;
  }

  /** Kills the gate as a crash would, and starts it again at the same address. */
  async crash(between: () => void = () => undefined) {
    const ended = once(this.process, 'exit');
    this.process.kill('SIGKILL');
    await ended;
    between();
    this.process = this.spawn(new URL(this.address).host);
    await this.ready();
  }

  private async ready() {
    const output = this.process.stdout;
    if (!output) throw new Error('the gate has no output');
    const line = (await Promise.race([once(createInterface({ input: output }), 'line'), once(this.process, 'exit')])) as unknown[];
    if (typeof line[0] !== 'string') throw new Error(`the gate did not start:\n${this.log}`);
    const printed = JSON.parse(line[0]) as { page: string; tokenFile: string | null };
    this.address = printed.page.replace(/[#/]*$/, '/');
    this.token = printed.tokenFile === null ? '' : readFileSync(resolve(this.directory, printed.tokenFile), 'utf8').trim();
  }

  /** The address that is printed for a person. */
  get printed(): string {
    return `${this.address}#token=${this.token}`;
  }

  /** A call of a program that has the token. */
  async call(tool: string, args: object, token = this.token): Promise<{ decision: string; text: string }> {
    const answer = await fetch(`${this.address}api/v1/calls`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ tool, arguments: args }),
    });
    return (await answer.json()) as { decision: string; text: string };
  }

  /** A request of a program that has the token. */
  async request(method: string, path: string) {
    const answer = await fetch(`${this.address}api/v1/${path}`, { method, headers: { authorization: `Bearer ${this.token}` } });
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
  }

  /** A call of an MCP client that declares no capabilities; the answer as text. */
  async mcp(tool: string, args: object): Promise<string> {
    let session: Record<string, string> = {};
    const send = async (message: object) => {
      const headers = { authorization: `Bearer ${this.token}`, 'content-type': 'application/json', accept: 'application/json, text/event-stream', 'mcp-protocol-version': '2025-11-25', ...session };
      const answer = await fetch(`${this.address}mcp`, { method: 'POST', headers, body: JSON.stringify({ jsonrpc: '2.0', ...message }) });
      const named = answer.headers.get('mcp-session-id');
      if (named) session = { 'mcp-session-id': named };
      return answer.text();
    };
    await send({ id: 1, method: 'initialize', params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'plain', version: '1' } } });
    await send({ method: 'notifications/initialized' });
    return send({ id: 2, method: 'tools/call', params: { name: tool, arguments: args } });
  }

  /** Another command of the same state. */
  command(args: string[]) {
    const { status, stderr } = spawnSync(BINARY, ['--config', 'toolgate.yaml', ...args], { ...this.options, encoding: 'utf8' });
    if (status !== 0) throw new Error(stderr);
  }

  /** Goes on with a session in a terminal, until it is released. */
  async hold(session: string): Promise<() => Promise<void>> {
    const chat = spawn(BINARY, ['--config', 'toolgate.yaml', 'chat', '--session', session], { ...this.options, stdio: ['pipe', 'pipe', 'inherit'] });
    await once(chat.stdout, 'data');
    return async () => {
      const ended = once(chat, 'exit');
      chat.stdin.end();
      await ended;
    };
  }

  get page(): string {
    return this.address;
  }

  read(path: string): string {
    return readFileSync(join(this.directory, 'project', path), 'utf8');
  }

  /** A person changes a file of the workspace. */
  edit(path: string, text: string) {
    this.write(`project/${path}`, text);
  }

  has(path: string): boolean {
    try {
      this.read(path);
      return true;
    } catch {
      return false;
    }
  }

  async stop() {
    if (this.process.exitCode === null) {
      const ended = once(this.process, 'exit');
      this.process.kill('SIGTERM');
      const timer = setTimeout(() => this.process.kill('SIGKILL'), 5000);
      await ended;
      clearTimeout(timer);
    }
    rmSync(this.directory, { recursive: true, force: true });
  }

  private write(path: string, text: string) {
    const full = join(this.directory, path);
    mkdirSync(dirname(full), { recursive: true });
    writeFileSync(full, text);
  }
}
