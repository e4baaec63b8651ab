import type { Events, Usage } from '../api/types';
import { tokens } from '../ui/format';

/** How full the model's context is, and what the conversation has used. */
export function ContextGauge({ context, usage }: { context: Events['chat:context'] | undefined; usage: Usage | undefined }) {
  if (!context) return usage && usage.inputTokens > 0 ? <span className="gauge-text">{tokens(usage.inputTokens + usage.outputTokens)} tokens</span> : null;
  const { usedTokens, contextWindow, fraction, warning } = context;
  const percent = fraction === null ? undefined : Math.round(fraction * 100);
  const label = contextWindow ? `${tokens(usedTokens)} of ${tokens(contextWindow)} tokens of context used` : `${tokens(usedTokens)} tokens of context used`;
  return (
    <span className={warning ? 'gauge is-warning' : 'gauge'} role="meter" aria-label="Context" aria-valuemin={0} aria-valuemax={100} aria-valuenow={percent ?? 0} aria-valuetext={label} title={label}>
      <span className="gauge-bar" aria-hidden="true">
        <span style={{ transform: `scaleX(${Math.min(1, fraction ?? 0)})` }} />
      </span>
      <span className="gauge-text">{percent === undefined ? tokens(usedTokens) : `${percent} %`}</span>
    </span>
  );
}
