import { useState } from 'react';
import { reveal, Revealed, revealed } from '../text/reveal';
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

/**
 * Edits a call before it is approved: each argument in a field of its own, texts as they are and everything else as JSON; or all of them as JSON, where
 * the call is no object or an argument is to be added. The changed call passes every check of the gate again.
 */
export function CallEditor({ input, change, close, error }: Props) {
  const [isJson, setIsJson] = useState(!isObject(input));
  const [edited, setEdited] = useState<Record<string, unknown>>(isObject(input) ? input : {});
  const update = (next: Edited) => {
    if (next.error === undefined) setEdited(next.input);
    change(next);
  };
  const toggle = () => {
    change({ input: edited });
    setIsJson(!isJson);
  };
  return (
    <div className="call-editor">
      {isJson ? <WholeCall input={isObject(input) ? edited : input} change={update} /> : <Fields input={edited} change={update} />}
      <p className={error ? 'problem' : 'muted'} role={error ? 'alert' : undefined}>
        {error ?? 'The changed call is checked from the start, and recorded as changed by you.'}
      </p>
      <div className="call-editor-actions">
        <button type="button" className="link-button" onClick={close}>
          Back to the model’s call
        </button>
        {isObject(input) && (
          <button type="button" className="link-button" onClick={toggle}>
            {isJson ? 'Edit each argument' : 'Edit as JSON'}
          </button>
        )}
      </div>
    </div>
  );
}

function WholeCall({ input, change }: { input: unknown; change: (edited: Edited) => void }) {
  const [text, setText] = useState(json(input));
  return <Field name="Arguments (JSON)" text={text} isFirst change={(next) => (setText(next), change(parsed(next)))} />;
}

function Fields({ input, change }: { input: Record<string, unknown>; change: (edited: Edited) => void }) {
  const [texts, setTexts] = useState(() => Object.entries(input).map(([name, value]) => ({ name, isText: typeof value === 'string', text: typeof value === 'string' ? value : json(value) })));
  const edit = (changed: string, text: string) => {
    const next = texts.map((field) => (field.name === changed ? { ...field, text } : field));
    setTexts(next);
    const values: Record<string, unknown> = {};
    for (const field of next) {
      const value = field.isText ? { value: field.text } : parse(field.text);
      if (!('value' in value)) return change({ input, error: `${revealed(field.name)}: this is not JSON yet` });
      values[field.name] = value.value;
    }
    change({ input: values, error: values['command'] === '' ? 'the command is empty' : undefined });
  };
  return texts.map((field, index) => <Field key={field.name} name={revealed(field.name)} text={field.text} isFirst={index === 0} change={(text) => edit(field.name, text)} />);
}

interface FieldProps {
  name: string;
  text: string;
  isFirst: boolean;
  change: (text: string) => void;
}

function Field({ name, text, isFirst, change }: FieldProps) {
  const lines = text.split('\n');
  return (
    <>
      <label>
        <span>{name}</span>
        <textarea autoFocus={isFirst} spellCheck={false} rows={Math.min(12, lines.length)} value={text} onChange={(event) => change(event.target.value)} />
      </label>
      <Hidden lines={lines} clean={() => change(visible(text))} />
    </>
  );
}

/** More lines than a person compares. */
const MAX_HIDDEN_LINES = 5;

/** A text box cannot mark what it does not show, so lines with hidden characters are repeated below it. */
function Hidden({ lines, clean }: { lines: string[]; clean: () => void }) {
  const marked = lines.filter((line) => reveal(line).some((piece) => piece.hidden));
  if (marked.length === 0) return null;
  return (
    <div className="call-editor-hidden" role="status">
      <span>Hidden characters in {marked.length === 1 ? 'this line' : `${marked.length} lines`}:</span>
      {marked.slice(0, MAX_HIDDEN_LINES).map((line, index) => (
        <code key={index}>
          <Revealed text={line} />
        </code>
      ))}
      <button type="button" className="link-button" onClick={clean}>
        Remove them
      </button>
    </div>
  );
}

function visible(text: string): string {
  return text.split('\n').map((line) => reveal(line).map((piece) => (piece.hidden ? '' : piece.text)).join('')).join('\n');
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function parse(text: string): { value: unknown } | Record<string, never> {
  try {
    return { value: JSON.parse(text) as unknown };
  } catch {
    return {};
  }
}

function parsed(text: string): Edited {
  const result = parse(text);
  if (!('value' in result)) return { input: {}, error: 'this is not JSON yet' };
  return isObject(result.value) ? { input: result.value } : { input: {}, error: 'arguments are an object, as in {"path": "a.txt"}' };
}
