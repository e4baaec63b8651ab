import { memo, useState } from 'react';
import { Highlighted } from './Code';
import { pairs, parseDiff, type DiffRow, type FileDiff } from './diff';
import { languageOfPath } from './highlight';
import { Revealed } from './reveal';

/** More rows than are drawn before a person asks for them. */
const MAX_ROWS = 400;

export type DiffLayout = 'unified' | 'split';

const LAYOUT_KEY = 'toolgate.diff';

function preferred(): DiffLayout {
  return localStorage.getItem(LAYOUT_KEY) === 'split' ? 'split' : 'unified';
}

/** A unified diff of one or several files, unified or side by side. */
export const Diff = memo(function Diff({ text }: { text: string }) {
  const [layout, setLayout] = useState(preferred);
  const choose = (next: DiffLayout) => {
    localStorage.setItem(LAYOUT_KEY, next);
    setLayout(next);
  };
  const files = parseDiff(text);
  return (
    <div className="diff">
      {files.map((file, index) => (
        <DiffFile key={index} file={file} layout={layout} choose={index === 0 ? choose : undefined} />
      ))}
    </div>
  );
});

interface FileProps {
  file: FileDiff;
  layout: DiffLayout;
  choose?: ((layout: DiffLayout) => void) | undefined;
}

export function DiffFile({ file, layout, choose }: FileProps) {
  const [all, setAll] = useState(false);
  const rows = all ? file.rows : file.rows.slice(0, MAX_ROWS);
  const language = languageOfPath(file.path);
  return (
    <figure className="diff-file">
      <figcaption>
        <span className="diff-path">
          <Revealed text={file.path || 'difference'} />
        </span>
        <span className="diff-count">
          <span className="count-added">+{file.added}</span> <span className="count-removed">−{file.removed}</span>
        </span>
        {choose && (
          <span className="segmented" role="group" aria-label="Layout of differences">
            {(['unified', 'split'] as const).map((one) => (
              <button key={one} type="button" aria-pressed={layout === one} onClick={() => choose(one)}>
                {one === 'unified' ? 'Unified' : 'Side by side'}
              </button>
            ))}
          </span>
        )}
      </figcaption>
      <div className="diff-scroll" tabIndex={0} role="region" aria-label={`Difference of ${file.path}`}>
        {layout === 'split' ? <SplitRows rows={rows} language={language} /> : <UnifiedRows rows={rows} language={language} />}
      </div>
      {rows.length < file.rows.length && (
        <button type="button" className="show-more" onClick={() => setAll(true)}>
          Show all {file.rows.length} lines
        </button>
      )}
    </figure>
  );
}

type Rows = { rows: DiffRow[]; language: string | undefined };

const MARKERS: Record<DiffRow['kind'], string> = { added: '+', removed: '−', context: ' ', hunk: '', note: '' };

function UnifiedRows({ rows, language }: Rows) {
  return (
    <table className="diff-table">
      <tbody>
        {rows.map((row, index) => (
          <tr key={index} className={`diff-${row.kind}`}>
            <td className="diff-number">{row.before ?? ''}</td>
            <td className="diff-number">{row.after ?? ''}</td>
            <td className="diff-marker">{MARKERS[row.kind]}</td>
            <td className="diff-text">
              <RowText row={row} language={language} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function SplitRows({ rows, language }: Rows) {
  return (
    <table className="diff-table diff-split">
      <colgroup>
        <col className="diff-number-column" />
        <col />
        <col className="diff-number-column" />
        <col />
      </colgroup>
      <tbody>
        {pairs(rows).map(([left, right], index) =>
          left && left === right && left.kind !== 'context' ? (
            <tr key={index} className={`diff-${left.kind}`}>
              <td colSpan={4} className="diff-text">
                <RowText row={left} language={undefined} />
              </td>
            </tr>
          ) : (
            <tr key={index}>
              <Side row={left} number={left?.before} language={language} />
              <Side row={right} number={right?.after} language={language} />
            </tr>
          ),
        )}
      </tbody>
    </table>
  );
}

function Side({ row, number, language }: { row: DiffRow | undefined; number: number | undefined; language: string | undefined }) {
  const kind = row ? `diff-${row.kind}` : 'diff-absent';
  return (
    <>
      <td className={`diff-number ${kind}`}>{number ?? ''}</td>
      <td className={`diff-text ${kind}`}>{row && <RowText row={row} language={language} />}</td>
    </>
  );
}

function RowText({ row, language }: { row: DiffRow; language: string | undefined }) {
  if (row.kind === 'hunk' || row.kind === 'note') return <Revealed text={row.text} />;
  return <Highlighted text={row.text} language={row.text.length < 400 ? language : undefined} mark={row.changed} />;
}
