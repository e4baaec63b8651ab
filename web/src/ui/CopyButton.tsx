import { useState } from 'react';
import { Icon } from './Icon';

/** Copies a text, and says so for two seconds. */
export function CopyButton({ text, label, className }: { text: string; label?: string; className?: string }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    // Absent on plain http away from loopback.
    await navigator.clipboard?.writeText(text);
    setDone(true);
    setTimeout(() => setDone(false), 2000);
  };
  return (
    <button type="button" className={className ?? 'icon-button'} aria-label={label ?? 'Copy'} title={label ?? 'Copy'} onClick={() => void copy()}>
      {label ?? <Icon name={done ? 'check' : 'copy'} />}
      {label && done ? ' ✓' : null}
    </button>
  );
}
