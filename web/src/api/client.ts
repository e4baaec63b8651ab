/** Requests to the gate. The cookie that proves who asks is HTTP-only: this page never holds the token after the login. */
import type {
  Agent, Answer, Approval, AuditRecord, AuditState, By, Change, Grant, Health, List, Me, Message, Models, Pin, Server, Session, ToolInfo, Traffic, Trust, UndoAnswer,
} from './types';

/** An answer with a problem document. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly help: string | undefined;
  readonly answeredBy: By | undefined;

  constructor(status: number, problem: Record<string, unknown>) {
    super(String(problem['detail'] ?? problem['title'] ?? `the gate answered with status ${status}`));
    this.name = 'ApiError';
    this.status = status;
    this.code = String(problem['code'] ?? 'unknown');
    this.help = typeof problem['help'] === 'string' ? problem['help'] : undefined;
    this.answeredBy = problem['answeredBy'] as By | undefined;
  }
}

/** A request without an answer: the gate ended, or the network is gone. */
export class Unreachable extends Error {
  constructor() {
    super('the gate cannot be reached');
    this.name = 'Unreachable';
  }
}

/** What went wrong, for a person. */
export function explain(error: unknown): string {
  if (error instanceof ApiError && error.help) return `${error.message} — ${error.help}`;
  return error instanceof Error ? error.message : String(error);
}

/** Called when the cookie counts no more. */
let lapsed: () => void = () => undefined;

export function onLapse(handle: () => void) {
  lapsed = handle;
}

const UNSAFE_ID = crypto.getRandomValues(new Uint32Array(4)).join('-');
let counter = 0;

async function request<T>(method: string, path: string, body?: unknown, more?: Record<string, string>): Promise<T> {
  const headers: Record<string, string> = { Accept: 'application/json', ...more };
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  if (method !== 'GET') {
    counter += 1;
    headers['Idempotency-Key'] = `${UNSAFE_ID}-${counter}`;
  }
  const answer = await fetch(`/api/v1/${path}`, {
    method,
    headers,
    credentials: 'same-origin',
    cache: 'no-store',
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  }).catch(() => Promise.reject(new Unreachable()));
  const text = await answer.text().catch(() => Promise.reject(new Unreachable()));
  let value: unknown;
  try {
    value = text ? JSON.parse(text) : undefined;
  } catch {
    value = { detail: 'the answer is not JSON' };
  }
  if (answer.status === 401 && path !== 'login') lapsed();
  if (!answer.ok) throw new ApiError(answer.status, (value ?? {}) as Record<string, unknown>);
  return value as T;
}

/** A query string of what is set. */
function query(values: Record<string, string | number | undefined>): string {
  const set = Object.entries(values).filter(([, value]) => value !== undefined && value !== '');
  const text = new URLSearchParams(set.map(([name, value]) => [name, String(value)])).toString();
  return text ? `?${text}` : '';
}

const id = encodeURIComponent;

export const api = {
  login: (token: string) => request<unknown>('POST', 'login', { token }),
  logout: () => request<void>('POST', 'logout', {}),
  me: () => request<Me>('GET', 'me'),

  sessions: (text: string, cursor?: string) => request<List<Session>>('GET', `sessions${query({ query: text, cursor })}`),
  session: (session: string) => request<Session>('GET', `sessions/${id(session)}`),
  createSession: (options: { agent?: string; model?: string; trust?: Trust; title?: string }) => request<Session>('POST', 'sessions', options),
  changeSession: (session: string, changes: { title?: string; model?: string; trust?: Trust }) => request<Session>('PATCH', `sessions/${id(session)}`, changes),
  deleteSession: (session: string) => request<void>('DELETE', `sessions/${id(session)}`),
  messages: (session: string) => request<{ messages: Message[]; seq: number; running: boolean }>('GET', `sessions/${id(session)}/messages`),
  send: (session: string, message: { text: string; attachments: { name: string; text: string }[] }) => request<{ messageId: string }>('POST', `sessions/${id(session)}/messages`, message),
  cancel: (session: string) => request<{ cancelled: boolean }>('POST', `sessions/${id(session)}/cancel`, {}),
  exportAddress: (session: string) => `/api/v1/sessions/${id(session)}/export`,

  approvals: () => request<List<Approval>>('GET', 'approvals'),
  /** `client` is the name of this window's WebSocket, by which others see whose answer it was. */
  answer: (question: string, answer: Answer, client?: string) => request<{ approved: boolean; by: By }>('POST', `approvals/${id(question)}`, answer, client ? { 'Toolgate-Client': client } : undefined),

  tools: () => request<{ items: ToolInfo[] }>('GET', 'tools'),
  grants: () => request<{ items: Grant[] }>('GET', 'grants'),
  revoke: (grant: string) => request<void>('DELETE', `grants/${id(grant)}`),
  changes: (session?: string, cursor?: string) => request<List<Change>>('GET', `changes${query({ session, cursor })}`),
  change: (call: string) => request<Change>('GET', `changes/${id(call)}`),
  undo: (call: string, dryRun: boolean, force = false) => request<UndoAnswer>('POST', `changes/${id(call)}/undo`, { dryRun, force }),
  audit: (filter: Record<string, string | undefined>) => request<List<AuditRecord>>('GET', `audit${query(filter)}`),
  record: (call: string) => request<{ record: AuditRecord; change?: Change | null }>('GET', `audit/${id(call)}`),
  verify: () => request<AuditState>('POST', 'audit/verify', {}),
  models: () => request<Models>('GET', 'models'),
  agents: () => request<{ items: Agent[] }>('GET', 'agents'),
  servers: () => request<{ items: Server[] }>('GET', 'servers'),
  pins: () => request<{ items: Pin[] }>('GET', 'pins'),
  agree: (pin: Pin) => request<unknown>('POST', `pins/${id(pin.server)}/${id(pin.tool)}`, { digest: pin.digest }),
  health: () => request<Health>('GET', 'health'),
  traffic: () => request<Traffic>('GET', 'traffic'),
};
