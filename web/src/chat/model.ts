/** What a conversation looks like, as blocks in order, and how each event changes it. Pure: the same events give the same blocks. */
import type { CallResult, Events, Frame, Message, PlanStep, Question, ResultMetadata, Usage } from '../api/types';
import { tail } from '../text/ansi';
import { split } from '../text/split';

/** The live output that is kept of a running call: its end. */
export const MAX_LIVE_OUTPUT = 200_000;

export type CallStatus = 'writing' | 'asking' | 'running' | 'success' | 'error' | 'denied' | 'stopped';

export interface CallBlock {
  kind: 'call';
  key: string;
  messageId: string;
  toolId: string;
  name: string;
  input: unknown;
  /** What the model wrote where it is no JSON, or has not finished it. */
  inputText: string;
  output: string;
  status: CallStatus;
  result?: string;
  /** The result with the colours of a command. */
  coloured?: string;
  metadata?: ResultMetadata;
  /** How a person answered, and whether that was in this window. */
  answer?: Events['chat:tool-answered'] & { isOwn: boolean };
}

export interface TextBlock {
  kind: 'text' | 'thinking';
  key: string;
  messageId: string;
  text: string;
  open: boolean;
}

export type Block =
  | TextBlock
  | CallBlock
  | { kind: 'user'; key: string; messageId: string; text: string; attachments?: string[] }
  | { kind: 'notice'; key: string; text: string }
  | { kind: 'error'; key: string; code: string; text: string; retryable: boolean }
  | { kind: 'end'; key: string; reason: string; usage: Usage };

export interface Chat {
  blocks: Block[];
  questions: Question[];
  plan: PlanStep[];
  context: Events['chat:context'] | undefined;
  running: boolean;
  /** The name of this window's connection. */
  client?: string | undefined;
}

export function emptyChat(): Chat {
  return { blocks: [], questions: [], plan: [], context: undefined, running: false };
}

/**
 * Applies events to a conversation. It works on a copy of the list that is made once for all events of a frame on the screen; a block that changes is
 * replaced, so that unchanged ones are not drawn again.
 */
export class Editor {
  readonly chat: Chat;
  private readonly calls = new Map<string, number>();
  private static counter = 0;

  constructor(chat: Chat) {
    this.chat = { ...chat, blocks: [...chat.blocks], questions: chat.questions };
    for (const [index, block] of this.chat.blocks.entries()) if (block.kind === 'call') this.calls.set(block.toolId, index);
  }

  apply(frame: Frame) {
    switch (frame.event) {
      case 'chat:hello':
        this.chat.running = frame.data.running;
        this.chat.client = frame.data.client;
        break;
      case 'chat:user-message':
        this.user(frame.data);
        break;
      case 'chat:text-delta':
        this.delta('text', frame.data);
        break;
      case 'chat:thinking-delta':
        this.delta('thinking', frame.data);
        break;
      case 'chat:tool-input-delta':
        this.call(frame.data, (call) => (call.status === 'writing' ? { ...call, inputText: call.inputText + frame.data.chunk } : call));
        break;
      case 'chat:tool-start':
        this.close();
        this.call(frame.data, (call) => ({
          ...call,
          name: frame.data.toolName,
          input: frame.data.input,
          inputText: frame.data.inputText ?? '',
          status: call.status === 'writing' ? 'running' : call.status,
        }));
        break;
      case 'chat:tool-delta':
        this.call(frame.data, (call) => ({ ...call, output: bounded(call.output + frame.data.chunk) }));
        break;
      case 'chat:tool-confirm':
        this.ask(frame.data);
        break;
      case 'chat:tool-answered':
        this.answered(frame.data);
        break;
      case 'chat:tool-withdrawn':
        this.withdraw(frame.data.toolId);
        break;
      case 'chat:tool-result':
        this.result(frame.data);
        break;
      case 'chat:context':
        this.chat.context = frame.data;
        break;
      case 'chat:plan':
        this.chat.plan = frame.data.steps;
        break;
      case 'chat:notice':
        this.push({ kind: 'notice', key: this.key(), text: frame.data.text });
        break;
      case 'chat:error':
        this.error(frame.data);
        break;
      case 'chat:stream-end':
        this.end(frame.data);
        break;
      default:
        break;
    }
  }

