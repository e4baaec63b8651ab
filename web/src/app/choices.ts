/** What a person chose last for new sessions, in this browser: the agent of each project, and the trust level of each agent in it. */
import type { Trust } from '../api/types';

interface Choices {
  agent?: string;
  trust?: Record<string, Trust>;
}

const LEVELS: readonly string[] = ['supervised', 'guided', 'autonomous'];

const key = (workspace: string) => `toolgate.choices.${workspace}`;

function read(workspace: string): Choices {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(key(workspace)) ?? '{}');
    return typeof kept === 'object' && kept !== null ? (kept as Choices) : {};
  } catch {
    return {};
  }
}

function write(workspace: string, choices: Choices) {
  localStorage.setItem(key(workspace), JSON.stringify(choices));
}

export function chosenAgent(workspace: string): string | undefined {
  const { agent } = read(workspace);
  return typeof agent === 'string' ? agent : undefined;
}

export function chosenTrust(workspace: string, agent: string): Trust | undefined {
  const level = read(workspace).trust?.[agent];
  return level !== undefined && LEVELS.includes(level) ? level : undefined;
}

export function keepAgent(workspace: string, agent: string) {
  write(workspace, { ...read(workspace), agent });
}

export function keepTrust(workspace: string, agent: string, level: Trust) {
  const choices = read(workspace);
  write(workspace, { ...choices, trust: { ...choices.trust, [agent]: level } });
}
