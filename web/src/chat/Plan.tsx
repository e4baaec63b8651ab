import type { PlanStep } from '../api/types';
import { Revealed } from '../text/reveal';
import { Icon } from '../ui/Icon';

const WORDS = { pending: 'not begun', in_progress: 'in progress', completed: 'done' } as const;

/** What the agent means to do: its current step, and all of them when it is unfolded. */
export function Plan({ steps }: { steps: PlanStep[] }) {
  if (steps.length === 0) return null;
  const done = steps.filter((step) => step.status === 'completed').length;
  const current = steps.find((step) => step.status === 'in_progress') ?? steps.find((step) => step.status === 'pending');
  return (
    <details className="plan">
      <summary>
        <Icon name="list" /> <span>Plan</span>
        <span className="muted">{`${done} of ${steps.length}`}</span>
        <span className="plan-current">{current ? <Revealed text={current.step} kind="prose" /> : 'All done'}</span>
        <span className="fold">
          <Icon name="chevron" size={12} />
        </span>
      </summary>
      <ol>
        {steps.map((step, index) => (
          <li key={index} className={`plan-${step.status}`}>
            {step.status === 'completed' ? <Icon name="check" size={14} /> : <span className="plan-mark" />}
            <span>
              <Revealed text={step.step} kind="prose" />
            </span>
            <span className="visually-hidden">{WORDS[step.status]}</span>
          </li>
        ))}
      </ol>
    </details>
  );
}
