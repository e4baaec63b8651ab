import { useEffect, useState } from 'react';
import { explain } from '../api/client';
import { app, type Login as LoginState } from '../app/store';
import { Mark } from '../ui/Icon';

/** How often a gate that does not answer is tried again. */
const RETRY_MS = 3000;

function tryAgain() {
  void app.start(undefined).catch(() => undefined);
}

/** Shown without a valid cookie. */
export function Login({ state }: { state: LoginState }) {
  const isReachable = state !== 'unreachable';
  useEffect(() => {
    if (isReachable) return undefined;
    const timer = setInterval(tryAgain, RETRY_MS);
    return () => clearInterval(timer);
  }, [isReachable]);
  const [token, setToken] = useState('');
  const [problem, setProblem] = useState('');
  const submit = () => {
    // The whole printed address may be pasted.
    const text = token.trim().replace(/^.*#token=/, '');
    app.start(text).catch((error: unknown) => setProblem(explain(error)));
  };
  return (
    <main className="login">
      <Mark size={36} />
      <h1>Toolgate</h1>
      {isReachable ? (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            submit();
          }}
        >
          {state === 'lapsed' && <p role="status">This browser is no longer logged in.</p>}
          <p>
            Open the address that <code>toolgate serve</code> printed, or paste a token here: the one of that address, or your own if this gate has several callers.
          </p>
          <input type="password" aria-label="Token" autoComplete="off" autoFocus value={token} onChange={(event) => setToken(event.target.value)} />
          <button type="submit" className="button is-primary" disabled={!token.trim()}>
            Log in
          </button>
          {problem && (
            <p className="problem" role="alert">
              {problem}
            </p>
          )}
        </form>
      ) : (
        <>
          <p>
            The gate does not answer. Is <code>toolgate serve</code> running? This page goes on by itself when it does.
          </p>
          <button type="button" className="button" onClick={tryAgain}>
            Try again
          </button>
        </>
      )}
    </main>
  );
}
