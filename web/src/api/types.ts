/** What the API and the events carry. The names are those of the OpenAPI document. */

export type Trust = 'supervised' | 'guided' | 'autonomous';
export type ToolClass = 'read' | 'write' | 'destructive';

export interface Me {
  subject: string;
  auth: 'token' | 'jwt' | 'none';
  agent?: string | null;
  trust: Trust;
  version: string;
  workspace: string;
  profile: string;
  clientLogin: boolean;
  defaultModel: string | null;
}

export interface Usage {
  inputTokens: number;
  outputTokens: number;
  cachedTokens?: number;
}

export interface Session {
  id: string;
  title: string;
  agent?: string | null;
  model: string;
  trust: Trust;
  profile?: string;
  createdAt: string;
  usedAt: string;
  messages: number;
  usage: Usage;
  running: boolean;
  openApprovals: number;
}

export interface List<T> {
  items: T[];
  nextCursor: string | null;
}

export interface By {
  subject: string;
  client?: string;
  via?: string;
}

export interface CardRow {
  kind: string;
  text: string;
}

export interface Card {
  tool: string;
  summary: string[];
  warnings?: string[];
  size?: string;
  rows?: CardRow[];
  shown?: string;
  digest: string;
}

export interface GrantOffer {
  id: string;
  covers: string;
  lasts: string;
  text?: string;
}

export interface Question {
  toolId: string;
  toolName: string;
  input: unknown;
  class: ToolClass;
  card: Card;
  timeoutMs: number;
  expiresAt: string;
  mayLast: boolean;
  grants: GrantOffer[];
  escalations?: { id: string; text: string }[];
}

export interface Approval extends Omit<Question, 'toolId'> {
  id: string;
  session?: string | null;
  source: string;
}

export interface Answer {
  approved: boolean;
  scope?: 'once' | 'session' | 'grant';
  grant?: string;
  reason?: string;
  input?: unknown;
  escalate?: string[];
}

export type Message =
  | { position: number; at: string; role: 'user'; text: string }
  | { position: number; at: string; role: 'assistant'; parts: Part[]; model?: string }
  | { position: number; at: string; role: 'results'; results: PastResult[] };

export type Part =
  | { type: 'text'; text: string }
  | { type: 'thinking'; text: string }
  | { type: 'call'; callId?: string; id: string; toolName: string; input: unknown };

export interface PastResult {
  id: string;
  toolName: string;
  text: string;
  isError: boolean;
}

export interface ResultMetadata {
  callId: string;
  durationMs: number;
  waitedMs?: number;
  decision: 'ALLOWED' | 'DENIED' | 'ERROR';
  stage?: string;
  code?: string;
  structured?: unknown;
  changedInput?: unknown;
  exitCode?: number;
  path?: string;
  [fact: string]: unknown;
}

export interface PlanStep {
  step: string;
  status: 'pending' | 'in_progress' | 'completed';
}

/** Every event with its data. */
export interface Events {
  'chat:user-message': { messageId: string; text: string; by?: By; attachments?: string[] };
  'chat:text-delta': { messageId: string; text: string };
  'chat:thinking-delta': { messageId: string; text: string };
  'chat:tool-input-delta': { messageId: string; toolId: string; toolName: string; chunk: string };
  'chat:tool-start': { messageId: string; toolId: string; toolName: string; input: unknown; inputText?: string };
  'chat:tool-delta': { messageId: string; toolId: string; chunk: string };
  'chat:tool-result': { messageId: string; toolId: string; toolName: string; status: 'success' | 'error'; result: string; metadata: ResultMetadata };
  'chat:tool-confirm': Question & { messageId: string };
  'chat:tool-answered': { toolId: string; approved: boolean; scope: string; by: By; reason?: string; changed?: boolean };
  'chat:tool-withdrawn': { messageId: string; toolId: string };
  'chat:context': { usedTokens: number; contextWindow: number | null; fraction: number | null; warning: boolean };
  'chat:notice': { text: string };
  'chat:error': { code: string; message: string; retryable: boolean; attempt?: number; waitMs?: number; voided?: string };
  'chat:stream-end': { reason: string; text: string; usage: Usage; iterations: number; sessionId?: string };
  'chat:session': { title?: string; model?: string; trust?: Trust };
  'chat:plan': { steps: PlanStep[] };
  'chat:hello': { session: Session; client: string; seq: number; running: boolean; heartbeatMs: number };
  'chat:reset': { seq: number };
  'chat:heartbeat': Record<string, never>;
  'chat:deleted': Record<string, never>;
}

export type EventName = keyof Events;

export type Frame = { [E in EventName]: { seq: number | null; event: E; data: Events[E] } }[EventName];

export interface ToolInfo {
  name: string;
  description: string;
  class: ToolClass;
  source: string;
  server?: string | null;
  inputSchema: unknown;
  permissions: string[];
  available: boolean;
  asks: boolean;
  reason?: string | null;
}

export interface Grant {
  id: string;
  tool: string;
  covers: string;
  lasts: string;
  givenAt: string;
  expiresAt: string | null;
}

export interface Change {
  callId: string;
  session: string;
  tool: string;
  at: string;
  files: { path: string; kind: string; movedTo?: string | null }[];
  undoneBy?: string | null;
  undoes?: string | null;
}

export interface ChangeDiff {
  path: string;
  kind: string;
  diff?: string | null;
  binary: boolean;
  tooLarge: boolean;
  current?: string;
}

export interface UndoAnswer {
  callId: string;
  dryRun: boolean;
  undoCall?: string | null;
  paths: string[];
  diffs?: ChangeDiff[];
}

export interface AuditRecord {
  seq: number;
  timestamp: string;
  traceId: string;
  caller: { sub: string; agent?: string | null };
  tool: { name: string; [key: string]: unknown };
  decision: 'ALLOWED' | 'DENIED' | 'ERROR';
  denial?: { stage?: string; code?: string; reason?: string } | null;
  duration?: unknown;
  [key: string]: unknown;
}

export interface AuditState {
  ok: boolean;
  records: number;
  days: number;
  firstTime: string | null;
  lastTime: string | null;
  lastSeq: number | null;
  lastHash: string | null;
  checkpoints: number;
  recordsAfterCheckpoint: number;
  gaps: unknown;
  notes: string[];
  problem: unknown;
}

export interface Model {
  provider: string;
  name: string;
  model: string;
  supportsTools: boolean | null;
  contextWindow: number | null;
  default?: boolean;
}

export interface Models {
  items: Model[];
  providers: { name: string; reachable: boolean; reason?: string | null }[];
}

export interface Agent {
  name: string;
  model?: string | null;
  trust?: Trust | null;
  tools: string[];
}

export interface Server {
  name: string;
  state: string;
  tools: number;
  error?: string | null;
}

export interface Pin {
  server: string;
  tool: string;
  status: string;
  digest: string;
  diff?: string | null;
  advice?: string[];
}

export interface Health {
  status: string;
  version: string;
  uptimeSeconds: number;
  ready: boolean;
  audit: { recording: boolean };
  connections: number;
  streams: number;
  callsInFlight: number;
  openApprovals: number;
  sessionsRunning: number;
  refusals: { stage: string; code: string; count: number }[];
  calls: { class: string; decision: string; count: number }[];
}