  /** What was said in earlier turns. */
  past(messages: Message[]) {
    const results = new Map(messages.flatMap((message) => (message.role === 'results' ? message.results : [])).map((result) => [result.id, result]));
    for (const message of messages) {
      const messageId = `past-${message.position}`;
      if (message.role === 'user') this.push({ kind: 'user', key: this.key(), messageId, ...withoutAttachments(message.text) });
      if (message.role === 'summary') this.push({ kind: 'notice', key: this.key(), text: `What was said before was summarised: ${message.text}` });
      if (message.role !== 'assistant') continue;
      for (const part of message.parts) {
        if (part.type === 'call') this.pastCall(messageId, part, results.get(part.id));
        else this.delta(part.type, { messageId, text: part.text });
      }
      this.close();
    }
  }

  private pastCall(messageId: string, part: { id: string; toolName: string; input: unknown }, result: CallResult | undefined) {
    this.close();
    const toolId = `${messageId}-${part.id}`;
    const isText = typeof part.input === 'string';
    this.call({ messageId, toolId, toolName: part.toolName }, (call) => ({
      ...call,
      input: isText ? {} : part.input,
      inputText: isText ? String(part.input) : '',
      status: result ? outcome({ status: result.isError ? 'error' : 'success', decision: result.recorded?.decision }) : 'stopped',
      ...(result ? { result: result.text } : {}),
      ...(result?.recorded ? { metadata: result.recorded as ResultMetadata } : {}),
    }));
  }

  private key(): string {
    Editor.counter += 1;
    return `b${Editor.counter}`;
  }

  private push(block: Block) {
    this.close();
    this.chat.blocks.push(block);
  }

  /** The text that streams is complete. */
  private close() {
    const last = this.chat.blocks.at(-1);
    if (last && 'open' in last && last.open) this.chat.blocks[this.chat.blocks.length - 1] = { ...last, open: false };
  }

  private user(data: Events['chat:user-message']) {
    this.chat.running = true;
    this.chat.plan = [];
    const { messageId, text, attachments } = data;
    this.push({ kind: 'user', key: this.key(), messageId, text, ...(attachments ? { attachments } : {}) });
  }

  private delta(kind: 'text' | 'thinking', { messageId, text }: { messageId: string; text: string }) {
    const last = this.chat.blocks.at(-1);
    if (last?.kind === kind && last.messageId === messageId && last.open) {
      this.chat.blocks[this.chat.blocks.length - 1] = { ...last, text: last.text + text };
    } else {
      if (text === '') return;
      this.push({ kind, key: this.key(), messageId, text, open: true });
    }
    this.splitLast();
  }

  private splitLast() {
    for (;;) {
      const last = this.chat.blocks.at(-1);
      const parts = last?.kind === 'text' || last?.kind === 'thinking' ? split(last.text) : undefined;
      if (!last || !parts) return;
      this.chat.blocks[this.chat.blocks.length - 1] = { ...(last as TextBlock), text: parts.head, open: false };
      this.chat.blocks.push({ ...(last as TextBlock), key: this.key(), text: parts.tail });
    }
  }

  private call({ messageId, toolId, toolName }: { messageId: string; toolId: string; toolName?: string }, change: (call: CallBlock) => CallBlock) {
    const index = this.calls.get(toolId);
    const known = index === undefined ? undefined : this.chat.blocks[index];
    if (known?.kind === 'call' && index !== undefined) {
      this.chat.blocks[index] = change(known);
      return;
    }
    this.close();
    this.calls.set(toolId, this.chat.blocks.length);
    this.chat.blocks.push(change({ kind: 'call', key: this.key(), messageId, toolId, name: toolName ?? '', input: {}, inputText: '', output: '', status: 'writing' }));
  }

