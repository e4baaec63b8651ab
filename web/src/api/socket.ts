/** The WebSocket of one session: reconnects with the number of the last event, notices silence, and hands on frames in order. */
import type { Frame } from './types';

export type Connection = 'connecting' | 'open' | 'waiting' | 'closed';

export interface SocketListener {
  frame: (frame: Frame) => void;
  connection: (state: Connection) => void;
  /** A connection was refused before it was open. A browser does not say why; a request does. */
  refused: () => void;
  /** The session or the login is gone: nothing reconnects. */
  ended: (code: number) => void;
}

const FIRST_DELAY_MS = 250;
const MAX_DELAY_MS = 10_000;
const NOT_LOGGED_IN = 4401;
export const NO_SESSION = 4404;

export class SessionSocket {
  /** The number of the last event that was handed on. */
  after: number;
  private readonly session: string;
  private readonly listener: SocketListener;
  private socket: WebSocket | undefined;
  private delay = FIRST_DELAY_MS;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private silence: ReturnType<typeof setTimeout> | undefined;
  private silenceMs = 45_000;
  private isOver = false;
  private isPaused = false;

  constructor(session: string, after: number, listener: SocketListener) {
    this.session = session;
    this.after = after;
    this.listener = listener;
    this.connect();
    addEventListener('online', this.retryNow);
    document.addEventListener('visibilitychange', this.retryNow);
  }

  send(event: string, data: unknown): boolean {
    if (this.socket?.readyState !== WebSocket.OPEN) return false;
    this.socket.send(JSON.stringify({ event, data }));
    return true;
  }

  /** Drops the connection until `resume`: what is missing is loaded in another way. */
  pause() {
    this.isPaused = true;
    clearTimeout(this.timer);
    clearTimeout(this.silence);
    this.timer = undefined;
    this.socket?.close();
  }

  /** Connects again after this event. */
  resume(after: number) {
    this.after = after;
    this.isPaused = false;
    clearTimeout(this.timer);
    this.connect();
  }

  close() {
    this.isOver = true;
    removeEventListener('online', this.retryNow);
    document.removeEventListener('visibilitychange', this.retryNow);
    clearTimeout(this.timer);
    clearTimeout(this.silence);
    this.socket?.close();
    this.listener.connection('closed');
  }

  private readonly retryNow = () => {
    if (this.timer === undefined || document.hidden) return;
    clearTimeout(this.timer);
    this.connect();
  };

  private connect() {
    this.timer = undefined;
    if (this.isOver) return;
    this.listener.connection('connecting');
    const scheme = location.protocol === 'https:' ? 'wss:' : 'ws:';
    const address = `${scheme}//${location.host}/ws?session=${encodeURIComponent(this.session)}&after=${this.after}`;
    const socket = new WebSocket(address);
    this.socket = socket;
    this.listenForSilence();
    let wasOpen = false;
    socket.addEventListener('open', () => {
      wasOpen = true;
      this.delay = FIRST_DELAY_MS;
      this.listener.connection('open');
    });
    socket.addEventListener('message', (message) => this.receive(String(message.data)));
    socket.addEventListener('close', (event) => {
      this.reconnect(socket, event.code);
      if (!wasOpen && socket === this.socket && !this.isOver) this.listener.refused();
    });
  }

  private receive(text: string) {
    this.listenForSilence();
    const frame = JSON.parse(text) as Frame;
    if (frame.event === 'chat:hello') {
      this.silenceMs = frame.data.heartbeatMs * 3;
      // A restarted gate counts anew where its log is gone.
      if (frame.data.seq < this.after) this.after = frame.data.seq;
    }
    if (frame.seq !== null) {
      // An open question is sent again after a reconnect; anything else that is not newer was seen.
      if (frame.seq <= this.after && frame.event !== 'chat:tool-confirm') return;
      this.after = Math.max(this.after, frame.seq);
    }
    this.listener.frame(frame);
  }

  /** A connection that says nothing for three heartbeats is dead, whatever the system believes. */
  private listenForSilence() {
    clearTimeout(this.silence);
    this.silence = setTimeout(() => this.socket?.close(), this.silenceMs);
  }

  private reconnect(socket: WebSocket, code: number) {
    if (this.isOver || this.isPaused || socket !== this.socket) return;
    clearTimeout(this.silence);
    if (code === NOT_LOGGED_IN || code === NO_SESSION) {
      this.isOver = true;
      this.listener.connection('closed');
      this.listener.ended(code);
      return;
    }
    this.listener.connection('waiting');
    // Jitter, so that many pages do not return to a restarted gate in the same instant.
    this.timer = setTimeout(() => this.connect(), this.delay * (0.5 + Math.random()));
    this.delay = Math.min(MAX_DELAY_MS, this.delay * 2);
  }
}
