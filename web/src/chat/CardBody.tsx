import { memo } from 'react';
import type { Card, CardRow } from '../api/types';
import { Diff } from '../text/Diff';
import { Revealed } from '../text/reveal';

/** The full text of a question. The gate escaped and folded it; here it is only laid out, each line with its number so that a wrapped line shows. */
export const CardBody = memo(function CardBody({ card }: { card: Card }) {
  const rows = card.rows ?? [];
  if (rows.length === 0) return null;
  if (rows.some((row) => row.kind !== 'text')) return <Diff text={rows.map(unified).join('\n')} />;
  return (
    <ol className="gate-lines">
      {rows.map((row, index) => (
        <li key={index}>
          <Revealed text={row.text} />
        </li>
      ))}
    </ol>
  );
});

const MARKERS: Record<string, string> = { added: '+', removed: '-', context: ' ' };

function unified({ kind, text }: CardRow): string {
  return `${Object.hasOwn(MARKERS, kind) ? MARKERS[kind] : ''}${text}`;
}
