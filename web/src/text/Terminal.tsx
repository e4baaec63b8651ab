import { memo, useLayoutEffect, useRef, useState } from 'react';
import { parseAnsi, tail } from './ansi';
import { Revealed } from './reveal';

/** What is drawn of an output before a person asks for more. */
const SHOWN_CHARS = 24_000;
/** The same while it runs: what is drawn is laid out anew in every frame. */
const LIVE_CHARS = 6_000;

/** Output as a terminal shows it: colours, no more than the end until a person asks, and following what comes while it runs. */
export const Terminal = memo(function Terminal({ text, live, label }: { text: string; live?: boolean; label: string }) {
  const [all, setAll] = useState(false);
  const box = useRef<HTMLPreElement>(null);
  const most = live ? LIVE_CHARS : SHOWN_CHARS;
  const isLong = text.length > most && !all;
  const shown = isLong ? tail(text, most) : text;
  useLayoutEffect(() => {
    if (live && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [live, shown]);
  return (
    <>
      {isLong && (
        <button type="button" className="show-more" onClick={() => setAll(true)}>
          Show all {(text.length / 1000).toFixed(0)} kB; these are the last {most / 1000}
        </button>
      )}
      <pre ref={box} className="terminal" tabIndex={0} role="region" aria-label={label}>
        {parseAnsi(shown).map((span, index) =>
          span.style ? (
            <span key={index} className={span.style}>
              <Revealed text={span.text} />
            </span>
          ) : (
            <Revealed key={index} text={span.text} />
          ),
        )}
      </pre>
    </>
  );
});
