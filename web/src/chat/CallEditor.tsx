import { useState } from 'react';
import { json } from '../ui/format';

/** The arguments as a person changed them, or why they cannot be sent. */
export interface Edited {
  input: Record<string, unknown>;
  error?: string | undefined;
}

interface Props {
  input: unknown;
  change: (edited: Edited) => void;
  close: () => void;
  error: string | undefined;
}

/** Edits a call before it is approved: a command as text, everything else as JSON. The changed call passes every check of the gate again. */
export function CallEditor({ input, change, close, error }: Props) {
  const command = isObject(input) && typeof input['command'] === 'string' ? input['command'] : undefined;
  const [text, setText] = useState(command ?? json(input));
  const edit = (next: string) => {
    setText(next);
    if (command !== undefined) change({ input: { ...(input as Record<string, unknown>), command: next }, error: next.trim() ? undefined : 'the command is empty' });
    else change(parse(next));
  };
  return (
    <div className="call-editor">
      <label>
        {command === undefined ? 'Arguments (JSON)' : 'Command'}
        <textarea autoFocus spellCheck={false} rows={Math.min(14, Math.max(3, text.split('\n').length + 1))} value={text} aria-invalid={error !== undefined} onChange={(event) => edit(event.target.value)} />
      </label>
      <p className={error ? 'problem' : 'muted'}>{error ?? 'The changed call is checked again, and recorded as changed by you.'}</p>
      <button type="button" className="button is-quiet" onClick={close}>
        Back to the model’s call
      </button>
    </div>
  );
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function parse(text: string): Edited {
  try {
    const input: unknown = JSON.parse(text);
    return isObject(input) ? { input } : { input: {}, error: 'arguments are an object, as in {"path": "a.txt"}' };
  } catch {
    return { input: {}, error: 'this is not JSON yet' };
  }
}