  private ask(data: Events['chat:tool-confirm']) {
    const { messageId, ...question } = data;
    const index = this.calls.get(data.toolId);
    const block = index === undefined ? undefined : this.chat.blocks[index];
    // An open question is sent again after a reconnect, and its result may have come since.
    if (block?.kind === 'call' && block.result !== undefined) return;
    this.chat.questions = [...this.chat.questions.filter((open) => open.toolId !== data.toolId), question];
    this.call(data, (call) => ({ ...call, input: data.input, status: 'asking', messageId }));
  }

  private answered(data: Events['chat:tool-answered']) {
    this.withdraw(data.toolId);
    this.call({ messageId: '', toolId: data.toolId }, (call) => ({ ...call, answer: { ...data, isOwn: data.by.client !== undefined && data.by.client === this.chat.client } }));
  }

  private withdraw(toolId: string) {
    this.chat.questions = this.chat.questions.filter((open) => open.toolId !== toolId);
    this.call({ messageId: '', toolId }, (call) => (call.status === 'asking' ? { ...call, status: 'running' } : call));
  }

  private result(data: Events['chat:tool-result']) {
    this.chat.questions = this.chat.questions.filter((open) => open.toolId !== data.toolId);
    this.call(data, (call) => ({ ...call, status: outcome({ status: data.status, decision: data.metadata.decision }), result: data.result, ...(data.coloured === undefined ? {} : { coloured: data.coloured }), metadata: data.metadata }));
  }

  private error(data: Events['chat:error']) {
    if (data.voided) {
      this.chat.blocks = this.chat.blocks.filter((block) => !('messageId' in block) || block.kind === 'user' || block.messageId !== data.voided);
      this.calls.clear();
      for (const [index, block] of this.chat.blocks.entries()) if (block.kind === 'call') this.calls.set(block.toolId, index);
    }
    this.push({ kind: 'error', key: this.key(), code: data.code, text: data.message, retryable: data.retryable });
  }

  private end(data: Events['chat:stream-end']) {
    this.chat.running = false;
    this.chat.questions = [];
    for (const [index, block] of this.chat.blocks.entries()) {
      if (block.kind === 'call' && isOpen(block.status)) this.chat.blocks[index] = { ...block, status: 'stopped' };
    }
    this.push({ kind: 'end', key: this.key(), reason: data.reason, usage: data.usage });
  }
}

const ATTACHED = /\n\nAttached file `([^`\n]{1,200})`:\n(`{3,})\n/gu;

/** A stored message and the names of the files that came with it, which the gate adds behind the text, each in a fence. */
export function withoutAttachments(stored: string): { text: string; attachments?: string[] } {
  for (const start of stored.matchAll(ATTACHED)) {
    const names = namesOfAttachments(stored, start.index);
    if (names) return { text: stored.slice(0, start.index), attachments: names };
  }
  return { text: stored };
}

/** The names, if from here on there are attachments alone. */
function namesOfAttachments(stored: string, from: number): string[] | undefined {
  const names: string[] = [];
  const head = new RegExp(ATTACHED.source, 'yu');
  for (let at = from; at < stored.length; ) {
    head.lastIndex = at;
    const [whole = '', name = '', fence = ''] = head.exec(stored) ?? [];
    if (!whole) return undefined;
    // No line of a file is its fence: the gate takes a longer one.
    const end = stored.indexOf(`\n${fence}`, at + whole.length);
    if (end < 0) return undefined;
    names.push(name);
    at = end + 1 + fence.length;
  }
  return names;
}

export function isOpen(status: CallStatus): boolean {
  return status === 'writing' || status === 'asking' || status === 'running';
}

function outcome({ status, decision }: { status: string; decision: string | undefined }): CallStatus {
  if (status === 'success') return 'success';
  return decision === 'DENIED' ? 'denied' : 'error';
}

/** Cut to the end only when it is twice too long: a cut copies the text. */
function bounded(text: string): string {
  return text.length > 2 * MAX_LIVE_OUTPUT ? tail(text, MAX_LIVE_OUTPUT) : text;
}

/** The same conversation after these frames. */
export function advance(chat: Chat, frames: Frame[]): Chat {
  const editor = new Editor(chat);
  frames.forEach((frame) => editor.apply(frame));
  return editor.chat;
}
