/**
 * What the API and the events carry: the types of the OpenAPI document, which is generated from those of the gate (`npm run types`). Where the document
 * allows any JSON, the shape is written here.
 */
import type { components } from './schema.gen';

type Schemas = components['schemas'];

export type Trust = Schemas['Trust'];
export type ToolClass = 'read' | 'write' | 'destructive';
export type Me = Schemas['Me'];
export type Usage = Schemas['Usage'];
export type Session = Schemas['Session'];
export type By = Schemas['By'];
export type Message = Schemas['Message'];
export type CallResult = Schemas['CallResult'];
export type Grant = Schemas['Grant'];
export type Change = Schemas['Change'];
export type ChangeDiff = Schemas['FileDiff'];
export type UndoAnswer = Schemas['UndoOutcome'];
export type Model = Schemas['Model'];
export type Models = Schemas['ModelsAndProviders'];
export type Agent = Schemas['Agent'];
export type Server = Schemas['Server'];
export type Health = Schemas['Health'];
export type Traffic = Schemas['Traffic'];
export type ToolInfo = Schemas['Tool'];
export type Pin = Omit<Schemas['Pin'], 'advice'> & { advice: { place: string; what: string; words?: string }[] };
export type Answer = Schemas['AnswerBody'];

export interface List<T> {
  items: T[];
  nextCursor?: string | null;
}

export interface CardRow {
  kind: string;
  text: string;
}

/** A question as a person is shown it, escaped and folded by the gate. */
export interface Card {
  tool: string;
  summary: string[];
  warnings?: string[];
  size?: string;
  rows?: CardRow[];
  shown?: string;
  digest: string;
}

export type GrantOffer = Schemas['GrantOffer'];

interface Shown {
  card: Card;
  grants: GrantOffer[];
}

export type Question = Omit<Schemas['ChatToolConfirm'], 'messageId' | 'text' | 'diff' | keyof Shown> & Shown;
export type Approval = Omit<Schemas['Approval'], keyof Shown> & Shown;

/** Facts of the tool come beside what every result has. */
export type ResultMetadata = Schemas['ResultMetadata'] & { exitCode?: number; path?: string; [fact: string]: unknown };

export type PlanStep = Schemas['PlanStep'];

/** Every event with its data. */
export interface Events {
  'chat:user-message': Schemas['ChatUserMessage'];
  'chat:text-delta': Schemas['ChatTextDelta'];
  'chat:thinking-delta': Schemas['ChatThinkingDelta'];
  'chat:tool-input-delta': Schemas['ChatToolInputDelta'];
  'chat:tool-start': Schemas['ChatToolStart'];
  'chat:tool-delta': Schemas['ChatToolDelta'];
  'chat:tool-result': Omit<Schemas['ChatToolResult'], 'metadata'> & { metadata: ResultMetadata };
  'chat:tool-confirm': Question & { messageId: string };
  'chat:tool-answered': Schemas['ChatToolAnswered'];
  'chat:tool-withdrawn': Schemas['ChatToolWithdrawn'];
  'chat:context': Schemas['ChatContext'];
  'chat:notice': Schemas['ChatNotice'];
  'chat:error': Schemas['ChatError'];
  'chat:stream-end': Schemas['ChatStreamEnd'];
  'chat:session': Schemas['ChatSession'];
  'chat:plan': Schemas['ChatPlan'];
  'chat:hello': Schemas['ChatHello'];
  'chat:reset': Schemas['ChatReset'];
  'chat:heartbeat': Schemas['ChatHeartbeat'];
  'chat:deleted': Schemas['ChatDeleted'];
}

export type EventName = keyof Events;

export type Frame = { [E in EventName]: { seq: number | null; event: E; data: Events[E] } }[EventName];

export type AuditRecord = Schemas['AuditRecord'];
export type AuditState = Schemas['AuditState'];
