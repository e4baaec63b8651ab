import { useState } from 'react';
import { explain } from '../api/client';
import { app } from '../app/store';
import { Mark } from '../ui/Icon';

/** Shown without a valid cookie. */
export function Login({ isReachable }: { isReachable: boolean }) {
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
          <p>
            Open the address that <code>toolgate serve</code> printed, or paste its token here.
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
            The gate does not answer. Is <code>toolgate serve</code> running?
          </p>
          <button type="button" className="button" onClick={() => void app.start(undefined).catch(() => undefined)}>
            Try again
          </button>
        </>
      )}
    </main>
  );
}
