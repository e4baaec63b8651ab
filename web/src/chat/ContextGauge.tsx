import type { Events, Session, Usage } from '../api/types';
import { Revealed } from '../text/reveal';
import { money, tokens } from '../ui/format';

interface Props {
  context: Events['chat:context'] | undefined;
  usage: Usage | undefined;
  cost?: Session['cost'] | undefined;
}

/** How full the model's context is; unfolded, also what the conversation has cost: in tokens, and where the configuration has a price in money. */
export function ContextGauge({ context, usage, cost }: Props) {
  if (!context && !(usage && usage.inputTokens > 0)) return null;
  const fraction = context?.fraction ?? null;
  const percent = fraction === null ? undefined : Math.round(fraction * 100);
  const used = tokens(context?.usedTokens ?? (usage ? usage.inputTokens + usage.outputTokens : 0));
  const label = context?.contextWindow ? `${used} of ${tokens(context.contextWindow)} tokens of context used` : `${used} tokens used`;
  return (
    <details className={context?.warning ? 'gauge menu is-warning' : 'gauge menu'} onBlur={(event) => !event.currentTarget.contains(event.relatedTarget) && event.currentTarget.removeAttribute('open')} onKeyDown={(event) => event.key === 'Escape' && event.currentTarget.removeAttribute('open')}>
      <summary aria-label={`Context: ${label}`} title={label}>
        {percent !== undefined && (
          <span className="gauge-bar" aria-hidden="true">
            <span style={{ transform: `scaleX(${Math.min(1, fraction ?? 0)})` }} />
          </span>
        )}
        <span className="gauge-text">{percent === undefined ? used : `${percent} %`}</span>
        {cost && (
          <span className="gauge-text gauge-cost">
            <Revealed text={money(cost)} />
          </span>
        )}
      </summary>
      <dl className="menu-items gauge-facts" tabIndex={-1}>
        {context && <Row name="Context now" value={tokens(context.usedTokens)} />}
        {context?.contextWindow && <Row name="Context window" value={tokens(context.contextWindow)} />}
        {usage && <Row name="Sent so far" value={tokens(usage.inputTokens)} />}
        {usage && usage.cachedTokens > 0 && <Row name="of it cached" value={tokens(usage.cachedTokens)} />}
        {usage && <Row name="Received so far" value={tokens(usage.outputTokens)} />}
        {cost && (
          <div>
            <dt>Cost so far</dt>
            <dd>
              <Revealed text={money(cost)} />
            </dd>
          </div>
        )}
      </dl>
    </details>
  );
}

function Row({ name, value }: { name: string; value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value} tokens</dd>
    </div>
  );
}
