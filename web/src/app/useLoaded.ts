import { useCallback, useEffect, useState } from 'react';

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
    load().then(
      (value) => isCurrent && setState({ key, value }),
      (problem: unknown) => isCurrent && setState({ key, problem }),
    );
    return () => {
      isCurrent = false;
    };
    // `load` is a new function each time; `key` says when it means something else.
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, [key, round]);
  const reload = useCallback(() => setRound((count) => count + 1), []);
  return { value: keep || state.key === key ? state.value : undefined, problem: state.problem, reload };
}
