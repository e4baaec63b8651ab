/** The open conversation: loads what was said, listens, and notifies React at most once per frame of the screen. */
import { api, ApiError, Unreachable } from '../api/client';
import { NO_SESSION, SessionSocket, type Connection } from '../api/socket';
import { app } from '../app/store';
import type { Answer, Frame, Session } from '../api/types';
import type { Attachment } from './attachments';
import { Editor, emptyChat, type Chat } from './model';

/** Longer than this no batch of events keeps the page from drawing and typing. */
const BATCH_MS = 12;

/** A gate that did not answer is asked again after this. */
const RETRY_MS = 2000;

/** Without a frame of the screen for this long, events are taken all the same. */
const HIDDEN_MS = 250;

export interface ChatView {
  chat: Chat;
  session: Session | undefined;
  connection: Connection;
  loading: boolean;
  problem: unknown;
}

export class ChatStore {
  readonly id: string;
  private view: ChatView = { chat: emptyChat(), session: undefined, connection: 'connecting', loading: true, problem: undefined };
  private readonly listeners = new Set<() => void>();
  private socket: SessionSocket | undefined;
  private queue: Frame[] = [];
  private isScheduled = false;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private isClosed = false;

  constructor(id: string) {
    this.id = id;
    void this.load();
  }

  readonly subscribe = (listener: () => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  readonly snapshot = () => this.view;

  /** Over HTTP, so that a message that is refused is not lost. */
  send(text: string, attachments: Attachment[]) {
    return api.send(this.id, { text, attachments });
  }

  cancel() {
    if (!this.socket?.send('chat:cancel', {})) void api.cancel(this.id).catch(() => undefined);
  }

  /** Over HTTP, so that a second answer is refused with the name of who was first. */
  answer(question: string, answer: Answer) {
    return api.answer(question, answer, this.view.chat.client);
  }

  close() {
    this.isClosed = true;
    clearTimeout(this.retry);
    this.socket?.close();
  }

  private set(changes: Partial<ChatView>) {
    if (this.isClosed) return;
    this.view = { ...this.view, ...changes };
    this.listeners.forEach((listener) => listener());
  }

  private async load() {
    try {
      const [session, past] = await Promise.all([api.session(this.id), api.messages(this.id)]);
      if (this.isClosed) return;
      const editor = new Editor(emptyChat());
      editor.past(past.messages);
      editor.chat.running = past.running;
      this.queue = [];
      this.set({ chat: editor.chat, session, loading: false, problem: undefined });
      if (this.socket) this.socket.resume(past.seq);
      else this.listen(past.seq);
    } catch (problem) {
      if (problem instanceof Unreachable) {
        this.set({ connection: 'waiting' });
        this.retry = setTimeout(() => void this.load(), RETRY_MS);
      } else {
        this.end(problem);
      }
    }
  }

  /** Nothing more is to be expected of this session. */
  private end(problem: unknown) {
    this.socket?.close();
    this.set({ loading: false, problem });
  }

  /** Asks why a connection was refused: the session was deleted, or another one must log in. */
  private readonly refused = () => {
    api.session(this.id).catch((problem: unknown) => {
      if (problem instanceof ApiError && problem.status === 404) this.end(problem);
    });
  };

  private listen(after: number) {
    this.socket = new SessionSocket(this.id, after, {
      frame: (frame) => this.receive(frame),
      connection: (connection) => this.set({ connection }),
      refused: this.refused,
      ended: (code) => (code === NO_SESSION ? this.end(new Error('This session was deleted.')) : app.lapse()),
    });
  }

  private receive(frame: Frame) {
    if (frame.event === 'chat:reset') {
      this.socket?.pause();
      void this.load();
      return;
    }
    this.queue.push(frame);
    this.schedule();
  }

  private schedule() {
    if (this.isScheduled) return;
    this.isScheduled = true;
    // A page that is not shown gets no frames of the screen, and does not always know.
    requestAnimationFrame(this.flush);
    this.timer = setTimeout(this.flush, HIDDEN_MS);
  }

  private readonly flush = () => {
    if (!this.isScheduled) return;
    this.isScheduled = false;
    clearTimeout(this.timer);
    const editor = new Editor(this.view.chat);
    let session = this.view.session;
    const end = performance.now() + BATCH_MS;
    let taken = 0;
    while (taken < this.queue.length && performance.now() < end) {
      // The clock is read once for several frames.
      for (let count = 0; count < 32 && taken < this.queue.length; count += 1) {
        const frame = this.queue[taken] as Frame;
        taken += 1;
        editor.apply(frame);
        if (frame.event === 'chat:hello') session = frame.data.session;
        if (frame.event === 'chat:session' && session) session = { ...session, ...frame.data };
      }
    }
    this.queue.splice(0, taken);
    this.set({ chat: editor.chat, session });
    if (this.queue.length > 0) this.schedule();
  };
}
