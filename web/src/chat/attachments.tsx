import { useState, type ClipboardEvent, type DragEvent } from 'react';
import { Revealed, revealed } from '../text/reveal';
import { Icon } from '../ui/Icon';

/** A text file that goes with a message. */
export interface Attachment {
  name: string;
  text: string;
}

const MAX_BYTES = 256 * 1024;
const MAX_FILES = 8;

export interface Attachments {
  files: Attachment[];
  problem: string;
  add: (files: FileList | File[]) => Promise<void>;
  remove: (name: string) => void;
  clear: () => void;
  /** Those of a message that was not sent. */
  restore: (files: Attachment[]) => void;
}

/** The files that were chosen, dropped or pasted. A model reads text, so nothing else is taken. */
export function useAttachments(): Attachments {
  const [files, setFiles] = useState<Attachment[]>([]);
  const [problem, setProblem] = useState('');
  const add = async (chosen: FileList | File[]) => {
    const read = await Promise.all([...chosen].slice(0, MAX_FILES).map(attach));
    const good = read.filter((file) => typeof file !== 'string');
    const names = new Set(good.map((file) => file.name));
    setProblem(read.filter((file) => typeof file === 'string').join('; '));
    setFiles((others) => [...others.filter((other) => !names.has(other.name)), ...good].slice(-MAX_FILES));
  };
  const remove = (name: string) => setFiles((others) => others.filter((other) => other.name !== name));
  const clear = () => {
    setFiles([]);
    setProblem('');
  };
  return { files, problem, add, remove, clear, restore: setFiles };
}

async function attach(file: File): Promise<Attachment | string> {
  const name = revealed(file.name);
  if (file.size > MAX_BYTES) return `${name} is larger than ${MAX_BYTES / 1024} KiB`;
  const text = await file.text();
  return text.includes('\0') || text.includes('\ufffd') ? `${name} is not a text file` : { name: file.name, text };
}

/** What a form does with files that are dropped on it or pasted into it. */
export function receiver({ add }: Attachments) {
  return {
    onDragOver: (event: DragEvent) => event.preventDefault(),
    onDrop: (event: DragEvent) => {
      event.preventDefault();
      void add(event.dataTransfer.files);
    },
    onPaste: (event: ClipboardEvent) => {
      if (event.clipboardData.files.length > 0) void add(event.clipboardData.files);
    },
  };
}

export function AttachButton({ attachments }: { attachments: Attachments }) {
  return (
    <label className="icon-button attach" title="Attach text files">
      <Icon name="clip" />
      <input type="file" multiple className="visually-hidden" aria-label="Attach text files" onChange={(event) => event.target.files && void attachments.add(event.target.files).then(() => (event.target.value = ''))} />
    </label>
  );
}

export function AttachmentList({ attachments: { files, problem, remove } }: { attachments: Attachments }) {
  if (files.length === 0 && !problem) return null;
  return (
    <div className="attachments">
      {files.map((file) => (
        <span key={file.name} className="chip">
          <Icon name="file" size={12} /> <Revealed text={file.name} />
          <button type="button" aria-label={`Remove ${revealed(file.name)}`} onClick={() => remove(file.name)}>
            <Icon name="cross" size={12} />
          </button>
        </span>
      ))}
      {problem && <span className="problem">{problem}</span>}
    </div>
  );
}
