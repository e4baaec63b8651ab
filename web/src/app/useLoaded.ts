import { useCallback, useEffect, useState } from 'react';
import { Unreachable } from '../api/client';

/** A gate that did not answer is asked again after this. */
const RETRY_MS = 3000;

export interface Loaded<T> {
  value: T | undefined;
  problem: unknown;
  reload: () => void;
}

/** What a request returns, requested again when `key` changes or on demand. With `keep`, the value before is shown until the new one is there. */
export function useLoaded<T>(load: () => Promise<T>, key: string, keep = false): Loaded<T> {
  const [round, setRound] = useState(0);
  const [state, setState] = useState<{ key: string; value?: T; problem?: unknown }>({ key });
  useEffect(() => {
    let isCurrent = true;
    let timer: ReturnType<typeof setTimeout> | undefined;
    load().then(
      (value) => isCurrent && setState({ key, value }),
      (problem: unknown) => {
        if (!isCurrent) return;
        setState({ key, problem });
        if (problem instanceof Unreachable) timer = setTimeout(() => setRound((count) => count + 1), RETRY_MS);
      },
    );
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
    // `load` is a new function each time; `key` says when it means something else.
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, [key, round]);
  const reload = useCallback(() => setRound((count) => count + 1), []);
  return { value: keep || state.key === key ? state.value : undefined, problem: state.problem, reload };
}
