import { useEffect, useState } from 'react';
import { highlight, isLoaded, loadGrammars, type SyntaxNode } from './highlight';
import { Revealed } from './reveal';

/** Whether grammars are there; loads them when something needs them. */
function useGrammars(needed: boolean): boolean {
  const [ready, setReady] = useState(isLoaded);
  useEffect(() => {
    if (ready || !needed) return;
    let isCurrent = true;
    void loadGrammars().then(
      () => isCurrent && setReady(true),
      () => undefined,
    );
    return () => {
      isCurrent = false;
    };
  }, [ready, needed]);
  return ready;
}

/** A piece of one colour. */
interface Segment {
  text: string;
  style: string;
  marked: boolean;
}

interface Props {
  text: string;
  language: string | undefined;
  /** A part to mark: from, to. */
  mark?: [number, number] | undefined;
}

/** Code with syntax colours, without them until they are loaded. */
export function Highlighted({ text, language, mark }: Props) {
  const ready = useGrammars(language !== undefined);
  const nodes = ready && language ? highlight(text, language) : undefined;
  const segments: Segment[] = [];
  if (nodes) nodes.forEach((node) => flatten(node, '', segments));
  else segments.push({ text, style: '', marked: false });
  return <>{(mark ? cut(segments, mark) : segments).map(draw)}</>;
}

function draw({ text, style, marked }: Segment, key: number) {
  if (marked) {
    return (
      <mark key={key} className={style}>
        <Revealed text={text} />
      </mark>
    );
  }
  return style ? (
    <span key={key} className={style}>
      <Revealed text={text} />
    </span>
  ) : (
    <Revealed key={key} text={text} />
  );
}

function flatten(node: SyntaxNode, style: string, into: Segment[]) {
  if (node.type === 'text') into.push({ text: node.value, style, marked: false });
  if (node.type !== 'element') return;
  const names = node.properties['className'];
  const own = Array.isArray(names) ? names.join(' ') : style;
  for (const child of node.children) flatten(child as SyntaxNode, own, into);
}

/** The same pieces, cut where the marked part begins and ends. */
function cut(segments: Segment[], [from, to]: [number, number]): Segment[] {
  let start = 0;
  return segments.flatMap((segment) => {
    const end = start + segment.text.length;
    const inner = [start, Math.min(end, Math.max(start, from)), Math.max(start, Math.min(end, to)), end] as const;
    const pieces = [0, 1, 2].map((index) => {
      const text = segment.text.slice((inner[index] ?? 0) - start, (inner[index + 1] ?? 0) - start);
      return { text, style: segment.style, marked: index === 1 };
    });
    start = end;
    return pieces.filter((piece) => piece.text !== '');
  });
}
