/** What concerns all sessions of the caller: who it is, the list, and the questions that wait. Kept current by server-sent events. */
import { api, ApiError, onLapse } from '../api/client';
import type { Approval, Me, Session } from '../api/types';
import { notify, unnotify } from './notify';

export type Login = 'unknown' | 'in' | 'out' | 'lapsed' | 'unreachable';

export interface AppView {
  login: Login;
  me: Me | undefined;
  sessions: Session[];
  nextCursor: string | null | undefined;
  query: string;
  approvals: Approval[];
  /** Whether the caller may see what all callers do. */
  isOperator: boolean;
}

/** A stream of events that was refused is tried again after this. */
const RETRY_MS = 3000;

class AppStore {
  private view: AppView = { login: 'unknown', me: undefined, sessions: [], nextCursor: null, query: '', approvals: [], isOperator: false };
  private readonly listeners = new Set<() => void>();
  private events: EventSource | undefined;

  readonly subscribe = (listener: () => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  readonly snapshot = () => this.view;

  private set(changes: Partial<AppView>) {
    this.view = { ...this.view, ...changes };
    this.listeners.forEach((listener) => listener());
  }

  /** Logs in with the token of the printed address, if there is one, and begins to listen. */
  async start(token: string | undefined) {
    try {
      if (token) await api.login(token);
      const me = await api.me();
      this.set({ login: 'in', me });
      await Promise.all([this.refresh(), this.refreshApprovals()]);
      this.listen();
      api.traffic().then(
        () => this.set({ isOperator: true }),
        () => undefined,
      );
    } catch (error) {
      this.set({ login: error instanceof ApiError && error.status < 500 ? 'out' : 'unreachable' });
      if (token) throw error;
    }
  }

  async logout() {
    await api.logout();
    this.leave('out');
  }

  /** The cookie was removed in another tab, or its token was replaced. */
  lapse() {
    if (this.view.login === 'in') this.leave('lapsed');
  }

  private leave(login: Login) {
    this.events?.close();
    this.set({ login, me: undefined, sessions: [], approvals: [], isOperator: false });
  }

  async search(query: string) {
    this.set({ query });
    await this.refresh();
  }

  async refresh() {
    const { query } = this.view;
    const list = await api.sessions(query);
    if (query === this.view.query) this.set({ sessions: list.items, nextCursor: list.nextCursor });
  }

  async more() {
    const { query, nextCursor } = this.view;
    if (!nextCursor) return;
    const list = await api.sessions(query, nextCursor);
    const known = new Set(this.view.sessions.map((session) => session.id));
    const added = list.items.filter((session) => !known.has(session.id));
    if (query === this.view.query) this.set({ sessions: [...this.view.sessions, ...added], nextCursor: list.nextCursor });
  }

  /** A session that was created or changed stands first. */
  put(session: Session) {
    const others = this.view.sessions.filter((other) => other.id !== session.id);
    const sessions = [session, ...others].sort((left, right) => right.usedAt.localeCompare(left.usedAt));
    this.set({ sessions });
  }

  remove(id: string) {
    this.set({ sessions: this.view.sessions.filter((session) => session.id !== id) });
  }

  private async refreshApprovals() {
    const { items } = await api.approvals();
    this.set({ approvals: items });
  }

  private listen(isFirst = true) {
    this.events?.close();
    const events = new EventSource('/api/v1/events');
    this.events = events;
    // A stream that is refused, by a proxy without its gate or for want of a cookie, is not opened again by the browser.
    events.addEventListener('error', () => {
      if (events.readyState === EventSource.CLOSED) setTimeout(() => this.listenAgain(events), RETRY_MS);
    });
    const on = <T>(name: string, handle: (data: T) => void) => events.addEventListener(name, (event) => handle(JSON.parse((event as MessageEvent<string>).data) as T));
    on<Approval>('approval:opened', (approval) => {
      this.set({ approvals: [...this.view.approvals.filter((open) => open.id !== approval.id), approval] });
      notify(approval);
    });
    on<{ id: string }>('approval:closed', ({ id }) => {
      this.set({ approvals: this.view.approvals.filter((open) => open.id !== id) });
      unnotify(id);
    });
    on<Session>('session:changed', (session) => this.put(session));
    on<{ id: string }>('session:deleted', ({ id }) => this.remove(id));
    // What happened between two connections is not sent again.
    let isNew = isFirst;
    events.addEventListener('open', () => {
      if (!isNew) void Promise.all([this.refresh(), this.refreshApprovals()]).catch(() => undefined);
      isNew = false;
    });
  }

  private listenAgain(refused: EventSource) {
    if (this.events !== refused || this.view.login !== 'in') return;
    // A request says why: without a cookie that counts the login is shown instead.
    api.me().then(
      () => this.listen(false),
      () => setTimeout(() => this.listenAgain(refused), RETRY_MS),
    );
  }
}

export const app = new AppStore();
onLapse(() => app.lapse());
